package runtime

import (
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

const (
	// shellCall stands for the call id in the record of a shell's process.
	shellCall = "shell"
	// farewell is how long a command may take to end when the daemon stops.
	farewell = 3 * time.Second
	// outputEvery is how long output waits for more before it is committed (O4).
	outputEvery = 100 * time.Millisecond
)

// shell is the loop of one shell: a command and what it writes.
type shell struct {
	s       *Supervisor
	task    task.Task   // as the start's commit left it
	live    journal.Rev // guards every commit
	command *sandbox.Running
	out     *collector
	ended   bool // the command is
}

// startShell makes the loop of a shell. When RUNNING is on disk the command stands behind its latch, and all that can
// fail has not (S2).
func (s *Supervisor) startShell(ctx context.Context, l *loop, t task.Task, spec task.Spec, alone bool) (work, error) {
	if s.isDraining() {
		return work{}, agent.ErrDrained // a queued one starts with the next daemon; one that ran is not to run again
	}
	if spec.Shell == nil {
		return work{}, errdefs.New(errdefs.DataLoss, errdefs.RecordCorrupt, string(t.ID), "it is lost what %s was to run", t.ID)
	}
	sh := &shell{s: s, out: newCollector(s.cfg.ShellQuota, s.shells)}
	// The start that is about to be written is the next one, for only this loop writes starts.
	owner := sandbox.Owner{TaskID: string(t.ID), TeamID: t.Team, Start: t.Start + 1}
	cmd := sandbox.Command{CallID: shellCall, Line: spec.Shell.Command, Dir: spec.Shell.Dir, Env: spec.Shell.Env}
	var err error
	if sh.command, err = s.cfg.Processes.Launch(owner, cmd, sh.out.stream(task.Stdout), sh.out.stream(task.Stderr)); err != nil {
		return work{}, err
	}
	sh.command.OnKill(func(killed []sandbox.Process) { s.countKilled(l, killed) })
	if err = sh.inPlace(cmd.Dir); err == nil {
		sh.task, sh.live, err = s.commitStart(ctx, l.id, alone)
	}
	if err != nil {
		sh.close(ctx)
		return work{}, err
	}
	return work{task: sh.task, run: sh.run, close: func() { sh.close(ctx) }}, nil
}

// inPlace refuses a command that would not work in the directory that it was granted: what stands there now may be a link
// to anywhere.
func (sh *shell) inPlace(dir string) error {
	if now, err := sh.command.Dir(); err != nil || now != dir {
		return errdefs.New(errdefs.FailedPrecondition, errdefs.NoWorkspace, dir,
			"the directory %s was moved, removed or replaced before the command could start", dir)
	}
	return nil
}

// close leaves nothing of a command whose loop did not come to its end.
func (sh *shell) close(ctx context.Context) {
	if !sh.ended {
		_, _ = sh.end(ctx) // what resists is logged
	}
	sh.out.close()
	sh.out.release()
}

// run lets the command go when its process is on disk (T3), commits what it writes while it writes, and ends the task
// with what wait reports. The command goes on while the store is stalled.
func (sh *shell) run(ctx context.Context) error {
	durable := context.WithoutCancel(ctx)
	b := sh.batch()
	b.PutProcess(sh.task.ID, shellCall, sh.command.Process())
	if err := sh.commit(durable, b); err != nil {
		return err
	}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	committed := make(chan error, 1)
	go func() {
		err := sh.commitOutput(durable)
		giveUp(err)
		committed <- err
	}()
	end := sh.attend(ctx)
	exit, err := sh.end(durable)
	if err != nil {
		end = resisted
	}
	sh.out.close()
	if err := <-committed; err != nil {
		return sh.leave(durable, err)
	}
	return sh.leave(durable, sh.finish(durable, end, exit))
}

// end kills what is left of the command and gathers the rest of its output.
func (sh *shell) end(ctx context.Context) (sandbox.Exit, error) {
	sh.ended = true
	sh.out.loosen()
	return sh.command.End(ctx)
}

// leave forgets the process of a task that something else ends.
func (sh *shell) leave(ctx context.Context, err error) error {
	if err == nil || journal.IsFault(err) || sh.command.Resisted() {
		return err
	}
	b := sh.s.cfg.Journal.Batch(sh.task.Team)
	b.DeleteProcess(sh.task.ID, shellCall)
	if lost := sh.s.commit(ctx, b); lost != nil {
		sh.s.cfg.Log.Warn("a process is not forgotten; the next start does it", "task", sh.task.ID, "error", lost)
	}
	return err
}

// batch starts a batch of this loop: it holds only while the loop is the task's.
func (sh *shell) batch() *journal.Batch {
	b := sh.s.cfg.Journal.Batch(sh.task.Team)
	b.GuardLive(sh.task.ID, sh.live)
	return b
}

// commit writes a batch that nothing but the live record guards: ErrGone when that has changed.
func (sh *shell) commit(ctx context.Context, b *journal.Batch) error {
	err := sh.s.cfg.Journal.Commit(ctx, b)
	if errdefs.Is(err, errdefs.Conflict) {
		return agent.ErrGone
	}
	return err
}

// commitOutput commits output as it comes, until there is no more. A panic touches no other task (S3).
func (sh *shell) commitOutput(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: debug.Stack()}
		}
	}()
	for sh.out.await() {
		if err := sh.commitPieces(ctx, sh.out.next()); err != nil {
			return err
		}
	}
	return nil
}

