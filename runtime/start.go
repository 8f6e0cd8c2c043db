package runtime

import (
	"context"
	"errors"
	"io"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// noLoop is the start number in the live record of a task that has had no loop in this life of the daemon, and so is not
// to blame when that life ends.
const noLoop = 0

// work is a task's loop, started and ready to run.
type work struct {
	task  task.Task // as the start's commit left it
	run   func(ctx context.Context) error
	close func() // gives back what it holds; called once, after run
}

// start makes a loop for the task and writes its start. All that can fail is done before the commit that says RUNNING
// (S2).
func (s *Supervisor) start(ctx context.Context, l *loop, alone bool) (work, error) {
	row, _, err := s.living(ctx, l.id)
	if err != nil {
		return work{}, err
	}
	spec, err := s.cfg.Journal.Spec(ctx, row.Value.Team, l.id)
	if err != nil {
		return work{}, err
	}
	switch row.Value.Kind {
	case task.Shell:
		return s.startShell(ctx, l, row.Value, spec, alone)
	case task.Group:
		return s.startGroup(ctx, l, row.Value, spec, alone)
	case task.Subagent, task.Teammate:
	}
	return s.startAgent(ctx, l, row.Value, spec, alone)
}

func (s *Supervisor) startAgent(ctx context.Context, l *loop, t task.Task, spec task.Spec, alone bool) (work, error) {
	in, err := s.cfg.Journal.Team(ctx, t.Team)
	if err != nil {
		return work{}, err
	}
	above, err := s.above(ctx, t)
	if err != nil {
		return work{}, err
	}
	system := agent.SystemPrompt(t, spec, in.Name, s.cfg.Protocol)
	history, err := agent.Load(ctx, s.cfg.Journal, t, s.histories.take(t.ID), system, s.cfg.Protocol.Format)
	if err != nil {
		return work{}, err
	}
	files, err := sandbox.OpenRoots(t.Workspace, t.Grant)
	if err != nil {
		return work{}, err
	}
	a := &agent.Agent{
		Journal: s.cfg.Journal, Model: s.cfg.Model, Tools: s.cfg.Tools, Slots: pauser{s, l}, Draining: s.draining,
		Now: s.cfg.Now, Log: s.cfg.Log, Spec: spec, History: history, Above: above, Post: s.post,
		Facts: s.cfg.Facts(t.Model), CacheKey: s.cfg.Journal.StoreID() + "-" + string(t.ID),
		Deltas: func(d task.Delta) { s.cfg.Live.Publish(l.id, d) },
	}
	if a.Task, a.LiveRev, err = s.commitStart(ctx, l.id, alone); err != nil {
		_ = files.Close() // only read so far
		return work{}, err
	}
	s.hears(l, a)
	owner := sandbox.Owner{TaskID: string(l.id), TeamID: t.Team, Start: a.Task.Start}
	family := newFamily(s, l, a.Task)
	a.Scope = &tool.Scope{
		Workspace: t.Workspace, Grant: t.Grant, Files: files, Known: history.Known, HasSchema: spec.Schema != "",
		Outputs: outputs{s.cfg.Journal, t.Team, l.id}, Tasks: family,
		Shell: s.cfg.Processes.Shell(owner, sandbox.Events{
			Started: a.ProcessStarted, Ended: a.ProcessEnded,
			Killed: func(killed []sandbox.Process) { s.countKilled(l, killed) },
		}).Beside(files),
	}
	if t.Kind == task.Teammate {
		a.Scope.Crew = &crew{s: s, task: a.Task, family: family}
	}
	run := func(ctx context.Context) error {
		err := a.Run(ctx)
		if f, ok := a.AtRest(); ok {
			s.histories.keep(l.id, f)
		}
		return err
	}
	return work{task: a.Task, run: run, close: func() { _ = files.Close() }}, nil // directories only: nothing can be lost
}

// above are the tasks above t whose budgets its calls count against (R4).
func (s *Supervisor) above(ctx context.Context, t task.Task) ([]task.Task, error) {
	var above []task.Task
	for _, id := range t.Ancestors {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil {
			return nil, err
		}
		if row.Value.Budget.Shared() {
			above = append(above, row.Value)
		}
	}
	return above, nil
}

// living reads a task that can be started; ErrGone when it has ended.
func (s *Supervisor) living(ctx context.Context, id task.ID) (journal.Row[task.Task], journal.Row[journal.Live], error) {
	row, err := s.cfg.Journal.Task(ctx, id)
	if err == nil && row.Value.State.Terminal() {
		err = agent.ErrGone
	}
	if err != nil {
		return row, journal.Row[journal.Live]{}, err
	}
	live, err := s.cfg.Journal.Live(ctx, row.Value.Team, id)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		err = agent.ErrGone
	}
	return row, live, err
}

