package server

import (
	"context"
	"errors"

	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/server/auth"
)

// SendMessage gives a message to its recipients and streams their receipts.
func (s agents) SendMessage(
	req *agentdv1.SendMessageRequest, stream grpc.ServerStreamingServer[agentdv1.SendMessageResponse],
) error {
	ctx := stream.Context()
	until, err := untilOf(req.GetUntil())
	if err != nil {
		return err
	}
	done, err := s.deliver(ctx, req)
	if err != nil {
		return err
	}
	return s.view.Receipts(ctx, done.Team, done.MessageID, until, func(r mailbox.Receipt) error {
		return sent(stream.Send(sendItem(r)))
	})
}

// deliver sends what the body is: text, or a control message.
func (s agents) deliver(ctx context.Context, req *agentdv1.SendMessageRequest) (runtime.Sending, error) {
	caller := auth.CallerOf(ctx).String()
	if _, isText := req.GetBody().(*agentdv1.SendMessageRequest_Text); isText {
		send, err := sendOf(req)
		if err != nil {
			return runtime.Sending{}, err
		}
		send.Caller = caller
		return s.supervisor.Send(ctx, send)
	}
	control, err := controlOf(req)
	if err != nil {
		return runtime.Sending{}, err
	}
	control.Caller = caller
	done, err := s.supervisor.Control(ctx, control)
	return done, inBody(err, req)
}

// sendOf unpacks a message. Its Caller is left to be set.
func sendOf(req *agentdv1.SendMessageRequest) (runtime.SendRequest, error) {
	delivery, err := deliveryOf(req.GetDelivery())
	if err != nil {
		return runtime.SendRequest{}, err
	}
	ttl, err := durationOf("ttl", req.GetTtl())
	return runtime.SendRequest{
		RequestID: req.GetRequestId(), Team: req.GetTeam(), Workspace: req.GetWorkspace(), To: req.GetTo(),
		Text: req.GetText(), Summary: req.GetSummary(), Delivery: delivery, ReplyTo: req.GetInReplyTo(), TTL: ttl,
	}, err
}

// controlOf unpacks a control message. Its Caller is left to be set.
func controlOf(req *agentdv1.SendMessageRequest) (runtime.ControlRequest, error) {
	c := runtime.ControlRequest{
		RequestID: req.GetRequestId(), Team: req.GetTeam(), Workspace: req.GetWorkspace(), To: req.GetTo(),
		Summary: req.GetSummary(),
	}
	switch body := req.GetBody().(type) {
	case *agentdv1.SendMessageRequest_ShutdownRequest:
		c.Kind, c.Text = task.ShutdownRequest, body.ShutdownRequest.GetReason()
		var err error
		if c.Deadline, err = durationOf("shutdown_request.deadline", body.ShutdownRequest.GetDeadline()); err != nil {
			return c, err
		}
	case *agentdv1.SendMessageRequest_ShutdownResponse:
		w := body.ShutdownResponse
		c.Kind, c.ControlID, c.Approve, c.Text = task.ShutdownResponse, w.GetControlId(), w.GetApprove(), w.GetReason()
	case *agentdv1.SendMessageRequest_PlanResponse:
		w := body.PlanResponse
		c.Kind, c.ControlID, c.Approve, c.Text = task.PlanResponse, w.GetControlId(), w.GetApprove(), w.GetFeedback()
	default:
		return c, errdefs.BadField("body", "is missing; set text, shutdown_request, shutdown_response or plan_response")
	}
	return c, onlyOfText(req)
}

// onlyOfText refuses what a control message can't have: it is taken at the next step boundary, and stands until it is
// answered or no longer applies.
func onlyOfText(req *agentdv1.SendMessageRequest) error {
	delivery, err := deliveryOf(req.GetDelivery())
	switch {
	case err != nil:
		return err
	case delivery != mailbox.AtStep:
		return errdefs.BadField("delivery", "is of text only; a control message is taken at the next step boundary")
	case req.GetTtl() != nil:
		return errdefs.BadField("ttl", "is of text only; a shutdown_request has a deadline")
	case req.GetInReplyTo() != "":
		return errdefs.BadField("in_reply_to", "is of text only; a control message refers to a control_id")
	}
	return nil
}

// inBody names the wrong field of a control message as the request has it.
func inBody(err error, req *agentdv1.SendMessageRequest) error {
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok {
		return err
	}
	body := ""
	switch req.GetBody().(type) {
	case *agentdv1.SendMessageRequest_ShutdownRequest:
		body = "shutdown_request."
	case *agentdv1.SendMessageRequest_ShutdownResponse:
		body = "shutdown_response."
	case *agentdv1.SendMessageRequest_PlanResponse:
		body = "plan_response."
	}
	switch e.Field {
	case "reason", "feedback", "deadline", "control_id":
		return renamed(err, e, body+e.Field)
	}
	return err
}

func receiptToWire(r mailbox.Receipt) *agentdv1.Receipt {
	return &agentdv1.Receipt{
		MessageId: r.MessageID, State: receiptStateToWire(r.State), Seq: r.Seq, Error: r.Reason, Recipient: r.Recipient,
		Text: r.Text, ControlId: r.ControlID,
	}
}

// sendItem packs the same receipt for a message's stream.
func sendItem(r mailbox.Receipt) *agentdv1.SendMessageResponse {
	return &agentdv1.SendMessageResponse{
		MessageId: r.MessageID, State: receiptStateToWire(r.State), Seq: r.Seq, Error: r.Reason, Recipient: r.Recipient,
		Text: r.Text, ControlId: r.ControlID,
	}
}
