package runtime

import (
	"context"
	"fmt"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// fail ends a task as FAILED, and what is below it. A task that has ended already is left as it is (S1).
func (s *Supervisor) fail(ctx context.Context, id task.ID, reason task.Reason, message string) error {
	finish := task.Finish{State: task.Failed, Reason: reason, Error: message}
	for {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil || row.Value.State.Terminal() {
			return err
		}
		err = s.finish(ctx, row, finish, nil)
		if errdefs.Is(err, errdefs.Conflict) {
			continue // it changed meanwhile
		}
		if err == nil {
			s.cascade(ctx, id, task.Cancel)
		}
		return err
	}
}

// finish commits a terminal change that the loop itself can't write, with what the transcript says it concluded.
// Conflict when the task changed since the row was read.
func (s *Supervisor) finish(ctx context.Context, row journal.Row[task.Task], finish task.Finish, along rider) error {
	b := s.cfg.Journal.Batch(row.Value.Team)
	after, err := task.Apply(row.Value, finish, b.Now())
	if err != nil {
		return err
	}
	left, err := s.conclude(ctx, row.Value)
	if err != nil {
		s.cfg.Log.Error("transcript can't be read for the result", "task", row.Value.ID, "error", err)
	}
	last, err := s.lastNews(ctx, row.Value)
	if err != nil {
		s.cfg.Log.Error("what became of a group's tasks can't be told", "task", row.Value.ID, "error", err)
	}
	b.Append(after.ID, last...)
	if err := s.post.End(ctx, b, row, after, left); err != nil {
		return err
	}
	along.ride(b)
	over := s.due.pending(after.ID)
	if err := s.commit(ctx, b); err != nil {
		return err
	}
	s.due.forget(over)
	if after.Root().Kind() == task.Teammate {
		s.background(func() { s.endIfQuiet(ctx, after.Team) })
	}
	return nil
}

// conclude reads the transcript of a task that may have failed over that very transcript.
func (s *Supervisor) conclude(ctx context.Context, t task.Task) (left task.Conclusion, err error) {
	defer func() {
		if v := recover(); v != nil {
			left, err = task.Conclusion{Report: task.Report{Summary: task.NoSummary}}, fmt.Errorf("panic: %v", v)
		}
	}()
	switch t.Kind {
	case task.Shell:
		return s.concludeShell(ctx, t)
	case task.Group:
		return s.concludeGroup(ctx, t)
	case task.Subagent, task.Teammate:
	}
	return agent.Conclude(ctx, s.cfg.Journal, t)
}

// change commits a change of state, again when the task changed meanwhile. What a stop has made impossible is left.
func (s *Supervisor) change(ctx context.Context, id task.ID, c task.Change) error {
	for {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil {
			return err
		}
		b := s.cfg.Journal.Batch(row.Value.Team)
		after, err := task.Apply(row.Value, c, b.Now())
		if errdefs.Is(err, errdefs.TaskEnded) {
			return agent.ErrGone
		}
		if err != nil {
			return nil //nolint:nilerr // the arrow does not exist any more: a stop was first, and the loop will see it
		}
		b.ChangeTask(row, after)
		if err := s.commit(ctx, b); !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
	}
}
