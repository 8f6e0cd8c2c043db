package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime/model"
)

func TestSpawnFollowsFromTaskToOutcome(t *testing.T) {
	speak, end := make(chan struct{}), make(chan struct{})
	h := newHouse(t, play(func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		<-speak
		sink(&model.TextDelta{Text: "it "})
		<-end
		return says("it is done")(ctx, req, sink)
	}))
	ctx := h.ctx()
	id, stream := h.follow(ctx, h.request("do it"))
	var kinds []string
	var outcome *agentdv1.Outcome
	for outcome == nil {
		item, err := stream.Recv()
		must(t, err)
		switch {
		case item.GetEntry().GetInput() != nil:
			kinds = append(kinds, "input")
			close(speak) // entries are sent, so deltas are listened to
		case item.GetEntry().GetState() != nil:
			kinds = append(kinds, "state")
		case item.GetDelta() != nil:
			kinds = append(kinds, "delta "+item.GetDelta().GetText())
			close(end)
		case item.GetEntry().GetAssistant() != nil:
			kinds = append(kinds, "assistant "+item.GetEntry().GetAssistant().GetText())
		case item.GetOutcome() != nil:
			outcome = item.GetOutcome()
		default:
			t.Errorf("unexpected item: %v", item)
		}
	}
	if got := strings.Join(kinds, ", "); got != "input, state, delta it , assistant it is done, state" {
		t.Errorf("items: %s", got)
	}
	if outcome.GetTaskId() != id || outcome.GetState() != agentdv1.TaskState_TASK_STATE_COMPLETED ||
		outcome.GetReason() != agentdv1.TaskReason_TASK_REASON_DONE || outcome.GetSummary() != "it is done" {
		t.Errorf("outcome: %v", outcome)
	}
	if item, err := stream.Recv(); err == nil {
		t.Errorf("after the outcome: %v", item)
	}
}

// proves N5
func TestAssignmentIsFromTheUser(t *testing.T) {
	h := newHouse(t, says("done"))
	items, err := all(h.agents.Spawn(h.ctx(), h.request("do it")))
	must(t, err)
	for _, item := range items {
		if in := item.GetEntry().GetInput(); in != nil && (in.GetFrom() != "user" || in.GetText() != "do it") {
			t.Errorf("input: %v", in)
		}
	}
}

// proves N7
// case STA-9
func TestRetriedSpawnIsOneTask(t *testing.T) {
	h := newHouse(t, says("done"))
	req := h.request("do it")
	req.RequestId = "r1"
	first, _ := h.follow(h.ctx(), req)
	if again, _ := h.follow(h.ctx(), req); again != first {
		t.Errorf("the retry made %s beside %s", again, first)
	}
	req.GetSingle().Prompt = "do something else"
	_, err := all(h.agents.Spawn(h.ctx(), req))
	if field := refused(t, err, codes.InvalidArgument, "REQUEST_ID_REUSED"); field != "request_id" {
		t.Errorf("field: %q", field)
	}
	list, err := h.tasks.ListTasks(h.ctx(), &agentdv1.ListTasksRequest{})
	must(t, err)
	if len(list.GetTasks()) != 1 {
		t.Errorf("tasks: %v", list.GetTasks())
	}
}

