package server

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime/model"
)

// scribe is a model that writes the file that it is told of as `write NAME`, and says "heard" to all else.
func scribe(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	_, name, found := strings.Cut(last.Text, "write ")
	if last.Role != model.User || !found {
		return says("heard")(ctx, req, sink)
	}
	name, _, _ = strings.Cut(name, "\n")
	args, err := json.Marshal(map[string]string{"path": name, "content": "by " + name})
	return model.Response{
		Finish: model.FinishCalls, Calls: []model.ToolCall{{ID: "p0", Name: "write", Arguments: string(args)}},
		Usage: model.Usage{InputTokens: 10, OutputTokens: 5},
	}, err
}

// client is one client of the house, with a workspace of its own.
type client struct {
	h         *house
	workspace string
	agents    agentdv1.AgentServiceClient
	tasks     agentdv1.TaskServiceClient
	teams     agentdv1.TeamServiceClient
}

// join makes a client with a directory.
func (h *house) join() client {
	h.t.Helper()
	workspace, err := filepath.EvalSymlinks(h.t.TempDir())
	must(h.t, err)
	conn := h.dial()
	return client{
		h, workspace, agentdv1.NewAgentServiceClient(conn), agentdv1.NewTaskServiceClient(conn),
		agentdv1.NewTeamServiceClient(conn),
	}
}

// mate is the spawn of a teammate.
func (c client) mate(name, prompt string) *agentdv1.SpawnRequest {
	return &agentdv1.SpawnRequest{Workspace: c.workspace, Mode: &agentdv1.SpawnRequest_Teammate{
		Teammate: &agentdv1.Teammate{Name: name, Agent: &agentdv1.AgentSpec{Prompt: prompt}},
	}}
}

// lead is the spawn of the lead.
func (c client) lead(prompt string, untilQuiet bool) *agentdv1.SpawnRequest {
	return &agentdv1.SpawnRequest{Workspace: c.workspace, Mode: &agentdv1.SpawnRequest_Lead{
		Lead: &agentdv1.Lead{Agent: &agentdv1.AgentSpec{Prompt: prompt}, UntilQuiet: untilQuiet},
	}}
}

// spawn follows a spawn to its end and gives the first and the last item.
func (c client) spawn(req *agentdv1.SpawnRequest) (*agentdv1.Task, *agentdv1.SpawnResponse) {
	c.h.t.Helper()
	items, err := all(c.agents.Spawn(c.h.ctx(), req))
	must(c.h.t, err)
	return items[0].GetTask(), items[len(items)-1]
}

// text is a message of text.
func (c client) text(to, text string) *agentdv1.SendMessageRequest {
	return &agentdv1.SendMessageRequest{
		Workspace: c.workspace, To: to, Body: &agentdv1.SendMessageRequest_Text{Text: text},
		Until: agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED,
	}
}

// send sends a message and gives the last receipt.
func (c client) send(req *agentdv1.SendMessageRequest) *agentdv1.SendMessageResponse {
	c.h.t.Helper()
	receipts, err := all(c.agents.SendMessage(c.h.ctx(), req))
	must(c.h.t, err)
	return receipts[len(receipts)-1]
}

