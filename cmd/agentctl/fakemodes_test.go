package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// States, in short.
const (
	queued    = agentdv1.TaskState_TASK_STATE_QUEUED
	running   = agentdv1.TaskState_TASK_STATE_RUNNING
	waiting   = agentdv1.TaskState_TASK_STATE_WAITING
	completed = agentdv1.TaskState_TASK_STATE_COMPLETED
	failed    = agentdv1.TaskState_TASK_STATE_FAILED
	killed    = agentdv1.TaskState_TASK_STATE_KILLED
	idle      = agentdv1.TaskState_TASK_STATE_IDLE
)

// play is a task of the fake with what its stream gives.
type play struct {
	task    *agentdv1.Task
	entries []*agentdv1.Entry
	outcome *agentdv1.Outcome
}

func became(seq uint64, state agentdv1.TaskState) *agentdv1.Entry {
	return &agentdv1.Entry{Seq: seq, Time: at(int(seq)), Body: &agentdv1.Entry_State{State: &agentdv1.StateChange{To: state}}}
}

// shellPlay is the shell `sh-1`, which ends with the exit code.
func shellPlay(exit int32) play {
	task := fakeTask(queued)
	task.Id, task.Kind, task.Agent = "sh-1", agentdv1.TaskKind_TASK_KIND_SHELL, ""
	wrote := func(seq uint64, data string, stream agentdv1.OutputStream, dropped uint64) *agentdv1.Entry {
		return &agentdv1.Entry{Seq: seq, Time: at(int(seq)), Body: &agentdv1.Entry_Output{Output: &agentdv1.Output{
			Data: []byte(data), Stream: stream, Dropped: dropped}}}
	}
	outcome := &agentdv1.Outcome{TaskId: "sh-1", State: completed, Reason: agentdv1.TaskReason_TASK_REASON_DONE,
		ExitCode: proto.Int32(exit), Usage: &agentdv1.Usage{WallTime: durationpb.New(3 * time.Second)}}
	if exit != 0 {
		outcome.State, outcome.Reason = failed, agentdv1.TaskReason_TASK_REASON_EXIT_NONZERO
		outcome.Error = "exit code 3"
	}
	return play{task, []*agentdv1.Entry{
		became(1, running),
		wrote(2, "h\u00e4llo \x1b[1m", agentdv1.OutputStream_OUTPUT_STREAM_STDOUT, 0),
		wrote(3, "oops\n", agentdv1.OutputStream_OUTPUT_STREAM_STDERR, 0),
		wrote(4, "raw\n", agentdv1.OutputStream_OUTPUT_STREAM_STDOUT, 7),
		became(5, outcome.GetState()),
	}, outcome}
}

// groupPlay is the group `grp-1`: one child that completes, and one that fails.
func groupPlay() play {
	task := fakeTask(queued)
	task.Id, task.Kind, task.Agent = "grp-1", agentdv1.TaskKind_TASK_KIND_GROUP, ""
	tells := func(seq uint64, id string, state agentdv1.TaskState, text string) *agentdv1.Entry {
		return &agentdv1.Entry{Seq: seq, Time: at(int(seq)), Body: &agentdv1.Entry_Notice{Notice: &agentdv1.Notice{
			Text: text, TaskId: id, State: state}}}
	}
	return play{task, []*agentdv1.Entry{
		became(1, running),
		tells(2, "sub-2", running, "sub-2 started: Write\nthe test"),
		tells(3, "sub-2", completed, "sub-2 completed"),
		tells(4, "sub-3", failed, "sub-3 failed: TIMEOUT, no time"),
		became(5, failed),
	}, &agentdv1.Outcome{
		TaskId: "grp-1", State: failed, Reason: agentdv1.TaskReason_TASK_REASON_TIMEOUT, Error: "1 of 2 did not complete",
		Summary: "never shown", Children: []string{"sub-2", "sub-3"},
		Usage: &agentdv1.Usage{InputTokens: 5000, OutputTokens: 110, CachedTokens: 2048, Steps: 2, CostUsd: 0.0123},
	}}
}

