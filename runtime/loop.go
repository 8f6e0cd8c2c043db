package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Why a loop's ctx ends.
var (
	errShutdown = errors.New("the daemon stops")
	errStopped  = errors.New("the task is being stopped")
)

// How often a resume may fail in a row before the task is parked (D6).
const (
	maxFailedResumes = 3
	maxShortages     = 10 // for want of what may be there again in a moment; so often takes 4 minutes
)

// panicked is a panic of a task's loop.
type panicked struct {
	value any
	stack []byte
}

// Error names the panic.
func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// runLoop works on a task until it is terminal or the daemon stops. After a fault of the store it waits, and starts the
// task anew from what is on disk (D8).
func (s *Supervisor) runLoop(ctx context.Context, l *loop, alone bool) {
	for {
		err := s.runOnce(ctx, l, alone)
		if errors.Is(err, agent.ErrDrained) && !s.isDraining() {
			s.wake(l.team, l.id) // the loop was cut for a stop of an earlier life of its task, or was alone for long enough
		}
		if err = s.settle(ctx, l.id, err); !journal.IsFault(err) {
			if err != nil {
				s.cfg.Log.Error("task has no loop until the next start", "task", l.id, "error", err)
			}
			s.endIfQuiet(ctx, l.team)
			return
		}
		if errdefs.Is(err, errdefs.OutcomeUnknown) {
			s.takeUpSoon(context.WithoutCancel(ctx)) // what it wrote may have given others work
		}
		s.cfg.Log.Warn("task waits for the store", "task", l.id, "error", err)
		if s.awaitStore(context.WithoutCancel(ctx)) != nil {
			return
		}
		_ = s.acquire(ctx, l) // one that was cut meanwhile needs no slot to write its end
	}
}

// runOnce starts the task and runs its loop once. A panic becomes an error: it touches no other task (S3).
func (s *Supervisor) runOnce(ctx context.Context, l *loop, alone bool) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: debug.Stack()}
		}
	}()
	w, err := s.start(context.WithoutCancel(ctx), l, alone) // one that is being stopped starts, to write its end
	if err != nil {
		return err
	}
	defer w.close()
	if w.task.Stop != nil && w.task.Stop.Level >= task.Cancel {
		stopped, cancel := context.WithCancelCause(ctx)
		cancel(errStopped)
		ctx = stopped
	}
	return w.run(ctx)
}

// settle does what the end of a loop demands. Its own error is the store's, or one that nothing can be done about.
func (s *Supervisor) settle(ctx context.Context, id task.ID, err error) error {
	ctx = context.WithoutCancel(ctx)
	var p *panicked
	switch {
	case err == nil, errors.Is(err, agent.ErrGone):
		if err == nil {
			s.due.forgetTurn(id)
		}
		s.cascade(ctx, id, task.Cancel)
		return nil
	case errors.Is(err, agent.ErrDrained):
		return nil
	case journal.IsFault(err):
		return err
	case errors.As(err, &p):
		s.cfg.Log.Error("task panicked", "task", id, "panic", p.value, "stack", string(p.stack))
		return s.fail(ctx, id, task.Panic, "the task's loop failed inside the daemon")
	}
	s.cfg.Log.Error("task could not be run", "task", id, "error", err)
	return s.startFailed(ctx, id, err)
}

// startFailed ends a task that can't be started, or puts off one that can't be resumed, or only now not be started, a
// bounded number of times.
func (s *Supervisor) startFailed(ctx context.Context, id task.ID, cause error) error {
	for {
		row, live, err := s.living(ctx, id)
		if errors.Is(err, agent.ErrGone) {
			return nil
		}
		if err != nil {
			return err
		}
		stepped, err := s.stepped(ctx, row.Value, task.Seq(live.Rev))
		if err != nil {
			return err
		}
		if stepped {
			live.Value.Restarts, live.Value.FailedResumes = 0, 0
		}
		failed := live.Value.FailedResumes + 1
		limit, reason := maxFailedResumes, task.CrashLoop
		if row.Value.State == task.Queued && row.Value.Incarnation <= 1 { // a revival is tried again (W2)
			limit, reason = 1, task.SpawnFailed
		}
		if errdefs.KindOf(cause) == errdefs.Unavailable {
			limit = maxShortages
		}
		if failed >= limit {
			return s.fail(ctx, id, reason, errdefs.As(cause).Message)
		}
		if err := s.putOff(ctx, row.Value, live, failed); !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
	}
}

// putOff gives a task that failed so often in a row its next try after a backoff.
func (s *Supervisor) putOff(ctx context.Context, t task.Task, live journal.Row[journal.Live], failed int) error {
	b := s.cfg.Journal.Batch(t.Team)
	next := live.Value
	next.Start, next.FailedResumes = noLoop, failed
	b.GuardLive(t.ID, live.Rev)
	b.PutLive(t.ID, next)
	due := journal.Due{At: b.Now().Add(backoff(failed)), TaskID: t.ID, Kind: journal.DueResume}
	b.PutDue(due)
	if err := s.commit(ctx, b); err != nil {
		return err
	}
	s.due.add(due)
	return nil
}

// backoff is the pause before the n-th further try.
func backoff(n int) time.Duration { return min(time.Second<<min(n-1, 10), time.Minute) }
