package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// proves M3
// case MSG-1: mail that comes while a tool runs is in the transcript at the next step boundary.
func TestMailAtTheStepBoundary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, play(call("gate", "{}", "ls", `{"path":"."}`), call("ls", `{"path":"."}`), text("done")), func(h *house) {
			id := h.spawn("x")
			<-g.entered
			h.must(h.send(id, "one"))
			h.must(h.send(id, "two"))
			close(g.open)
			h.ended(id, task.Completed, task.Done)
			var order []string
			for _, e := range h.entries(id) {
				order = append(order, strings.TrimPrefix(fmt.Sprintf("%T", e.Body), "*task."))
			}
			want := "Input StateChange Assistant CallStarted ToolResult CallStarted ToolResult Input Input Assistant CallStarted " +
				"ToolResult Assistant StateChange"
			if got := strings.Join(order, " "); got != want {
				h.t.Errorf("transcript: %s", got)
			}
			if got := strings.Join(h.inputs(id), ","); got != "x,one,two" {
				h.t.Errorf("inputs: %s", got)
			}
		}, with(g.tool("gate")))
	})
}

// proves M2: mail that is accepted during what would have been the last call keeps the task going.
func TestMailDuringTheLastCall(t *testing.T) {
	for _, last := range []model.Response{text("the end?"), call("report", `{"summary":"the end?"}`)} {
		synctest.Test(t, func(t *testing.T) { mailDuring(t, last) })
	}
}

func mailDuring(t *testing.T, last model.Response) {
	asked, sent := make(chan bool), make(chan bool)
	inside(t, func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		if len(req.Messages) == 2 {
			asked <- true
			<-sent
			return last, nil
		}
		return text("after " + req.Messages[len(req.Messages)-1].Text), nil
	}, func(h *house) {
		id := h.spawn("x")
		<-asked
		h.must(h.send(id, "one more thing"))
		close(sent)
		r := h.ended(id, task.Completed, task.Done)
		if got := h.inputs(id); len(got) != 2 || r.Usage.Steps != 2 {
			h.t.Errorf("inputs %q, %+v", got, r)
		}
	})
}

// proves R5, M4: mail that comes when no step is left to take it does not undo a conclusion.
func TestMailDuringTheOnlyStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, sent := make(chan bool), make(chan bool)
		inside(t, func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
			asked <- true
			<-sent
			return text("all in one"), nil
		}, func(h *house) {
			id := h.spawn("x", steps(1))
			<-asked
			h.must(h.send(id, "one more thing"))
			close(sent)
			r := h.ended(id, task.Completed, task.Done)
			if got := h.inputs(id); len(got) != 1 || r.Summary != "all in one" {
				h.t.Errorf("inputs %q, %+v", got, r)
			}
		})
	})
}

// proves M12: mail to a queued task is taken with its opening; what has ended or is stopping takes none.
func TestMailToQueuedStoppingAndEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		deaf := prop{name: "deaf", run: func(context.Context, tool.Call) (tool.Answer, error) {
			g.entered <- ""
			<-g.open
			return tool.Answer{Text: "at last"}, nil
		}}
		inside(t, cast(map[string]modelFunc{"busy": play(call("deaf", "{}"), text("done")), "late": echoInputs}), func(h *house) {
			busy := h.spawn("busy")
			<-g.entered
			late := h.spawn("late")
			h.must(h.send(late, "mail"))
			stopped := make(chan error)
			go func() { stopped <- h.stopTask(busy, task.WrapUp) }()
			h.untilState(busy, task.Stopping)
			if err := h.send(busy, "x"); !errdefs.Is(err, errdefs.TaskStopping) {
				h.t.Errorf("mail to a stopping task: %v", err)
			}
			close(g.open)
			h.must(<-stopped)
			if r := h.ended(late, task.Completed, task.Done); !strings.HasPrefix(r.Summary, "late\n\n<teammate-message ") || !strings.Contains(r.Summary, ">\nmail\n<") {
				h.t.Errorf("told: %q", r.Summary)
			}
			if err := h.send(late, "x"); !errdefs.Is(err, errdefs.TaskEnded) {
				h.t.Errorf("mail to an ended task: %v", err)
			}
			if err := h.send("sub-999999", "x"); !errdefs.Is(err, errdefs.RecipientNotFound) {
				h.t.Errorf("mail to nobody: %v", err)
			}
		}, slots(1), with(deaf))
	})
}

// proves M11
// case MSG-13: a burst is delivered in order up to the bound and refused beyond it; room comes back as mail is taken.
func TestMailboxIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, play(call("gate", "{}"), text("read it")), func(h *house) {
			id := h.spawn("x")
			<-g.entered
			want := []string{"x"}
			for i := range mailbox.MaxUnread {
				want = append(want, fmt.Sprint("mail ", i))
				h.must(h.send(id, want[i+1]))
			}
			if err := h.send(id, "one too many"); !errdefs.Is(err, errdefs.MailboxFull) {
				h.t.Errorf("beyond the bound: %v", err)
			}
			close(g.open)
			h.ended(id, task.Completed, task.Done)
			if got := h.inputs(id); !slices.Equal(got, want) {
				h.t.Errorf("%d inputs, not the %d accepted in order", len(got), len(want))
			}
			row, err := h.journal.Task(context.Background(), id)
			h.must(err)
			inbox, err := h.journal.Inbox(context.Background(), row.Value.Team, id)
			h.must(err)
			if inbox.Value != (mailbox.Unread{}) {
				h.t.Errorf("after all was taken: %+v", inbox.Value)
			}
		}, with(g.tool("gate")))
	})
}
