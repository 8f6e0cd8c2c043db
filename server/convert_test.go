package server

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// named compares our values of an enum with all of the proto's: the same words behind the prefix, in any order.
func named[D interface{ String() string }, W protoreflect.Enum](t *testing.T, prefix string, ours []D, toWire func(D) W) {
	t.Helper()
	var w W
	values := w.Descriptor().Values()
	if values.Len() != len(ours)+1 {
		t.Errorf("%s has %d values beside UNSPECIFIED, we have %d", prefix, values.Len()-1, len(ours))
	}
	for _, d := range ours {
		got := values.ByNumber(toWire(d).Number()).Name()
		if want := prefix + d.String(); string(got) != want {
			t.Errorf("%s became %s", want, got)
		}
	}
	var zero D
	if toWire(zero).Number() != 0 {
		t.Errorf("%s: no value became %v", prefix, toWire(zero))
	}
}

func TestEnumsSayTheSame(t *testing.T) {
	named(t, "TASK_STATE_", task.States(), stateToWire)
	named(t, "TASK_REASON_", task.Reasons(), reasonToWire)
	named(t, "STOP_LEVEL_", []task.StopLevel{task.WrapUp, task.Cancel, task.Kill}, levelToWire)
	named(t, "TASK_KIND_", task.Kinds(), kindToWire)
	named(t, "OUTPUT_STREAM_", []word[task.Stream]{{task.Stdout, "STDOUT"}, {task.Stderr, "STDERR"}},
		func(w word[task.Stream]) agentdv1.OutputStream { return streamToWire(w.value) })
	named(t, "RECEIPT_STATE_", []word[mailbox.State]{
		{mailbox.Accepted, "ACCEPTED"}, {mailbox.Delivered, "DELIVERED"}, {mailbox.Undeliverable, "UNDELIVERABLE"},
		{mailbox.Waking, "WAKING"}, {mailbox.Answered, "ANSWERED"}, {mailbox.Expired, "EXPIRED"},
		{mailbox.Superseded, "SUPERSEDED"},
	}, func(w word[mailbox.State]) agentdv1.ReceiptState { return receiptStateToWire(w.value) })
	named(t, "MESSAGE_KIND_", []word[task.MessageKind]{
		{task.Text, "TEXT"}, {task.Ended, "ENDED"}, {task.WentIdle, "IDLE"}, {task.Returned, "RETURNED"},
		{task.ShutdownRequest, "SHUTDOWN_REQUEST"}, {task.ShutdownResponse, "SHUTDOWN_RESPONSE"},
		{task.PlanRequest, "PLAN_REQUEST"}, {task.PlanResponse, "PLAN_RESPONSE"}, {task.Remark, "NOTICE"},
	}, func(w word[task.MessageKind]) agentdv1.MessageKind { return messageKindToWire(w.value) })
	named(t, "ROSTER_EVENT_", []word[roster.Event]{{roster.Joined, "JOINED"}, {roster.Dismissed, "DISMISSED"}},
		func(w word[roster.Event]) agentdv1.RosterEvent { return rosterEventToWire(w.value) })
}

// word names a value of a type that has no String.
type word[T any] struct {
	value T
	name  string
}

func (w word[T]) String() string { return w.name }

// accepts walks all values of a proto enum, and one beyond, through a function that unpacks it. It gives the words of
// those that are accepted.
func accepts[W ~int32](names map[int32]string, unpack func(W) error) string {
	var accepted []string
	for n := int32(0); n <= int32(len(names)); n++ {
		if unpack(W(n)) == nil {
			accepted = append(accepted, names[n])
		}
	}
	return strings.Join(accepted, " ")
}