// commitPieces makes pieces, and what is said of them, durable, once, however often it takes.
func (sh *shell) commitPieces(ctx context.Context, pieces []task.Body) error {
	if len(pieces) == 0 {
		return nil
	}
	tried := false
	return sh.s.persist(ctx, func() error {
		if tried { // then it may have landed
			kept, err := sh.s.outputEnd(ctx, sh.task)
			if err != nil || kept > firstOffset(pieces) {
				return err
			}
		}
		tried = true
		b := sh.batch()
		b.Append(sh.task.ID, pieces...)
		return sh.commit(ctx, b)
	})
}

// firstOffset is where the first of some pieces begins.
func firstOffset(pieces []task.Body) int64 {
	for _, p := range pieces {
		if out, ok := p.(*task.Output); ok {
			return out.Offset
		}
	}
	return math.MaxInt64
}

// finish ends the task in one commit with the last of its output.
func (sh *shell) finish(ctx context.Context, end shellEnd, exit sandbox.Exit) error {
	for sh.out.many() {
		if err := sh.commitPieces(ctx, sh.out.next()); err != nil {
			return err
		}
	}
	rest := sh.out.rest()
	for len(rest) > fullPieces {
		if err := sh.commitPieces(ctx, rest[:fullPieces]); err != nil {
			return err
		}
		rest = rest[fullPieces:]
	}
	return sh.s.persist(ctx, func() error {
		for {
			err := sh.finishOnce(ctx, end, exit, rest)
			if !errdefs.Is(err, errdefs.Conflict) {
				return err
			}
			live, err := sh.s.cfg.Journal.Live(ctx, sh.task.Team, sh.task.ID)
			if errdefs.Is(err, errdefs.RecordNotFound) || err == nil && live.Rev != sh.live {
				return agent.ErrGone
			}
			if err != nil {
				return err
			}
		}
	})
}

func (sh *shell) finishOnce(ctx context.Context, end shellEnd, exit sandbox.Exit, rest []task.Body) error {
	row, err := sh.s.cfg.Journal.Task(ctx, sh.task.ID)
	if err != nil {
		return err
	}
	if row.Value.State.Terminal() {
		return agent.ErrGone
	}
	b := sh.batch()
	after, err := task.Apply(row.Value, verdict(row.Value, end, exit), b.Now())
	if err != nil {
		return err
	}
	b.Append(after.ID, rest...)
	if !sh.command.Resisted() { // else the record stays, for the sweep at the next start
		b.DeleteProcess(after.ID, shellCall)
	}
	if err := sh.s.post.End(ctx, b, row, after, sh.conclusion(end, exit)); err != nil {
		return err
	}
	return sh.s.cfg.Journal.Commit(ctx, b)
}

// conclusion is what the shell leaves.
func (sh *shell) conclusion(end shellEnd, exit sandbox.Exit) task.Conclusion {
	how := exitText(exit)
	switch end {
	case unreleased:
		return task.Conclusion{Report: task.Report{Summary: "it was stopped before it ran"}}
	case resisted:
		how, exit.Code = "it could not be killed", -1
	case finished, asked, cutShort:
	}
	return shellConclusion(sh.task.ID, how, exit.Code, sh.out.end())
}

// exitText tells how a command ended.
func exitText(exit sandbox.Exit) string {
	if exit.Signal != "" {
		return "ended by signal " + exit.Signal
	}
	return fmt.Sprintf("exit code %d", exit.Code)
}
