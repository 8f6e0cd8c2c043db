package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// commit writes a batch. When it may have landed although nobody here knows, what the store says is taken up as soon as
// it commits again (D8): otherwise a task that was spawned, a stop or a deadline would wait for the next start.
func (s *Supervisor) commit(ctx context.Context, b *journal.Batch) error {
	err := s.cfg.Journal.Commit(ctx, b)
	if errdefs.Is(err, errdefs.OutcomeUnknown) {
		s.takeUpSoon(context.WithoutCancel(ctx))
	}
	return err
}

// takeUpSoon lets the store be taken up once for all commits that fail before it recovers.
func (s *Supervisor) takeUpSoon(ctx context.Context) {
	s.mu.Lock()
	waits := s.takes
	s.takes = true
	s.mu.Unlock()
	if !waits {
		s.background(func() { s.takeUp(ctx) })
	}
}

// takeUp does for everything in the store what would have followed the commit that wrote it. All of it is idempotent.
func (s *Supervisor) takeUp(ctx context.Context) {
	err := s.awaitStore(ctx)
	s.mu.Lock()
	s.takes = false // from here on it may come too late for the next
	s.mu.Unlock()
	if err != nil {
		return
	}
	err = s.persist(ctx, func() error {
		teams, err := s.cfg.Journal.AllTeams(ctx)
		if err != nil {
			return err
		}
		for _, team := range teams {
			if err := s.takeUpTeam(ctx, team); err != nil {
				return err
			}
		}
		s.cutEnded(ctx)
		return nil
	})
	if err != nil {
		s.cfg.Log.Error("the store was not taken up after its fault; the next start does it", "error", err)
	}
}

func (s *Supervisor) takeUpTeam(ctx context.Context, team roster.Team) error {
	for due, err := range s.cfg.Journal.Dues(ctx, team.ID) {
		if err != nil {
			return err
		}
		s.due.add(due)
	}
	living, err := s.find(ctx, team.ID)
	if err != nil {
		return err
	}
	for _, f := range living {
		t := f.row.Value
		if err := s.stopOrphan(ctx, t); err != nil {
			return err
		}
		if t.Stop != nil {
			if err := s.enforce(ctx, t); err != nil {
				return err
			}
		}
		if f.queued() || t.State == task.Idle {
			if err := s.putOnItsWay(ctx, t); err != nil {
				return err
			}
		}
	}
	s.runErrandsSoon(team.ID)
	return nil
}

// cutEnded cuts the loops of tasks that a kill has ended.
func (s *Supervisor) cutEnded(ctx context.Context) {
	for _, l := range s.running() {
		if row, err := s.cfg.Journal.Task(ctx, l.id); err == nil && row.Value.State.Terminal() {
			s.cutOff(ctx, row.Value)
		}
	}
}

// persist tries again after each stall of the store, until the daemon stops: then the next start finds what is left.
func (s *Supervisor) persist(ctx context.Context, f func() error) error {
	for {
		err := f()
		if !journal.IsFault(err) || s.isDraining() {
			return err
		}
		if s.awaitStore(ctx) != nil {
			return err
		}
	}
}

// awaitStore waits until the store commits again; an error when the daemon stops or ctx ends first.
func (s *Supervisor) awaitStore(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.draining:
			cancel(errShutdown)
		case <-ctx.Done():
		}
	}()
	return s.cfg.Journal.Recovered(ctx)
}