func TestUnpackingKnowsEveryValue(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{
			accepts(agentdv1.TaskKind_name, func(k agentdv1.TaskKind) error { _, err := kindOf(k); return err }),
			"TASK_KIND_UNSPECIFIED TASK_KIND_SUBAGENT TASK_KIND_SHELL TASK_KIND_GROUP TASK_KIND_TEAMMATE",
		},
		{
			accepts(agentdv1.StopLevel_name, func(l agentdv1.StopLevel) error { _, err := levelOf(l, task.WrapUp); return err }),
			"STOP_LEVEL_UNSPECIFIED STOP_LEVEL_WRAP_UP STOP_LEVEL_CANCEL STOP_LEVEL_KILL",
		},
		{
			accepts(agentdv1.ReceiptState_name, func(s agentdv1.ReceiptState) error { _, err := untilOf(s); return err }),
			"RECEIPT_STATE_UNSPECIFIED RECEIPT_STATE_ACCEPTED RECEIPT_STATE_DELIVERED RECEIPT_STATE_WAKING " +
				"RECEIPT_STATE_ANSWERED",
		},
		{
			accepts(agentdv1.Delivery_name, func(d agentdv1.Delivery) error { _, err := deliveryOf(d); return err }),
			"DELIVERY_UNSPECIFIED DELIVERY_STEP DELIVERY_TURN DELIVERY_INTERRUPT",
		},
		{
			accepts(agentdv1.WaitFor_name, func(w agentdv1.WaitFor) error { _, _, err := waitOf(w); return err }),
			"WAIT_FOR_UNSPECIFIED WAIT_FOR_TERMINAL WAIT_FOR_IDLE",
		},
	} {
		if c.got != c.want {
			t.Errorf("accepted: %s; want: %s", c.got, c.want)
		}
	}
	for _, state := range task.States() {
		if back, err := stateOf(stateToWire(state)); err != nil || back != state {
			t.Errorf("%s came back as %s, %v", state, back, err)
		}
	}
	if _, err := stateOf(agentdv1.TaskState(len(agentdv1.TaskState_name))); !errdefs.Is(err, errdefs.BadArgument) {
		t.Errorf("an unknown state: %v", err)
	}
}

// TestNothingIsLeftOut packs values that are full and looks for fields that stayed empty.
func TestNothingIsLeftOut(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	usage := task.UsageOf([]int64{1, 2, 3, 4, 5, 6, 7, 8})
	full := view.Task{
		Task: task.Task{
			ID: "sub-1", Kind: task.Subagent, Agent: "general", Model: "m", Description: "d", Workspace: "/w",
			Parent: "sub-0", Ancestors: []task.ID{"sub-0"}, State: task.Killed, Reason: task.Timeout, Error: "e",
			Grant: grant.Grant{
				Tools: []string{"ls"}, Readable: []string{"/w"}, Writable: []string{"/w"}, Network: true, Depth: 1,
			},
			Budget: task.Budget{
				MaxSteps: 1, Steps: 2, Tokens: 3, WallTime: 4, Turns: 5, ToolCalls: 6, Cost: 7,
			},
			Incarnation: 1, Created: at, Started: at, Ended: at, Name: "Ann", Color: "blue", SpawnedBy: "tm-1",
		},
		Unread: 1, TeamName: "shop", Usage: usage, WallTime: time.Second, Activity: "a", LastSeq: 7, Place: 1,
		Dropped: []string{"bash"},
	}
	result := task.Result{
		TaskID: "sub-1", State: task.Failed, Reason: task.Panic, Error: "e",
		Conclusion: task.Conclusion{
			Report: task.Report{
				Summary: "s", Findings: []task.Finding{{Title: "t", Detail: "d", Path: "p", Line: 1}},
				Artifacts: []task.Artifact{{Path: "p", Description: "d"}}, Claims: []string{"c"},
			},
			Changes: []string{"p"}, Output: "{}", ExitCode: new(int),
			Evidence: []task.Evidence{{Command: "true", ExitCode: 1, TimedOut: true, Output: "o"}},
		},
		Usage: usage, WallTime: time.Second, Children: []task.ID{"sub-2"},
	}
	bodies := []task.Body{
		&task.Input{
			From: "user", Text: "t", MessageID: "m-1", Summary: "s", Kind: task.PlanResponse, ControlID: "c-1", Approve: true,
		},
		&task.ToolResult{CallID: "c", Tool: "ls", Text: "t", IsError: true, Truncated: true},
		&task.StateChange{From: task.Running, To: task.Failed, Reason: task.Done},
		&task.Notice{Text: "n", TaskID: "sub-2", State: task.Failed},
		&task.Output{Data: []byte("d"), Stream: task.Stderr, Offset: 1, Dropped: 1},
	}
	noMissing(t, taskToWire(full))
	noMissing(t, outcomeToWire(result))
	for _, body := range bodies {
		noMissing(t, entryToWire(task.Entry{Seq: 1, Time: at, Body: body}))
	}
	answer := entryToWire(task.Entry{Seq: 1, Time: at, Body: &task.Assistant{
		Step: 1, Text: "t", Reasoning: "r", Usage: usage, Partial: true,
		Calls: []task.ToolCall{{ID: "c", Name: "ls", Arguments: "{}"}},
	}})
	noMissing(t, answer, "agentd.v1.Usage.wall_time") // of tasks only
	compaction := entryToWire(task.Entry{Seq: 1, Time: at, Body: &task.Compaction{Summary: "s", Usage: usage}})
	noMissing(t, compaction, "agentd.v1.Usage.wall_time")
	happened := view.Event{Event: journal.Event{Tick: 1, TaskID: "sub-1", MessageID: "m-1"}, TeamName: "shop"}
	noMissing(t, newsToWire(view.News{Cursor: "c", Event: &happened}))
	happened.State = &task.StateChange{From: task.Running, To: task.Failed, Reason: task.Done}
	noMissing(t, newsToWire(view.News{Cursor: "c", Event: &happened}))
	happened.State, happened.Roster = nil, &journal.RosterChange{Name: "Ann", Event: roster.Dismissed}
	noMissing(t, newsToWire(view.News{Cursor: "c", Event: &happened}))
	noMissing(t, newsToWire(view.News{Cursor: "c", Gap: "g"}))
	if w := newsToWire(view.News{Cursor: "c"}); w.GetCursor() != "c" || w.Item != nil {
		t.Errorf("a cursor alone became %v", w)
	}
	noMissing(t, deltaToWire(task.Delta{Step: 1, Attempt: 1, Text: "t"}))
	noMissing(t, deltaToWire(task.Delta{Step: 1, Attempt: 1, Reset: true}))
	receipt := mailbox.Receipt{
		MessageID: "m-1", State: mailbox.Delivered, Seq: 1, Reason: "r", Recipient: "Ann", Text: "t", ControlID: "c-1",
	}
	noMissing(t, receiptToWire(receipt))
	noMissing(t, sendItem(receipt))
	noMissing(t, idleToWire(view.Idle{TaskID: "tm-1", Seq: 1, Text: "t"}))
	teamFieldsAreFull(t, full)
	noMissing(t, progressToWire(runtime.StopProgress{Level: task.Kill, Remaining: 1, Reaped: 1}))
}

