package runtime

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// How restarts are bounded (D6) and disconnected clients waited for (T6).
const (
	maxRestarts  = 3                // restarts in a row without a step, then the task is resumed alone
	reattachTime = 60 * time.Second // for the client of a cancel_on_disconnect spawn
)

// found is a living task.
type found struct {
	row  journal.Row[task.Task]
	live journal.Row[journal.Live]
}

// queued tells whether it waits for its first start.
func (f found) queued() bool { return f.row.Value.State == task.Queued }

// recover brings the store and the machine to where tasks can go on (D4): no leftover process, no orphan, deadlines
// loaded, and every living task on its way. No loop runs yet, and doing it again changes nothing more.
func (s *Supervisor) recover(ctx context.Context) error {
	teams, err := s.cfg.Journal.AllTeams(ctx)
	if err != nil {
		return err
	}
	if err := s.sweep(ctx, teams); err != nil {
		return err
	}
	var living []found
	for _, team := range teams {
		if err := s.cfg.Journal.Prune(ctx, team.ID); journal.IsFault(err) {
			return err
		} else if err != nil {
			s.cfg.Log.Warn("old rows were not dropped; the next hour tries again", "team", team.ID, "error", err)
		}
		more, err := s.find(ctx, team.ID)
		if err != nil {
			return err
		}
		living = append(living, more...)
	}
	slices.SortStableFunc(living, inOrder)
	for _, f := range living {
		if err := s.resumeNow(ctx, f.row.Value.ID); err != nil {
			return err
		}
	}
	for _, team := range teams {
		if err := s.expectClient(ctx, team.ID); err != nil {
			return err
		}
		for due, err := range s.cfg.Journal.Dues(ctx, team.ID) {
			if err != nil {
				return err
			}
			s.due.add(due)
		}
		s.runErrandsSoon(team.ID)
	}
	return nil
}

// putOnItsWay lets a task run that has work, unless its group decides when, or it has to wait for the end of a backoff.
func (s *Supervisor) putOnItsWay(ctx context.Context, t task.Task) error {
	_, err := s.cfg.Journal.Due(ctx, t.Team, t.ID, journal.DueResume)
	switch {
	case err == nil:
		return nil
	case errdefs.Is(err, errdefs.RecordCorrupt):
		s.cfg.Log.Error("the end of a task's backoff is in quarantine; it is resumed at once", "task", t.ID, "error", err)
	case !errdefs.Is(err, errdefs.RecordNotFound):
		return err
	}
	switch {
	case waitsForGroup(t):
	case t.Kind == task.Teammate && t.State != task.Queued:
		s.wake(t.Team, t.ID)
	default:
		s.enqueue(t.Team, t.ID)
	}
	return nil
}

// inOrder puts what ran before what waits for its first start, and what is older first.
func inOrder(a, b found) int {
	if a.queued() != b.queued() {
		if b.queued() {
			return -1
		}
		return 1
	}
	return a.row.Value.Created.Compare(b.row.Value.Created)
}

