package task

import (
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// Change is one thing that can happen to a task: Start, Resume, Wait, Proceed, Rest, Wake, Stop, Finish or Reopen.
type Change interface {
	// Arrow is the name of the change in the docs.
	Arrow() string
}

// Start is written when the loop of a queued task really exists.
type Start struct{}

// Resume is written when a started task gets a new loop, after the daemon's or the store's absence. The loop holds a slot
// and does anew what it waited for, so a waiting task runs; a stop that was asked for stays.
type Resume struct{}

// Wait says that a running task waits for the provider or for a child and gives its slot back.
type Wait struct{}

// Proceed says that a waiting task has a slot again.
type Proceed struct{}

// Rest ends a teammate's turn: it is idle.
type Rest struct{}

// Wake begins the next turn of an idle teammate.
type Wake struct{}

// Reopen begins the next incarnation of a teammate that has ended (W1). It is the only change of a terminal task.
type Reopen struct {
	Forgiven Usage // what the budget does not count any more
}

// Stop asks for the end of a started task, or for a harder one. A queued or idle task has no loop that could heed it: it
// ends by Finish.
type Stop struct{ Order StopOrder }

// Finish is the terminal change. What never ran, or waits, can't have completed.
type Finish struct {
	State  State
	Reason Reason
	Error  string // one line for people
}

// Arrow names the change.
func (Start) Arrow() string { return "start" }

// Arrow names the change.
func (Resume) Arrow() string { return "resume" }

// Arrow names the change.
func (Wait) Arrow() string { return "wait" }

// Arrow names the change.
func (Proceed) Arrow() string { return "proceed" }

// Arrow names the change.
func (Rest) Arrow() string { return "rest" }

// Arrow names the change.
func (Wake) Arrow() string { return "wake" }

// Arrow names the change.
func (Reopen) Arrow() string { return "reopen" }

// Arrow names the change.
func (Stop) Arrow() string { return "stop" }

// Arrow names the change.
func (Finish) Arrow() string { return "finish" }

// Apply gives the task after the change, or says why it can't happen: TaskEnded for every change of a terminal task
// but Reopen (S1: the first terminal change wins), Conflict for an arrow that does not exist. It is the one place that decides.
func Apply(t Task, c Change, now time.Time) (Task, error) {
	if reopen, ok := c.(Reopen); ok {
		return applyReopen(t, reopen)
	}
	if t.State.Terminal() {
		return t, errdefs.New(errdefs.FailedPrecondition, errdefs.TaskEnded, string(t.ID),
			"task %s has ended: %s", t.ID, t.State)
	}
	switch c := c.(type) {
	case Start:
		if t.State != Queued {
			return t, noArrow(t, c)
		}
		t.State = Running
		t.Start++
		if t.Started.IsZero() {
			t.Started = now
		}
		t.Turn = now
	case Resume:
		if t.State == Queued || t.State == Idle {
			return t, noArrow(t, c)
		}
		if t.State == Waiting {
			t.State = Running
		}
		t.Start++
	case Wait:
		if t.State != Running {
			return t, noArrow(t, c)
		}
		t.State = Waiting
	case Proceed:
		if t.State != Waiting {
			return t, noArrow(t, c)
		}
		t.State = Running
	case Rest:
		if t.State != Running || t.Kind != Teammate {
			return t, noArrow(t, c)
		}
		t.State = Idle
		t.Worked, t.Turn = t.WallTime(now), time.Time{}
		t.CancelOnDisconnect = t.CancelOnDisconnect && t.UntilQuiet // else the stream of its spawn ends here
	case Wake:
		if t.State != Idle {
			return t, noArrow(t, c)
		}
		t.State, t.Turn = Running, now
		t.Start++
	case Stop:
		return applyStop(t, c)
	case Finish:
		return applyFinish(t, c, now)
	default:
		return t, noArrow(t, c)
	}
	return t, nil
}

// applyReopen begins the next incarnation of a teammate.
func applyReopen(t Task, c Reopen) (Task, error) {
	if !t.State.Terminal() || t.Kind != Teammate {
		return t, noArrow(t, c)
	}
	t.State, t.Reason, t.Error, t.Stop, t.Ended = Queued, 0, "", nil, time.Time{}
	t.Incarnation++
	t.Forgiven, t.CancelOnDisconnect = c.Forgiven, false
	return t, nil
}

// applyStop makes a stop stick. A running stop only grows harder, and keeps its first outcome.
func applyStop(t Task, c Stop) (Task, error) {
	order := c.Order
	if t.State == Queued || t.State == Idle || order.Level == 0 || !order.State.Terminal() || order.Reason == 0 {
		return t, noArrow(t, c)
	}
	if first := t.Stop; first != nil {
		if order.Level <= first.Level {
			return t, noArrow(t, c)
		}
		order.State, order.Reason, order.Message = first.State, first.Reason, first.Message
	}
	t.State, t.Stop = Stopping, &order
	return t, nil
}

func applyFinish(t Task, c Finish, now time.Time) (Task, error) {
	inVain := c.State == Completed && (t.State == Queued || t.State == Waiting)
	if inVain || !c.State.Terminal() || c.Reason == 0 {
		return t, noArrow(t, c)
	}
	t.State, t.Reason, t.Error, t.Ended = c.State, c.Reason, c.Error, now
	t.Worked, t.Turn = t.WallTime(now), time.Time{}
	return t, nil
}

func noArrow(t Task, c Change) error {
	return errdefs.New(errdefs.Aborted, errdefs.Conflict, string(t.ID), "task %s is %s: %s is not possible",
		t.ID, t.State, c.Arrow())
}
