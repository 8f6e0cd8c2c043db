package runtime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/task"
)

// dismiss ends a teammate of the workspace's team for good.
func (h *house) dismiss(name string, more ...func(*runtime.DismissRequest)) error {
	req := runtime.DismissRequest{Caller: "test", Workspace: h.workspace, Name: name}
	for _, m := range more {
		m(&req)
	}
	return h.sup.Dismiss(context.Background(), req)
}

// proves W3: a dismissed teammate is stopped, whatever it does, and no message revives it, also after a restart; its name is
// free.
func TestDismissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, cast(map[string]modelFunc{"echo": echo, "hang": hang}), func(h *house) {
			works, rests, ended := h.spawn("hang", mate("works")), h.spawn("echo", mate("rests")), h.spawn("echo", mate("ended"))
			boss := h.spawn("echo", lead)
			h.untilState(works, task.Running)
			h.untilState(rests, task.Idle)
			h.untilState(ended, task.Idle)
			h.must(h.stopTask(ended, task.Kill))
			for name, id := range map[string]task.ID{"WORKS": works, "rests": rests, "ended": ended, task.LeadName: boss} {
				for range 2 { // it is idempotent
					if err := h.dismiss(name); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
				if s := h.task(id); s.State != task.Killed || s.Reason != task.StoppedByClient {
					t.Errorf("%s is %s %s", name, s.State, s.Reason)
				}
				if _, err := h.write(name, "come back"); name != task.LeadName && !errdefs.Is(err, errdefs.NotRevivable) {
					t.Errorf("mail to %s: %v", name, err)
				}
			}
			h.restart()
			for _, name := range []string{"works", "rests", "ended"} {
				if _, err := h.write(name, "come back"); !errdefs.Is(err, errdefs.NotRevivable) {
					t.Errorf("mail to %s after the restart: %v", name, err)
				}
			}
			fresh := h.spawn("echo", mate("Works"))
			h.untilState(fresh, task.Idle)
			if _, err := h.write("works", "hello"); err != nil {
				t.Error(err)
			}
			h.untilSaid(fresh, "hello", task.Idle)
			h.untilState(h.spawn("echo", lead), task.Idle)
			if err := h.dismiss("nobody"); !errdefs.Is(err, errdefs.RecipientNotFound) {
				t.Errorf("nobody: %v", err)
			}
			if err := h.dismiss("user"); !errdefs.Is(err, errdefs.RecipientNotFound) {
				t.Errorf("the user: %v", err)
			}
		})
	})
}

// proves N7, W3: a retry gives the first outcome: it does not dismiss who has the name now.
func TestDismissRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, echo, func(h *house) {
			once := func(r *runtime.DismissRequest) { r.RequestID, r.Level = "once", task.Cancel }
			h.untilState(h.spawn("x", mate("ann")), task.Idle)
			h.must(h.dismiss("ann", once))
			fresh := h.spawn("x", mate("ann"))
			h.untilState(fresh, task.Idle)
			h.must(h.dismiss("ann", once))
			if s := h.task(fresh).State; s != task.Idle {
				t.Errorf("the new one is %s", s)
			}
			other := func(r *runtime.DismissRequest) { r.RequestID = "once" }
			if err := h.dismiss("ann", other); !errdefs.Is(err, errdefs.RequestIDReused) {
				t.Errorf("another body: %v", err)
			}
		})
	})
}

// proves T1, W3: the stop of a dismissal has a bound, and goes on after a restart.
func TestDismissedIsStoppedAfterTheKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, hang, func(h *house) {
			id := h.spawn("x", mate("ann"))
			h.untilState(id, task.Running)
			gone := make(chan error, 1)
			go func() { gone <- h.dismiss("ann") }()
			h.untilState(id, task.Stopping)
			h.cut.cut()
			h.restart()
			time.Sleep(time.Hour)
			h.ended(id, task.Killed, task.StoppedByClient)
			if _, err := h.write("ann", "come back"); !errdefs.Is(err, errdefs.NotRevivable) {
				t.Errorf("mail: %v", err)
			}
		})
	})
}

// proves M5, W3: what a dismissed teammate has not read goes back, also when it had ended before.
func TestMailOfADismissedGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, hang, func(h *house) {
			for name, before := range map[string]func(id task.ID){
				"ends": func(task.ID) {}, "ended": func(id task.ID) { h.must(h.stopTask(id, task.Kill)) },
			} {
				id := h.spawn("x", mate(name))
				h.untilState(id, task.Running)
				sent, err := h.write(name, "unread")
				h.must(err)
				before(id)
				time.Sleep(time.Minute)
				if h.fate(sent) != 0 || h.unread(id) != 1 {
					t.Errorf("%s: %d before the dismissal, %d unread", name, h.fate(sent), h.unread(id))
				}
				h.must(h.dismiss(name))
				time.Sleep(time.Minute)
				if h.fate(sent) != mailbox.Undeliverable || h.unread(id) != 0 {
					t.Errorf("%s: %d after it, %d unread", name, h.fate(sent), h.unread(id))
				}
			}
		})
	})
}
