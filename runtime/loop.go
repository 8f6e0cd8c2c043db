package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// Why a loop's ctx ends.
var (
	errShutdown = errors.New("the daemon stops")
	errStopped  = errors.New("the task is being stopped")
)

// maxFailedResumes is how often a resume may fail in a row before the task is parked (D6).
const maxFailedResumes = 3

// panicked is a panic of a task's loop.
type panicked struct {
	value any
	stack []byte
}

// Error names the panic.
func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// runLoop works on a task until it is terminal or the daemon stops. After a fault of the store it waits, and starts the
// task anew from what is on disk (D8).
func (s *Supervisor) runLoop(ctx context.Context, id task.ID, alone bool) {
	for {
		err := s.settle(ctx, id, s.runOnce(ctx, id, alone))
		if !isStoreFault(err) {
			if err != nil {
				s.cfg.Log.Error("task has no loop until the next start", "task", id, "error", err)
			}
			return
		}
		s.cfg.Log.Warn("task waits for the store", "task", id, "error", err)
		if s.awaitStore(context.WithoutCancel(ctx)) != nil {
			return
		}
	}
}

// settle does what the end of a loop demands. Its own error is the store's, or one that nothing can be done about.
func (s *Supervisor) settle(ctx context.Context, id task.ID, err error) error {
	ctx = context.WithoutCancel(ctx)
	var p *panicked
	switch {
	case err == nil:
		s.cascade(ctx, id, task.Cancel)
		return nil
	case errors.Is(err, agent.ErrGone), errors.Is(err, agent.ErrDrained):
		return nil
	case isStoreFault(err):
		return err
	case errors.As(err, &p):
		s.cfg.Log.Error("task panicked", "task", id, "panic", p.value, "stack", string(p.stack))
		return s.fail(ctx, id, task.Panic, "the agent's loop failed inside the daemon")
	}
	s.cfg.Log.Error("task could not be run", "task", id, "error", err)
	return s.startFailed(ctx, id, err)
}

// fail ends a task as FAILED, and what is below it.
func (s *Supervisor) fail(ctx context.Context, id task.ID, reason task.Reason, message string) error {
	if err := s.endTask(ctx, id, task.Finish{State: task.Failed, Reason: reason, Error: message}, nil); err != nil {
		return err
	}
	s.cascade(ctx, id, task.Cancel)
	return nil
}

// isDraining tells whether the daemon stops.
func (s *Supervisor) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// runOnce starts the task and runs its loop once. A panic becomes an error: it touches no other task (S3).
func (s *Supervisor) runOnce(ctx context.Context, id task.ID, alone bool) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: debug.Stack()}
		}
	}()
	a, err := s.start(ctx, id, alone)
	if err != nil {
		return err
	}
	defer func() { _ = a.Scope.Files.Close() }() // directories only: nothing can be lost
	if a.Task.Stop != nil && a.Task.Stop.Level >= task.Cancel {
		stopped, cancel := context.WithCancelCause(ctx)
		cancel(errStopped)
		ctx = stopped
	}
	return a.Run(ctx)
}

