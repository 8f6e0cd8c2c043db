package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// maxTail is the most entries that the daemon gives as a tail.
const maxTail = 1000

// outputFlags are the flags of output.
type outputFlags struct {
	follow, deltas bool
	from           uint64
	tail           int32
	waitFor        agentdv1.WaitFor
	timeout        time.Duration
}

func (a *app) outputCommand() *cobra.Command {
	var o outputFlags
	c := &cobra.Command{
		Use:   "output TASK",
		Short: "Show a task's transcript, or what a shell wrote",
		Long: `output shows what a task has done so far: an agent's transcript, what a shell wrote (to stdout and stderr), or what
became of a group's children. When it has ended, how it ended comes last. TASK is an id or a teammate's name.`,
		Example: "  agentctl output sub-1 --tail 20 --follow\n  agentctl output reviewer --wait idle --timeout 10m",
		Args:    takes("TASK"),
	}
	flags := c.Flags()
	flags.BoolVarP(&o.follow, "follow", "f", false, "go on until the task ends")
	flags.Uint64Var(&o.from, "from", 0, "position `SEQ` of the first entry")
	flags.Func("tail", "only the last `N` entries, 1 to 1000", tail(&o.tail))
	flags.BoolVar(&o.deltas, "deltas", false, "also show text while the model writes it; needs --follow")
	flags.Var(choose(&o.waitFor,
		option[agentdv1.WaitFor]{"terminal", agentdv1.WaitFor_WAIT_FOR_TERMINAL},
		option[agentdv1.WaitFor]{"idle", agentdv1.WaitFor_WAIT_FOR_IDLE}), "wait",
		"show nothing until the task has ended, or a teammate is idle; the exit code tells how it ended")
	flags.Func("timeout", "longest `DURATION` of --wait (default none)", span(&o.timeout))
	c.MarkFlagsMutuallyExclusive("from", "tail")
	return a.command(c, func(ctx context.Context, args []string) error {
		if o.deltas && !o.follow {
			return usageError{fmt.Errorf("--deltas needs --follow")}
		}
		if o.timeout > 0 && o.waitFor == agentdv1.WaitFor_WAIT_FOR_UNSPECIFIED {
			return usageError{fmt.Errorf("--timeout needs --wait")}
		}
		id, err := a.taskID(ctx, args[0])
		if err != nil {
			return err
		}
		return a.showOutput(ctx, id, &o)
	})
}

func (a *app) showOutput(ctx context.Context, id string, o *outputFlags) error {
	f := &follower{app: a, show: a.emitItem, toEnd: (o.follow || o.waitFor != 0) && o.timeout == 0, deltas: o.deltas}
	f.toIdle = o.waitFor == agentdv1.WaitFor_WAIT_FOR_IDLE
	if !a.json {
		f.show = a.display().take
	}
	deadline := time.Now().Add(o.timeout)
	f.open = func(ctx context.Context, c *client) (receive, error) {
		req := &agentdv1.TaskOutputRequest{
			TaskId: id, FromSeq: o.from, Tail: o.tail, Follow: o.follow, Deltas: o.deltas, WaitFor: o.waitFor,
		}
		if o.timeout > 0 {
			req.Timeout = durationpb.New(max(time.Millisecond, time.Until(deadline)))
		}
		if f.last > 0 {
			req.FromSeq, req.Tail = f.last+1, 0
		}
		return items(c.agents.TaskOutput(ctx, req))
	}
	err := f.follow(ctx)
	switch {
	case err != nil && ctx.Err() != nil && f.task != nil:
		a.note("\nleft %s; come back with: %s", id, f.comeBack())
		return exitError{exitInterrupted}
	case err != nil:
		return err
	case f.toIdle && f.idle != nil:
		return a.showIdle(f)
	case f.outcome == nil && o.waitFor != agentdv1.WaitFor_WAIT_FOR_UNSPECIFIED:
		a.note("%s is still %s after %v", id, stateWord(f.task.GetState()), o.timeout)
		return exitError{exitOther}
	case f.outcome == nil:
		return nil
	}
	if err := a.results(ctx, f); err != nil || o.waitFor == agentdv1.WaitFor_WAIT_FOR_UNSPECIFIED {
		return err
	}
	return ended(f.outcome)
}