// resumedPlay is the chain `grp-11`, which kept two steps of an earlier one and failed at its third of four.
func resumedPlay() play {
	task := fakeTask(queued)
	task.Id, task.Kind, task.Agent = "grp-11", agentdv1.TaskKind_TASK_KIND_GROUP, ""
	return play{task, []*agentdv1.Entry{became(1, running), became(2, failed)}, &agentdv1.Outcome{
		TaskId: "grp-11", State: failed, Reason: agentdv1.TaskReason_TASK_REASON_TIMEOUT,
		Error: "step 3 of 4 did not complete: sub-12 TIMEOUT", Children: []string{"sub-12"}, Usage: &agentdv1.Usage{},
		Summary: "## sub-7 COMPLETED\n\nfirst\n\n## sub-2 COMPLETED\n\n## sub-8 COMPLETED\n\nsecond\n\n" +
			"## sub-12 FAILED TIMEOUT\n\nno time\n\n## sub-3 COMPLETED\n\n## sub-13 did not run\n\n",
	}}
}

// checkedPlay is an agent with a compaction, a repair round and a schema.
func checkedPlay() play {
	outcome := done()
	outcome.Changes, outcome.Findings, outcome.Output = nil, nil, `{"ok":true}`
	outcome.Evidence = []*agentdv1.Evidence{{Command: "make test"}, {Command: "make lint", ExitCode: 2, Output: "line 3\n"}}
	task := fakeTask(queued)
	task.DroppedTools = []string{"bash", "edit"}
	return play{task, []*agentdv1.Entry{
		became(1, running),
		{Seq: 2, Time: at(2), Body: &agentdv1.Entry_Compaction{Compaction: &agentdv1.Compaction{Summary: "It was\nlong.",
			Usage: &agentdv1.Usage{InputTokens: 100}}}},
		{Seq: 3, Time: at(3), Body: &agentdv1.Entry_Notice{Notice: &agentdv1.Notice{Text: "`make lint` fails:\nline 3"}}},
	}, outcome}
}

// modePlay is what a spawn runs, unless its prompt names something else.
func modePlay(req *agentdv1.SpawnRequest) (play, bool) {
	switch {
	case req.GetShell() != nil && req.GetShell().GetCommand() == "exit 3":
		return shellPlay(3), true
	case req.GetShell() != nil:
		return shellPlay(0), true
	case req.GetChain().GetResumeFrom() != "":
		return resumedPlay(), true
	case req.GetParallel() != nil || req.GetChain() != nil:
		return groupPlay(), true
	case promptOf(req) == "narrowed":
		p := checkedPlay()
		p.task.DroppedTools = []string{"bash"}
		return p, true
	case promptOf(req) == "checked":
		return checkedPlay(), true
	}
	return play{}, false
}

// spawn streams what it gives to who spawned it.
func (p play) spawn(detach bool, stream grpc.ServerStreamingServer[agentdv1.SpawnResponse]) error {
	_ = stream.Send(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Task{Task: p.task}})
	if detach {
		return nil
	}
	for _, entry := range p.entries {
		_ = stream.Send(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Entry{Entry: entry}})
	}
	return stream.Send(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Outcome{Outcome: p.outcome}})
}

// endedPlay is what a task has left that ended before.
func endedPlay(id string) (play, bool) {
	switch id {
	case "sh-1":
		return shellPlay(3), true
	case "grp-1":
		return groupPlay(), true
	case "sub-2":
		outcome := done()
		outcome.TaskId = id
		return play{fakeTask(completed), nil, outcome}, true
	case "sub-3", "sub-12":
		outcome := fakeOutcome(failed, agentdv1.TaskReason_TASK_REASON_TIMEOUT)
		outcome.TaskId, outcome.Summary, outcome.Findings, outcome.Changes, outcome.Error = id, "", nil, nil, "no time"
		return play{fakeTask(failed), nil, outcome}, true
	}
	return play{}, false
}