// commitStart writes RUNNING for a queued or idle task, and the next start number for any, again when a stop came between. It
// gives the task after it, and the revision that guards the loop.
func (s *Supervisor) commitStart(ctx context.Context, id task.ID, alone bool) (task.Task, journal.Rev, error) {
	for {
		row, live, err := s.living(ctx, id)
		if err != nil {
			return row.Value, 0, err
		}
		after, err := s.writeStart(ctx, row, live, alone)
		if errdefs.Is(err, errdefs.Conflict) {
			continue
		}
		if err != nil {
			return row.Value, 0, err
		}
		now, err := s.cfg.Journal.Live(ctx, after.Team, id)
		if errdefs.Is(err, errdefs.RecordNotFound) {
			err = agent.ErrGone // it was killed already
		}
		return after, now.Rev, err
	}
}

// beginning is the change with which a task gets a loop.
func beginning(t task.Task) task.Change {
	switch t.State {
	case task.Queued:
		return task.Start{}
	case task.Idle:
		return task.Wake{}
	case task.Running, task.Waiting, task.Stopping, task.Completed, task.Failed, task.Killed:
	}
	return task.Resume{}
}

func (s *Supervisor) writeStart(
	ctx context.Context, row journal.Row[task.Task], live journal.Row[journal.Live], alone bool,
) (task.Task, error) {
	t := row.Value
	change := beginning(t)
	b := s.cfg.Journal.Batch(t.Team)
	after, err := task.Apply(t, change, b.Now())
	if err != nil {
		return t, err
	}
	if t.State == task.Queued {
		if err := s.guardAbove(ctx, b, t); err != nil {
			return t, err
		}
	}
	stepped, err := s.stepped(ctx, t, task.Seq(live.Rev))
	if err != nil {
		return t, err
	}
	next := live.Value
	next.Start, next.Alone = after.Start, alone
	if stepped {
		next.Restarts, next.FailedResumes = 0, 0
	}
	b.ChangeTask(row, after)
	b.GuardLive(t.ID, live.Rev)
	b.PutLive(t.ID, next)
	b.DeleteDue(t.ID, journal.DueResume)
	timeout := journal.Due{At: b.Now().Add(t.Budget.WallTime), TaskID: t.ID, Kind: journal.DueTimeout}
	limited := (t.State == task.Queued || t.State == task.Idle) && t.Budget.WallTime > 0
	if limited {
		b.PutDue(timeout)
	}
	err = s.commit(ctx, b)
	if err == nil && limited {
		s.due.add(timeout)
	}
	return after, err
}

// guardAbove lets a queued task start only while none above it is stopping or has ended: what a stop has not reached yet
// never starts (T2). Such a task ends here, and is ErrGone.
func (s *Supervisor) guardAbove(ctx context.Context, b *journal.Batch, t task.Task) error {
	for _, id := range t.Ancestors {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil && !journal.IsLost(err) {
			return err
		}
		if err != nil || row.Value.State.Terminal() || row.Value.Stop != nil {
			return errors.Join(agent.ErrGone, s.order(ctx, t.ID, parentEnded(row.Value, task.Kill), nil))
		}
		b.GuardTask(row)
	}
	return nil
}

// outputs opens the kept outputs of a task's earlier calls.
type outputs struct {
	journal *journal.Journal
	team    string
	id      task.ID
}

// Output opens what a call kept.
func (o outputs) Output(ctx context.Context, callID string) (io.ReadCloser, error) {
	return o.journal.Output(ctx, o.team, o.id, callID)
}