// proves N8
func TestSpawnRefusesWhatIsWrong(t *testing.T) {
	h := newHouse(t, says("done"))
	type change func(r *agentdv1.SpawnRequest, s *agentdv1.AgentSpec)
	input := func(in *agentdv1.AgentInput) change {
		return func(_ *agentdv1.SpawnRequest, s *agentdv1.AgentSpec) { s.Inputs = append(s.Inputs, in) }
	}
	budget := func(b *agentdv1.Budget) change {
		return func(_ *agentdv1.SpawnRequest, s *agentdv1.AgentSpec) { s.Budget = b }
	}
	text := func(s string) *agentdv1.AgentInput_Text { return &agentdv1.AgentInput_Text{Text: s} }
	broken := &durationpb.Duration{Seconds: 1, Nanos: -1}
	for name, c := range map[string]struct {
		change        change
		field, reason string
	}{
		"no mode":     {func(r *agentdv1.SpawnRequest, _ *agentdv1.AgentSpec) { r.Mode = nil }, "mode", "INVALID_ARGUMENT"},
		"no prompt":   {func(_ *agentdv1.SpawnRequest, s *agentdv1.AgentSpec) { s.Prompt = " " }, "single.prompt", "INVALID_ARGUMENT"},
		"long prompt": {func(_ *agentdv1.SpawnRequest, s *agentdv1.AgentSpec) { s.Prompt = strings.Repeat("x", 256<<10+1) }, "single.prompt", "TOO_LARGE"},
		"long input":  {input(&agentdv1.AgentInput{Name: "n", Source: text(strings.Repeat("x", 256<<10))}), "single.prompt", "TOO_LARGE"},
		"no name":     {input(&agentdv1.AgentInput{Source: text("x")}), "single.inputs[0].name", "INVALID_ARGUMENT"},
		"no source":   {input(&agentdv1.AgentInput{Name: "n"}), "single.inputs[0]", "INVALID_ARGUMENT"},
		"many inputs": {func(_ *agentdv1.SpawnRequest, s *agentdv1.AgentSpec) { s.Inputs = make([]*agentdv1.AgentInput, 33) }, "single.inputs", "INVALID_ARGUMENT"},
		"long model":  {func(_ *agentdv1.SpawnRequest, s *agentdv1.AgentSpec) { s.Model = strings.Repeat("x", 201) }, "single.model", "TOO_LARGE"},
		"description": {func(r *agentdv1.SpawnRequest, _ *agentdv1.AgentSpec) { r.Description = strings.Repeat("x", 1<<10+1) }, "description", "TOO_LARGE"},
		"request id":  {func(r *agentdv1.SpawnRequest, _ *agentdv1.AgentSpec) { r.RequestId = strings.Repeat("x", 257) }, "request_id", "TOO_LARGE"},
		"relative":    {func(r *agentdv1.SpawnRequest, _ *agentdv1.AgentSpec) { r.Workspace = "here" }, "workspace", "INVALID_ARGUMENT"},
		"max steps":   {budget(&agentdv1.Budget{MaxSteps: 1001}), "single.budget.max_steps", "INVALID_ARGUMENT"},
		"steps":       {budget(&agentdv1.Budget{Steps: -1}), "single.budget.steps", "INVALID_ARGUMENT"},
		"tokens":      {budget(&agentdv1.Budget{Tokens: -1}), "single.budget.tokens", "INVALID_ARGUMENT"},
		"wall time":   {budget(&agentdv1.Budget{WallTime: durationpb.New(-time.Second)}), "single.budget.wall_time", "INVALID_ARGUMENT"},
		"no duration": {budget(&agentdv1.Budget{WallTime: broken}), "single.budget.wall_time", "INVALID_ARGUMENT"},
		"timeout":     {func(r *agentdv1.SpawnRequest, _ *agentdv1.AgentSpec) { r.Timeout = durationpb.New(-time.Second) }, "timeout", "INVALID_ARGUMENT"},
		"bad timeout": {func(r *agentdv1.SpawnRequest, _ *agentdv1.AgentSpec) { r.Timeout = broken }, "timeout", "INVALID_ARGUMENT"},
		"detach": {func(r *agentdv1.SpawnRequest, _ *agentdv1.AgentSpec) {
			r.Detach, r.CancelOnDisconnect = true, true
		}, "detach", "INVALID_ARGUMENT"},
		"too large": {func(r *agentdv1.SpawnRequest, _ *agentdv1.AgentSpec) { r.Description = strings.Repeat("x", 4<<20) }, "request", "TOO_LARGE"},
	} {
		t.Run(name, func(t *testing.T) {
			req := h.request("do it")
			c.change(req, req.GetSingle())
			_, err := all(h.agents.Spawn(h.ctx(), req))
			if field := refused(t, err, codes.InvalidArgument, c.reason); field != c.field {
				t.Errorf("field %q, want %q", field, c.field)
			}
		})
	}
	list, err := h.tasks.ListTasks(h.ctx(), &agentdv1.ListTasksRequest{})
	must(t, err)
	if len(list.GetTasks()) != 0 {
		t.Errorf("a refused spawn made %v", list.GetTasks())
	}
}

func TestTimeoutOverridesTheWallTime(t *testing.T) {
	h := newHouse(t, says("done"))
	req := h.request("do it")
	req.Timeout = durationpb.New(time.Minute)
	req.GetSingle().Budget = &agentdv1.Budget{WallTime: durationpb.New(time.Hour), Tokens: 1000}
	id, _ := h.follow(h.ctx(), req)
	got, err := h.tasks.GetTask(h.ctx(), &agentdv1.GetTaskRequest{TaskId: id})
	must(t, err)
	if b := got.GetTask().GetBudget(); b.GetWallTime().AsDuration() != time.Minute || b.GetTokens() != 1000 || b.GetMaxSteps() != 30 {
		t.Errorf("budget: %v", b)
	}
}