// files are the names of what is in the workspace.
func (c client) files() string {
	c.h.t.Helper()
	entries, err := os.ReadDir(c.workspace)
	must(c.h.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// roster is the names of the teammates in their order.
func (c client) roster() string {
	c.h.t.Helper()
	list, err := c.teams.ListTeammates(c.h.ctx(), &agentdv1.ListTeammatesRequest{Workspace: c.workspace})
	must(c.h.t, err)
	var names []string
	for _, m := range list.GetTeammates() {
		names = append(names, m.GetName())
		if m.GetTask().GetWorkspace() != c.workspace {
			c.h.t.Errorf("%s works in %s", m.GetName(), m.GetTask().GetWorkspace())
		}
	}
	return strings.Join(names, " ")
}

// Two clients with two repositories and one daemon: the same names in both, and nobody lands in the other's directory. proves N1
func TestTwoRepositories(t *testing.T) {
	h := newHouse(t, play(scribe))
	one, two := h.join(), h.join()
	for name, c := range map[string]client{"one": one, "two": two} {
		for _, req := range []*agentdv1.SpawnRequest{c.lead("write lead-"+name, false), c.mate("Ann", "write ann-"+name)} {
			if _, last := c.spawn(req); last.GetIdle().GetText() != "heard" {
				t.Errorf("%s: the stream ends with %v", name, last)
			}
		}
	}
	for name, c := range map[string]client{"one": one, "two": two} {
		for _, to := range []string{"ann", "team-lead"} {
			if r := c.send(c.text(to, "write to-"+to+"-"+name)); r.GetState() != agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED {
				t.Errorf("%s in %s: %v", to, name, r)
			}
		}
		if got := c.roster(); got != "team-lead Ann" {
			t.Errorf("the roster of %s: %s", name, got)
		}
	}
	for name, c := range map[string]client{"one": one, "two": two} {
		want := []string{"lead-" + name, "ann-" + name, "to-ann-" + name, "to-team-lead-" + name}
		slices.Sort(want)
		if got := c.files(); got != strings.Join(want, " ") {
			t.Errorf("in the workspace of %s there are: %s", name, got)
		}
	}
}

// A teammate's life over the API: its first turn, a message and its receipts, the list, the transcript, its dismissal.
func TestTeammateOverTheAPI(t *testing.T) {
	h := newHouse(t, play(scribe))
	c := h.join()
	mate, last := c.spawn(c.mate("Ann", "hello"))
	if mate.GetName() != "Ann" || mate.GetAgentId() != "Ann@"+mate.GetTeam() || mate.GetColor() == "" ||
		last.GetIdle().GetTaskId() != mate.GetId() || last.GetIdle().GetSeq() == 0 {
		t.Fatalf("spawned %v, last %v", mate, last)
	}
	receipt := c.send(c.text("ANN", "how are you"))
	if receipt.GetRecipient() != "Ann" || receipt.GetText() != "heard" || receipt.GetSeq() == 0 {
		t.Errorf("the last receipt: %v", receipt)
	}
	again, err := c.tasks.GetMessageReceipts(h.ctx(), &agentdv1.GetMessageReceiptsRequest{MessageId: receipt.GetMessageId()})
	must(t, err)
	if len(again.GetReceipts()) != 1 || again.GetReceipts()[0].GetState() != receipt.GetState() ||
		again.GetReceipts()[0].GetText() != "heard" {
		t.Errorf("asked again: %v", again)
	}
	list, err := c.tasks.ListTasks(h.ctx(), &agentdv1.ListTasksRequest{
		Kind: agentdv1.TaskKind_TASK_KIND_TEAMMATE, State: agentdv1.TaskState_TASK_STATE_IDLE,
	})
	must(t, err)
	if len(list.GetTasks()) != 1 || list.GetTasks()[0].GetId() != mate.GetId() {
		t.Errorf("idle teammates: %v", list)
	}
	waited, err := all(c.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{
		TaskId: mate.GetId(), WaitFor: agentdv1.WaitFor_WAIT_FOR_IDLE,
	}))
	must(t, err)
	if waited[len(waited)-1].GetIdle() == nil {
		t.Errorf("the last item of the wait: %v", waited[len(waited)-1])
	}
	c.checkTranscript("ann", "how are you")
	c.checkDismissal("Ann")
}

// checkTranscript exports a teammate's transcript by its name.
func (c client) checkTranscript(name, text string) {
	c.h.t.Helper()
	items, err := all(c.teams.ExportTranscript(c.h.ctx(), &agentdv1.ExportTranscriptRequest{TaskId: name, Workspace: c.workspace}))
	must(c.h.t, err)
	told := slices.ContainsFunc(items, func(i *agentdv1.ExportTranscriptResponse) bool {
		return i.GetEntry().GetInput().GetText() == text
	})
	if items[0].GetTask() == nil || !told {
		c.h.t.Errorf("the transcript: %v", items)
	}
}

// checkDismissal dismisses a teammate: no message revives it.
func (c client) checkDismissal(name string) {
	c.h.t.Helper()
	req := &agentdv1.DismissTeammateRequest{
		RequestId: "once", Workspace: c.workspace, Name: name, Level: agentdv1.StopLevel_STOP_LEVEL_CANCEL, Reason: "enough",
	}
	for range 2 {
		gone, err := c.teams.DismissTeammate(c.h.ctx(), req)
		must(c.h.t, err)
		if m := gone.GetTeammate(); !m.GetDismissed() || m.GetAsleep() == "" || m.GetTask().GetEndedAt() == nil {
			c.h.t.Errorf("dismissed: %v", m)
		}
	}
	shown, err := c.teams.GetTeammate(c.h.ctx(), &agentdv1.GetTeammateRequest{Workspace: c.workspace, Name: strings.ToUpper(name)})
	must(c.h.t, err)
	if !shown.GetTeammate().GetDismissed() || shown.GetTeammate().GetName() != name {
		c.h.t.Errorf("shown: %v", shown)
	}
	_, err = all(c.agents.SendMessage(c.h.ctx(), c.text(name, "wake up")))
	refused(c.h.t, err, codes.FailedPrecondition, "NOT_REVIVABLE")
}

// A message to all has receipts of each.
func TestBroadcastOverTheAPI(t *testing.T) {
	h := newHouse(t, play(scribe))
	c := h.join()
	for _, name := range []string{"Ann", "Bob"} {
		c.spawn(c.mate(name, "hello"))
	}
	receipts, err := all(c.agents.SendMessage(h.ctx(), c.text("*", "all of you")))
	must(t, err)
	answered := map[string]bool{}
	for _, r := range receipts {
		if r.GetState() == agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED {
			answered[r.GetRecipient()] = true
		}
	}
	if !answered["Ann"] || !answered["Bob"] || len(answered) != 2 {
		t.Errorf("receipts: %v", receipts)
	}
}

// A lead that is to end when its team is quiet ends its stream with the outcome.
func TestLeadUntilQuiet(t *testing.T) {
	h := newHouse(t, play(scribe))
	c := h.join()
	lead, last := c.spawn(c.lead("do it", true))
	if o := last.GetOutcome(); lead.GetName() != "team-lead" || o.GetState() != agentdv1.TaskState_TASK_STATE_COMPLETED ||
		o.GetSummary() != "heard" {
		t.Errorf("%v ended with %v", lead, last)
	}
}

// The leader inbox is read by any number of clients, and acknowledged by one. proves M10 as far as one client goes
func TestInboxOverTheAPI(t *testing.T) {
	h := newHouse(t, play(scribe))
	c := h.join()
	follow, err := c.teams.ReadInbox(h.ctx(), &agentdv1.ReadInboxRequest{Workspace: c.workspace, Follow: true})
	must(t, err)
	_, err = follow.Recv()
	refused(t, err, codes.NotFound, "TEAM_NOT_FOUND")
	mate, _ := c.spawn(c.mate("Ann", "hello"))
	follow, err = c.teams.ReadInbox(h.ctx(), &agentdv1.ReadInboxRequest{Workspace: c.workspace, Follow: true})
	must(t, err)
	first, err := follow.Recv()
	must(t, err)
	m := first.GetMessage()
	if m.GetKind() != agentdv1.MessageKind_MESSAGE_KIND_IDLE || m.GetTaskId() != mate.GetId() || m.GetText() != "heard" ||
		m.GetPos() == 0 || m.GetAcked() {
		t.Errorf("the notice: %v", m)
	}
	c.send(&agentdv1.SendMessageRequest{
		Workspace: c.workspace, To: "user", Body: &agentdv1.SendMessageRequest_Text{Text: "note"}, Summary: "a note",
	})
	second, err := follow.Recv()
	must(t, err)
	if n := second.GetMessage(); n.GetText() != "note" || n.GetTo() != "user" || n.GetSummary() != "a note" ||
		n.GetKind() != agentdv1.MessageKind_MESSAGE_KIND_TEXT {
		t.Errorf("the message to the user: %v", n)
	}
	acked, err := c.teams.AckInbox(h.ctx(), &agentdv1.AckInboxRequest{Workspace: c.workspace, UpTo: second.GetMessage().GetPos()})
	must(t, err)
	if acked.GetUnread() != 0 {
		t.Errorf("unread after it: %v", acked)
	}
	unread, err := all(c.teams.ReadInbox(h.ctx(), &agentdv1.ReadInboxRequest{Workspace: c.workspace, Unread: true}))
	must(t, err)
	if len(unread) != 0 {
		t.Errorf("not acknowledged: %v", unread)
	}
}

// Control messages name their fields as the request has them, and take nothing that is of text only.
func TestControlRefusals(t *testing.T) {
	h := newHouse(t, play(scribe))
	c := h.join()
	c.spawn(c.mate("Ann", "hello"))
	ask := func(more func(*agentdv1.SendMessageRequest)) *agentdv1.SendMessageRequest {
		req := &agentdv1.SendMessageRequest{Workspace: c.workspace, To: "Ann", Body: &agentdv1.SendMessageRequest_ShutdownRequest{
			ShutdownRequest: &agentdv1.ShutdownRequest{},
		}}
		more(req)
		return req
	}
	shutdown := func(w *agentdv1.ShutdownRequest) *agentdv1.SendMessageRequest {
		return ask(func(r *agentdv1.SendMessageRequest) {
			r.Body = &agentdv1.SendMessageRequest_ShutdownRequest{ShutdownRequest: w}
		})
	}
	for want, req := range map[string]*agentdv1.SendMessageRequest{
		"delivery":                  ask(func(r *agentdv1.SendMessageRequest) { r.Delivery = agentdv1.Delivery_DELIVERY_TURN }),
		"ttl":                       ask(func(r *agentdv1.SendMessageRequest) { r.Ttl = durationpb.New(time.Second) }),
		"in_reply_to":               ask(func(r *agentdv1.SendMessageRequest) { r.InReplyTo = "m-1" }),
		"shutdown_request.deadline": shutdown(&agentdv1.ShutdownRequest{Deadline: durationpb.New(2 * time.Hour)}),
		"plan_response.control_id": ask(func(r *agentdv1.SendMessageRequest) {
			r.Body = &agentdv1.SendMessageRequest_PlanResponse{PlanResponse: &agentdv1.PlanResponse{}}
		}),
		"shutdown_response.control_id": ask(func(r *agentdv1.SendMessageRequest) {
			r.Body = &agentdv1.SendMessageRequest_ShutdownResponse{ShutdownResponse: &agentdv1.ShutdownResponse{}}
		}),
	} {
		_, err := all(c.agents.SendMessage(h.ctx(), req))
		if got := refused(t, err, codes.InvalidArgument, "INVALID_ARGUMENT"); got != want {
			t.Errorf("the field is %q, want %q", got, want)
		}
	}
	long := shutdown(&agentdv1.ShutdownRequest{Reason: strings.Repeat("x", 1025)})
	_, err := all(c.agents.SendMessage(h.ctx(), long))
	if got := refused(t, err, codes.InvalidArgument, "TOO_LARGE"); got != "shutdown_request.reason" {
		t.Errorf("the field is %q", got)
	}
}

// A watch tells of who joins a roster and who is dismissed. proves O3
func TestWatchTellsOfTheRoster(t *testing.T) {
	h := newHouse(t, play(scribe))
	c := h.join()
	next := h.watch(h.ctx(), "", "")
	next()
	mate, _ := c.spawn(c.mate("Ann", "hello"))
	c.checkDismissal("Ann")
	var told []string
	for len(told) < 2 {
		if e := next().GetEvent(); e.GetRoster() != nil {
			told = append(told, e.GetRoster().GetName()+" "+e.GetRoster().GetEvent().String())
			if e.GetTaskId() != mate.GetId() || e.GetTeam() != mate.GetTeam() {
				t.Errorf("the event: %v", e)
			}
		}
	}
	if got := strings.Join(told, ", "); got != "Ann ROSTER_EVENT_JOINED, Ann ROSTER_EVENT_DISMISSED" {
		t.Errorf("told: %s", got)
	}
}