// sweep ends the processes that an earlier daemon left (T3), and forgets them.
func (s *Supervisor) sweep(ctx context.Context, teams []roster.Team) error {
	var left []journal.LooseProcess
	var recorded []sandbox.Process
	for _, team := range teams {
		for p, err := range s.cfg.Journal.Processes(ctx, team.ID) {
			if err != nil {
				return err
			}
			left, recorded = append(left, p), append(recorded, p.Process)
		}
	}
	reaped, err := s.cfg.Processes.Sweep(ctx, recorded)
	if err != nil {
		s.cfg.Log.Error("processes of an earlier daemon remain", "error", err)
		return nil // their records stay for the next start
	}
	if reaped > 0 {
		s.cfg.Log.Info("killed processes that an earlier daemon left", "processes", reaped)
	}
	for _, p := range left {
		b := s.cfg.Journal.Batch(p.Team)
		b.DeleteProcess(p.TaskID, p.CallID)
		if err := s.commit(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// find reads a team's tasks that have work. Idle teammates are not looked at (W4). A record in quarantine is reported by the store, and its task is lost.
func (s *Supervisor) find(ctx context.Context, team string) ([]found, error) {
	var living []found
	for id, err := range s.cfg.Journal.Working(ctx, team) {
		if err != nil {
			return nil, err
		}
		row, live, err := s.living(ctx, id)
		switch {
		case errors.Is(err, agent.ErrGone): // it ended meanwhile
		case journal.IsLost(err):
			s.cfg.Log.Error("a living task's record is in quarantine; the task is lost", "task", id, "error", err)
		case err != nil:
			return nil, err
		default:
			living = append(living, found{row, live})
		}
	}
	return living, nil
}

// restarted is a task's live record after this start, which counts against it only if it ran, the daemon did not stop in
// order, and no step was committed since the start before (D6).
func (s *Supervisor) restarted(ctx context.Context, f found) (journal.Live, error) {
	stepped, err := s.stepped(ctx, f.row.Value, task.Seq(f.live.Rev))
	live := f.live.Value
	switch {
	case stepped:
		live.Restarts, live.FailedResumes = 0, 0
	case live.Start != noLoop && !s.cfg.Journal.CleanStop() && f.row.Value.Kind != task.Group &&
		f.row.Value.State != task.Waiting: // a group and who waits only watch others, who answer for themselves
		live.Restarts++
	}
	live.Start, live.Alone = noLoop, false
	return live, err
}

// stepped tells whether a task's loop committed anything of a step after a position.
func (s *Supervisor) stepped(ctx context.Context, t task.Task, after task.Seq) (bool, error) {
	for e, err := range s.cfg.Journal.Entries(ctx, t.Team, t.ID, after) {
		if err != nil {
			return false, err
		}
		switch e.Body.(type) {
		case *task.Assistant, *task.ToolResult, *task.Compaction:
			return true, nil
		}
	}
	return false, nil
}

// resumeNow resumes a task as it is now: the stop of another one may have changed or ended it since it was found.
func (s *Supervisor) resumeNow(ctx context.Context, id task.ID) error {
	for {
		row, live, err := s.living(ctx, id)
		if errors.Is(err, agent.ErrGone) {
			return nil
		}
		if err == nil {
			err = s.resume(ctx, found{row, live})
		}
		if !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
	}
}

// resume writes what the restart means for a task and puts it on its way: an innocent one at once, a suspect after its
// backoff, alone. One that took the daemon down while it was alone is parked.
func (s *Supervisor) resume(ctx context.Context, f found) error {
	t := f.row.Value
	if t.Kind == task.Shell && !f.queued() {
		return s.shellLost(ctx, t)
	}
	live, err := s.restarted(ctx, f)
	if err != nil {
		return err
	}
	if live.Restarts > maxRestarts && f.live.Value.Alone {
		return s.fail(ctx, t.ID, task.CrashLoop, "the daemon went down each time this task ran")
	}
	if err := s.noteRestart(ctx, f, live); err != nil {
		return err
	}
	if err := s.stopOrphan(ctx, t); err != nil {
		return err
	}
	return s.putOnItsWay(ctx, t)
}

// noteRestart writes what the restart made of the live record, a suspect's backoff, and the time a client has to come
// back.
func (s *Supervisor) noteRestart(ctx context.Context, f found, live journal.Live) error {
	t := f.row.Value
	b := s.cfg.Journal.Batch(t.Team)
	suspect := live.Restarts >= maxRestarts
	if suspect {
		at := b.Now().Add(backoff(live.Restarts - maxRestarts + 1))
		b.PutDue(journal.Due{At: at, TaskID: t.ID, Kind: journal.DueResume})
	}
	attached := t.CancelOnDisconnect && t.Stop == nil
	if attached {
		b.PutDue(journal.Due{At: b.Now().Add(reattachTime), TaskID: t.ID, Kind: journal.DueReattach})
	}
	if live == f.live.Value && !suspect && !attached {
		return nil
	}
	b.GuardLive(t.ID, f.live.Rev)
	b.PutLive(t.ID, live)
	return s.commit(ctx, b)
}

// expectClient gives the client of a lead that waits for quiet the time to come back, when that lead is idle: it is the only
// task at rest whose spawn may be followed (T6).
func (s *Supervisor) expectClient(ctx context.Context, team string) error {
	lead, found, err := s.post.Registry.Lead(ctx, team)
	if journal.IsLost(err) || err == nil && (!found || lead.Value.State != task.Idle || !lead.Value.CancelOnDisconnect) {
		return nil
	}
	if err != nil {
		return err
	}
	b := s.cfg.Journal.Batch(team)
	b.GuardTask(lead)
	b.PutDue(journal.Due{At: b.Now().Add(reattachTime), TaskID: lead.Value.ID, Kind: journal.DueReattach})
	return s.commit(ctx, b)
}

// stopOrphan stops a child whose parent is lost, ended or being stopped: the cascade did not reach it.
func (s *Supervisor) stopOrphan(ctx context.Context, t task.Task) error {
	if t.Parent == "" {
		return nil
	}
	parent, err := s.cfg.Journal.Task(ctx, t.Parent)
	switch {
	case journal.IsLost(err), err == nil && parent.Value.State.Terminal():
		return s.order(ctx, t.ID, parentEnded(parent.Value, task.Cancel), nil)
	case err == nil && parent.Value.Stop != nil:
		return s.order(ctx, t.ID, parentEnded(parent.Value, parent.Value.Stop.Level), nil)
	}
	return err
}