// start makes a loop for the task and writes its start. All that can fail is done before the commit that says RUNNING
// (S2).
func (s *Supervisor) start(ctx context.Context, id task.ID, alone bool) (*agent.Agent, error) {
	row, live, err := s.living(ctx, id)
	if err != nil {
		return nil, err
	}
	t := row.Value
	team, err := s.cfg.Journal.Team(ctx, t.Team)
	if err != nil {
		return nil, err
	}
	history, err := agent.Load(ctx, s.cfg.Journal, t, agent.SystemPrompt(t, team.Name))
	if err != nil {
		return nil, err
	}
	files, err := sandbox.OpenRoots(t.Workspace, t.Grant)
	if err != nil {
		return nil, err
	}
	a := &agent.Agent{
		Journal: s.cfg.Journal, Model: s.cfg.Model, Tools: s.cfg.Tools.Filter(t.Grant.Tools),
		Slots: pauser{s, id}, Draining: s.draining, Now: s.cfg.Now, Log: s.cfg.Log, History: history,
		Deltas: func(d task.Delta) { s.cfg.Live.Publish(id, d) },
	}
	if a.Task, a.LiveRev, err = s.commitStart(ctx, row, live, alone); err != nil {
		_ = files.Close() // only read so far
		return nil, err
	}
	owner := sandbox.Owner{TaskID: string(id), TeamID: t.Team, Start: a.Task.Start}
	a.Scope = &tool.Scope{
		TaskID: id, Workspace: t.Workspace, Grant: t.Grant, Files: files, Known: history.Known,
		Outputs: outputs{s.cfg.Journal, t.Team, id},
		Shell:   s.cfg.Processes.Shell(owner, nil, a.ProcessStarted, a.ProcessEnded),
	}
	return a, nil
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

// commitStart writes RUNNING for a queued task, and the next start number for any.
func (s *Supervisor) commitStart(
	ctx context.Context, row journal.Row[task.Task], live journal.Row[journal.Live], alone bool,
) (task.Task, journal.Rev, error) {
	t := row.Value
	var change task.Change = task.Resume{}
	if t.State == task.Queued {
		change = task.Start{}
	}
	b := s.cfg.Journal.Batch(t.Team)
	after, err := task.Apply(t, change, b.Now())
	if err != nil {
		return t, 0, err
	}
	var due *journal.Due
	if t.State == task.Queued && t.Budget.WallTime > 0 {
		due = &journal.Due{At: b.Now().Add(t.Budget.WallTime), TaskID: t.ID, Kind: journal.DueTimeout}
		b.PutDue(*due)
	}
	b.DeleteDue(t.ID, journal.DueResume)
	b.ChangeTask(row, after)
	b.GuardLive(t.ID, live.Rev)
	next := live.Value
	next.Start, next.Alone, next.FailedResumes = after.Start, alone, 0
	b.PutLive(t.ID, next)
	if err := s.cfg.Journal.Commit(ctx, b); err != nil {
		if errdefs.Is(err, errdefs.Conflict) {
			return s.startOvertaken(ctx, t.ID, alone)
		}
		return t, 0, err
	}
	if due != nil {
		s.due.add(*due)
	}
	now, err := s.cfg.Journal.Live(ctx, t.Team, t.ID)
	if errdefs.Is(err, errdefs.RecordNotFound) || now.Value.Start != after.Start {
		return t, 0, agent.ErrGone // it ended, or started again, already
	}
	return after, now.Rev, err
}

// startOvertaken starts again from what is there now: a stop came between.
func (s *Supervisor) startOvertaken(ctx context.Context, id task.ID, alone bool) (task.Task, journal.Rev, error) {
	row, live, err := s.living(ctx, id)
	if err != nil {
		return row.Value, 0, err
	}
	return s.commitStart(ctx, row, live, alone)
}

// startFailed ends a task that can't be started, or puts off one that can't be resumed, a bounded number of times.
func (s *Supervisor) startFailed(ctx context.Context, id task.ID, cause error) error {
	row, live, err := s.living(ctx, id)
	if errors.Is(err, agent.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	message := errdefs.As(cause).Message
	failed := live.Value.FailedResumes + 1
	switch {
	case row.Value.State == task.Queued:
		return s.fail(ctx, id, task.SpawnFailed, message)
	case failed >= maxFailedResumes:
		return s.fail(ctx, id, task.CrashLoop, message)
	}
	b := s.cfg.Journal.Batch(row.Value.Team)
	next := live.Value
	next.FailedResumes = failed
	b.GuardLive(id, live.Rev)
	b.PutLive(id, next)
	due := journal.Due{At: b.Now().Add(backoff(failed)), TaskID: id, Kind: journal.DueResume}
	b.PutDue(due)
	if err := s.cfg.Journal.Commit(ctx, b); err != nil {
		return err
	}
	s.due.add(due)
	return nil
}

// backoff is the pause before the n-th further try.
func backoff(n int) time.Duration { return min(time.Second<<min(n-1, 10), time.Minute) }

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
