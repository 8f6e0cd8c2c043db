package runtime

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
)

// runErrandsSoon has a team's outbox seen to.
func (s *Supervisor) runErrandsSoon(team string) {
	s.mu.Lock()
	s.errands[team] = true
	s.mu.Unlock()
	select {
	case s.errand <- struct{}{}:
	default:
	}
}

// runErrands sees to the outboxes of all teams, until the daemon stops. What is left then the next start takes up.
func (s *Supervisor) runErrands(ctx context.Context) {
	for {
		select {
		case <-s.draining:
			return
		case <-s.errand:
		}
		s.mu.Lock()
		teams := s.errands
		s.errands = map[string]bool{}
		s.mu.Unlock()
		for team := range teams {
			if err := s.persist(ctx, func() error { return s.runErrandsOf(ctx, team) }); err != nil {
				s.cfg.Log.Error("mail could not be handed on; the next start tries again", "team", team, "error", err)
			}
			s.endIfQuiet(ctx, team)
		}
	}
}

// runErrandsOf does what a team's outbox holds. One that fails for itself does not keep the others waiting.
func (s *Supervisor) runErrandsOf(ctx context.Context, team string) error {
	errands, err := s.errandsOf(ctx, team)
	if err != nil {
		return err
	}
	var failed error
	for _, row := range errands {
		err := s.runErrand(ctx, team, row)
		if journal.IsFault(err) {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// errandsOf reads a team's outbox. Messages to all are in the order in which they were sent: that of their numbers.
func (s *Supervisor) errandsOf(ctx context.Context, team string) ([]journal.Row[journal.Errand], error) {
	errands, err := s.cfg.Journal.Errands(ctx, team)
	slices.SortFunc(errands, func(a, b journal.Row[journal.Errand]) int {
		return cmp.Or(cmp.Compare(len(a.Value.ID), len(b.Value.ID)), cmp.Compare(a.Value.ID, b.Value.ID))
	})
	return errands, err
}

// runErrand does an errand commit by commit, each of which leaves in the outbox what is still to be done, until the daemon
// stops.
func (s *Supervisor) runErrand(ctx context.Context, team string, row journal.Row[journal.Errand]) error {
	for !s.isDraining() {
		var err error
		if row.Value.UnreadOf != "" {
			err = s.seeToMail(ctx, team, row)
		} else {
			err = s.handOn(ctx, team, row, maxHandedOn)
		}
		if err != nil && !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
		row, err = s.cfg.Journal.Errand(ctx, team, row.Value.ID)
		if errdefs.Is(err, errdefs.RecordNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
