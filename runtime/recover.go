package runtime

import (
	"context"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
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

// found is a living task at start.
type found struct {
	row      journal.Row[task.Task]
	live     journal.Row[journal.Live]
	restarts int // with this one
}

// recover brings the store and the machine to where tasks can go on (D4): no leftover process, no orphan, deadlines
// loaded, and every living task on its way.
func (s *Supervisor) recover(ctx context.Context) error {
	teams, err := s.cfg.Journal.Teams(ctx)
	if err != nil {
		return err
	}
	if err := s.sweep(ctx, teams); err != nil {
		return err
	}
	var running, queued []found
	for _, team := range teams {
		if err := s.cfg.Journal.Prune(ctx, team.ID); err != nil {
			return err
		}
		if err := s.find(ctx, team.ID, &running, &queued); err != nil {
			return err
		}
		for due, err := range s.cfg.Journal.Dues(ctx, team.ID) {
			if err != nil {
				return err
			}
			s.due.add(due)
		}
	}
	return s.resume(ctx, append(running, queued...))
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
	reaped, err := s.cfg.Processes.Sweep(ctx, recorded, func(string) bool { return false })
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
		if err := s.cfg.Journal.Commit(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// find sorts a team's living tasks into those that had a loop and those that wait for their first.
func (s *Supervisor) find(ctx context.Context, team string, running, queued *[]found) error {
	for id, err := range s.cfg.Journal.Living(ctx, team) {
		if err != nil {
			return err
		}
		row, err := s.cfg.Journal.Task(ctx, id)
		if errdefs.Is(err, errdefs.TaskNotFound) || errdefs.Is(err, errdefs.RecordCorrupt) {
			s.cfg.Log.Error("a living task's record is in quarantine; the task is lost", "task", id, "error", err)
			continue
		}
		if err != nil {
			return err
		}
		live, err := s.cfg.Journal.Live(ctx, team, id)
		if err != nil {
			return err
		}
		f := found{row: row, live: live}
		if row.Value.State == task.Queued {
			*queued = append(*queued, f)
			continue
		}
		if f.restarts, err = s.restarts(ctx, f); err != nil {
			return err
		}
		*running = append(*running, f)
	}
	return nil
}

// restarts counts this start against a task only if it ran, the daemon did not stop in order, and no step was committed
// since the start before (D6).
func (s *Supervisor) restarts(ctx context.Context, f found) (int, error) {
	stepped, err := s.stepped(ctx, f.row.Value, task.Seq(f.live.Rev))
	switch {
	case err != nil || stepped:
		return 0, err
	case s.cfg.Journal.CleanStop():
		return f.live.Value.Restarts, nil
	}
	return f.live.Value.Restarts + 1, nil
}

// stepped tells whether a task's loop committed anything of a step after a position.
func (s *Supervisor) stepped(ctx context.Context, t task.Task, after task.Seq) (bool, error) {
	for e, err := range s.cfg.Journal.Entries(ctx, t.Team, t.ID, after) {
		if err != nil {
			return false, err
		}
		switch e.Body.(type) {
		case *task.Assistant, *task.ToolResult:
			return true, nil
		}
	}
	return false, nil
}

// resume writes what the restart means for each task and puts it on its way: the innocent at once, a suspect after its
// backoff, alone. One that took the daemon down while it was alone is parked.
func (s *Supervisor) resume(ctx context.Context, tasks []found) error {
	for _, f := range tasks {
		t := f.row.Value
		if f.restarts >= maxRestarts && f.live.Value.Alone {
			err := s.fail(ctx, t.ID, task.CrashLoop, "the daemon went down each time this task ran")
			if err != nil {
				return err
			}
			continue
		}
		if err := s.noteRestart(ctx, f); err != nil {
			return err
		}
		if err := s.stopOrphan(ctx, t); err != nil {
			return err
		}
		if f.restarts < maxRestarts && !s.putOff(ctx, t) {
			s.enqueue(t.ID)
		}
	}
	return nil
}

// putOff tells whether a backoff holds the task back; its deadline brings it.
func (s *Supervisor) putOff(ctx context.Context, t task.Task) bool {
	_, err := s.cfg.Journal.Due(ctx, t.Team, t.ID, journal.DueResume)
	return err == nil
}

// noteRestart writes the count of restarts, a suspect's backoff, and the time a client has to come back.
func (s *Supervisor) noteRestart(ctx context.Context, f found) error {
	t, live := f.row.Value, f.live.Value
	b := s.cfg.Journal.Batch(t.Team)
	var dues []journal.Due
	if f.restarts >= maxRestarts {
		at := b.Now().Add(backoff(f.restarts - maxRestarts + 1))
		dues = append(dues, journal.Due{At: at, TaskID: t.ID, Kind: journal.DueResume})
	}
	if t.CancelOnDisconnect && t.State != task.Stopping {
		dues = append(dues, journal.Due{At: b.Now().Add(reattachTime), TaskID: t.ID, Kind: journal.DueReattach})
	}
	if f.restarts == live.Restarts && len(dues) == 0 {
		return nil
	}
	live.Restarts = f.restarts
	b.GuardLive(t.ID, f.live.Rev)
	b.PutLive(t.ID, live)
	for _, due := range dues {
		b.PutDue(due)
	}
	if err := s.cfg.Journal.Commit(ctx, b); err != nil {
		return err
	}
	for _, due := range dues {
		s.due.add(due)
	}
	return nil
}

// stopOrphan stops a child whose parent ended or is being stopped: the cascade did not reach it before the crash.
func (s *Supervisor) stopOrphan(ctx context.Context, t task.Task) error {
	if t.Parent == "" {
		return nil
	}
	parent, err := s.cfg.Journal.Task(ctx, t.Parent)
	switch {
	case err != nil:
		return err
	case parent.Value.State.Terminal():
		return s.order(ctx, t.ID, parentEnded(task.Cancel), nil)
	case parent.Value.Stop != nil:
		return s.order(ctx, t.ID, parentEnded(parent.Value.Stop.Level), nil)
	}
	return nil
}
