package team

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Withdraw adds to a batch that a control message no longer applies, and why: its receipts say so, and it leaves the mailbox
// when nobody has taken it yet (M6). The batch fails with Conflict when mail is taken meanwhile.
func (p *Post) Withdraw(ctx context.Context, b *journal.Batch, box task.ID, messageID, why string) error {
	if _, err := p.remove(ctx, b, box, func(m mailbox.Message) bool { return m.ID == messageID }); err != nil {
		return err
	}
	return p.supersede(ctx, b, box, messageID, why)
}

// withdrawHandshakes withdraws what waits between the leader and a teammate that ends: the plan that it has submitted, and the
// mail that is bound to this life, so that no later one sees it. It tells how many messages to the teammate that were.
func (p *Post) withdrawHandshakes(ctx context.Context, b *journal.Batch, t task.Task) (int64, error) {
	if t.Kind != task.Teammate {
		return 0, nil
	}
	control, err := p.Journal.Control(ctx, t.Team, t.ID)
	if err != nil {
		return 0, err
	}
	if plan := control.Value.Plan; plan.ID != "" && !plan.Approved && plan.Incarnation == t.Incarnation {
		if err := p.Withdraw(ctx, b, mailbox.LeaderBox, plan.MessageID, "its teammate has ended"); err != nil {
			return 0, err
		}
	}
	return p.WithdrawUnread(ctx, b, t.ID, "its recipient had ended before it took the message",
		func(m mailbox.Message) bool { return m.Incarnation != 0 })
}

// WithdrawUnread is Withdraw for all that are chosen of the messages that nobody has taken yet, and counts them.
func (p *Post) WithdrawUnread(
	ctx context.Context, b *journal.Batch, box task.ID, why string, chosen func(mailbox.Message) bool,
) (int64, error) {
	removed, err := p.remove(ctx, b, box, chosen)
	if err != nil {
		return 0, err
	}
	for _, m := range removed {
		if err := p.supersede(ctx, b, box, m.ID, why); err != nil {
			return 0, err
		}
	}
	return int64(len(removed)), nil
}

// remove takes the unread messages that are chosen out of a mailbox.
func (p *Post) remove(
	ctx context.Context, b *journal.Batch, box task.ID, chosen func(mailbox.Message) bool,
) ([]mailbox.Message, error) {
	mail, taken, err := p.Journal.Unread(ctx, b.Team(), box)
	if err != nil {
		return nil, err
	}
	removed, next := mailbox.Remove(taken.Value, mail, chosen)
	if len(removed) > 0 {
		b.Settle(box, taken, removed, next)
	}
	return removed, nil
}

// supersede writes the fate of a control message.
func (p *Post) supersede(ctx context.Context, b *journal.Batch, box task.ID, messageID, why string) error {
	sent, err := p.Journal.SentTo(ctx, b.Team(), messageID, box)
	if journal.IsLost(err) || errdefs.Is(err, errdefs.RecordNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	b.PutFate(sent, mailbox.Superseded, why)
	return nil
}
