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

// DefaultMaxHops is how often what agents send each other may go from one to the next (M7).
const DefaultMaxHops = 64

// MaxTTL is the longest time to live of a message.
const MaxTTL = 7 * 24 * time.Hour

// SendRequest gives a message to a recipient.
type SendRequest struct {
	RequestID string  // makes a retry return the first outcome; empty: no retry
	Caller    string  // scope of RequestID
	Sender    task.ID // the agent that sends; empty: a client
	Hops      int     // highest of the messages that the sender's turn took
	Team      string  // name of the team in which To is a name; empty: the sender's, or that of the workspace
	Workspace string  // whose team is meant when a client names none
	To        string  // a name, task.LeadName, mailbox.User, a task id, or team.Everyone
	Text      string  // 1 byte to 64 KiB of UTF-8
	Summary   string  // one line, at most 1 KiB
	Delivery  mailbox.Delivery
	ReplyTo   string        // the message that it answers, of whichever team; empty: none
	TTL       time.Duration // 0: none
}

// Sending is what became of a SendRequest.
type Sending struct {
	Team      string // id of the team that the message belongs to
	MessageID string
	ControlID string // of a control message
}

func (r SendRequest) check() error {
	switch {
	case r.To == "":
		return errdefs.BadField("to", "is missing; give a teammate's name, team-lead, user, or the id of a running agent")
	case r.Text == "":
		return errdefs.BadField("text", "must not be empty")
	case len(r.Text) > mailbox.MaxText:
		return tooLarge("text", len(r.Text), mailbox.MaxText)
	case !utf8.ValidString(r.Text):
		return errdefs.BadField("text", "is not valid UTF-8")
	case len(r.Summary) > maxLine:
		return tooLarge("summary", len(r.Summary), maxLine)
	case strings.ContainsFunc(r.Summary, unicode.IsControl) || !utf8.ValidString(r.Summary):
		return errdefs.BadField("summary", "must be one line of text, without control characters")
	case r.ReplyTo != "" && !journal.IsMessageID(r.ReplyTo):
		return errdefs.BadField("in_reply_to", "must be the id of a message, such as m-12")
	case r.TTL < 0 || r.TTL > MaxTTL:
		return errdefs.BadField("ttl", "must be 0 to %s; 0 is no limit", MaxTTL)
	}
	return checkRequestID(r.RequestID)
}

// Send makes a message durable for its recipient and wakes it, or says why it can't be delivered (D1, M1, M2). What wakes a
// teammate is in the same commit.
func (s *Supervisor) Send(ctx context.Context, req SendRequest) (Sending, error) {
	if err := req.check(); err != nil {
		return Sending{}, err
	}
	if err := s.ready(); err != nil {
		return Sending{}, err
	}
	ctx = context.WithoutCancel(ctx)
	in, err := s.teamOfMail(ctx, req)
	if err != nil {
		return Sending{}, err
	}
	body := req
	body.RequestID, body.Caller, body.Hops = "", "", 0
	r := newRequest(req.Caller, req.RequestID, body)
	for {
		found, known, err := s.first(ctx, in, r)
		if known && err == nil && req.Delivery == mailbox.Interrupt {
			err = s.interruptAll(ctx, in, found.MessageID) // the first commit may have landed unknown to all
		}
		if err != nil || known {
			return Sending{Team: in, MessageID: found.MessageID}, err
		}
		var sent Sending
		if req.To == team.Everyone {
			sent, err = s.broadcast(ctx, in, req, r)
		} else {
			sent, err = s.sendOne(ctx, in, req, r)
		}
		if !errdefs.Is(err, errdefs.Conflict) {
			return sent, err
		}
	}
}

// teamOfMail is the team in which a message is sent.
func (s *Supervisor) teamOfMail(ctx context.Context, req SendRequest) (string, error) {
	if kind, _, isID := task.ParseID(task.ID(req.To)); isID && req.Sender == "" {
		id, err := s.cfg.Journal.TeamOf(ctx, task.ID(req.To))
		if err != nil {
			return "", errdefs.New(errdefs.NotFound, errdefs.RecipientNotFound, req.To,
				"there is no %s %q; `agentctl ps` lists the living tasks", strings.ToLower(kind.String()), req.To)
		}
		return id, nil
	}
	if req.Sender != "" {
		return s.cfg.Journal.TeamOf(ctx, req.Sender)
	}
	in, err := s.FindTeam(ctx, req.Team, req.Workspace)
	return in.ID, err
}

// sendOne writes a message for one recipient. Conflict when the recipient's standing changed meanwhile.
func (s *Supervisor) sendOne(ctx context.Context, in string, req SendRequest, r *requestRow) (Sending, error) {
	to, err := s.post.Registry.Find(ctx, in, req.To)
	if err != nil {
		return Sending{}, err
	}
	b := s.cfg.Journal.Batch(in)
	m, err := s.letter(ctx, in, req, b)
	if err != nil {
		return Sending{}, err
	}
	if err := s.put(ctx, b, to, m); err != nil {
		return Sending{}, err
	}
	sent, err := s.accept(ctx, b, m, to.Task.Value.ID, r)
	if err == nil && m.Delivery == mailbox.Interrupt {
		s.interrupt(ctx, in, to.Key(), m.ID)
	}
	return sent, err
}

