package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) watchCommand() *cobra.Command {
	req := &agentdv1.WatchRequest{}
	c := &cobra.Command{
		Use:   "watch",
		Short: "Tell what happens: changes of state, mail and rosters, as it comes",
		Long: `watch prints a line for each change of a task's state, each message, and each teammate that joins or is dismissed,
until Ctrl-C. It goes on over a restart of the daemon without missing any. With -o json each line has the cursor that
--cursor goes on from.`,
		Example: "  agentctl watch --team shop",
		Args:    cobra.NoArgs,
	}
	c.Flags().StringVar(&req.Cursor, "cursor", "", "`CURSOR` of an item, to go on after it (default from now on)")
	return a.command(c, func(ctx context.Context, _ []string) error {
		req.Team = a.team
		return a.watch(ctx, req)
	})
}

// watch shows events until ctx ends; over a break it goes on by the cursor.
func (a *app) watch(ctx context.Context, req *agentdv1.WatchRequest) error {
	show := a.showEvent
	if a.json {
		show = func(r *agentdv1.WatchResponse) error { return a.emit(r) }
	}
	err := a.resume(ctx, func(c *client, came func()) error {
		stream, err := c.events.Watch(ctx, req)
		for err == nil {
			var r *agentdv1.WatchResponse
			if r, err = stream.Recv(); err == nil {
				came()
				req.Cursor = r.GetCursor()
				err = show(r)
			}
		}
		if errors.Is(err, io.EOF) {
			return errCut
		}
		return err
	})
	if ctx.Err() != nil && req.GetCursor() != "" {
		a.note("\nleft; come back with: agentctl watch --cursor %s%s%s", req.GetCursor(), a.teamFlag(), a.addrFlag())
		return exitError{exitInterrupted}
	}
	return err
}

// showEvent prints an event as a line; what is missing is told on stderr.
func (a *app) showEvent(r *agentdv1.WatchResponse) error {
	if gap := r.GetGap(); gap != nil {
		a.note("events are missing here: %s; agentctl ps --all lists the tasks", gap.GetReason())
		return nil
	}
	event := r.GetEvent()
	whose, what := event.GetTaskId(), ""
	switch {
	case event.GetState() != nil:
		what = stateLine(event.GetState())
	case event.GetMessageId() != "":
		whose, what = cmp.Or(whose, "inbox"), "mail "+event.GetMessageId()
	case event.GetRoster() != nil:
		what = clean(event.GetRoster().GetName()) + " " + rosterWord(event.GetRoster().GetEvent())
	default: // a cursor alone, or what a newer daemon tells
		return nil
	}
	_, err := fmt.Fprintf(a.out, "%s  %s  %s  %s\n", localTime(event.GetTime()), clean(event.GetTeam()), whose, what)
	return err
}

// rosterWord is a change of a roster, such as `joined`.
func rosterWord(e agentdv1.RosterEvent) string {
	return strings.ToLower(strings.TrimPrefix(e.String(), "ROSTER_EVENT_"))
}

// localTime is a time as the user's clock shows it.
func localTime(t *timestamppb.Timestamp) string {
	return t.AsTime().Local().Format("2006-01-02 15:04:05")
}

// teamFlag repeats --team in a command that is shown to people.
func (a *app) teamFlag() string {
	if a.team == "" {
		return ""
	}
	return " --team " + a.team
}
