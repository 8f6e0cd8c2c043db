package runtime

import (
	"cmp"
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// DeleteTeamRequest asks for the end of a team.
type DeleteTeamRequest struct {
	RequestID string         // makes a retry return the first outcome; empty: no retry
	Caller    string         // scope of RequestID
	Team      string         // name
	Level     task.StopLevel // of its tasks' stops; 0: task.Cancel
	Reason    string         // why, for people; at most 1 KiB
}

// DeleteTeam closes a team, so that nothing begins in it any more, ends all that lives there, waits until its processes are
// gone, and then forgets it: its name and its workspace are free. Each stop has a bound (T1), so that none that does not
// answer holds it up. It goes on when ctx ends, and after a restart of the daemon.
func (s *Supervisor) DeleteTeam(ctx context.Context, req DeleteTeamRequest) error {
	stop := StopRequest{RequestID: req.RequestID, Level: cmp.Or(req.Level, task.Cancel), Reason: req.Reason}
	if req.Team == "" {
		return errdefs.BadField("team", "is missing; give the name of a team")
	}
	if err := stop.check(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	body := req
	body.RequestID, body.Caller = "", ""
	r := newRequest(req.Caller, req.RequestID, body)
	work := context.WithoutCancel(ctx)
	team, err := s.changeOnce(work, r, func() (roster.Team, error) { return s.condemn(work, req.Team, r) })
	if err != nil || team.Deleted {
		return err
	}
	b := s.cfg.Journal.Batch(team.ID)
	b.CloseTeam()
	if err := s.commit(work, b); err != nil {
		return err
	}
	deleted := make(chan error, 1)
	s.background(func() {
		deleted <- s.persist(work, func() error { return s.deleteTeam(work, team.ID, stop.order()) })
	})
	select {
	case err := <-deleted:
		return err
	case <-s.draining:
		return notServing() // the next start goes on
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// condemn finds the team that is to be deleted and keeps the request, which means that team from then on, whoever has its
// name: a retry goes on with it, or finds it deleted.
func (s *Supervisor) condemn(ctx context.Context, name string, r *requestRow) (roster.Team, error) {
	team, err := s.cfg.Journal.TeamByName(ctx, name)
	if err != nil || r == nil {
		return team, err
	}
	b := s.cfg.Journal.Batch(journal.Daemon)
	r.ofTeam(b, team)
	return team, s.commit(ctx, b)
}

// deleteTeam does all that follows the closing of a team. Doing it again changes nothing more.
func (s *Supervisor) deleteTeam(ctx context.Context, id string, order task.StopOrder) error {
	for {
		roots, err := s.rootsOf(ctx, id, false)
		if err != nil {
			return err
		}
		if len(roots) == 0 {
			break
		}
		if err := s.orderAll(ctx, id, roots, order, nil); err != nil {
			return err
		}
		watch := s.watchStop(id, roots, order.Level)
		if err := watch.awaitEnd(ctx, func(StopProgress) error { return nil }); err != nil {
			return err
		}
	}
	if err := s.reap(ctx, id); err != nil {
		return err
	}
	return s.forgetTeam(ctx, id)
}

// reap ends the processes that a team's tasks may have left: those of a loop that was killed are not seen to end by it.
func (s *Supervisor) reap(ctx context.Context, team string) error {
	var left []journal.LooseProcess
	for p, err := range s.cfg.Journal.Processes(ctx, team) {
		if err != nil {
			return err
		}
		left = append(left, p)
	}
	for _, p := range left {
		if _, err := s.cfg.Processes.Kill(ctx, string(p.TaskID)); err != nil {
			s.cfg.Log.Error("processes of a deleted team remain; the next start tries again", "task", p.TaskID, "error", err)
			continue
		}
		b := s.cfg.Journal.Batch(team)
		b.DeleteProcess(p.TaskID, p.CallID)
		if err := s.commit(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// forgetTeam writes that a team is deleted, unless somebody else did.
func (s *Supervisor) forgetTeam(ctx context.Context, id string) error {
	for {
		row, err := s.cfg.Journal.TeamRow(ctx, id)
		if err != nil || row.Value.Deleted {
			return err
		}
		after := row.Value
		after.Deleted = true
		err = s.cfg.Journal.ChangeTeam(ctx, s.cfg.Journal.Batch(journal.Daemon), row, after)
		if !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
	}
}

// finishDeletions goes on with the deletions that the end of an earlier daemon cut off.
func (s *Supervisor) finishDeletions(ctx context.Context) {
	err := s.persist(ctx, func() error {
		teams, err := s.cfg.Journal.Teams(ctx)
		if err != nil {
			return err
		}
		for _, team := range teams {
			if err := s.finishDeletion(ctx, team); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && !s.isDraining() {
		s.cfg.Log.Error("a team that is being deleted is left; delete it again", "error", err)
	}
}

func (s *Supervisor) finishDeletion(ctx context.Context, team roster.Team) error {
	closed, err := s.cfg.Journal.IsClosed(ctx, team.ID)
	if err != nil || !closed {
		return err
	}
	s.cfg.Log.Info("going on with the deletion of a team", "team", team.Name)
	return s.deleteTeam(ctx, team.ID, StopRequest{Level: task.Cancel}.order())
}