// letter is the message of a request with its id, if the sender may send it.
func (s *Supervisor) letter(ctx context.Context, in string, req SendRequest, b *journal.Batch) (mailbox.Message, error) {
	m, err := s.message(ctx, in, req, b)
	switch {
	case err != nil:
		return m, err
	case m.Delivery == mailbox.Interrupt && !m.Leader:
		return m, errdefs.New(errdefs.PermissionDenied, errdefs.Denied, m.From,
			"only the leader or a client may interrupt; send it without that, and it is read at the next step")
	case m.Hops >= s.cfg.MaxHops:
		return m, s.tooManyHops(ctx, in, req.To, m)
	}
	m.ID, err = s.cfg.Journal.NextMessageID(ctx, in)
	return m, err
}

// accept commits a message with its deadline and the request id that it is the outcome of.
func (s *Supervisor) accept(
	ctx context.Context, b *journal.Batch, m mailbox.Message, to task.ID, r *requestRow,
) (Sending, error) {
	due := journal.Due{At: m.Expires, TaskID: task.ID(m.ID), Kind: journal.DueExpiry}
	if !m.Expires.IsZero() {
		b.PutDue(due)
	}
	if r != nil {
		r.outcome.TaskID, r.outcome.MessageID = to, m.ID
		r.put(b)
	}
	err := s.commit(ctx, b)
	if err == nil && !m.Expires.IsZero() {
		s.due.add(due)
	}
	return Sending{Team: b.Team(), MessageID: m.ID}, err
}

// tooManyHops refuses a message of an echo storm, and tells the leader: once for each start of the sender (M7).
func (s *Supervisor) tooManyHops(ctx context.Context, in, to string, m mailbox.Message) error {
	row, err := s.cfg.Journal.Task(ctx, m.FromTask)
	if err != nil {
		return err
	}
	var refused error = errdefs.New(errdefs.FailedPrecondition, errdefs.TooManyHops, to,
		"what led to this message to %s went from agent to agent %d times, and %d is the limit: it was not sent, and the leader "+
			"is told; end your turn with what you have", to, m.Hops, s.cfg.MaxHops)
	once := newRequest(string(m.FromTask), fmt.Sprintf("hops-%d", row.Value.Start), nil)
	for {
		if _, known, err := s.first(ctx, in, once); err != nil || known {
			return cmp.Or(err, refused)
		}
		b := s.cfg.Journal.Batch(in)
		id := fmt.Sprintf("hops-%s-%d", m.FromTask, row.Value.Start)
		text := fmt.Sprintf("Agents send each other what they receive: a message of %s to %s, the %d. from agent to agent, was "+
			"refused.", m.From, to, m.Hops)
		if err := s.post.Remark(ctx, b, task.Remark, id, text); err != nil {
			return err
		}
		once.put(b)
		if err := s.commit(ctx, b); !errdefs.Is(err, errdefs.Conflict) {
			return cmp.Or(err, refused)
		}
	}
}

// put adds a message to a batch, with what is kept for its receipts. What its sender has sent to all before goes ahead of it.
func (s *Supervisor) put(ctx context.Context, b *journal.Batch, to team.Recipient, m mailbox.Message) error {
	if err := s.handFirst(ctx, b.Team(), m.FromTask, to.Key()); err != nil {
		return err
	}
	woke, err := s.post.Deliver(ctx, b, to, m)
	if err != nil {
		return err
	}
	after, err := s.lastMail(ctx, b.Team(), to.Box)
	if err != nil {
		return err
	}
	b.PutSent(mailbox.Sent{
		MessageID: m.ID, Recipient: to.Key(), To: to.Name, From: m.From, FromTask: m.FromTask, ControlID: m.ControlID,
		Woke: woke, After: after, Time: b.Now(),
	})
	b.TellMail(to.Box, m.ID)
	return nil
}

// lastMail is a position of a mailbox behind which a message that is accepted now stands.
func (s *Supervisor) lastMail(ctx context.Context, in string, box task.ID) (task.Seq, error) {
	last, err := s.cfg.Journal.LastMail(ctx, in, box, 1)
	if err != nil || len(last) == 0 {
		return 0, err
	}
	return task.Seq(last[0].Pos), nil
}

// message is what is sent, from whom the daemon knows it to be (N5).
func (s *Supervisor) message(ctx context.Context, in string, req SendRequest, b *journal.Batch) (mailbox.Message, error) {
	m := mailbox.Message{
		FromTask: req.Sender, Text: req.Text, Summary: req.Summary, Sent: b.Now(), Kind: task.Text,
		Delivery: cmp.Or(req.Delivery, mailbox.AtStep), ReplyTo: req.ReplyTo,
	}
	if req.TTL > 0 {
		m.Expires = b.Now().Add(req.TTL)
	}
	if req.Sender == "" {
		lives, err := s.post.Registry.LeadLives(ctx, in)
		m.From, m.Leader = task.LeadName, true
		if lives {
			m.From = mailbox.User
		}
		return m, err
	}
	row, err := s.cfg.Journal.Task(ctx, req.Sender)
	if err != nil {
		return m, err
	}
	m.From, m.Color, m.Leader = cmp.Or(row.Value.Name, string(req.Sender)), row.Value.Color, row.Value.IsLead()
	if !m.Leader {
		m.Hops = req.Hops + 1
	}
	return m, nil
}
