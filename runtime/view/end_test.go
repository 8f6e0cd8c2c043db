package view_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// TestWaitForTheEnd: nothing but heartbeats comes before the end; when the time is over, the task as it is.
func TestWaitForTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id := d.spawn(d.team("main"), "")
		d.apply(id, task.Start{})
		wait := func(timeout time.Duration) (*tape, time.Duration, error) {
			p, begun := &tape{}, time.Now()
			err := d.v.Output(t.Context(), view.OutputRequest{TaskID: id, Terminal: true, Tail: 1, Timeout: timeout}, p.note)
			return p, time.Since(begun), err
		}
		p, took, err := wait(10 * time.Second)
		if err != nil || took != 10*time.Second || p.String() != "task RUNNING, task RUNNING" {
			t.Errorf("%s after %v, %v", p, took, err)
		}
		time.AfterFunc(5*time.Second, func() { d.apply(id, done()) })
		p, took, err = wait(10 * time.Second)
		if err != nil || took != 5*time.Second || p.String() != "task RUNNING, >COMPLETED, outcome COMPLETED" {
			t.Errorf("%s after %v, %v", p, took, err)
		}
	})
}

// TestWaitBeyondTheEnd: only the end tells whether there is such an entry. proves O1
func TestWaitBeyondTheEnd(t *testing.T) {
	d := newDesk(t)
	id := d.spawn(d.team("main"), "")
	d.apply(id, task.Start{})
	err := d.v.Output(t.Context(), view.OutputRequest{TaskID: id, Terminal: true, From: 1 << 40}, func(i view.Item) error {
		if i.Task == nil {
			t.Errorf("it sends %+v", i)
			return nil
		}
		d.apply(id, done())
		return nil
	})
	d.want(err, errdefs.SeqOutOfRange)
}

// TestEndBeforeFollow: a task ends between the look at it and the wait for more: nobody is left waiting.
func TestEndBeforeFollow(t *testing.T) {
	d := newDesk(t)
	id := d.spawn(d.team("main"), "")
	d.apply(id, task.Start{})
	p := &tape{}
	d.must(d.v.Output(t.Context(), view.OutputRequest{TaskID: id, Follow: true}, func(i view.Item) error {
		if i.Task != nil {
			d.apply(id, done())
		}
		return p.note(i)
	}))
	if got := p.String(); got != "task RUNNING, >RUNNING, >COMPLETED, outcome COMPLETED" {
		t.Error(got)
	}
}

// TestCallerLeaves: the end of the caller's ctx ends the output, whatever it waits for. case STP-5 as far as reading goes
func TestCallerLeaves(t *testing.T) {
	gone := errors.New("hung up")
	for _, req := range []view.OutputRequest{{Follow: true}, {Terminal: true}, {Follow: true, From: 1 << 40}} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			req.TaskID = d.spawn(d.team("main"), "")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(gone) })
			if err := d.v.Output(ctx, req, (&tape{}).note); !errors.Is(err, gone) {
				t.Errorf("%v", err)
			}
		})
	}
}