// teamFieldsAreFull is the part on teams.
func teamFieldsAreFull(t *testing.T, full view.Task) {
	t.Helper()
	at := full.Created
	noMissing(t, teamToWire(view.Team{
		Team: roster.Team{
			ID: "t-1", Name: "shop", Workspace: "/w", Description: "d", Created: at,
			Budget: task.Budget{Steps: 1, Tokens: 2, Turns: 3, ToolCalls: 4, Cost: 5},
		},
		Usage: full.Usage, Teammates: 1, Lead: "tm-1", UnreadLeader: 1, UnreadUser: 2,
	}), "agentd.v1.Budget.max_steps", "agentd.v1.Budget.wall_time", "agentd.v1.Usage.wall_time") // of tasks only
	noMissing(t, teammateToWire(view.Teammate{
		Member: roster.Member{Name: "Ann", TaskID: "tm-1", Dismissed: true}, Task: full, Asleep: "a", PlanApproval: true,
		PlanApproved: true, PlanControlID: "c-1", ShutdownControlID: "c-2",
	}))
	noMissing(t, inboxItem(view.InboxItem{Message: &view.InboxMessage{
		Message: mailbox.Message{
			ID: "m-1", Pos: 1, From: "Ann", To: "user", Summary: "s", Sent: at, Kind: task.PlanRequest, ReplyTo: "m-2",
			ControlID: "c-1", Approve: true,
		},
		Taken: true, Acked: true, TaskID: "tm-1", Seq: 1, Text: "t",
	}}))
	noMissing(t, inboxItem(view.InboxItem{Heartbeat: at}))
}

// noMissing reports fields without a value, in nested messages too; of a oneof one must be set.
func noMissing(t *testing.T, m proto.Message, known ...protoreflect.FullName) {
	t.Helper()
	r := m.ProtoReflect()
	fields := r.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		set := r.Has(f)
		if o := f.ContainingOneof(); o != nil {
			set = set || r.WhichOneof(o) != nil
		}
		skip := false
		for _, name := range known {
			skip = skip || name == f.FullName()
		}
		if !set && !skip {
			t.Errorf("%s is empty", f.FullName())
		}
		if !r.Has(f) || f.Message() == nil || strings.HasPrefix(string(f.Message().FullName()), "google.") {
			continue
		}
		if f.IsList() {
			for j := range r.Get(f).List().Len() {
				noMissing(t, r.Get(f).List().Get(j).Message().Interface(), known...)
			}
			continue
		}
		noMissing(t, r.Get(f).Message().Interface(), known...)
	}
}

// What a shell writes may be any bytes: JSON has them in base64.
func TestOutputIsBytes(t *testing.T) {
	w := entryToWire(task.Entry{Seq: 1, Body: &task.Output{Data: []byte("\x00\xff\n"), Stream: task.Stdout, Offset: 7}})
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(w.GetOutput())
	must(t, err)
	var got struct{ Data, Stream, Offset string }
	must(t, json.Unmarshal(text, &got))
	if got.Data != "AP8K" || got.Stream != "OUTPUT_STREAM_STDOUT" || got.Offset != "7" {
		t.Errorf("it became %s", text)
	}
}

