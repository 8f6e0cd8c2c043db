package server

import (
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// watch begins a watch and gives its stream.
func (h *house) watch(ctx context.Context, team, cursor string) func() *agentdv1.WatchResponse {
	h.t.Helper()
	stream, err := agentdv1.NewEventServiceClient(h.dial()).Watch(ctx, &agentdv1.WatchRequest{Team: team, Cursor: cursor})
	must(h.t, err)
	return func() *agentdv1.WatchResponse {
		h.t.Helper()
		item, err := stream.Recv()
		must(h.t, err)
		return item
	}
}

// proves O3
func TestWatchTellsAndResumes(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	ctx, leave := context.WithCancel(h.ctx())
	next := h.watch(ctx, "", "")
	first := next()
	if first.GetCursor() == "" || first.Item != nil {
		t.Fatalf("the first item is %v", first)
	}
	id := h.detached("do it")
	made := next().GetEvent()
	if made.GetTaskId() != id || made.GetTeam() == "" || made.GetTime() == nil ||
		made.GetState().GetFrom() != agentdv1.TaskState_TASK_STATE_UNSPECIFIED ||
		made.GetState().GetTo() != agentdv1.TaskState_TASK_STATE_QUEUED {
		t.Errorf("made: %v", made)
	}
	started := next()
	if to := started.GetEvent().GetState().GetTo(); to != agentdv1.TaskState_TASK_STATE_RUNNING {
		t.Errorf("started: %v", started)
	}
	leave()
	<-m.begun
	receipt, err := all(h.agents.SendMessage(h.ctx(), &agentdv1.SendMessageRequest{
		To: id, Body: &agentdv1.SendMessageRequest_Text{Text: "hi"},
	}))
	must(t, err)
	close(m.more)
	h.end(id)
	next = h.watch(h.ctx(), "", started.GetCursor())
	if item := next(); item.GetCursor() != started.GetCursor() || item.Item != nil {
		t.Errorf("resumed: %v", item)
	}
	if mail := next().GetEvent(); mail.GetTaskId() != id || mail.GetMessageId() != receipt[0].GetMessageId() {
		t.Errorf("mail: %v", mail)
	}
	if ended := next().GetEvent().GetState(); ended.GetTo() != agentdv1.TaskState_TASK_STATE_COMPLETED ||
		ended.GetReason() != agentdv1.TaskReason_TASK_REASON_DONE {
		t.Errorf("ended: %v", ended)
	}
	one := h.watch(h.ctx(), made.GetTeam(), "")
	if item := one(); item.GetCursor() == "" || item.Item != nil {
		t.Errorf("of one team: %v", item)
	}
}

func TestWatchRefusals(t *testing.T) {
	h := newHouse(t, says("done"))
	client := agentdv1.NewEventServiceClient(h.dial())
	_, err := all(client.Watch(h.ctx(), &agentdv1.WatchRequest{Team: "nobody"}))
	refused(t, err, codes.NotFound, "TEAM_NOT_FOUND")
	_, err = all(client.Watch(h.ctx(), &agentdv1.WatchRequest{Cursor: "garbage"}))
	if field := refused(t, err, codes.InvalidArgument, "INVALID_ARGUMENT"); field != "cursor" {
		t.Errorf("the field is %q", field)
	}
	other := newHouse(t, says("done"))
	gap := h.watch(h.ctx(), "", other.watch(other.ctx(), "", "")().GetCursor())()
	if gap.GetGap().GetReason() == "" || gap.GetCursor() == "" {
		t.Errorf("a cursor of another store: %v", gap)
	}
}

// A stop of the server ends a watch in a way that lets clients come back.
func TestStopOfTheServerEndsWatches(t *testing.T) {
	h := newHouse(t, says("done"))
	stream, err := agentdv1.NewEventServiceClient(h.dial()).Watch(h.ctx(), &agentdv1.WatchRequest{})
	must(t, err)
	_, err = stream.Recv()
	must(t, err)
	h.stop()
	_, err = all(stream, nil)
	refused(t, err, codes.Unavailable, "SHUTTING_DOWN")
}

// group is a spawn of agents side by side.
func (h *house) group(prompts ...string) *agentdv1.SpawnRequest {
	var items []*agentdv1.AgentSpec
	for _, p := range prompts {
		items = append(items, &agentdv1.AgentSpec{Prompt: p})
	}
	return &agentdv1.SpawnRequest{
		Workspace: h.workspace, Mode: &agentdv1.SpawnRequest_Parallel{Parallel: &agentdv1.Parallel{Items: items}},
	}
}

// The stream of a group has a notice of each child's change, and its outcome names the children in the order asked for.
func TestStreamOfAGroup(t *testing.T) {
	h := newHouse(t, says("done"))
	id, stream := h.follow(h.ctx(), h.group("one", "two"))
	items, err := all(stream, nil)
	must(t, err)
	ended := map[string]int{}
	for _, item := range items {
		if n := item.GetEntry().GetNotice(); n.GetState() == agentdv1.TaskState_TASK_STATE_COMPLETED {
			ended[n.GetTaskId()]++
		}
	}
	outcome := items[len(items)-1].GetOutcome()
	if outcome.GetTaskId() != id || outcome.GetState() != agentdv1.TaskState_TASK_STATE_COMPLETED ||
		len(outcome.GetChildren()) != 2 || len(ended) != 2 {
		t.Errorf("outcome %v, notices of %v", outcome, ended)
	}
	for _, child := range outcome.GetChildren() {
		if ended[child] != 1 {
			t.Errorf("%s: %d notices", child, ended[child])
		}
	}
}

// Clients that stall, drop or come late do not change what is stored: the transcript is the same for all.
//
// case OUT-3
func TestClientsDoNotChangeWhatIsStored(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	id := h.detached("do it")
	<-m.begun
	var leavers []context.CancelFunc
	for range 3 {
		ctx, leave := context.WithCancel(h.ctx())
		stream, err := h.agents.TaskOutput(ctx, &agentdv1.TaskOutputRequest{TaskId: id, Follow: true, Deltas: true})
		must(t, err)
		_, err = stream.Recv() // and nothing more
		must(t, err)
		leavers = append(leavers, leave)
	}
	leavers[0]()
	close(m.more)
	h.end(id)
	read := func() []string {
		items, err := all(h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{TaskId: id}))
		must(t, err)
		var texts []string
		for _, item := range items {
			if e := item.GetEntry(); e != nil {
				texts = append(texts, e.String())
			}
		}
		return texts
	}
	before := read()
	for _, leave := range leavers {
		leave()
	}
	if after := read(); !slices.Equal(after, before) || len(before) < 3 {
		t.Errorf("stored was %s, is %s", strings.Join(before, "; "), strings.Join(after, "; "))
	}
}
