package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) sendCommand() *cobra.Command {
	req := &agentdv1.SendMessageRequest{Until: agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED}
	c := &cobra.Command{
		Use:     "send TO TEXT",
		Short:   "Give a message to a living task",
		Long:    "send gives a message to a living task, which takes it at its next step. TEXT `-` reads stdin.",
		Example: "  agentctl send sub-1 'Leave the generated files alone.'",
		Args:    takes("TO", "TEXT"),
	}
	flags := c.Flags()
	flags.Var(choose(&req.Until,
		option[agentdv1.ReceiptState]{"accepted", agentdv1.ReceiptState_RECEIPT_STATE_ACCEPTED},
		option[agentdv1.ReceiptState]{"delivered", agentdv1.ReceiptState_RECEIPT_STATE_DELIVERED}), "until",
		"wait until the message has come so far")
	flags.Var(choose(&req.Delivery, option[agentdv1.Delivery]{"step", agentdv1.Delivery_DELIVERY_STEP}), "delivery",
		"when the task takes it (default step)")
	flags.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	return a.command(c, func(ctx context.Context, args []string) error {
		text, err := a.text("TEXT", args[1])
		if err != nil {
			return err
		}
		req.RequestId = requestID(req.GetRequestId())
		req.To = args[0]
		req.Body = &agentdv1.SendMessageRequest_Text{Text: text}
		return a.send(ctx, req)
	})
}

// send shows each receipt once, also when the daemon tells it again after a break.
func (a *app) send(ctx context.Context, req *agentdv1.SendMessageRequest) error {
	shown := agentdv1.ReceiptState_RECEIPT_STATE_UNSPECIFIED
	err := a.persist(ctx, func(c *client) error {
		stream, err := c.agents.SendMessage(ctx, req)
		if err != nil {
			return err
		}
		for {
			receipt, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF) && shown < req.GetUntil():
				return errCut
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			if receipt.GetState() > shown {
				shown = receipt.GetState()
				if err := a.showReceipt(receipt); err != nil {
					return err
				}
			}
		}
	})
	if err == nil && shown == agentdv1.ReceiptState_RECEIPT_STATE_UNDELIVERABLE {
		return exitError{exitConflict}
	}
	return err
}

func (a *app) showReceipt(r *agentdv1.SendMessageResponse) error {
	if a.json {
		return a.emit(r)
	}
	line := r.GetMessageId() + " " + strings.TrimPrefix(r.GetState().String(), "RECEIPT_STATE_")
	if r.GetSeq() > 0 {
		line += fmt.Sprintf(" at %d", r.GetSeq())
	}
	if r.GetError() != "" {
		line += ": " + clean(r.GetError())
	}
	_, err := fmt.Fprintln(a.out, line)
	return err
}
