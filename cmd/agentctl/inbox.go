package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) inboxCommand() *cobra.Command {
	req := &agentdv1.ReadInboxRequest{}
	c := &cobra.Command{
		Use:   "inbox",
		Short: "Show the mail of a team's lead and user",
		Long: `inbox shows the leader inbox of --team, or of the team of this directory: what teammates send to team-lead and to user,
and what the daemon tells of them. A * marks what you have not acknowledged yet, which inbox ack does. Reading changes
nothing.`,
		Example: "  agentctl inbox --unread --follow\n  agentctl inbox ack --all",
		Args:    cobra.NoArgs,
	}
	flags := c.Flags()
	flags.BoolVarP(&req.Follow, "follow", "f", false, "go on with what comes, until Ctrl-C")
	flags.BoolVar(&req.Unread, "unread", false, "only what is not acknowledged")
	flags.Uint64Var(&req.After, "after", 0, "only what stands after position `POS`")
	flags.Func("tail", "only the last `N` messages, 1 to 1000", tail(&req.Tail))
	c.MarkFlagsMutuallyExclusive("after", "tail")
	c.AddCommand(a.ackCommand())
	return a.command(c, func(ctx context.Context, _ []string) error { return a.inbox(ctx, req) })
}

// tail sets how many entries or messages from the end are wanted.
func tail(n *int32) func(string) error {
	return func(text string) error {
		v, err := strconv.ParseInt(text, 10, 32)
		if err != nil || v < 1 || v > maxTail {
			return fmt.Errorf("it is no number from 1 to %d", maxTail)
		}
		*n = int32(v)
		return nil
	}
}

// inbox shows each message once, also over a restart of the daemon.
func (a *app) inbox(ctx context.Context, req *agentdv1.ReadInboxRequest) error {
	at, err := a.place()
	if err != nil {
		return err
	}
	req.Team, req.Workspace = at.team, at.workspace
	err = a.resume(ctx, func(c *client, came func()) error {
		stream, err := c.teams.ReadInbox(ctx, req)
		for err == nil {
			var r *agentdv1.ReadInboxResponse
			if r, err = stream.Recv(); err != nil {
				break
			}
			came()
			if r.GetMessage() == nil {
				continue
			}
			req.After, req.Tail = r.GetMessage().GetPos(), 0 // for the next connection
			err = a.showMail(r)
		}
		switch {
		case errors.Is(err, io.EOF) && req.GetFollow():
			return errCut
		case errors.Is(err, io.EOF):
			return nil
		}
		return err
	})
	if ctx.Err() != nil && req.GetFollow() {
		unread := ""
		if req.GetUnread() {
			unread = " --unread"
		}
		a.note("\nleft; come back with: agentctl inbox --follow%s --after %d%s%s", unread, req.GetAfter(), a.teamFlag(), a.addrFlag())
		return exitError{exitInterrupted}
	}
	return err
}

// showMail prints a message: position, whether it is acknowledged, when, from whom, and the text under its summary.
func (a *app) showMail(r *agentdv1.ReadInboxResponse) error {
	if a.json {
		return a.emit(r)
	}
	m := r.GetMessage()
	mark := "*"
	if m.GetAcked() {
		mark = " "
	}
	writeIndented(a.out, fmt.Sprintf("%4d%s %s  %-12s  ", m.GetPos(), mark, localTime(m.GetTime()), oneLine(m.GetFrom(), 64)), mailText(m))
	return a.out.err
}

// mailText is what a message says.
func mailText(m *agentdv1.InboxMessage) string {
	var parts []string
	if head := oneLine(mailHead(m), 2*maxLine); head != "" {
		parts = append(parts, head)
	}
	if text := strings.TrimSpace(clean(m.GetText())); text != "" {
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return "(no text)"
	}
	return strings.Join(parts, "\n")
}

// mailHead tells what a message is, where it is not a text to the lead without a summary.
func mailHead(m *agentdv1.InboxMessage) string {
	head := ""
	switch m.GetKind() {
	case agentdv1.MessageKind_MESSAGE_KIND_ENDED:
		head = "(" + m.GetTaskId() + " has ended)"
	case agentdv1.MessageKind_MESSAGE_KIND_IDLE:
		head = "(" + m.GetTaskId() + " is idle)"
	case agentdv1.MessageKind_MESSAGE_KIND_RETURNED:
		head = "not delivered: " + m.GetInReplyTo()
	case agentdv1.MessageKind_MESSAGE_KIND_PLAN_REQUEST:
		head = "asks for the approval of its plan " + m.GetControlId() + ":"
	case agentdv1.MessageKind_MESSAGE_KIND_SHUTDOWN_RESPONSE:
		head = "refuses to shut down (" + m.GetControlId() + "):"
		if m.GetApprove() {
			head = "agrees to shut down (" + m.GetControlId() + ")"
		}
	default:
		if strings.EqualFold(m.GetTo(), "user") {
			head = "to you:"
		}
	}
	if m.GetSummary() != "" {
		head += " " + m.GetSummary()
	}
	return head
}

func (a *app) ackCommand() *cobra.Command {
	var all bool
	req := &agentdv1.AckInboxRequest{}
	c := &cobra.Command{
		Use:   "ack POS | --all",
		Short: "Say that mail was read, up to a position",
		Long: `ack acknowledges all mail up to the position that inbox shows, and prints how many messages to user are left. While the
team has no lead, the senders of the rest learn too that it was delivered.`,
		Example: "  agentctl inbox ack 12",
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) == 1) || len(args) > 1 {
				return errors.New("ack takes one POS, or --all")
			}
			return nil
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all that is there now")
	c.Flags().StringVar(&req.RequestId, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	return a.command(c, func(ctx context.Context, args []string) error {
		at, err := a.place()
		if err != nil {
			return err
		}
		req.RequestId, req.Team, req.Workspace = requestID(req.GetRequestId()), at.team, at.workspace
		if all {
			req.UpTo, err = a.lastMail(ctx, at)
		} else if req.UpTo, err = strconv.ParseUint(args[0], 10, 64); err != nil || req.GetUpTo() == 0 {
			err = usageError{fmt.Errorf("%q is no position, such as inbox shows", args[0])}
		}
		if err != nil {
			return err
		}
		return a.ack(ctx, req)
	})
}

// lastMail is the position of the newest message; 0 when there is none.
func (a *app) lastMail(ctx context.Context, at place) (pos uint64, err error) {
	err = a.persist(ctx, func(c *client) error {
		stream, err := c.teams.ReadInbox(ctx, &agentdv1.ReadInboxRequest{Team: at.team, Workspace: at.workspace, Tail: 1})
		for err == nil {
			var r *agentdv1.ReadInboxResponse
			if r, err = stream.Recv(); err == nil {
				pos = max(pos, r.GetMessage().GetPos())
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	return pos, err
}

// ack acknowledges mail and tells what is left; in an empty inbox there is nothing to acknowledge.
func (a *app) ack(ctx context.Context, req *agentdv1.AckInboxRequest) (err error) {
	left := &agentdv1.AckInboxResponse{}
	if req.GetUpTo() > 0 {
		err = a.persist(ctx, func(c *client) (err error) {
			left, err = c.teams.AckInbox(ctx, req)
			return err
		})
	}
	switch {
	case err != nil:
		return err
	case a.json:
		return a.emit(left)
	}
	_, err = fmt.Fprintf(a.out, "%d unread for you\n", left.GetUnread())
	return err
}
