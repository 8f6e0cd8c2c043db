package runtime

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// How long a teammate may take to answer a request to shut down (T5).
const (
	DefaultShutdownDeadline = time.Minute
	MaxShutdownDeadline     = time.Hour
)

// ControlRequest asks something of a teammate, or answers what was asked (M6).
type ControlRequest struct {
	RequestID string  // makes a retry return the first outcome; empty: no retry
	Caller    string  // scope of RequestID
	Sender    task.ID // the agent that sends; empty: a client
	Hops      int     // highest of the messages that the sender's turn took
	Team      string  // name of the team in which To is a name; empty: the sender's, or that of the workspace
	Workspace string  // whose team is meant when a client names none
	To        string  // the teammate; a teammate's own requests and answers go to the leader
	Kind      task.MessageKind
	ControlID string        // of an answer: what it answers
	Approve   bool          // of an answer
	Text      string        // reason or feedback, which may be empty, or plan
	Summary   string        // one line, at most 1 KiB
	Deadline  time.Duration // of a ShutdownRequest: until it is forced; 0: DefaultShutdownDeadline
}

func (r ControlRequest) check() error {
	field, limit, toOne := "reason", maxLine, true
	switch r.Kind {
	case task.ShutdownRequest:
	case task.ShutdownResponse:
		toOne = false
	case task.PlanRequest:
		field, limit, toOne = "plan", mailbox.MaxText, false
	case task.PlanResponse:
		field, limit = "feedback", mailbox.MaxText
	case task.Text, task.Ended, task.WentIdle, task.Returned, task.Remark:
		return errdefs.BadField("kind", "is no control message's")
	}
	answers := r.Kind == task.ShutdownResponse || r.Kind == task.PlanResponse
	switch {
	case toOne && r.To == "":
		return errdefs.BadField("to", "is missing; give a teammate's name")
	case answers && r.ControlID == "":
		return errdefs.BadField("control_id", "is missing; give that of the request that you answer")
	case !answers && r.ControlID != "":
		return errdefs.BadField("control_id", "is of answers; that of a request the daemon makes")
	case r.Kind == task.PlanRequest && strings.TrimSpace(r.Text) == "":
		return errdefs.BadField(field, "must not be empty")
	case len(r.Text) > limit:
		return tooLarge(field, len(r.Text), limit)
	case !utf8.ValidString(r.Text):
		return errdefs.BadField(field, "is not valid UTF-8")
	case len(r.Summary) > maxLine:
		return tooLarge("summary", len(r.Summary), maxLine)
	case strings.ContainsFunc(r.Summary, unicode.IsControl) || !utf8.ValidString(r.Summary):
		return errdefs.BadField("summary", "must be one line of text, without control characters")
	case r.Deadline < 0 || r.Deadline > MaxShutdownDeadline:
		return errdefs.BadField("deadline", "must be 0 to %s; 0 is %s", MaxShutdownDeadline, DefaultShutdownDeadline)
	}
	return checkRequestID(r.RequestID)
}

// Control makes a control message durable, with all that it means: who may send it and to whom is checked, a request gets its
// control id, an answer counts once and only for what it answers (M6, T5). Superseded says that there is nothing, or no longer
// anything, to answer; Denied that somebody else is to say it.
func (s *Supervisor) Control(ctx context.Context, req ControlRequest) (Sending, error) {
	if err := req.check(); err != nil {
		return Sending{}, err
	}
	if err := s.ready(); err != nil {
		return Sending{}, err
	}
	ctx = context.WithoutCancel(ctx)
	in, err := s.teamOfMail(ctx, SendRequest{Sender: req.Sender, Team: req.Team, Workspace: req.Workspace, To: req.To})
	if err != nil {
		return Sending{}, err
	}
	body := req
	body.RequestID, body.Caller, body.Hops = "", "", 0
	r := newRequest(req.Caller, req.RequestID, body)
	c := control{s: s, in: in, req: req, row: r}
	for {
		found, known, err := s.first(ctx, in, r)
		if err != nil {
			return Sending{}, err
		}
		if known {
			return c.sentBefore(ctx, found.MessageID)
		}
		sent, err := c.act(ctx)
		if !errdefs.Is(err, errdefs.Conflict) {
			return sent, err
		}
	}
}

