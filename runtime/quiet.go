package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// A lead that was spawned with until_quiet ends when nothing can wake it any more: it is idle and has no mail, none below it
// lives, no teammate is at work or below one that could give it work, and no mail is on its way. That may come true with the
// last commit of any task of the team, and with mail that was handed on. So each of them asks, after its commit; and so does
// every start, for a daemon that went down between the two.

// endIfQuiet ends a team's lead that waits for quiet, if it is. A store's fault is waited for.
func (s *Supervisor) endIfQuiet(ctx context.Context, in string) {
	ctx = context.WithoutCancel(ctx)
	err := s.persist(ctx, func() error {
		for {
			if err := s.tryEndQuiet(ctx, in); !errdefs.Is(err, errdefs.Conflict) {
				return err
			}
		}
	})
	if err != nil {
		s.cfg.Log.Error("a lead that waits for quiet was not looked at; the next start does it", "team", in, "error", err)
	}
}

// tryEndQuiet is one try. Conflict when something happened in the team since it was found quiet.
func (s *Supervisor) tryEndQuiet(ctx context.Context, in string) error {
	lead, found, err := s.post.Registry.Lead(ctx, in)
	if err != nil || !found || !lead.Value.UntilQuiet || lead.Value.State != task.Idle {
		if journal.IsLost(err) {
			return nil // there is nothing left that could be ended
		}
		return err
	}
	work, err := s.cfg.Journal.Work(ctx, in)
	if err != nil {
		return err
	}
	guard, err := s.mailOf(lead.Value).Revisions(ctx)
	if err != nil {
		return err
	}
	if quiet, err := s.isQuiet(ctx, lead.Value); err != nil || !quiet {
		return err
	}
	return s.finish(ctx, lead, task.Finish{State: task.Completed, Reason: task.Done}, func(b *journal.Batch) {
		b.GuardWork(work)
		guard.Add(b)
	})
}

// mailOf is what an agent reads its mail with.
func (s *Supervisor) mailOf(t task.Task) team.Mail { return team.Mail{Journal: s.cfg.Journal, Task: t} }

// isQuiet tells whether nothing can wake a lead. An idle teammate has no mail: what it has not read is work, as is whatever
// runs below it. Mail that waits for one that has ended waits for somebody to revive it, and is no work.
func (s *Supervisor) isQuiet(ctx context.Context, lead task.Task) (bool, error) {
	errands, err := s.cfg.Journal.Errands(ctx, lead.Team)
	if err != nil || len(errands) > 0 {
		return false, err
	}
	for id, err := range s.cfg.Journal.Working(ctx, lead.Team) {
		if err != nil {
			return false, err
		}
		row, err := s.cfg.Journal.Task(ctx, id)
		switch {
		case journal.IsLost(err): // it never goes on
		case err != nil:
			return false, err
		case row.Value.Root().Kind() == task.Teammate:
			return false, nil
		}
	}
	mail, err := s.mailOf(lead).Rousing(ctx, s.cfg.Now())
	return len(mail) == 0, err
}