func TestItemsAreTheSameInBothStreams(t *testing.T) {
	for _, i := range []view.Item{
		{Task: &view.Task{Task: task.Task{ID: "sub-1"}}},
		{Entry: &task.Entry{Seq: 1, Body: &task.Notice{Text: "n"}}},
		{Delta: &task.Delta{Step: 1, Text: "t"}},
		{Heartbeat: time.Unix(1, 0)},
		{Outcome: &task.Result{TaskID: "sub-1"}},
		{Idle: &view.Idle{TaskID: "tm-1", Seq: 1, Text: "t"}},
	} {
		spawn, output := spawnItem(i), outputItem(i)
		if a, b := bytesOf(t, spawn), bytesOf(t, output); a != b || a == "" {
			t.Errorf("%+v became %v and %v", i, spawn, output)
		}
	}
}

// bytesOf is a message on the wire: both responses number their items alike.
func bytesOf(t *testing.T, m proto.Message) string {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A wrong field is named as the request has it, not as the assignment has it.
func TestFieldsAreNamedAsInTheRequest(t *testing.T) {
	plain := &agentdv1.SpawnRequest{Mode: &agentdv1.SpawnRequest_Single{}}
	timed := &agentdv1.SpawnRequest{Mode: &agentdv1.SpawnRequest_Single{}, Timeout: durationToWire(time.Second)}
	parallel := &agentdv1.SpawnRequest{Mode: &agentdv1.SpawnRequest_Parallel{}}
	chain := &agentdv1.SpawnRequest{Mode: &agentdv1.SpawnRequest_Chain{}}
	shell := &agentdv1.SpawnRequest{Mode: &agentdv1.SpawnRequest_Shell{}}
	mate := &agentdv1.SpawnRequest{Mode: &agentdv1.SpawnRequest_Teammate{}}
	lead := &agentdv1.SpawnRequest{Mode: &agentdv1.SpawnRequest_Lead{}}
	for _, c := range []struct {
		req         *agentdv1.SpawnRequest
		field, want string
	}{
		{plain, "prompt", "single.prompt"},
		{plain, "inputs[3].name", "single.inputs[3].name"},
		{plain, "budget.wall_time", "single.budget.wall_time"},
		{timed, "budget.wall_time", "timeout"},
		{timed, "budget.steps", "single.budget.steps"},
		{plain, "workspace", "workspace"},
		{plain, "parent_task_id", "parent_task_id"},
		{plain, "description", "description"},
		{plain, "grant.tools", "single.grant.tools"},
		{plain, "grant.readable_roots[1]", "single.grant.readable_roots[1]"},
		{plain, "result_schema", "single.result_schema"},
		{plain, "acceptance[1].command", "single.acceptance[1].command"},
		{plain, "isolation", "single.isolation"},
		{plain, "agent", "single.agent"},
		{plain, "model", "single.model"},
		{parallel, "items[2].grant.tools", "parallel.items[2].grant.tools"},
		{parallel, "items", "parallel.items"},
		{parallel, "max_concurrency", "parallel.max_concurrency"},
		{parallel, "budget.wall_time", "parallel.budget.wall_time"},
		{parallel, "description", "description"},
		{chain, "items[0].prompt", "chain.items[0].prompt"},
		{chain, "resume_from", "chain.resume_from"},
		{shell, "command", "shell.command"},
		{shell, "cwd", "shell.cwd"},
		{shell, "env[0]", "shell.env[0]"},
		{shell, "request_id", "request_id"},
		{mate, "prompt", "teammate.agent.prompt"},
		{mate, "grant.tools", "teammate.agent.grant.tools"},
		{mate, "name", "teammate.name"},
		{mate, "color", "teammate.color"},
		{mate, "workspace", "workspace"},
		{lead, "model", "lead.agent.model"},
		{&agentdv1.SpawnRequest{}, "prompt", "prompt"},
	} {
		e := errdefs.As(inRequest(errdefs.BadField(c.field, "is wrong"), c.req))
		if e.Field != c.want || e.Subject != c.want || e.Message != c.want+": is wrong" {
			t.Errorf("%s became %+v, want %s", c.field, e, c.want)
		}
	}
	err := errdefs.New(errdefs.NotFound, errdefs.TeamNotFound, "shop", "no team")
	if !errors.Is(inRequest(err, plain), err) {
		t.Error("an error without a field was changed")
	}
}
