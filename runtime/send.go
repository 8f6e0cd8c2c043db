package runtime

import (
	"context"
	"fmt"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// SendRequest gives text to a living task.
type SendRequest struct {
	RequestID string // makes a retry return the first outcome; empty: no retry
	Caller    string // scope of RequestID
	From      string // as the daemon knows it (N5)
	To        string // a task id
	Text      string // 1 byte to 64 KiB
}

func (r SendRequest) check() error {
	switch {
	case r.To == "":
		return errdefs.BadField("to", "is missing; give the id of a living task")
	case r.Text == "":
		return errdefs.BadField("text", "must not be empty")
	case len(r.Text) > mailbox.MaxText:
		return tooLarge("text", len(r.Text), mailbox.MaxText)
	}
	return checkRequestID(r.RequestID)
}

// Send makes a message durable for its recipient, or says why it can't be delivered (D1, M2). It gives the message's id.
// The recipient takes it at its next step boundary.
func (s *Supervisor) Send(ctx context.Context, req SendRequest) (messageID string, err error) {
	if err := req.check(); err != nil {
		return "", err
	}
	if err := s.ready(); err != nil {
		return "", err
	}
	ctx = context.WithoutCancel(ctx)
	to := task.ID(req.To)
	r := newRequest(req.Caller, req.RequestID, SendRequest{From: req.From, To: req.To, Text: req.Text})
	for {
		row, err := s.cfg.Journal.Task(ctx, to)
		if err != nil {
			return "", recipientError(to, err)
		}
		if found, known, err := s.first(ctx, row.Value.Team, r); err != nil || known {
			return found.MessageID, err
		}
		if kind := row.Value.Kind; kind != task.Subagent {
			return "", errdefs.New(errdefs.FailedPrecondition, errdefs.NotARecipient, string(to),
				"task %s is no agent and takes no mail; the agents of a group do", to)
		}
		live, err := s.cfg.Journal.Live(ctx, row.Value.Team, to)
		if errdefs.Is(err, errdefs.RecordNotFound) || row.Value.State == task.Stopping {
			return "", notReceiving(row.Value)
		}
		if err != nil {
			return "", err
		}
		inbox, err := s.cfg.Journal.Inbox(ctx, row.Value.Team, to)
		if err != nil {
			return "", err
		}
		if !inbox.Value.Fits(req.Text) {
			return "", errdefs.New(errdefs.ResourceExhausted, errdefs.MailboxFull, string(to),
				"task %s has %d unread messages (%d bytes); send again when it has taken some", to, inbox.Value.Messages, inbox.Value.Bytes)
		}
		id, err := s.accept(ctx, row, live, req, r)
		if !errdefs.Is(err, errdefs.Conflict) {
			return id, err
		}
	}
}

func (s *Supervisor) accept(
	ctx context.Context, row journal.Row[task.Task], live journal.Row[journal.Live], req SendRequest, r *requestRow,
) (string, error) {
	n, err := s.cfg.Journal.NextID(ctx, row.Value.Team)
	if err != nil {
		return "", err
	}
	b := s.cfg.Journal.Batch(row.Value.Team)
	m := mailbox.Message{ID: fmt.Sprintf("m-%d", n), From: req.From, Text: req.Text, Sent: b.Now()}
	b.Send(row.Value.ID, live.Rev, m)
	if r != nil {
		r.outcome.TaskID, r.outcome.MessageID = row.Value.ID, m.ID
		r.put(b)
	}
	return m.ID, s.cfg.Journal.Commit(ctx, b) // when it is unknown there is nothing to take up: the boundary reads the mail
}

func recipientError(to task.ID, err error) error {
	if !errdefs.Is(err, errdefs.TaskNotFound) {
		return err
	}
	return errdefs.New(errdefs.NotFound, errdefs.RecipientNotFound, string(to),
		"there is no recipient %q; `agentctl ps` lists the living tasks", string(to))
}

// notReceiving says why a task takes no mail (M1: nothing is accepted for nobody; M12).
func notReceiving(t task.Task) error {
	if t.State == task.Stopping {
		return errdefs.New(errdefs.FailedPrecondition, errdefs.TaskStopping, string(t.ID),
			"task %s is stopping and takes no more mail", t.ID)
	}
	return errdefs.New(errdefs.FailedPrecondition, errdefs.TaskEnded, string(t.ID),
		"task %s has ended (%s) and takes no mail", t.ID, t.State)
}