// control is one control message under way.
type control struct {
	s   *Supervisor
	in  string // team
	req ControlRequest
	row *requestRow
}

// act does what the message says. Conflict when what it looked at has changed meanwhile.
func (c control) act(ctx context.Context) (Sending, error) {
	switch c.req.Kind {
	case task.ShutdownRequest:
		return c.askShutdown(ctx)
	case task.ShutdownResponse:
		return c.answerShutdown(ctx)
	case task.PlanRequest:
		return c.submitPlan(ctx)
	case task.PlanResponse:
		return c.answerPlan(ctx)
	case task.Text, task.Ended, task.WentIdle, task.Returned, task.Remark:
	}
	return Sending{}, errdefs.BadField("kind", "is no control message's")
}

// sentBefore is the first outcome of a retry.
func (c control) sentBefore(ctx context.Context, messageID string) (Sending, error) {
	first := Sending{Team: c.in, MessageID: messageID, ControlID: c.req.ControlID}
	if messageID == "" {
		return first, nil
	}
	sent, err := c.s.cfg.Journal.Sent(ctx, c.in, messageID)
	if err == nil && len(sent) > 0 {
		first.ControlID = sent[0].Value.ControlID
	}
	return first, err
}

// message makes the message of a request, with a control id of its own, or of an answer.
func (c control) message(ctx context.Context, b *journal.Batch) (mailbox.Message, error) {
	m, err := c.s.message(ctx, c.in, SendRequest{
		Sender: c.req.Sender, Hops: c.req.Hops, Text: c.req.Text, Summary: c.req.Summary,
	}, b)
	if err != nil {
		return m, err
	}
	m.Kind, m.ControlID, m.Approve = c.req.Kind, c.req.ControlID, c.req.Approve
	if m.ID, err = c.s.cfg.Journal.NextMessageID(ctx, c.in); err != nil || m.ControlID != "" {
		return m, err
	}
	n, err := c.s.cfg.Journal.NextID(ctx, c.in)
	m.ControlID = fmt.Sprintf("c-%d", n)
	return m, err
}

// commit writes the batch of a message with the request id that it is the outcome of.
func (c control) commit(ctx context.Context, b *journal.Batch, to task.ID, m mailbox.Message) (Sending, error) {
	sent, err := c.s.accept(ctx, b, m, to, c.row)
	sent.ControlID = m.ControlID
	return sent, err
}

// teammate finds who is meant, who must be a teammate, living or ended.
func (c control) teammate(ctx context.Context) (team.Recipient, error) {
	to, err := c.s.post.Registry.Find(ctx, c.in, c.req.To)
	switch {
	case err != nil:
		return to, err
	case to.Task.Value.ID == "" && to.Name == task.LeadName:
		return to, errdefs.New(errdefs.NotFound, errdefs.RecipientNotFound, c.req.To, "the team has no lead")
	case to.Task.Value.Kind != task.Teammate:
		return to, errdefs.New(errdefs.FailedPrecondition, errdefs.NotARecipient, c.req.To,
			"%s is no teammate; control messages go to teammates, and a task is ended with task_stop", c.req.To)
	}
	return to, nil
}

// leads tells whether the sender is a leader: a client, or the lead.
func (c control) leads(ctx context.Context) (bool, error) {
	if c.req.Sender == "" {
		return true, nil
	}
	row, err := c.s.cfg.Journal.Task(ctx, c.req.Sender)
	return row.Value.IsLead(), err
}

// pending tells whether a handshake of a teammate waits for its answer: it is of the life that goes on.
func pending(h journal.Handshake, t task.Task) bool {
	return h.ID != "" && !h.Approved && h.Incarnation == t.Incarnation && !t.State.Terminal() && t.Stop == nil
}

// superseded refuses an answer to what does not wait for one.
func (c control) superseded(what string) error {
	return errdefs.New(errdefs.FailedPrecondition, errdefs.Superseded, c.req.ControlID,
		"%s %s does not wait for an answer: it was answered or replaced, its teammate has ended, or there was none",
		what, cmp.Or(c.req.ControlID, "(no id)"))
}

func (c control) denied(who, why string) error {
	return errdefs.New(errdefs.PermissionDenied, errdefs.Denied, who, "%s", why)
}
