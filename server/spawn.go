package server

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/task"
)

// assignmentOf unpacks a spawn. Its Caller is left to be set.
func assignmentOf(req *agentdv1.SpawnRequest) (task.Assignment, error) {
	if req.GetDetach() && req.GetCancelOnDisconnect() {
		return task.Assignment{}, errdefs.BadField("detach", "can't be combined with cancel_on_disconnect; set one of them")
	}
	a := task.Assignment{
		RequestID: req.GetRequestId(), From: mailbox.User, Team: req.GetTeam(), Workspace: req.GetWorkspace(),
		Parent: task.ID(req.GetParentTaskId()), Description: req.GetDescription(),
		CancelOnDisconnect: req.GetCancelOnDisconnect(),
	}
	var err error
	switch mode := req.GetMode().(type) {
	case *agentdv1.SpawnRequest_Single:
		a.AgentSpec, err = specOf("single", mode.Single)
	case *agentdv1.SpawnRequest_Parallel:
		a.Group = &task.GroupSpec{MaxConcurrency: int(mode.Parallel.GetMaxConcurrency())}
		a.Group.Items, err = itemsOf("parallel", mode.Parallel.GetItems())
	case *agentdv1.SpawnRequest_Chain:
		a.Group = &task.GroupSpec{Chain: true, ResumeFrom: task.ID(mode.Chain.GetResumeFrom())}
		a.Group.Items, err = itemsOf("chain", mode.Chain.GetItems())
	case *agentdv1.SpawnRequest_Shell:
		a.Shell, err = shellOf(mode.Shell)
	case *agentdv1.SpawnRequest_Teammate:
		w := mode.Teammate
		if strings.EqualFold(w.GetName(), task.LeadName) {
			return a, errdefs.BadField("teammate.name", "%q is the lead's name; spawn it with lead, or choose another name", w.GetName())
		}
		a.Teammate = &task.TeammateSpec{Name: w.GetName(), Color: w.GetColor(), PlanApproval: w.GetPlanApproval()}
		a.AgentSpec, err = specOf("teammate.agent", w.GetAgent())
	case *agentdv1.SpawnRequest_Lead:
		a.Teammate = &task.TeammateSpec{Name: task.LeadName, UntilQuiet: mode.Lead.GetUntilQuiet()}
		a.AgentSpec, err = specOf("lead.agent", mode.Lead.GetAgent())
	default:
		return a, errdefs.BadField("mode", "is missing; set single, parallel, chain, teammate, lead or shell")
	}
	if err != nil {
		return a, err
	}
	if req.GetTimeout() != nil {
		a.Budget.WallTime, err = durationOf("timeout", req.GetTimeout())
	}
	return a, err
}

