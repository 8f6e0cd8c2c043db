package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// stopFlags are the flags of stop.
type stopFlags struct {
	all           bool
	level         agentdv1.StopLevel
	reason        string
	requestID     string
	wrapUp, abort time.Duration
}

func (a *app) stopCommand() *cobra.Command {
	var s stopFlags
	c := &cobra.Command{
		Use:   "stop TASK | --all",
		Short: "End a task and its children, or all tasks of a team",
		Long: `stop ends a task and those below it, or with --all every task of --team, or of the team that is at work in this
directory and nowhere else. An agent gets time to report first; --level shortens that. TASK is an id or a teammate's
name. A message of a client still wakes a teammate that was stopped; dismiss ends it for good.`,
		Example: "  agentctl stop sub-1 --level kill\n  agentctl stop --all --reason 'wrong branch'",
		Args: func(_ *cobra.Command, args []string) error {
			if s.all == (len(args) == 1) || len(args) > 1 {
				return fmt.Errorf("stop takes one TASK, or --all")
			}
			return nil
		},
	}
	s.register(c.Flags())
	c.Flags().BoolVar(&s.all, "all", false, "stop all tasks of the team")
	return a.command(c, func(ctx context.Context, args []string) error {
		if s.all {
			return a.stopAll(ctx, &s)
		}
		id, err := a.taskID(ctx, args[0])
		if err != nil {
			return err
		}
		show := a.showStop
		if a.json {
			show = func(_ string, r *agentdv1.TaskStopResponse) error { return a.emit(r) }
		}
		return a.stopTasks(ctx, []string{id}, &s, show)
	})
}

// register adds the flags that say how something is stopped.
func (s *stopFlags) register(flags *pflag.FlagSet) {
	registerLevel(flags, &s.level, "wrap-up")
	flags.StringVar(&s.reason, "reason", "", "`TEXT` for people: why")
	flags.StringVar(&s.requestID, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	flags.Func("wrap-up-timeout", "`DURATION` before wrap-up becomes cancel (default 30s)", span(&s.wrapUp))
	flags.Func("cancel-timeout", "`DURATION` before cancel becomes kill (default 10s)", span(&s.abort))
}

// registerLevel adds --level, with the daemon's default.
func registerLevel(flags *pflag.FlagSet, level *agentdv1.StopLevel, usual string) {
	flags.Var(choose(level,
		option[agentdv1.StopLevel]{"wrap-up", agentdv1.StopLevel_STOP_LEVEL_WRAP_UP},
		option[agentdv1.StopLevel]{"cancel", agentdv1.StopLevel_STOP_LEVEL_CANCEL},
		option[agentdv1.StopLevel]{"kill", agentdv1.StopLevel_STOP_LEVEL_KILL}), "level",
		"finish the step and report, end the step, or end at once (default "+usual+")")
}

// stopping is the stop of one task under way.
type stopping struct {
	req   *agentdv1.TaskStopRequest
	ended bool
}

// optional is a duration for the daemon; nil for none.
func optional(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// stopTasks stops tasks side by side and shows how each comes along; it returns when all have ended.
func (a *app) stopTasks(ctx context.Context, ids []string, s *stopFlags, show func(id string, r *agentdv1.TaskStopResponse) error) error {
	var all []*stopping
	for _, id := range ids {
		all = append(all, &stopping{req: &agentdv1.TaskStopRequest{
			RequestId: requestID(s.requestID), TaskId: id, Level: s.level, Reason: s.reason,
			WrapUpTimeout: optional(s.wrapUp), CancelTimeout: optional(s.abort),
		}})
	}
	return a.persist(ctx, func(c *client) error {
		streams := make([]grpc.ServerStreamingClient[agentdv1.TaskStopResponse], len(all))
		for i, stop := range all { // the request goes out here, so that all stop at once
			var err error
			if streams[i], err = c.agents.TaskStop(ctx, stop.req); err != nil {
				return err
			}
		}
		for i, stop := range all {
			if err := stop.drain(streams[i], show); err != nil {
				return err
			}
		}
		return nil
	})
}

// drain shows one stop to its end; an end that was shown before is not shown again.
func (s *stopping) drain(stream grpc.ServerStreamingClient[agentdv1.TaskStopResponse], show func(string, *agentdv1.TaskStopResponse) error) error {
	for !s.ended {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errCut
		}
		if err != nil {
			return err
		}
		s.ended = r.GetTask() != nil
		if err := show(s.req.GetTaskId(), r); err != nil {
			return err
		}
	}
	return nil
}

// showStop tells progress on stderr and the end on stdout.
func (a *app) showStop(id string, r *agentdv1.TaskStopResponse) error {
	if task := r.GetTask(); task != nil {
		_, err := fmt.Fprintf(a.out, "%s %s %s\n", task.GetId(), stateWord(task.GetState()), reasonWord(task.GetReason()))
		return err
	}
	a.noteProgress(id, r.GetProgress())
	return nil
}

// noteStop tells progress and end on stderr.
func (a *app) noteStop(id string, r *agentdv1.TaskStopResponse) error {
	if task := r.GetTask(); task != nil {
		a.note("%s %s", id, stateWord(task.GetState()))
		return nil
	}
	a.noteProgress(id, r.GetProgress())
	return nil
}

// noteProgress tells how the stop of a task or a team comes along.
func (a *app) noteProgress(what string, p *agentdv1.StopProgress) {
	level := strings.TrimPrefix(p.GetLevel().String(), "STOP_LEVEL_")
	killed := count(p.GetProcessesReaped(), "process", "processes")
	if left := p.GetTasksRemaining(); left > 0 {
		a.note("%s stopping (%s): %s left, %s killed", what, level, count(left, "task", "tasks"), killed)
	} else {
		a.note("%s stopped (%s): %s killed", what, level, killed)
	}
}
