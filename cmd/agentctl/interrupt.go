package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// interrupted ends a command that followed a task of its own when Ctrl-C came. On a terminal it asks whether to stop
// the task, and a second Ctrl-C ends the question; else the task goes on.
func (a *app) interrupted(ctx context.Context, f *follower, req *agentdv1.SpawnRequest) error {
	a.releaseSignals()
	if f.task == nil {
		a.note("interrupted before the daemon answered; the same command with --request-id %s finds out what came of it",
			req.GetRequestId())
		return exitError{exitInterrupted}
	}
	if req.GetCancelOnDisconnect() {
		a.note("interrupted; %s is stopped with it (--cancel-on-disconnect)", f.taskID())
		return exitError{exitInterrupted}
	}
	a.note("\n%s goes on; come back with: %s", f.taskID(), f.comeBack())
	if isTerminal(a.in) && isTerminal(a.err) && a.askStop(f.taskID()) {
		ctx = context.WithoutCancel(ctx)
		if err := a.stopTasks(ctx, []string{f.taskID()}, &stopFlags{reason: "Ctrl-C in agentctl"}, a.noteStop); err != nil {
			return err
		}
	}
	return exitError{exitInterrupted}
}

// askStop asks whether to stop a task; anything but `s` leaves it running.
func (a *app) askStop(id string) bool {
	fmt.Fprintf(a.err, "Stop %s, or detach? [s/D] ", id)
	answer, _ := bufio.NewReader(a.in).ReadString('\n')
	return strings.EqualFold(strings.TrimSpace(answer), "s")
}
