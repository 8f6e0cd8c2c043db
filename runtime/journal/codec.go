package journal

import (
	"time"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// nanos is a time on disk; 0 is none.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}

func taskRow(t task.Task) *storev1.TaskRow {
	row := &storev1.TaskRow{
		Id: string(t.ID), Kind: uint32(t.Kind), Agent: t.Agent, Model: t.Model, Description: t.Description,
		Workspace: t.Workspace, Tools: t.Grant.Tools, Readable: t.Grant.Readable, Writable: t.Grant.Writable,
		MaxSteps: int32(t.Budget.MaxSteps), BudgetSteps: t.Budget.Steps, BudgetTokens: t.Budget.Tokens,
		BudgetWallTime: int64(t.Budget.WallTime), CancelOnDisconnect: t.CancelOnDisconnect,
		State: uint32(t.State), Reason: uint32(t.Reason), Error: t.Error,
		Incarnation: int32(t.Incarnation), Start: int32(t.Start),
		Created: nanos(t.Created), Started: nanos(t.Started), Ended: nanos(t.Ended),
		CallId: t.CallID, Network: t.Grant.Network, Depth: int32(t.Grant.Depth),
		BudgetTurns: t.Budget.Turns, BudgetToolCalls: t.Budget.ToolCalls, BudgetCost: t.Budget.Cost,
	}
	row.Ancestors = stringsOf(t.Ancestors)
	row.Name, row.Color, row.SpawnedBy, row.UntilQuiet = t.Name, t.Color, string(t.SpawnedBy), t.UntilQuiet
	row.Turn, row.Worked = nanos(t.Turn), int64(t.Worked)
	if t.Forgiven != (task.Usage{}) {
		row.Forgiven = t.Forgiven.Vector()
	}
	if t.Stop != nil {
		row.Stop = &storev1.StopRow{
			Level: uint32(t.Stop.Level), State: uint32(t.Stop.State), Reason: uint32(t.Stop.Reason),
			Message:       t.Stop.Message,
			WrapUpTimeout: int64(t.Stop.WrapUpTimeout), CancelTimeout: int64(t.Stop.CancelTimeout),
		}
	}
	return row
}

func taskOf(team string, row *storev1.TaskRow) task.Task {
	t := task.Task{
		ID: task.ID(row.GetId()), Team: team, Kind: task.Kind(row.GetKind()), Agent: row.GetAgent(),
		Model: row.GetModel(), Description: row.GetDescription(), Workspace: row.GetWorkspace(),
		Grant: grant.Grant{
			Tools: row.GetTools(), Readable: row.GetReadable(), Writable: row.GetWritable(),
			Network: row.GetNetwork(), Depth: int(row.GetDepth()),
		},
		Budget: task.Budget{
			MaxSteps: int(row.GetMaxSteps()), Steps: row.GetBudgetSteps(), Tokens: row.GetBudgetTokens(),
			WallTime: time.Duration(row.GetBudgetWallTime()), Turns: row.GetBudgetTurns(),
			ToolCalls: row.GetBudgetToolCalls(), Cost: row.GetBudgetCost(),
		},
		CallID:             row.GetCallId(),
		CancelOnDisconnect: row.GetCancelOnDisconnect(),
		State:              task.State(row.GetState()), Reason: task.Reason(row.GetReason()), Error: row.GetError(),
		Incarnation: int(row.GetIncarnation()), Start: int(row.GetStart()),
		Created: timeOf(row.GetCreated()), Started: timeOf(row.GetStarted()), Ended: timeOf(row.GetEnded()),
	}
	t.Name, t.Color, t.SpawnedBy, t.UntilQuiet = row.GetName(), row.GetColor(), task.ID(row.GetSpawnedBy()), row.GetUntilQuiet()
	t.Turn, t.Worked, t.Forgiven = timeOf(row.GetTurn()), time.Duration(row.GetWorked()), task.UsageOf(row.GetForgiven())
	if t.Turn.IsZero() && t.Worked == 0 && t.Kind != task.Teammate { // as it was written before there were turns
		if t.Ended.IsZero() {
			t.Turn = t.Started
		} else if !t.Started.IsZero() {
			t.Worked = t.Ended.Sub(t.Started)
		}
	}
	t.Ancestors = idsOf(row.GetAncestors())
	if len(t.Ancestors) > 0 {
		t.Parent = t.Ancestors[0]
	}
	if s := row.GetStop(); s != nil {
		t.Stop = &task.StopOrder{
			Level: task.StopLevel(s.GetLevel()), State: task.State(s.GetState()), Reason: task.Reason(s.GetReason()),
			Message:       s.GetMessage(),
			WrapUpTimeout: time.Duration(s.GetWrapUpTimeout()), CancelTimeout: time.Duration(s.GetCancelTimeout()),
		}
	}
	return t
}

func entryRow(now time.Time, body task.Body) *storev1.EntryRow {
	row := &storev1.EntryRow{Time: now.UnixNano()}
	switch e := body.(type) {
	case *task.Input:
		row.Body = &storev1.EntryRow_Input{Input: &storev1.InputRow{
			From: e.From, Text: e.Text, MessageId: e.MessageID, Summary: e.Summary, Color: e.Color, Kind: uint32(e.Kind),
			ControlId: e.ControlID, Approve: e.Approve, Hops: int32(e.Hops),
		}}
	case *task.Assistant:
		a := &storev1.AssistantRow{
			Step: int32(e.Step), Text: e.Text, Reasoning: e.Reasoning, Partial: e.Partial, Cut: e.Cut,
			Usage: &storev1.UsageRow{Vector: e.Usage.Vector()},
		}
		for _, c := range e.Calls {
			a.Calls = append(a.Calls, &storev1.CallRow{Id: c.ID, Name: c.Name, Arguments: c.Arguments})
		}
		row.Body = &storev1.EntryRow_Assistant{Assistant: a}
	case *task.CallStarted:
		row.Body = &storev1.EntryRow_CallStarted{CallStarted: &storev1.CallStartedRow{CallIds: e.CallIDs, Label: e.Label}}
	case *task.ToolResult:
		row.Body = &storev1.EntryRow_ToolResult{ToolResult: toolResultRow(e)}
	case *task.StateChange:
		row.Body = &storev1.EntryRow_State{State: &storev1.StateRow{
			From: uint32(e.From), To: uint32(e.To), Reason: uint32(e.Reason),
		}}
	case *task.Notice:
		row.Body = &storev1.EntryRow_Notice{Notice: &storev1.NoticeRow{
			Text: e.Text, WrapUp: uint32(e.WrapUp), TaskId: string(e.TaskID), State: uint32(e.State), Repair: e.Repair,
		}}
	case *task.Output:
		row.Body = &storev1.EntryRow_Output{Output: &storev1.OutputRow{
			Data: e.Data, Stream: uint32(e.Stream), Offset: uint64(e.Offset), Dropped: uint64(e.Dropped),
		}}
	case *task.Compaction:
		row.Body = &storev1.EntryRow_Compaction{Compaction: &storev1.CompactionRow{
			Summary: e.Summary, Usage: &storev1.UsageRow{Vector: e.Usage.Vector()},
		}}
	}
	return row
}

func toolResultRow(e *task.ToolResult) *storev1.ToolResultRow {
	row := &storev1.ToolResultRow{
		CallId: e.CallID, Tool: e.Tool, Text: e.Text, IsError: e.IsError, Truncated: e.Truncated,
	}
	for _, f := range e.Files {
		row.Files = append(row.Files, &storev1.FileMarkRow{Path: f.Path, Hash: f.Hash, Changed: f.Changed})
	}
	if e.Report != nil {
		row.Report = reportRow(*e.Report)
	}
	row.Ends = stringsOf(e.Ends)
	return row
}

func reportRow(r task.Report) *storev1.ReportRow {
	row := &storev1.ReportRow{Summary: r.Summary, Claims: r.Claims}
	for _, f := range r.Findings {
		row.Findings = append(row.Findings, &storev1.FindingRow{
			Title: f.Title, Detail: f.Detail, Path: f.Path, Line: int32(f.Line),
		})
	}
	for _, a := range r.Artifacts {
		row.Artifacts = append(row.Artifacts, &storev1.ArtifactRow{Path: a.Path, Description: a.Description})
	}
	return row
}

func reportOf(row *storev1.ReportRow) task.Report {
	r := task.Report{Summary: row.GetSummary(), Claims: row.GetClaims()}
	for _, f := range row.GetFindings() {
		r.Findings = append(r.Findings, task.Finding{
			Title: f.GetTitle(), Detail: f.GetDetail(), Path: f.GetPath(), Line: int(f.GetLine()),
		})
	}
	for _, a := range row.GetArtifacts() {
		r.Artifacts = append(r.Artifacts, task.Artifact{Path: a.GetPath(), Description: a.GetDescription()})
	}
	return r
}

func entryOf(e store.Entry, row *storev1.EntryRow) task.Entry {
	return task.Entry{Seq: task.Seq(e.Pos), Time: timeOf(row.GetTime()), Body: bodyOf(row)}
}

// bodyOf gives nil for a kind of entry that this binary does not know.
func bodyOf(row *storev1.EntryRow) task.Body {
	switch e := row.GetBody().(type) {
	case *storev1.EntryRow_Input:
		return &task.Input{
			From: e.Input.GetFrom(), Text: e.Input.GetText(), MessageID: e.Input.GetMessageId(), Summary: e.Input.GetSummary(),
			Color: e.Input.GetColor(), Kind: task.MessageKind(e.Input.GetKind()), ControlID: e.Input.GetControlId(),
			Approve: e.Input.GetApprove(), Hops: int(e.Input.GetHops()),
		}
	case *storev1.EntryRow_Assistant:
		a := &task.Assistant{
			Step: int(e.Assistant.GetStep()), Text: e.Assistant.GetText(), Reasoning: e.Assistant.GetReasoning(),
			Partial: e.Assistant.GetPartial(), Cut: e.Assistant.GetCut(), Usage: task.UsageOf(e.Assistant.GetUsage().GetVector()),
		}
		for _, c := range e.Assistant.GetCalls() {
			a.Calls = append(a.Calls, task.ToolCall{ID: c.GetId(), Name: c.GetName(), Arguments: c.GetArguments()})
		}
		return a
	case *storev1.EntryRow_CallStarted:
		return &task.CallStarted{CallIDs: e.CallStarted.GetCallIds(), Label: e.CallStarted.GetLabel()}
	case *storev1.EntryRow_ToolResult:
		return toolResultOf(e.ToolResult)
	case *storev1.EntryRow_State:
		return &task.StateChange{
			From: task.State(e.State.GetFrom()), To: task.State(e.State.GetTo()), Reason: task.Reason(e.State.GetReason()),
		}
	case *storev1.EntryRow_Notice:
		return &task.Notice{
			Text: e.Notice.GetText(), WrapUp: task.Reason(e.Notice.GetWrapUp()), TaskID: task.ID(e.Notice.GetTaskId()),
			State: task.State(e.Notice.GetState()), Repair: e.Notice.GetRepair(),
		}
	case *storev1.EntryRow_Output:
		return &task.Output{
			Data: e.Output.GetData(), Stream: task.Stream(e.Output.GetStream()), Offset: int64(e.Output.GetOffset()),
			Dropped: int64(e.Output.GetDropped()),
		}
	case *storev1.EntryRow_Compaction:
		return &task.Compaction{
			Summary: e.Compaction.GetSummary(), Usage: task.UsageOf(e.Compaction.GetUsage().GetVector()),
		}
	}
	return nil
}

func toolResultOf(row *storev1.ToolResultRow) *task.ToolResult {
	e := &task.ToolResult{
		CallID: row.GetCallId(), Tool: row.GetTool(), Text: row.GetText(), IsError: row.GetIsError(),
		Truncated: row.GetTruncated(),
	}
	for _, f := range row.GetFiles() {
		e.Files = append(e.Files, task.FileMark{Path: f.GetPath(), Hash: f.GetHash(), Changed: f.GetChanged()})
	}
	if row.GetReport() != nil {
		report := reportOf(row.GetReport())
		e.Report = &report
	}
	e.Ends = idsOf(row.GetEnds())
	return e
}
