package runtime_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// proves M1, N5
// case MSG-4: a lead ends, and what is sent to it meanwhile stays: a teammate's word revives it not, a client's does, and a new
// lead takes over what the old one has not read. The backlog comes in order, new mail too, and both directions work.
func TestLeaderRestarts(t *testing.T) {
	h := newHouse(t, cast(map[string]modelFunc{
		"lead":   echo,
		"second": boss(call("send_message", `{"to":"ann","text":"welcome"}`), text("over")),
		"ann": func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			last := req.Messages[len(req.Messages)-1]
			if _, n, found := strings.Cut(last.Text, "\ntell "); found && last.Role == model.User { // beside other mail, perhaps
				n, _, _ = strings.Cut(n, "\n")
				return call("send_message", `{"to":"team-lead","text":"word `+n+`"}`), nil
			}
			return text(""), nil
		},
	}))
	first := h.spawn("lead", lead)
	ann := h.spawn("ann", mate("ann"))
	h.untilState(first, task.Idle)
	h.must(h.stopTask(first, task.Kill))
	for _, n := range []string{"1", "2"} {
		h.tell(ann, n)
	}
	if got := h.task(first); got.State != task.Killed || got.Incarnation != 1 {
		t.Errorf("a teammate's word revived the lead: %s", got.State)
	}
	h.restart()
	if _, err := h.write("team-lead", "come back"); err != nil {
		t.Fatal(err)
	}
	h.untilTook(first, task.Text, 3, task.Idle)
	if got := h.read(first); !slices.Equal(got, []string{"lead", "come back", "word 1", "word 2"}) {
		t.Errorf("the old lead read %q", got)
	}
	h.tell(ann, "3")
	h.untilTook(first, task.Text, 4, task.Idle)
	h.must(h.stopTask(first, task.Kill))
	h.tell(ann, "4")
	second := h.spawn("second", lead)
	h.untilTook(second, task.Text, 1, task.Idle)
	h.tell(ann, "5")
	h.untilTook(second, task.Text, 2, task.Idle)
	if got := h.read(second); !slices.Equal(got, []string{"second", "word 4", "word 5"}) {
		t.Errorf("the new lead read %q", got)
	}
	h.untilSaid(ann, "", task.Idle)
	if got := h.inputs(ann); !slices.Contains(got, "welcome") {
		t.Errorf("ann read %q", got)
	}
}

// read is what a lead was given, without the notices that have nothing to say.
func (h *house) read(id task.ID) []string {
	h.t.Helper()
	return slices.DeleteFunc(h.inputs(id), func(text string) bool { return text == "" })
}

// tell has a teammate write to the lead, and waits until it rests again.
func (h *house) tell(ann task.ID, n string) {
	h.t.Helper()
	if err := h.send(ann, "tell "+n); err != nil {
		h.t.Fatal(err)
	}
	h.until(ann, "word "+n, func(t task.Task, entries []task.Entry) bool {
		told := false
		for _, e := range entries {
			if a, ok := e.Body.(*task.Assistant); ok && len(a.Calls) > 0 {
				told = told || strings.Contains(a.Calls[0].Arguments, "word "+n)
			}
		}
		return told && t.State == task.Idle
	})
}

// proves M1: mail that was about to be put into the inbox of no living lead is not, once there is one: it would wake nobody.
func TestLeadComesWhileMailIsOnItsWay(t *testing.T) {
	bubble(t, echo, func(h *house) {
		h.spawnTeam()
		ctx, in := context.Background(), h.task("sub-1").Team
		post := team.NewPost(h.journal)
		late := func(comes func()) {
			h.t.Helper()
			to, err := post.Registry.Find(ctx, in, task.LeadName)
			h.must(err)
			b := h.journal.Batch(in)
			_, err = post.Deliver(ctx, b, to, mailbox.Message{ID: "m-1", From: "ann", FromTask: "tm-9", Text: "late", Sent: b.Now()})
			h.must(err)
			comes()
			if err := h.journal.Commit(ctx, b); !errdefs.Is(err, errdefs.Conflict) {
				h.t.Errorf("it was put there: %v", err)
			}
		}
		var id task.ID
		late(func() { // the first
			id = h.spawn("lead", lead)
			h.untilState(id, task.Idle)
		})
		h.must(h.stopTask(id, task.Kill))
		late(func() { // the same again
			_, err := h.write("team-lead", "come back")
			h.must(err)
			h.untilTook(id, task.Text, 1, task.Idle)
		})
		h.must(h.stopTask(id, task.Kill))
		late(func() { h.untilState(h.spawn("lead", lead), task.Idle) }) // another one
	})
}
