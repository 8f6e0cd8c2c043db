package runtime

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
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
	Reaped    int // processes killed so far
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

// Stop makes a stop durable and waits until the task and all below it are terminal, telling progress of each change.
// The stop goes on when ctx ends or progress fails. What has ended already is a success (T4).
func (s *Supervisor) Stop(ctx context.Context, req StopRequest, progress func(StopProgress) error) error {
	if err := req.check(); err != nil {
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
	if !known {
		if err := s.order(context.WithoutCancel(ctx), req.TaskID, req.order(), r); err != nil {
			return err
		}
	}
	return s.awaitEnd(ctx, req.TaskID, progress)
}

// awaitEnd tells progress until the whole subtree is terminal.
func (s *Supervisor) awaitEnd(ctx context.Context, id task.ID, progress func(StopProgress) error) error {
	var told StopProgress
	for {
		root, err := s.cfg.Journal.Task(ctx, id)
		if err != nil {
			return err
		}
		alive, err := s.livingBelow(ctx, root.Value)
		if err != nil || len(alive) == 0 {
			return err
		}
		more := s.cfg.Journal.Follow(root.Value.Team, string(alive[0]))
		if t, err := s.cfg.Journal.Task(ctx, alive[0]); err != nil || t.Value.State.Terminal() {
			continue // it ended before it was followed
		}
		now := StopProgress{Remaining: len(alive), Reaped: s.reaped(id)}
		if root.Value.Stop != nil {
			now.Level = root.Value.Stop.Level
		}
		if now != told {
			told = now
			if err := progress(now); err != nil {
				return err
			}
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// livingBelow lists the task, if it lives, and its living descendants.
func (s *Supervisor) livingBelow(ctx context.Context, root task.Task) ([]task.ID, error) {
	var alive []task.ID
	for id, err := range s.cfg.Journal.Living(ctx, root.Team) {
		if err != nil {
			return nil, err
		}
		t, err := s.cfg.Journal.Task(ctx, id)
		if err != nil {
			return nil, err
		}
		if !t.Value.State.Terminal() && (id == root.ID || slices.Contains(t.Value.Ancestors, root.ID)) {
			alive = append(alive, id)
		}
	}
	return alive, nil
}

// order makes a stop durable, tells the loop, and does the same to the children. A stop that is no harder than the one
// under way changes nothing.
func (s *Supervisor) order(ctx context.Context, id task.ID, order task.StopOrder, req *requestRow) error {
	for {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil || row.Value.State.Terminal() {
			return err
		}
		if row.Value.State == task.Queued || order.Level == task.Kill {
			return s.kill(ctx, row, order, req)
		}
		b := s.cfg.Journal.Batch(row.Value.Team)
		after, err := task.Apply(row.Value, task.Stop{Order: order}, b.Now())
		if err != nil {
			return nil // it is as hard as that already
		}
		b.ChangeTask(row, after)
		due := journal.Due{At: b.Now().Add(after.Stop.Patience()), TaskID: id, Kind: journal.DueStop}
		b.PutDue(due)
		req.put(b)
		err = s.cfg.Journal.Commit(ctx, b)
		if errdefs.Is(err, errdefs.Conflict) {
			if req.overtaken(ctx, s, row.Value.Team) {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		s.due.add(due)
		if order.Level >= task.Cancel {
			s.cut(id, false)
		}
		s.cascade(ctx, id, order.Level)
		return nil
	}
}

// kill ends a task at once: its processes, then its record, then its goroutine. A goroutine that does not return can
// commit nothing more (T1).
func (s *Supervisor) kill(ctx context.Context, row journal.Row[task.Task], order task.StopOrder, req *requestRow) error {
	id := row.Value.ID
	if first := row.Value.Stop; first != nil {
		order.State, order.Reason, order.Message = first.State, first.Reason, first.Message
	}
	s.killProcesses(ctx, id)
	finish := task.Finish{State: order.State, Reason: order.Reason, Error: order.Message}
	if err := s.endTask(ctx, id, finish, req); err != nil {
		return err
	}
	s.cut(id, true)
	s.killProcesses(ctx, id) // what was started between the two
	s.cascade(ctx, id, task.Kill)
	return nil
}

// escalate makes a stop whose time is over one level harder.
func (s *Supervisor) escalate(ctx context.Context, t task.Task) error {
	order := *t.Stop
	order.Level++
	return s.order(ctx, t.ID, order, nil)
}

func (s *Supervisor) killProcesses(ctx context.Context, id task.ID) {
	n, err := s.cfg.Processes.Kill(ctx, string(id))
	if err != nil {
		s.cfg.Log.Error("processes of a stopped task remain", "task", id, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.loops[id]; l != nil {
		l.reaped += n
	}
}

func (s *Supervisor) reaped(id task.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.loops[id]; l != nil {
		return l.reaped
	}
	return 0
}

// cut ends the ctx of a task's loop. A task that waits in the queue leaves it when its turn comes.
func (s *Supervisor) cut(id task.ID, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.loops[id]; l != nil {
		l.ended = l.ended || ended
		l.cancel(errStopped)
	}
}

// cascade stops the children of a task that is stopping or has ended (N4, T2). Such a task gets no more children, so
// these are all.
func (s *Supervisor) cascade(ctx context.Context, id task.ID, level task.StopLevel) {
	ctx = context.WithoutCancel(ctx)
	err := s.persist(ctx, func() error {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil {
			return err
		}
		for child, err := range s.cfg.Journal.Children(ctx, row.Value.Team, id) {
			if err != nil {
				return err
			}
			if err := s.order(ctx, child, parentEnded(level), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.cfg.Log.Error("children could not be stopped; the next start does it", "task", id, "error", err)
	}
}

func parentEnded(level task.StopLevel) task.StopOrder {
	return task.StopOrder{
		Level: level, State: task.Killed, Reason: task.ParentEnded, Message: "the parent task ended",
		WrapUpTimeout: task.DefaultWrapUpTimeout, CancelTimeout: task.DefaultCancelTimeout,
	}
}