// proves O1
func TestOutputBeyondTheEnd(t *testing.T) {
	h := newHouse(t, says("done"))
	id := h.detached("do it")
	h.end(id)
	items, err := all(h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{TaskId: id}))
	must(t, err)
	last := items[0].GetTask().GetLastSeq()
	_, err = all(h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{TaskId: id, FromSeq: last + 1}))
	refused(t, err, codes.OutOfRange, "SEQ_OUT_OF_RANGE")
	items, err = all(h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{TaskId: id, FromSeq: last}))
	must(t, err)
	if len(items) != 3 || items[1].GetEntry().GetSeq() != last || items[2].GetOutcome() == nil {
		t.Errorf("from the last entry on: %v", items)
	}
}

func TestOutputRefusesWhatIsWrong(t *testing.T) {
	h := newHouse(t, says("done"))
	for field, req := range map[string]*agentdv1.TaskOutputRequest{
		"task_id":  {},
		"tail":     {TaskId: "sub-1", Tail: 1001},
		"deltas":   {TaskId: "sub-1", Deltas: true},
		"timeout":  {TaskId: "sub-1", Timeout: durationpb.New(time.Second)},
		"wait_for": {TaskId: "sub-1", WaitFor: 9},
	} {
		_, err := all(h.agents.TaskOutput(h.ctx(), req))
		if got := refused(t, err, codes.InvalidArgument, "INVALID_ARGUMENT"); got != field {
			t.Errorf("field %q, want %q", got, field)
		}
	}
	_, err := all(h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{TaskId: "sub-999"}))
	refused(t, err, codes.NotFound, "TASK_NOT_FOUND")
}

// proves M4
func TestMessageIsAcceptedThenDelivered(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	id := h.detached("do it")
	<-m.begun
	stream, err := h.agents.SendMessage(h.ctx(), &agentdv1.SendMessageRequest{
		To: id, Body: &agentdv1.SendMessageRequest_Text{Text: "hurry"}, Until: agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED,
	})
	must(t, err)
	accepted, err := stream.Recv()
	must(t, err)
	if accepted.GetState() != agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED || accepted.GetMessageId() == "" {
		t.Fatalf("first receipt: %v", accepted)
	}
	close(m.more)
	rest, err := all(stream, nil)
	must(t, err)
	if len(rest) != 1 || rest[0].GetState() != agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED {
		t.Fatalf("receipts: %v", rest)
	}
	h.end(id)
	items, err := all(h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{TaskId: id, FromSeq: rest[0].GetSeq()}))
	must(t, err)
	in := items[1].GetEntry().GetInput()
	if in.GetText() != "hurry" || in.GetFrom() != "team-lead" || in.GetMessageId() != accepted.GetMessageId() {
		t.Errorf("at the receipt's seq: %v", items[1])
	}
}

// proves M5
func TestMessageToTaskThatEndsIsUndeliverable(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	id := h.detached("do it")
	<-m.begun
	stream, err := h.agents.SendMessage(h.ctx(), &agentdv1.SendMessageRequest{
		To: id, Body: &agentdv1.SendMessageRequest_Text{Text: "hurry"}, Until: agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED,
	})
	must(t, err)
	_, err = stream.Recv()
	must(t, err)
	h.kill(id)
	rest, err := all(stream, nil)
	must(t, err)
	if len(rest) != 1 || rest[0].GetState() != agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE || rest[0].GetError() == "" {
		t.Errorf("receipts: %v", rest)
	}
	_, err = all(h.agents.SendMessage(h.ctx(), &agentdv1.SendMessageRequest{
		To: id, Body: &agentdv1.SendMessageRequest_Text{Text: "hurry"},
	}))
	refused(t, err, codes.FailedPrecondition, "TASK_ENDED")
}

