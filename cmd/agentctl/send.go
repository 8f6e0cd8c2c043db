package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// everyone is the address of all living teammates.
const everyone = "*"

// sendFlags are the flags of send.
type sendFlags struct {
	req             agentdv1.SendMessageRequest
	ttl, deadline   time.Duration
	shutdown        bool
	reason          string
	approve, reject string // control ids
}

func (a *app) sendCommand() *cobra.Command {
	s := &sendFlags{req: agentdv1.SendMessageRequest{Until: agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED}}
	c := &cobra.Command{
		Use:   "send TO TEXT | TO --shutdown | TO --approve ID [TEXT] | TO --reject ID TEXT",
		Short: "Give a message to a teammate, the lead, the user or a running agent",
		Long: `send gives a message to TO: a teammate's name, team-lead, user (the inbox, for people), the id of a running agent, or
'*' for all living teammates. TEXT - reads stdin. Names are those of the team of --team, or of this directory. A teammate
that has ended is woken by it.

It prints a line for each step that the message has come; with --until answered the answer alone, and those on stderr. It
exits with 4 when the message could not be delivered, or its time was over. Mail to user, and to team-lead while no lead
lives, is delivered by inbox ack, and has no answer.

--shutdown asks a teammate to end, which it may refuse until the deadline. --approve and --reject answer the plan of a
teammate that was spawned with --plan-approval; inbox and roster show the ID.`,
		Example: `  agentctl send reviewer 'Look at the parser, please.' --until answered
  agentctl send '*' 'The freeze begins.' --summary freeze
  agentctl send lisa --reject c-3 'Leave the schema alone.'`,
		Args: func(_ *cobra.Command, args []string) error { return s.check(args) },
	}
	s.register(c)
	return a.command(c, func(ctx context.Context, args []string) error {
		at, err := a.place()
		if err != nil {
			return err
		}
		if isTaskID(args[0]) { // which needs no team
			at.workspace = ""
		}
		s.req.RequestId = requestID(s.req.GetRequestId())
		s.req.Team, s.req.Workspace, s.req.To = at.team, at.workspace, args[0]
		s.req.Ttl = optional(s.ttl)
		if err := a.setBody(s, args[1:]); err != nil {
			return err
		}
		return a.send(ctx, &s.req)
	})
}

