package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// SpawnAttached is Spawn for a client whose stream follows the task: it counts as attached before it is answered. Detach
// takes it away again.
func (s *Supervisor) SpawnAttached(ctx context.Context, a task.Assignment) (task.ID, error) {
	return s.spawn(ctx, a, true)
}

func (s *Supervisor) attach(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attached[id]++
}

// Detach takes a client away. When its stream broke and no other client is attached, a cancel_on_disconnect task is
// canceled (T6). Any other task is left alone.
func (s *Supervisor) Detach(ctx context.Context, id task.ID, broke bool) error {
	if s.leave(id) > 0 || !broke {
		return nil
	}
	for {
		row, err := s.cfg.Journal.Task(ctx, id)
		if t := row.Value; err != nil || t.State.Terminal() || !t.CancelOnDisconnect || s.isDraining() {
			return err
		}
		err = s.halt(context.WithoutCancel(ctx), row, task.StopOrder{
			Level: task.Cancel, State: task.Killed, Reason: task.StoppedByClient, Message: "the client disconnected",
			CancelTimeout: task.DefaultCancelTimeout,
		}, nil)
		if !errdefs.Is(err, errdefs.Conflict) {
			return err // else it changed meanwhile: its turn may be over
		}
	}
}

// leave counts a client out and tells how many remain.
func (s *Supervisor) leave(id task.ID) (remain int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	remain = s.attached[id] - 1
	if remain > 0 {
		s.attached[id] = remain
	} else {
		delete(s.attached, id)
	}
	return remain
}

// reattach takes away the deadline of a client that came back (T6). With attach it counts the client first, so that
// another one that leaves meanwhile is not the last.
func (s *Supervisor) reattach(ctx context.Context, id task.ID, attach bool) error {
	if attach {
		s.attach(id)
	}
	err := s.dropReattach(ctx, id)
	if err != nil && attach {
		s.leave(id)
	}
	return err
}

func (s *Supervisor) dropReattach(ctx context.Context, id task.ID) error {
	row, err := s.cfg.Journal.Task(ctx, id)
	if err != nil {
		return err
	}
	_, err = s.cfg.Journal.Due(ctx, row.Value.Team, id, journal.DueReattach)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return nil
	}
	b := s.cfg.Journal.Batch(row.Value.Team)
	b.DeleteDue(id, journal.DueReattach)
	return s.commit(ctx, b)
}
