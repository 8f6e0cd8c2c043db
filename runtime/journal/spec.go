package journal

import (
	"time"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/runtime/task"
)

func stringsOf(ids []task.ID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

func idsOf(names []string) []task.ID {
	var out []task.ID
	for _, name := range names {
		out = append(out, task.ID(name))
	}
	return out
}

func specRow(s task.Spec) *storev1.SpecRow {
	row := &storev1.SpecRow{Instructions: s.Instructions, Dropped: s.Dropped, Schema: s.Schema, PlanApproval: s.PlanApproval}
	for _, a := range s.Agents {
		row.Agents = append(row.Agents, &storev1.AgentNoteRow{Name: a.Name, Description: a.Description})
	}
	for _, c := range s.Acceptance {
		row.Acceptance = append(row.Acceptance, &storev1.CheckRow{Command: c.Command, Timeout: int64(c.Timeout)})
	}
	if sh := s.Shell; sh != nil {
		row.Shell = &storev1.ShellRow{Command: sh.Command, Dir: sh.Dir, Env: sh.Env}
	}
	if g := s.Group; g != nil {
		row.Group = &storev1.GroupRow{
			Chain: g.Chain, Children: stringsOf(g.Children), MaxConcurrency: int32(g.MaxConcurrency), Kept: stringsOf(g.Kept),
		}
	}
	return row
}

func specOf(row *storev1.SpecRow) task.Spec {
	s := task.Spec{Instructions: row.GetInstructions(), Dropped: row.GetDropped(), Schema: row.GetSchema(), PlanApproval: row.GetPlanApproval()}
	for _, a := range row.GetAgents() {
		s.Agents = append(s.Agents, task.AgentNote{Name: a.GetName(), Description: a.GetDescription()})
	}
	for _, c := range row.GetAcceptance() {
		s.Acceptance = append(s.Acceptance, task.Check{Command: c.GetCommand(), Timeout: time.Duration(c.GetTimeout())})
	}
	if sh := row.GetShell(); sh != nil {
		s.Shell = &task.ShellSpec{Command: sh.GetCommand(), Dir: sh.GetDir(), Env: sh.GetEnv()}
	}
	if g := row.GetGroup(); g != nil {
		s.Group = &task.Formation{
			Chain: g.GetChain(), Kept: idsOf(g.GetKept()), Children: idsOf(g.GetChildren()),
			MaxConcurrency: int(g.GetMaxConcurrency()),
		}
	}
	return s
}

func resultRow(c task.Conclusion) *storev1.ResultRow {
	row := &storev1.ResultRow{Report: reportRow(c.Report), Changes: c.Changes, Output: c.Output}
	for _, e := range c.Evidence {
		row.Evidence = append(row.Evidence, &storev1.EvidenceRow{
			Command: e.Command, ExitCode: int32(e.ExitCode), TimedOut: e.TimedOut, Output: e.Output,
		})
	}
	if c.ExitCode != nil {
		code := int32(*c.ExitCode)
		row.ExitCode = &code
	}
	return row
}

func conclusionOf(row *storev1.ResultRow) task.Conclusion {
	c := task.Conclusion{Report: reportOf(row.GetReport()), Changes: row.GetChanges(), Output: row.GetOutput()}
	for _, e := range row.GetEvidence() {
		c.Evidence = append(c.Evidence, task.Evidence{
			Command: e.GetCommand(), ExitCode: int(e.GetExitCode()), TimedOut: e.GetTimedOut(), Output: e.GetOutput(),
		})
	}
	if row.ExitCode != nil {
		code := int(row.GetExitCode())
		c.ExitCode = &code
	}
	return c
}