func (s *sendFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.Var(choose(&s.req.Until,
		option[agentdv1.ReceiptState]{"accepted", agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED},
		option[agentdv1.ReceiptState]{"delivered", agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED},
		option[agentdv1.ReceiptState]{"answered", agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED}), "until",
		"wait until the message is on disk, in the transcript, or the turn that took it has ended")
	flags.Var(choose(&s.req.Delivery,
		option[agentdv1.Delivery]{"step", agentdv1.Delivery_DELIVERY_STEP},
		option[agentdv1.Delivery]{"turn", agentdv1.Delivery_DELIVERY_TURN},
		option[agentdv1.Delivery]{"interrupt", agentdv1.Delivery_DELIVERY_INTERRUPT}), "delivery",
		"taken at the next step, after the turn, or now, ending the model call and tools that run (default step)")
	flags.StringVar(&s.req.Summary, "summary", "", "one `LINE` about it")
	flags.StringVar(&s.req.InReplyTo, "reply-to", "", "`MESSAGE` that it answers, such as m-7")
	flags.Func("ttl", "not delivered any more after this `DURATION` (default none)", span(&s.ttl))
	flags.BoolVar(&s.shutdown, "shutdown", false, "ask the teammate to end; it is ended without an answer in time")
	flags.StringVar(&s.reason, "reason", "", "`TEXT` for the teammate: why --shutdown")
	flags.Func("deadline", "`DURATION` to answer --shutdown in (default 1m)", span(&s.deadline))
	flags.StringVar(&s.approve, "approve", "", "let the teammate begin with its plan `ID`; TEXT is what to heed")
	flags.StringVar(&s.reject, "reject", "", "send the teammate's plan `ID` back; TEXT is what to change")
	flags.StringVar(&s.req.RequestId, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	c.MarkFlagsMutuallyExclusive("shutdown", "approve", "reject")
}

// control is the flag that makes the message a control message; empty for a text.
func (s *sendFlags) control() string {
	switch {
	case s.shutdown:
		return "--shutdown"
	case s.approve != "":
		return "--approve"
	case s.reject != "":
		return "--reject"
	}
	return ""
}

// check refuses flags and arguments that don't go together.
func (s *sendFlags) check(args []string) error {
	control, got := s.control(), count(len(args), "argument", "arguments")
	switch {
	case control == "--shutdown" && len(args) != 1:
		return fmt.Errorf("send --shutdown takes TO, but got %s; --reason TEXT says why", got)
	case control == "--approve" && (len(args) < 1 || len(args) > 2):
		return fmt.Errorf("send --approve takes TO and may take TEXT, but got %s", got)
	case (control == "" || control == "--reject") && len(args) != 2:
		return fmt.Errorf("send takes TO and TEXT, but got %s", got)
	case !s.shutdown && (s.reason != "" || s.deadline > 0):
		return errors.New("--reason and --deadline need --shutdown")
	case control != "" && (s.req.GetDelivery() != 0 || s.ttl > 0):
		return fmt.Errorf("--delivery and --ttl do not go with %s", control)
	case control != "" && args[0] == everyone:
		return fmt.Errorf("%s is for one teammate, not for '*'", control)
	}
	return nil
}

// setBody puts what is sent into the request.
func (a *app) setBody(s *sendFlags, args []string) error {
	text := ""
	if len(args) > 0 {
		var err error
		if text, err = a.text("TEXT", args[0]); err != nil {
			return err
		}
	}
	switch s.control() {
	case "--shutdown":
		s.req.Body = &agentdv1.SendMessageRequest_ShutdownRequest{ShutdownRequest: &agentdv1.ShutdownRequest{
			Reason: s.reason, Deadline: optional(s.deadline)}}
	case "--approve", "--reject":
		s.req.Body = &agentdv1.SendMessageRequest_PlanResponse{PlanResponse: &agentdv1.PlanResponse{
			ControlId: s.approve + s.reject, Approve: s.approve != "", Feedback: text}}
	default:
		s.req.Body = &agentdv1.SendMessageRequest_Text{Text: text}
	}
	return nil
}

// send shows each receipt once, also when the daemon tells it again after a break.
func (a *app) send(ctx context.Context, req *agentdv1.SendMessageRequest) error {
	seen := receipts{req: req, newest: map[string]*agentdv1.SendMessageResponse{}}
	err := a.resume(ctx, func(c *client, came func()) error {
		stream, err := c.agents.SendMessage(ctx, req)
		if err != nil {
			return err
		}
		for {
			r, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF) && !seen.complete():
				return errCut
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			came()
			if !seen.isNew(r) {
				continue
			}
			if err := a.showReceipt(req, r); err != nil {
				return err
			}
		}
	})
	if ctx.Err() != nil && seen.message != "" {
		a.note("\n%s is on its way; the same command with --request-id %s goes on", seen.message, req.GetRequestId())
		return exitError{exitInterrupted}
	}
	if err == nil && seen.failed() {
		return exitError{exitConflict}
	}
	return err
}

// showReceipt prints a receipt. With --until answered the data is the answer, and the way to it is told on stderr.
func (a *app) showReceipt(req *agentdv1.SendMessageRequest, r *agentdv1.SendMessageResponse) error {
	const answered = agentdv1.ReceiptState_RECEIPT_STATE_ANSWERED
	switch {
	case a.json:
		return a.emit(r)
	case req.GetUntil() != answered:
		_, err := fmt.Fprintln(a.out, receiptLine(req, r))
		return err
	case r.GetState() != answered:
		a.note("%s", receiptLine(req, r))
		return nil
	}
	text := clean(r.GetText())
	if req.GetTo() == everyone {
		text = clean(r.GetRecipient()) + ": " + text
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// receiptLine is a receipt as people read it, such as `m-1 DELIVERED at 12`, with the recipient when there are several.
func receiptLine(req *agentdv1.SendMessageRequest, r *agentdv1.SendMessageResponse) string {
	line := r.GetMessageId()
	if req.GetTo() == everyone && r.GetRecipient() != "" {
		line += " " + clean(r.GetRecipient())
	}
	line += " " + strings.TrimPrefix(r.GetState().String(), "RECEIPT_STATE_")
	if r.GetSeq() > 0 {
		line += fmt.Sprintf(" at %d", r.GetSeq())
	}
	if r.GetControlId() != "" {
		line += " (" + r.GetControlId() + ")"
	}
	if r.GetError() != "" {
		line += ": " + clean(r.GetError())
	}
	return line
}
