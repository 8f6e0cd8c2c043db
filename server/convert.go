package server

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// timeToWire leaves out a time that has not come.
func timeToWire(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// durationToWire leaves out a duration of zero.
func durationToWire(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func taskToWire(t view.Task) *agentdv1.Task {
	return &agentdv1.Task{
		Id: string(t.ID), Team: t.TeamName, Kind: kindToWire(t.Kind), Agent: t.Agent, State: stateToWire(t.State),
		Reason: reasonToWire(t.Reason), Error: t.Error, Description: t.Description, Workspace: t.Workspace,
		ParentTaskId: string(t.Parent), Depth: int32(t.Depth()), Incarnation: int32(t.Incarnation),
		CreatedAt: timeToWire(t.Created), StartedAt: timeToWire(t.Started), EndedAt: timeToWire(t.Ended),
		Activity: t.Activity, Usage: usageToWire(t.Usage, t.WallTime), Grant: grantToWire(t.Grant),
		LastSeq: uint64(t.LastSeq), Model: t.Model, Budget: budgetToWire(t.Budget), QueuePosition: int32(t.Place),
		DroppedTools: t.Dropped, Name: t.Name, Color: t.Color, SpawnedBy: string(t.SpawnedBy), AgentId: agentID(t),
		Unread: int32(t.Unread),
	}
}

// agentID is what a teammate is called outside its team; empty for others.
func agentID(t view.Task) string {
	if t.Name == "" {
		return ""
	}
	return roster.AgentID(t.Name, t.TeamName)
}

func usageToWire(u task.Usage, wall time.Duration) *agentdv1.Usage {
	return &agentdv1.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens,
		ReasoningTokens: u.ReasoningTokens, Steps: u.Steps, Turns: u.Turns, ToolCalls: u.ToolCalls,
		WallTime: durationToWire(wall), CostUsd: costToWire(u.Cost),
	}
}

// costToWire is nano-dollars as dollars.
func costToWire(cost int64) float64 { return float64(cost) / task.Dollar }

func grantToWire(g grant.Grant) *agentdv1.Grant {
	return &agentdv1.Grant{
		Tools: g.Tools, ReadableRoots: g.Readable, WritableRoots: g.Writable, Network: g.Network, Depth: int32(g.Depth),
	}
}

func budgetToWire(b task.Budget) *agentdv1.Budget {
	return &agentdv1.Budget{
		MaxSteps: int32(b.MaxSteps), Steps: b.Steps, Tokens: b.Tokens, WallTime: durationToWire(b.WallTime),
		Turns: b.Turns, ToolCalls: b.ToolCalls, CostUsd: costToWire(b.Cost),
	}
}

// entryToWire packs an entry that is shown to clients; a CallStarted, which is not, has no body.
func entryToWire(e task.Entry) *agentdv1.Entry {
	w := &agentdv1.Entry{Seq: uint64(e.Seq), Time: timeToWire(e.Time)}
	switch b := e.Body.(type) {
	case *task.Input:
		w.Body = &agentdv1.Entry_Input{Input: &agentdv1.Input{
			From: b.From, Text: b.Text, MessageId: b.MessageID, Summary: b.Summary, Kind: messageKindToWire(b.Kind),
			ControlId: b.ControlID, Approve: b.Approve,
		}}
	case *task.Assistant:
		w.Body = &agentdv1.Entry_Assistant{Assistant: assistantToWire(b)}
	case *task.ToolResult:
		w.Body = &agentdv1.Entry_ToolResult{ToolResult: &agentdv1.ToolResult{
			CallId: b.CallID, Tool: b.Tool, Text: b.Text, IsError: b.IsError, Truncated: b.Truncated,
		}}
	case *task.StateChange:
		w.Body = &agentdv1.Entry_State{State: stateChangeToWire(*b)}
	case *task.Notice:
		w.Body = &agentdv1.Entry_Notice{Notice: &agentdv1.Notice{
			Text: b.Text, TaskId: string(b.TaskID), State: stateToWire(b.State),
		}}
	case *task.Output:
		w.Body = &agentdv1.Entry_Output{Output: &agentdv1.Output{
			Data: b.Data, Stream: streamToWire(b.Stream), Offset: uint64(b.Offset), Dropped: uint64(b.Dropped),
		}}
	case *task.Compaction:
		w.Body = &agentdv1.Entry_Compaction{Compaction: &agentdv1.Compaction{
			Summary: b.Summary, Usage: usageToWire(b.Usage, 0),
		}}
	}
	return w
}

func assistantToWire(a *task.Assistant) *agentdv1.Assistant {
	w := &agentdv1.Assistant{
		Step: int32(a.Step), Text: a.Text, Reasoning: a.Reasoning, Usage: usageToWire(a.Usage, 0), Partial: a.Partial,
	}
	for _, c := range a.Calls {
		w.ToolCalls = append(w.ToolCalls, &agentdv1.ToolCall{Id: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	return w
}

func deltaToWire(d task.Delta) *agentdv1.Delta {
	w := &agentdv1.Delta{Step: int32(d.Step), Attempt: int32(d.Attempt)}
	if d.Reset {
		w.Content = &agentdv1.Delta_Reset_{Reset_: true}
	} else {
		w.Content = &agentdv1.Delta_Text{Text: d.Text}
	}
	return w
}

func outcomeToWire(r task.Result) *agentdv1.Outcome {
	w := &agentdv1.Outcome{
		TaskId: string(r.TaskID), State: stateToWire(r.State), Reason: reasonToWire(r.Reason), Error: r.Error,
		Summary: r.Summary, Claims: r.Claims, Changes: r.Changes, Usage: usageToWire(r.Usage, r.WallTime),
		Output: r.Output,
	}
	if r.ExitCode != nil {
		code := int32(*r.ExitCode)
		w.ExitCode = &code
	}
	for _, e := range r.Evidence {
		w.Evidence = append(w.Evidence, &agentdv1.Evidence{
			Command: e.Command, ExitCode: int32(e.ExitCode), TimedOut: e.TimedOut, Output: e.Output,
		})
	}
	for _, f := range r.Findings {
		w.Findings = append(w.Findings, &agentdv1.Finding{
			Title: f.Title, Detail: f.Detail, Path: f.Path, Line: int32(f.Line),
		})
	}
	for _, a := range r.Artifacts {
		w.Artifacts = append(w.Artifacts, &agentdv1.Artifact{Path: a.Path, Description: a.Description})
	}
	for _, id := range r.Children {
		w.Children = append(w.Children, string(id))
	}
	return w
}

func idleToWire(i view.Idle) *agentdv1.Idle {
	return &agentdv1.Idle{TaskId: string(i.TaskID), Seq: uint64(i.Seq), Text: i.Text}
}

// outputItem packs an item of a transcript's stream.
func outputItem(i view.Item) *agentdv1.TaskOutputResponse {
	w := &agentdv1.TaskOutputResponse{}
	switch {
	case i.Task != nil:
		w.Item = &agentdv1.TaskOutputResponse_Task{Task: taskToWire(*i.Task)}
	case i.Entry != nil:
		w.Item = &agentdv1.TaskOutputResponse_Entry{Entry: entryToWire(*i.Entry)}
	case i.Delta != nil:
		w.Item = &agentdv1.TaskOutputResponse_Delta{Delta: deltaToWire(*i.Delta)}
	case i.Outcome != nil:
		w.Item = &agentdv1.TaskOutputResponse_Outcome{Outcome: outcomeToWire(*i.Outcome)}
	case i.Idle != nil:
		w.Item = &agentdv1.TaskOutputResponse_Idle{Idle: idleToWire(*i.Idle)}
	default:
		w.Item = &agentdv1.TaskOutputResponse_Heartbeat{Heartbeat: &agentdv1.Heartbeat{Time: timeToWire(i.Heartbeat)}}
	}
	return w
}

// spawnItem packs the same item for a spawn's stream.
func spawnItem(i view.Item) *agentdv1.SpawnResponse {
	w := &agentdv1.SpawnResponse{}
	switch {
	case i.Task != nil:
		w.Item = &agentdv1.SpawnResponse_Task{Task: taskToWire(*i.Task)}
	case i.Entry != nil:
		w.Item = &agentdv1.SpawnResponse_Entry{Entry: entryToWire(*i.Entry)}
	case i.Delta != nil:
		w.Item = &agentdv1.SpawnResponse_Delta{Delta: deltaToWire(*i.Delta)}
	case i.Outcome != nil:
		w.Item = &agentdv1.SpawnResponse_Outcome{Outcome: outcomeToWire(*i.Outcome)}
	case i.Idle != nil:
		w.Item = &agentdv1.SpawnResponse_Idle{Idle: idleToWire(*i.Idle)}
	default:
		w.Item = &agentdv1.SpawnResponse_Heartbeat{Heartbeat: &agentdv1.Heartbeat{Time: timeToWire(i.Heartbeat)}}
	}
	return w
}

// newsToWire packs an item of a watch.
func newsToWire(n view.News) *agentdv1.WatchResponse {
	w := &agentdv1.WatchResponse{Cursor: n.Cursor}
	switch {
	case n.Event != nil:
		w.Item = &agentdv1.WatchResponse_Event{Event: eventToWire(*n.Event)}
	case n.Gap != "":
		w.Item = &agentdv1.WatchResponse_Gap{Gap: &agentdv1.Gap{Reason: n.Gap}}
	}
	return w
}

func eventToWire(e view.Event) *agentdv1.Event {
	w := &agentdv1.Event{Time: timeToWire(e.Tick.Time()), Team: e.TeamName, TaskId: string(e.TaskID)}
	switch {
	case e.State != nil:
		w.Kind = &agentdv1.Event_State{State: stateChangeToWire(*e.State)}
	case e.Roster != nil:
		w.Kind = &agentdv1.Event_Roster{Roster: &agentdv1.RosterChange{
			Name: e.Roster.Name, Event: rosterEventToWire(e.Roster.Event),
		}}
	default:
		w.Kind = &agentdv1.Event_MessageId{MessageId: e.MessageID}
	}
	return w
}

func stateChangeToWire(s task.StateChange) *agentdv1.StateChange {
	return &agentdv1.StateChange{From: stateToWire(s.From), To: stateToWire(s.To), Reason: reasonToWire(s.Reason)}
}

func progressToWire(p runtime.StopProgress) *agentdv1.StopProgress {
	return &agentdv1.StopProgress{
		Level: levelToWire(p.Level), TasksRemaining: int32(p.Remaining), ProcessesReaped: int32(p.Reaped),
	}
}
