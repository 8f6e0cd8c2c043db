package team

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Lapsed adds to the batch that takes messages out of a mailbox how they end which must not be delivered any more: a
// receipt says it (M4).
func (p *Post) Lapsed(ctx context.Context, b *journal.Batch, box task.ID, void []mailbox.Message) error {
	for _, m := range void {
		fate, reason := m.Lapse(b.Now())
		if _, err := p.Fate(ctx, b, box, m.ID, fate, reason); err != nil {
			return err
		}
	}
	return nil
}

// Fate adds to a batch how a message ends at a recipient that it does not reach, and tells whether that is new: the first
// fate stands. Notices have none.
func (p *Post) Fate(
	ctx context.Context, b *journal.Batch, recipient task.ID, messageID string, fate mailbox.State, reason string,
) (isNew bool, err error) {
	row, err := p.Journal.SentTo(ctx, b.Team(), messageID, recipient)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound), journal.IsLost(err), err == nil && row.Value.Fate != 0:
		return false, nil
	case err != nil:
		return false, err
	}
	b.PutFate(row, fate, reason)
	return true, nil
}

// Expire adds to a batch that a message is delivered no more, unless the recipient has taken it, and tells whether it does.
// The batch fails with Conflict when mail is taken meanwhile.
func (p *Post) Expire(ctx context.Context, b *journal.Batch, recipient task.ID, messageID string) (bool, error) {
	removed, err := p.remove(ctx, b, recipient, func(m mailbox.Message) bool { return m.ID == messageID })
	if err != nil || len(removed) == 0 {
		return false, err
	}
	return true, p.Lapsed(ctx, b, recipient, removed)
}

// HandOn is Deliver for one recipient of a message to several: it revives nobody, and what keeps the message from being
// delivered is told as why.
func (p *Post) HandOn(
	ctx context.Context, b *journal.Batch, r Recipient, m mailbox.Message,
) (woke bool, why string, err error) {
	m.To = r.Name
	err = p.fits(ctx, b.Team(), r, m)
	switch {
	case errdefs.Is(err, errdefs.MailboxFull):
		return false, "its mailbox is full", nil
	case err != nil:
		return false, "", err
	case !r.hasTask():
		return false, "there is none any more", nil
	}
	now, err := p.Journal.Rouse(ctx, b, r.Task.Value.ID)
	switch {
	case err != nil:
		return false, "", err
	case now == journal.Gone:
		return false, "it has ended", nil
	}
	b.Accept(r.Box, m)
	return now == journal.AtRest, "", nil
}

// Return tells the agent that sent messages that they could not be delivered (M5): one that has ended is told nothing, and
// the lead reads it in the leader inbox anyway.
func (p *Post) Return(ctx context.Context, b *journal.Batch, sender task.ID, id, text string) error {
	row, err := p.Journal.Task(ctx, sender)
	if journal.IsLost(err) || err == nil && row.Value.IsLead() {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := p.Journal.Rouse(ctx, b, sender)
	if err == nil && now != journal.Gone {
		b.Accept(sender, mailbox.Message{ID: id, From: mailbox.Daemon, Sent: b.Now(), Kind: task.Returned, Text: text})
	}
	return err
}

// Remark tells the leader something.
func (p *Post) Remark(ctx context.Context, b *journal.Batch, kind task.MessageKind, id, text string) error {
	return p.tellLeader(ctx, b, mailbox.Message{ID: id, From: mailbox.Daemon, Sent: b.Now(), Kind: kind, Text: text})
}
