package view

import (
	"cmp"
	"context"
	"slices"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Receipts sends how far an accepted message has come, step by step at each of its recipients, until it has come as far as
// asked for at all of them, or can come no further there. What a receipt says follows from transcripts and mailboxes: asked
// late, or after a restart, the answer is the same (M4). RecordNotFound when there is no such message.
func (v *View) Receipts(
	ctx context.Context, team, messageID string, until mailbox.State, send func(mailbox.Receipt) error,
) error {
	p := v.pursue(team, messageID)
	defer p.bell.Close()
	for {
		pending, err := p.advance(ctx, cmp.Or(until, mailbox.Accepted), send)
		if err != nil || !pending {
			return err
		}
		select {
		case <-p.bell.Rings():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// MessageReceipts gives the newest receipt of a message at each of its recipients, as they are now; RecordNotFound when there
// is no such message.
func (v *View) MessageReceipts(ctx context.Context, messageID string) ([]mailbox.Receipt, error) {
	team, err := v.journal.TeamOfMessage(ctx, messageID)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return nil, noMessage(messageID)
	}
	if err != nil {
		return nil, err
	}
	p := v.pursue(team, messageID)
	defer p.bell.Close()
	if _, err := p.advance(ctx, mailbox.Answered, func(mailbox.Receipt) error { return nil }); err != nil {
		return nil, err
	}
	var newest []mailbox.Receipt
	for _, t := range p.inOrder() {
		newest = append(newest, t.last)
	}
	return newest, nil
}

func noMessage(id string) error {
	return errdefs.New(errdefs.NotFound, errdefs.RecordNotFound, id, "there is no message %q", id)
}

// pursuit follows one message to all its recipients.
type pursuit struct {
	view          *View
	bell          *journal.Bell
	team, message string
	trails        map[task.ID]*trail
}

func (v *View) pursue(team, messageID string) *pursuit {
	p := &pursuit{view: v, bell: v.journal.Bell(), team: team, message: messageID, trails: map[task.ID]*trail{}}
	p.bell.Sent(team, messageID)
	return p
}

// inOrder gives the trails in the order of their recipients' creation.
func (p *pursuit) inOrder() []*trail {
	var all []*trail
	for _, t := range p.trails {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *trail) int {
		x, y := a.sent.Recipient, b.sent.Recipient
		return cmp.Or(cmp.Compare(x.Number(), y.Number()), cmp.Compare(x, y))
	})
	return all
}

// advance sends what is new, and tells whether there is more to wait for.
func (p *pursuit) advance(ctx context.Context, until mailbox.State, send func(mailbox.Receipt) error) (pending bool, err error) {
	if err := p.refresh(ctx); err != nil {
		return false, err
	}
	for _, t := range p.inOrder() {
		for !t.over(until) {
			further, err := t.advance(ctx)
			if err != nil {
				return false, err
			}
			if !further {
				pending = true
				break
			}
			if err := send(t.last); err != nil {
				return false, err
			}
		}
	}
	return pending, nil
}

// refresh reads who gets the message and what was decided there. A message to several is handed on to one after the other:
// who has yet to get it is looked at first, lest one escapes who gets it meanwhile.
func (p *pursuit) refresh(ctx context.Context) error {
	awaiting, err := p.view.journal.Awaiting(ctx, p.team, p.message)
	if err != nil {
		return err
	}
	rows, err := p.view.journal.Sent(ctx, p.team, p.message)
	if err != nil {
		return err
	}
	if len(awaiting)+len(rows)+len(p.trails) == 0 {
		return noMessage(p.message)
	}
	found := map[task.ID]*trail{}
	for _, row := range rows {
		t := p.trail(row.Value.Recipient)
		t.sent, t.awaits = row.Value, false
		found[row.Value.Recipient] = t
	}
	for _, id := range awaiting {
		if t := found[id]; t != nil { // what its mailbox has of it is not known yet
			t.awaits = t.sent.Fate == 0
			continue
		}
		name, err := p.view.nameOf(ctx, id)
		if err != nil {
			return err
		}
		t := p.trail(id)
		t.sent, t.awaits = mailbox.Sent{MessageID: p.message, Recipient: id, To: name}, true
		found[id] = t
	}
	p.trails = found // one that is in neither has ended before its turn came
	return nil
}

func (p *pursuit) trail(id task.ID) *trail {
	if t := p.trails[id]; t != nil {
		return t
	}
	return &trail{view: p.view, bell: p.bell, team: p.team}
}

// nameOf is how receipts call a recipient.
func (v *View) nameOf(ctx context.Context, id task.ID) (string, error) {
	if id.Kind() == 0 { // the leader inbox
		return task.LeadName, nil
	}
	row, err := v.journal.Task(ctx, id)
	if journal.IsLost(err) {
		return string(id), nil
	}
	return cmp.Or(row.Value.Name, string(id)), err
}