func itemsOf(mode string, items []*agentdv1.AgentSpec) ([]task.AgentSpec, error) {
	var specs []task.AgentSpec
	for i, item := range items {
		spec, err := specOf(fmt.Sprintf("%s.items[%d]", mode, i), item)
		if err != nil {
			return nil, err
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// specOf unpacks what one agent is to do; at is the name of its field.
func specOf(at string, w *agentdv1.AgentSpec) (task.AgentSpec, error) {
	spec := task.AgentSpec{
		Agent: w.GetAgent(), Prompt: w.GetPrompt(), Model: w.GetModel(), Grant: grantRequestOf(w.GetGrant()),
		Schema: w.GetResultSchema(),
	}
	if w.GetGrant().GetDepth() < 0 {
		return spec, errdefs.BadField(at+".grant.depth", "must not be negative; 0 is no level below")
	}
	for _, in := range w.GetInputs() {
		spec.Inputs = append(spec.Inputs, task.NamedText{
			Name: in.GetName(), Text: in.GetText(), TaskID: task.ID(in.GetTaskId()),
		})
	}
	for i, c := range w.GetAcceptance() {
		timeout, err := durationOf(fmt.Sprintf("%s.acceptance[%d].timeout", at, i), c.GetTimeout())
		if err != nil {
			return spec, err
		}
		spec.Acceptance = append(spec.Acceptance, task.Check{Command: c.GetCommand(), Timeout: timeout})
	}
	switch w.GetIsolation() {
	case agentdv1.Isolation_ISOLATION_UNSPECIFIED, agentdv1.Isolation_ISOLATION_NONE:
	case agentdv1.Isolation_ISOLATION_WORKTREE:
		spec.Worktree = true
	default:
		return spec, unknownValue(at+".isolation", int32(w.GetIsolation()))
	}
	var err error
	spec.Budget, err = budgetOf(at+".budget", w.GetBudget())
	return spec, err
}

func grantRequestOf(w *agentdv1.GrantRequest) grant.Request {
	r := grant.Request{Tools: w.GetTools(), Readable: w.GetReadableRoots(), Writable: w.GetWritableRoots()}
	if w != nil && w.Network != nil {
		network := w.GetNetwork()
		r.Network = &network
	}
	if w != nil && w.Depth != nil {
		depth := int(w.GetDepth())
		r.Depth = &depth
	}
	return r
}

func budgetOf(at string, b *agentdv1.Budget) (task.Budget, error) {
	wall, err := durationOf(at+".wall_time", b.GetWallTime())
	if err != nil {
		return task.Budget{}, err
	}
	cost, err := costOf(at+".cost_usd", b.GetCostUsd())
	return task.Budget{
		MaxSteps: int(b.GetMaxSteps()), Steps: b.GetSteps(), Tokens: b.GetTokens(), WallTime: wall, Turns: b.GetTurns(),
		ToolCalls: b.GetToolCalls(), Cost: cost,
	}, err
}

// costOf is dollars as nano-dollars. What is no number, no bound of an int64, or so little that it would become no bound
// at all, is refused here.
func costOf(field string, dollars float64) (int64, error) {
	nano := math.Round(dollars * task.Dollar)
	switch {
	case math.IsNaN(nano) || math.Abs(nano) >= math.MaxInt64:
		return 0, errdefs.BadField(field, "is no amount of dollars")
	case nano == 0 && dollars != 0:
		return 0, errdefs.BadField(field, "must be at least 0.000000001; 0 is no bound")
	}
	return int64(nano), nil
}

// shellOf unpacks what a shell runs. A name with = in it would set another variable than it says.
func shellOf(w *agentdv1.Shell) (*task.ShellSpec, error) {
	sh := &task.ShellSpec{Command: w.GetCommand(), Dir: w.GetCwd()}
	for _, name := range slices.Sorted(maps.Keys(w.GetEnv())) {
		if strings.Contains(name, "=") {
			return nil, errdefs.BadField("shell.env", "%q is no name of a variable: it has = in it", name)
		}
		sh.Env = append(sh.Env, name+"="+w.GetEnv()[name])
	}
	return sh, nil
}

// inRequest names the wrong field of an assignment as the spawn request has it.
func inRequest(err error, req *agentdv1.SpawnRequest) error {
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok || e.Field == "" {
		return err
	}
	return renamed(err, e, inMode(e.Field, req))
}

// renamed is an error with another name of the field that is wrong.
func renamed(err error, e *errdefs.Error, field string) error {
	if field == e.Field {
		return err
	}
	named := *e
	named.Field = field
	if named.Subject == e.Field {
		named.Subject = field
	}
	if text, ok := strings.CutPrefix(e.Message, e.Field+": "); ok {
		named.Message = fmt.Sprintf("%s: %s", field, text)
	}
	return &named
}

// inMode is the field's name behind that of the mode that it stands in.
func inMode(field string, req *agentdv1.SpawnRequest) string {
	mode := ""
	switch req.GetMode().(type) {
	case *agentdv1.SpawnRequest_Single:
		mode = "single."
	case *agentdv1.SpawnRequest_Parallel:
		mode = "parallel."
	case *agentdv1.SpawnRequest_Chain:
		mode = "chain."
	case *agentdv1.SpawnRequest_Shell:
		mode = "shell."
	case *agentdv1.SpawnRequest_Teammate:
		mode = "teammate.agent."
	case *agentdv1.SpawnRequest_Lead:
		mode = "lead.agent."
	}
	switch head := field[:strings.IndexAny(field+".", ".[")]; {
	case field == "budget.wall_time" && req.GetTimeout() != nil:
		return "timeout"
	case slices.Contains([]string{
		"agent", "prompt", "inputs", "model", "budget", "grant", "isolation", "acceptance", "result_schema", "items",
		"max_concurrency", "resume_from", "command", "cwd", "env",
	}, head):
		return mode + field
	case mode == "teammate.agent." && slices.Contains([]string{"name", "color", "plan_approval"}, head):
		return "teammate." + field
	}
	return field
}
