package runtime

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// MaxStopTimeout bounds each of a stop's two timeouts.
const MaxStopTimeout = time.Hour

// StopRequest asks for the end of a task and of those below it.
type StopRequest struct {
	RequestID string // makes a retry return the first outcome; empty: no retry
	Caller    string // scope of RequestID
	TaskID    task.ID
	Level     task.StopLevel
	WrapUp    time.Duration // until Cancel; 0: the default
	Cancel    time.Duration // until Kill; 0: the default
	Reason    string        // why, for people; at most 1 KiB
}

// StopProgress tells how a stop comes along.
type StopProgress struct {
	Level     task.StopLevel
	Remaining int // living tasks: the task and those below it
	Reaped    int // processes killed so far, by this stop or another one of the same tasks
}

func (r StopRequest) check() error {
	switch {
	case r.WrapUp < 0 || r.WrapUp > MaxStopTimeout:
		return errdefs.BadField("wrap_up_timeout", "must be 0 to %s", MaxStopTimeout)
	case r.Cancel < 0 || r.Cancel > MaxStopTimeout:
		return errdefs.BadField("cancel_timeout", "must be 0 to %s", MaxStopTimeout)
	case len(r.Reason) > maxLine:
		return tooLarge("reason", len(r.Reason), maxLine)
	}
	return checkRequestID(r.RequestID)
}

func (r StopRequest) order() task.StopOrder {
	return task.StopOrder{
		Level: cmp.Or(r.Level, task.WrapUp), State: task.Killed, Reason: task.StoppedByClient, Message: r.Reason,
		WrapUpTimeout: cmp.Or(r.WrapUp, task.DefaultWrapUpTimeout),
		CancelTimeout: cmp.Or(r.Cancel, task.DefaultCancelTimeout),
	}
}

