package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/task"
)

// endTask commits a terminal change that the loop itself can't write, with what the transcript says it concluded. A
// task that has ended already is left as it is (S1).
func (s *Supervisor) endTask(ctx context.Context, id task.ID, finish task.Finish, req *requestRow) error {
	for {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil || row.Value.State.Terminal() {
			return err
		}
		report, changes, err := agent.Conclude(ctx, s.cfg.Journal, row.Value)
		if err != nil {
			s.cfg.Log.Error("transcript can't be read for the result", "task", id, "error", err)
		}
		b := s.cfg.Journal.Batch(row.Value.Team)
		after, err := task.Apply(row.Value, finish, b.Now())
		if err != nil {
			return err
		}
		b.EndTask(row, after, report, changes)
		req.put(b)
		err = s.cfg.Journal.Commit(ctx, b)
		if !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
		if req.overtaken(ctx, s, row.Value.Team) {
			return nil
		}
	}
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
		switch {
		case errdefs.Is(err, errdefs.TaskEnded):
			return agent.ErrGone
		case err != nil:
			return nil
		}
		b.ChangeTask(row, after)
		if err := s.cfg.Journal.Commit(ctx, b); !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
	}
}

// persist tries again after each stall of the store, until the daemon stops: then the next start finds what is left.
func (s *Supervisor) persist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !isStoreFault(err) || s.isDraining() {
			return err
		}
		if s.awaitStore(ctx) != nil {
			return err
		}
	}
}

// isStoreFault tells errors after which the same is tried again once the store has recovered.
func isStoreFault(err error) bool {
	return errdefs.Is(err, errdefs.StoreStalled) || errdefs.Is(err, errdefs.OutcomeUnknown)
}

// awaitStore waits until the store commits again; an error when the daemon stops or ctx ends first.
func (s *Supervisor) awaitStore(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.drainCtx, func() { cancel(errShutdown) })
	defer stop()
	return s.cfg.Journal.Recovered(ctx)
}
