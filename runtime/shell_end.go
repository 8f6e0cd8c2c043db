package runtime

import (
	"context"
	"time"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// shellEnd is what brought a command to its end.
type shellEnd uint8

const (
	unreleased shellEnd = iota // a stop came before it ran
	finished                   // nobody: it ended by itself
	asked                      // it was asked to end, by a signal that it may heed, ignore or die of
	cutShort                   // it is to be killed
	resisted                   // it could not be killed
)

// verdict is the end of the task. What wait said counts: a command that succeeded has completed whoever wanted to stop it,
// and one that ended by itself before it could be killed was not.
func verdict(t task.Task, end shellEnd, exit sandbox.Exit) task.Finish {
	own := end == finished || end == cutShort && exit.Signal == ""
	success := exit.Signal == "" && exit.Code == 0
	switch {
	case success && (own || end == asked):
		return task.Finish{State: task.Completed, Reason: task.Done}
	case own:
		return task.Finish{State: task.Failed, Reason: task.ExitNonzero, Error: exitText(exit)}
	case t.Stop != nil:
		return t.Stop.Finish()
	}
	return task.Finish{State: task.Failed, Reason: task.Interrupted, Error: "the daemon stopped"}
}

// attend lets the command go, waits for its end and sees to it when it is to be stopped: a WRAP_UP and the stop of the
// daemon ask it to end, any harder stop leaves it to be killed.
func (sh *shell) attend(ctx context.Context) shellEnd {
	if ctx.Err() != nil || sh.s.isDraining() || sh.stopped(ctx) != 0 {
		return unreleased
	}
	sh.command.Release()
	bell := sh.s.cfg.Journal.Bell()
	defer bell.Close()
	bell.Transcript(sh.task.Team, sh.task.ID)
	for {
		switch sh.stopped(ctx) {
		case task.WrapUp:
			return sh.ask(ctx)
		case task.Cancel, task.Kill:
			return cutShort
		}
		select {
		case <-sh.command.Exited():
			return finished
		case <-ctx.Done():
			return cutShort
		case <-sh.s.draining:
			return sh.ask(ctx)
		case <-bell.Rings(): // also tells of the change of state that a stop is
		}
	}
}

// stopped is the level of the stop that is on disk; 0: none. What can't be read now is looked at again with the next
// entry.
func (sh *shell) stopped(ctx context.Context) task.StopLevel {
	row, err := sh.s.cfg.Journal.Task(context.WithoutCancel(ctx), sh.task.ID)
	if err != nil || row.Value.Stop == nil {
		return 0
	}
	return row.Value.Stop.Level
}

// ask asks the command to end and waits until it has, with its process group, or its time is over.
func (sh *shell) ask(ctx context.Context) shellEnd {
	select {
	case <-sh.command.Exited():
		return finished
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the daemon waits less than a stop
		select {
		case <-sh.s.draining:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(farewell):
			cancel()
		case <-ctx.Done():
		}
	}()
	sh.command.Terminate()
	select {
	case <-sh.command.Exited():
		sh.command.Settle(ctx)
	case <-ctx.Done():
	}
	return asked
}