// Stop makes a stop durable and waits until the task and all below it are terminal, telling progress of each change; the
// last one has nothing remaining. The stop goes on when ctx ends or progress fails. What has ended already is a success,
// of which there is no progress to tell (T4).
func (s *Supervisor) Stop(ctx context.Context, req StopRequest, progress func(StopProgress) error) error {
	if err := req.check(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	row, err := s.cfg.Journal.Task(ctx, req.TaskID)
	if err != nil {
		return err
	}
	body := req
	body.RequestID, body.Caller = "", ""
	r := newRequest(req.Caller, req.RequestID, body)
	if r != nil {
		r.outcome.TaskID = req.TaskID
	}
	_, known, err := s.first(ctx, row.Value.Team, r)
	if err != nil {
		return err
	}
	watch := s.watchStop(row.Value.Team, []task.ID{req.TaskID}, req.order().Level)
	if err := watch.look(ctx); err != nil {
		return err
	}
	if !known {
		if err := s.order(context.WithoutCancel(ctx), req.TaskID, req.order(), r); err != nil {
			return err
		}
	}
	if len(watch.alive) == 0 {
		return nil
	}
	return watch.awaitEnd(ctx, progress)
}

// order makes a stop durable, tells the loop, and does the same to the children. A stop that is no harder than the one
// under way, or that comes after the end, changes nothing.
func (s *Supervisor) order(ctx context.Context, id task.ID, order task.StopOrder, req *requestRow) error {
	for {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil {
			return err
		}
		switch {
		case row.Value.State.Terminal():
			err = s.record(ctx, row.Value.Team, req)
		default:
			err = s.halt(ctx, row, order, req.rider())
		}
		if !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
		if _, known, err := s.first(ctx, row.Value.Team, req); err != nil || known {
			return err
		}
	}
}

// rider adds to a batch what must land together with it.
type rider func(b *journal.Batch)

// ride lets it, if there is one.
func (r rider) ride(b *journal.Batch) {
	if r != nil {
		r(b)
	}
}

// halt makes a stop of a living task durable, together with what rides along, and does it. Conflict when the task changed
// since the row was read.
func (s *Supervisor) halt(ctx context.Context, row journal.Row[task.Task], order task.StopOrder, along rider) error {
	if row.Value.State == task.Queued || row.Value.State == task.Idle {
		return s.discard(ctx, row, order, along)
	}
	return s.ask(ctx, row, order, along)
}

// discard ends a task that has no loop: it never ran, or is idle. Conflict when it changed since the row was read.
func (s *Supervisor) discard(ctx context.Context, row journal.Row[task.Task], order task.StopOrder, along rider) error {
	if err := s.finish(ctx, row, order.Finish(), along); err != nil {
		return err
	}
	s.cutOff(ctx, row.Value)
	s.cascade(ctx, row.Value.ID, task.Kill)
	return nil
}

// ask makes a stop durable before anything is done about it: from here on the task can't end as if nobody had stopped
// it. Conflict when it changed since the row was read.
func (s *Supervisor) ask(ctx context.Context, row journal.Row[task.Task], order task.StopOrder, along rider) error {
	b := s.cfg.Journal.Batch(row.Value.Team)
	if row.Value.Stop != nil && order.Level <= row.Value.Stop.Level {
		if along != nil {
			b.GuardTask(row)
			along(b)
			if err := s.commit(ctx, b); err != nil {
				return err
			}
		}
		return s.enforce(ctx, row.Value)
	}
	after, err := task.Apply(row.Value, task.Stop{Order: order}, b.Now())
	if err != nil {
		return err
	}
	b.ChangeTask(row, after)
	due := journal.Due{At: b.Now().Add(after.Stop.Patience()), TaskID: after.ID, Kind: journal.DueStop}
	b.PutDue(due)
	along.ride(b)
	if err := s.commit(ctx, b); err != nil {
		return err
	}
	s.due.add(due)
	return s.enforce(ctx, after)
}

// enforce carries a stop that is on disk to the loop and to the children.
func (s *Supervisor) enforce(ctx context.Context, t task.Task) error {
	s.countFrom(t.ID)
	if t.Stop.Level >= task.Cancel {
		s.cut(t.ID, false)
	}
	if t.Stop.Level == task.Kill {
		if t.Kind == task.Group {
			s.cascade(ctx, t.ID, task.Kill) // first, for what a group concludes is how those that it runs ended
		}
		if err := s.kill(ctx, t); err != nil {
			return err
		}
	}
	s.cascade(ctx, t.ID, t.Stop.Level)
	return nil
}

// kill ends a task whose stop is on disk and whose loop is cut: its processes, then its record, unless the loop was
// faster; then a message may have revived it, and its next life is left alone. A goroutine that does not return can commit
// nothing more (T1).
func (s *Supervisor) kill(ctx context.Context, t task.Task) error {
	s.killProcesses(ctx, t.ID)
	for {
		row, err := s.cfg.Journal.Task(ctx, t.ID)
		if err == nil && row.Value.Incarnation != t.Incarnation {
			return nil
		}
		if err == nil && !row.Value.State.Terminal() {
			err = s.finish(ctx, row, row.Value.Stop.Finish(), nil)
		}
		if errdefs.Is(err, errdefs.Conflict) {
			continue // it changed meanwhile
		}
		if err != nil {
			return err
		}
		s.cutOff(ctx, row.Value)
		s.killProcesses(ctx, t.ID) // what was started between the two
		return nil
	}
}

// escalate makes a stop whose time is over one level harder. Conflict when the task changed since the row was read.
func (s *Supervisor) escalate(ctx context.Context, row journal.Row[task.Task]) error {
	order := *row.Value.Stop
	order.Level = min(order.Level+1, task.Kill)
	return s.halt(ctx, row, order, nil)
}

func (s *Supervisor) killProcesses(ctx context.Context, id task.ID) {
	s.mu.Lock()
	l := s.loops[id] // before it returns
	s.mu.Unlock()
	killed, err := s.cfg.Processes.Kill(ctx, string(id))
	if err != nil {
		s.cfg.Log.Error("processes of a stopped task remain", "task", id, "error", err)
	}
	if l != nil {
		s.countKilled(l, killed)
	}
}

// countFrom lets the processes of a task count that are killed from now on: a stop of it is on disk.
func (s *Supervisor) countFrom(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.loops[id]; l != nil {
		l.stopped = true
	}
}

// countKilled takes notice of processes that were killed since the task's stop. The loop's shell and a KILL may both tell
// of the same ones.
func (s *Supervisor) countKilled(l *loop, killed []sandbox.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range killed {
		if l.stopped {
			l.killed[p] = true
		}
	}
}

// cutOff takes what a task that has ended had of this life: its place in the queue and its loop. A message may have revived
// it meanwhile, and then they are of its next life: it is woken again.
func (s *Supervisor) cutOff(ctx context.Context, t task.Task) {
	s.cut(t.ID, true)
	if t.Kind != task.Teammate {
		return
	}
	if row, err := s.cfg.Journal.Task(ctx, t.ID); err != nil || !row.Value.State.Terminal() {
		s.wake(t.Team, t.ID)
	}
}

// cut ends the ctx of a task's loop. A task that has ended leaves the queue, and its loop gives the slot back even if it
// never returns.
func (s *Supervisor) cut(id task.ID, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pools[id.Kind()]; ended && p != nil {
		p.queue.remove(id)
		p.woken.remove(id)
	}
	l := s.loops[id]
	if l == nil {
		return
	}
	l.cancel(errStopped)
	l.stopped = true
	if ended && l.ended.IsZero() {
		l.ended = s.cfg.Now()
		s.release(l)
		time.AfterFunc(returnTime, func() { s.giveUp(l) })
	}
}

// cascade stops the children of a task that is stopping or has ended (N4, T2). Such a task gets no more children, so
// these are all. The children of any other task are left alone.
func (s *Supervisor) cascade(ctx context.Context, id task.ID, level task.StopLevel) {
	ctx = context.WithoutCancel(ctx)
	err := s.persist(ctx, func() error {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil || (row.Value.Stop == nil && !row.Value.State.Terminal()) {
			return err
		}
		var failed error // of one child, which keeps the stop from no other
		for child, err := range s.cfg.Journal.Children(ctx, row.Value.Team, id) {
			if err == nil {
				err = s.order(ctx, child, parentEnded(row.Value, level), nil)
			}
			switch {
			case journal.IsFault(err):
				return err
			case err != nil && !journal.IsLost(err):
				failed = errors.Join(failed, err)
			}
		}
		return failed
	})
	if err != nil {
		s.cfg.Log.Error("children could not be stopped; the next start does it", "task", id, "error", err)
	}
}

// parentEnded is the stop of a child; whoever stops its parent has said how long that may take.
func parentEnded(parent task.Task, level task.StopLevel) task.StopOrder {
	order := task.StopOrder{
		Level: level, State: task.Killed, Reason: task.ParentEnded, Message: "the parent task ended",
		WrapUpTimeout: task.DefaultWrapUpTimeout, CancelTimeout: task.DefaultCancelTimeout,
	}
	if parent.Stop != nil {
		order.WrapUpTimeout = cmp.Or(parent.Stop.WrapUpTimeout, order.WrapUpTimeout)
		order.CancelTimeout = cmp.Or(parent.Stop.CancelTimeout, order.CancelTimeout)
	}
	return order
}