// proves N8
func TestSendRefusesWhatIsWrong(t *testing.T) {
	h := newHouse(t, says("done"))
	text := func(s string) *agentdv1.SendMessageRequest_Text { return &agentdv1.SendMessageRequest_Text{Text: s} }
	for _, c := range []struct {
		field, reason string
		req           *agentdv1.SendMessageRequest
	}{
		{"body", "INVALID_ARGUMENT", &agentdv1.SendMessageRequest{To: "sub-1"}},
		{"to", "INVALID_ARGUMENT", &agentdv1.SendMessageRequest{Body: text("x")}},
		{"text", "INVALID_ARGUMENT", &agentdv1.SendMessageRequest{To: "sub-1", Body: text("")}},
		{"text", "TOO_LARGE", &agentdv1.SendMessageRequest{To: "sub-1", Body: text(strings.Repeat("x", 64<<10+1))}},
		{"delivery", "INVALID_ARGUMENT", &agentdv1.SendMessageRequest{To: "sub-1", Body: text("x"), Delivery: 9}},
		{"until", "INVALID_ARGUMENT", &agentdv1.SendMessageRequest{
			To: "sub-1", Body: text("x"), Until: agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE,
		}},
		{"ttl", "INVALID_ARGUMENT", &agentdv1.SendMessageRequest{To: "sub-1", Body: text("x"), Ttl: durationpb.New(-1)}},
		{"summary", "TOO_LARGE", &agentdv1.SendMessageRequest{To: "sub-1", Body: text("x"), Summary: strings.Repeat("x", 1025)}},
	} {
		_, err := all(h.agents.SendMessage(h.ctx(), c.req))
		if got := refused(t, err, codes.InvalidArgument, c.reason); got != c.field {
			t.Errorf("field %q, want %q", got, c.field)
		}
	}
	_, err := all(h.agents.SendMessage(h.ctx(), &agentdv1.SendMessageRequest{To: "nobody", Body: text("x")}))
	refused(t, err, codes.NotFound, "TEAM_NOT_FOUND")
	h.detached("do it")
	_, err = all(h.agents.SendMessage(h.ctx(), &agentdv1.SendMessageRequest{
		Workspace: h.workspace, To: "nobody", Body: text("x"),
	}))
	refused(t, err, codes.NotFound, "RECIPIENT_NOT_FOUND")
}

// kill stops a task at once and gives what the stream told.
func (h *house) kill(id string) []*agentdv1.TaskStopResponse {
	h.t.Helper()
	items, err := all(h.agents.TaskStop(h.ctx(), &agentdv1.TaskStopRequest{
		TaskId: id, Level: agentdv1.StopLevel_STOP_LEVEL_KILL, Reason: "enough",
	}))
	must(h.t, err)
	return items
}

// proves T4
// case STA-3
func TestStopIsIdempotent(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	id := h.detached("do it")
	<-m.begun
	for range 2 {
		items := h.kill(id)
		last := items[len(items)-1].GetTask()
		if last.GetState() != agentdv1.TaskState_TASK_STATE_KILLED || last.GetError() != "enough" ||
			last.GetReason() != agentdv1.TaskReason_TASK_REASON_STOPPED_BY_CLIENT {
			t.Errorf("last item: %v", last)
		}
	}
	done := newHouse(t, says("done"))
	id = done.detached("do it")
	done.end(id)
	if items := done.kill(id); len(items) != 1 || items[0].GetTask().GetState() != agentdv1.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("stop of what has ended: %v", items)
	}
}

func TestStopTellsProgress(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	id := h.detached("do it")
	<-m.begun
	stream, err := h.agents.TaskStop(h.ctx(), &agentdv1.TaskStopRequest{TaskId: id})
	must(t, err)
	first, err := stream.Recv()
	must(t, err)
	if p := first.GetProgress(); p.GetTasksRemaining() != 1 || p.GetLevel() != agentdv1.StopLevel_STOP_LEVEL_WRAP_UP {
		t.Errorf("first item: %v", first)
	}
	close(m.more)
	rest, err := all(stream, nil)
	must(t, err)
	if last := rest[len(rest)-1].GetTask(); last.GetEndedAt() == nil {
		t.Errorf("last item: %v", last)
	}
}

func TestStopRefusesWhatIsWrong(t *testing.T) {
	h := newHouse(t, says("done"))
	for field, req := range map[string]*agentdv1.TaskStopRequest{
		"task_id":         {},
		"level":           {TaskId: "sub-1", Level: 9},
		"wrap_up_timeout": {TaskId: "sub-1", WrapUpTimeout: durationpb.New(2 * time.Hour)},
		"cancel_timeout":  {TaskId: "sub-1", CancelTimeout: &durationpb.Duration{Seconds: 1, Nanos: -1}},
	} {
		_, err := all(h.agents.TaskStop(h.ctx(), req))
		if got := refused(t, err, codes.InvalidArgument, "INVALID_ARGUMENT"); got != field {
			t.Errorf("field %q, want %q", got, field)
		}
	}
	_, err := all(h.agents.TaskStop(h.ctx(), &agentdv1.TaskStopRequest{TaskId: "sub-999"}))
	refused(t, err, codes.NotFound, "TASK_NOT_FOUND")
}
