package runtime

import (
	"context"
	"slices"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// maxAcked is how many messages of the leader inbox one commit acknowledges. A longer way is gone in several.
const maxAcked = 100

// AckRequest says how far a client has read the leader inbox.
type AckRequest struct {
	RequestID string // makes a retry return the first outcome; empty: no retry
	Caller    string // scope of RequestID
	Team      string // name; empty: the team of the workspace
	Workspace string
	UpTo      uint64 // position of the last message that was read; beyond the end it is the end
}

// AckInbox moves the user's cursor over the leader inbox, never back, and while no lead lives the lead's too (M10). The mail
// that it passes is delivered by that: what is for the user, and while no lead lives all. It gives how much of the user's mail
// is left.
func (s *Supervisor) AckInbox(ctx context.Context, req AckRequest) (unread int, err error) {
	if req.UpTo == 0 {
		return 0, errdefs.BadField("up_to", "is missing; give the position of the last message that was read")
	}
	if err := checkRequestID(req.RequestID); err != nil {
		return 0, err
	}
	if err := s.ready(); err != nil {
		return 0, err
	}
	ctx = context.WithoutCancel(ctx)
	in, err := s.FindTeam(ctx, req.Team, req.Workspace)
	if err != nil {
		return 0, err
	}
	body := req
	body.RequestID, body.Caller, body.Team, body.Workspace = "", "", in.ID, ""
	r := newRequest(req.Caller, req.RequestID, body)
	for more := true; more; {
		_, known, err := s.first(ctx, in.ID, r)
		if err != nil {
			return 0, err
		}
		if known {
			break
		}
		if more, err = s.ackSome(ctx, in.ID, req.UpTo, r); errdefs.Is(err, errdefs.Conflict) {
			more = true // somebody else has read, or a lead came or went
		} else if err != nil {
			return 0, err
		}
	}
	left, err := s.cfg.Journal.Inbox(ctx, in.ID, mailbox.UserBox)
	return int(left.Value.Messages), err
}

// ackSome is one commit of AckInbox, and tells whether the way goes on. The request is kept with the last one.
func (s *Supervisor) ackSome(ctx context.Context, in string, upTo uint64, r *requestRow) (more bool, err error) {
	a, err := s.readInbox(ctx, in)
	if err != nil {
		return false, err
	}
	mail, more, err := a.passed(ctx, upTo)
	if err != nil || len(mail) == 0 && r == nil {
		return false, err
	}
	b := s.cfg.Journal.Batch(in)
	if err := a.settle(ctx, b, mail); err != nil {
		return false, err
	}
	if !more {
		r.put(b)
	}
	return more, s.commit(ctx, b)
}

// ack is a client's reading of a leader inbox.
type ack struct {
	journal *journal.Journal
	team    string
	user    journal.Row[mailbox.Box]
	lead    journal.Row[mailbox.Box]
	leads   bool // a lead lives, which takes its own mail
	guard   func(b *journal.Batch)
}

// readInbox reads where the two cursors stand, and whether a lead lives.
func (s *Supervisor) readInbox(ctx context.Context, in string) (ack, error) {
	a := ack{journal: s.cfg.Journal, team: in, guard: func(*journal.Batch) {}}
	lead, err := s.post.Registry.Find(ctx, in, task.LeadName)
	if err != nil {
		return a, err
	}
	if a.leads = lead.Lives(); !a.leads {
		a.guard = lead.GuardNoLead
	}
	if a.user, err = s.cfg.Journal.Mailbox(ctx, in, mailbox.UserBox); err == nil {
		a.lead, err = s.cfg.Journal.Mailbox(ctx, in, mailbox.LeaderBox)
	}
	return a, err
}

// passed gives the next messages up to a position that a cursor has yet to pass, and tells whether there are more. A cursor
// that has passed them all finds nothing.
func (a ack) passed(ctx context.Context, upTo uint64) (mail []mailbox.Message, more bool, err error) {
	after := a.user.Value.Low
	if !a.leads {
		after = min(after, a.lead.Value.Low)
	}
	for m, err := range a.journal.Mail(ctx, a.team, mailbox.LeaderBox, after) {
		switch {
		case err != nil:
			return nil, false, err
		case m.Pos > upTo:
			return mail, false, nil
		case len(mail) == maxAcked:
			return mail, true, nil
		}
		mail = append(mail, m)
	}
	return mail, false, nil
}

// settle adds to a batch that the messages were read, which follow each other in the inbox.
func (a ack) settle(ctx context.Context, b *journal.Batch, mail []mailbox.Message) error {
	a.guard(b)
	if len(mail) == 0 {
		return nil
	}
	var users []mailbox.Message
	for _, m := range mail {
		if m.To == mailbox.User && m.Pos > a.user.Value.Low {
			users = append(users, m)
		}
	}
	next := mailbox.Box{Low: max(a.user.Value.Low, mail[len(mail)-1].Pos)}
	b.Settle(mailbox.UserBox, a.user, users, next)
	if err := a.deliver(ctx, b, mailbox.UserBox, users); err != nil || a.leads {
		return err
	}
	mail = slices.DeleteFunc(mail, func(m mailbox.Message) bool { return m.Pos <= a.lead.Value.Low })
	if len(mail) == 0 {
		return nil // the lead's cursor is ahead, and never goes back
	}
	leads, rest := mailbox.Remove(a.lead.Value, mail, func(mailbox.Message) bool { return true })
	leads = slices.DeleteFunc(leads, func(m mailbox.Message) bool { return m.To == mailbox.User })
	b.Settle(mailbox.LeaderBox, a.lead, leads, rest)
	return a.deliver(ctx, b, mailbox.LeaderBox, leads)
}

// deliver adds to a batch that messages have reached their recipient, without a place in any transcript.
func (a ack) deliver(ctx context.Context, b *journal.Batch, to task.ID, mail []mailbox.Message) error {
	for _, m := range mail {
		sent, err := a.journal.SentTo(ctx, a.team, m.ID, to)
		switch {
		case errdefs.Is(err, errdefs.RecordNotFound), journal.IsLost(err): // it is a notice, or nobody can ask for it
		case err != nil:
			return err
		case sent.Value.Fate == 0:
			sent.Value.Fate = mailbox.Delivered
			b.PutSent(sent.Value)
		}
	}
	return nil
}
