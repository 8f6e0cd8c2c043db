package runtime_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// TestCrewSends: a teammate writes to the names of its team, to the leader, the user, all, and what it started itself; the lead
// to any agent. Each refusal says what is allowed. proves P2, P4
func TestCrewSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		say := func(to, more string) string { return `{"to":"` + to + `","text":"hello"` + more + `}` }
		var own, others string
		inside(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			switch {
			case strings.Contains(req.Messages[1].Text, "hang"):
				return hang(ctx, req, sink)
			case strings.HasPrefix(req.Messages[1].Text, "ann") && stepsOf(req) == 0:
				return call("send_message", say("BOB", ""), "send_message", say("team-lead", ""), "send_message", say("user", ""),
					"send_message", say("bop", ""), "send_message", say("Ann", ""), "send_message", say(others, ""),
					"send_message", say("bob", `,"delivery":"interrupt"`), "send_message", say("sh-999", ""),
					"send_message", `{"to":"bob","kind":"shutdown_request"}`), nil
			case strings.HasPrefix(req.Messages[1].Text, "ann") && stepsOf(req) == 1:
				return call("subagent", `{"task":"hang","background":true}`), nil
			case strings.HasPrefix(req.Messages[1].Text, "ann") && stepsOf(req) == 2:
				_, rest, _ := strings.Cut(req.Messages[len(req.Messages)-1].Text, `"task_id":"`)
				own, _, _ = strings.Cut(rest, `"`)
				return call("send_message", say(own, "")), nil
			case strings.HasPrefix(req.Messages[1].Text, "boss") && stepsOf(req) == 0:
				return call("send_message", say(own, ""), "send_message", say("ann", `,"delivery":"interrupt"`)), nil
			}
			return text("done"), nil
		}, func(h *house) {
			bob, lone := h.spawn("bob", mate("bob")), h.spawn("hang")
			others = string(lone)
			h.untilState(bob, task.Idle)
			ann := h.spawn("ann", mate("ann"))
			h.untilSteps(ann, 4, task.Idle)
			got := h.results(ann)
			for id, want := range map[string]string{
				"c00000001": `"woken":true`, "c00000002": `"message_id"`, "c00000003": `"message_id"`,
				"c00000004": `"NOT_FOUND","message":"nobody is called \"bop\" here`, "c00000005": "that is you",
				"c00000006": "NOT_GRANTED", "c00000007": `"allowed":["step","turn"]`, "c00000008": "NOT_FOUND",
				"c00000009": "NOT_GRANTED", "c00000011": `"message_id"`,
			} {
				if r := got[id]; r == nil || !strings.Contains(r.Text, want) {
					t.Errorf("%s: %+v, not %s", id, r, want)
				}
			}
			if !strings.Contains(got["c00000004"].Text, `"allowed":["bob","team-lead","user","*"]`) {
				t.Errorf("bop: %s", got["c00000004"].Text)
			}
			if n := h.took(bob, task.Text); n != 1 {
				t.Errorf("bob took %d messages", n)
			}
			boss := h.spawn("boss", lead)
			h.untilSteps(boss, 2, task.Idle)
			for id, r := range h.results(boss) {
				if r.IsError {
					t.Errorf("%s: %s", id, r.Text)
				}
			}
		})
	})
}

// proves D5: a message that an agent sends is one message, however often the call runs.
func TestCrewSendsOnce(t *testing.T) {
	walk(t, 5, func(t *testing.T, n int) (over bool) {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, play(call("send_message", `{"to":"user","text":"hello"}`), text("done")), inBubble)
			h.cut.after(n)
			first := h.cut
			id := h.spawnAs(task.TeammateSpec{Name: "ann"})
			h.reaches("rest", func() bool { return h.task(id).State == task.Idle })
			if got := h.leaderMail(id, task.Text); len(got) != 1 || got[0].From != "ann" {
				t.Errorf("the user got %+v", got)
			}
			if r := h.results(id)["c00000001"]; r == nil || r.IsError {
				t.Errorf("answer: %+v", r)
			}
			over = h.cut == first
		})
		return over
	})
}

// proves N7: a retry of a control message gives its first outcome, with the control id, also after a restart.
func TestControlRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, hang, func(h *house) {
			id := h.spawn("x", mate("ann"))
			h.untilState(id, task.Running)
			ask := runtime.ControlRequest{RequestID: "once", To: "ann", Kind: task.ShutdownRequest, Text: "done"}
			first, err := h.control(ask)
			h.must(err)
			h.restart()
			h.untilTook(id, task.ShutdownRequest, 1, task.Running)
			again, err := h.control(ask)
			h.calm()
			if n := h.took(id, task.ShutdownRequest); err != nil || again != first || n != 1 || h.unread(id) != 0 {
				t.Errorf("%+v, then %+v, %v; %d were taken, %d are unread", first, again, err, n, h.unread(id))
			}
			ask.Text = "other"
			if _, err := h.control(ask); !errdefs.Is(err, errdefs.RequestIDReused) {
				t.Errorf("another body: %v", err)
			}
		})
	})
}