// output streams it to who reads it.
func (p play) output(stream grpc.ServerStreamingServer[agentdv1.TaskOutputResponse]) error {
	_ = stream.Send(&agentdv1.TaskOutputResponse{Item: &agentdv1.TaskOutputResponse_Task{Task: p.task}})
	for _, entry := range p.entries {
		_ = stream.Send(&agentdv1.TaskOutputResponse{Item: &agentdv1.TaskOutputResponse_Entry{Entry: entry}})
	}
	return stream.Send(&agentdv1.TaskOutputResponse{Item: &agentdv1.TaskOutputResponse_Outcome{Outcome: p.outcome}})
}

// GetTask shows any task as ended.
func (d *daemon) GetTask(_ context.Context, req *agentdv1.GetTaskRequest) (*agentdv1.GetTaskResponse, error) {
	task := fakeTask(completed)
	task.Id, task.EndedAt = req.GetTaskId(), at(42)
	return &agentdv1.GetTaskResponse{Task: task}, nil
}

func (d *daemon) StopTeam(req *agentdv1.StopTeamRequest, stream grpc.ServerStreamingServer[agentdv1.StopTeamResponse]) error {
	calls := d.mutation(req.GetRequestId())
	if req.GetTeam() != "shop" {
		return refused(codes.NotFound, "TEAM_NOT_FOUND", "no team "+req.GetTeam())
	}
	tell := func(left, reaped int32) {
		_ = stream.Send(&agentdv1.StopTeamResponse{Progress: &agentdv1.StopProgress{
			Level: max(req.GetLevel(), agentdv1.StopLevel_STOP_LEVEL_WRAP_UP), TasksRemaining: left, ProcessesReaped: reaped}})
	}
	tell(2, 0)
	if req.GetReason() == "lost at first" && calls == 1 {
		return status.Error(codes.Unavailable, "going down")
	}
	tell(0, 1)
	return nil
}

// Watch breaks after the first event, and ends for good after the last one.
func (d *daemon) Watch(req *agentdv1.WatchRequest, stream grpc.ServerStreamingServer[agentdv1.WatchResponse]) error {
	event := func(cursor string, seconds int, e *agentdv1.Event) {
		e.Time, e.Team, e.TaskId = at(seconds), "shop", "sub-1"
		_ = stream.Send(&agentdv1.WatchResponse{Cursor: cursor, Item: &agentdv1.WatchResponse_Event{Event: e}})
	}
	change := func(to agentdv1.TaskState, reason agentdv1.TaskReason) *agentdv1.Event {
		return &agentdv1.Event{Kind: &agentdv1.Event_State{State: &agentdv1.StateChange{To: to, Reason: reason}}}
	}
	if req.GetCursor() == "" {
		_ = stream.Send(&agentdv1.WatchResponse{Cursor: "c0"})
		event("c1", 0, change(queued, 0))
		return status.Error(codes.Unavailable, "going down")
	}
	if req.GetCursor() != "c1" || req.GetTeam() != "shop" {
		return refused(codes.InvalidArgument, "INVALID_ARGUMENT", "goes on after "+req.GetCursor()+" of "+req.GetTeam())
	}
	event("c2", 1, change(running, 0))
	event("c3", 2, &agentdv1.Event{Kind: &agentdv1.Event_MessageId{MessageId: "m-1"}})
	_ = stream.Send(&agentdv1.WatchResponse{Cursor: "c3b", Item: &agentdv1.WatchResponse_Event{Event: &agentdv1.Event{
		Time: at(2), Team: "shop", Kind: &agentdv1.Event_MessageId{MessageId: "m-2"}}}})
	event("c3c", 3, &agentdv1.Event{Kind: &agentdv1.Event_Roster{Roster: &agentdv1.RosterChange{
		Name: "lisa", Event: agentdv1.RosterEvent_ROSTER_EVENT_JOINED}}})
	_ = stream.Send(&agentdv1.WatchResponse{Cursor: "c4", Item: &agentdv1.WatchResponse_Gap{Gap: &agentdv1.Gap{Reason: "too old"}}})
	event("c5", 4, change(failed, agentdv1.TaskReason_TASK_REASON_TIMEOUT))
	return refused(codes.PermissionDenied, "PERMISSION_DENIED", "the script is over")
}
