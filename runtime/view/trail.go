package view

import (
	"context"
	"fmt"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// trail is a message on its way to one recipient. It reads no transcript in front of the message, and nothing twice.
type trail struct {
	view   *View
	bell   *journal.Bell
	team   string
	sent   mailbox.Sent
	awaits bool            // it has yet to be handed on to this recipient
	last   mailbox.Receipt // the newest one; none at first
	pos    task.Seq        // of the message in the mailbox, and so behind it in any transcript; 0: not looked for yet
	reader task.ID         // whose transcript is read
	cursor task.Seq        // it was read up to here
	turn   journal.Ending  // of the turn that took the message
}

// over tells whether it has come as far as asked for, or can come no further. What a client has acknowledged is answered by
// no turn.
func (t *trail) over(until mailbox.State) bool {
	state := t.last.State
	return state != 0 && (state.Reaches(until) || state == mailbox.Delivered && t.last.Seq == 0)
}

// advance makes the newest receipt the one that follows it; false when it has come no further.
func (t *trail) advance(ctx context.Context) (further bool, err error) {
	switch {
	case t.last.State == 0:
		return t.reached(mailbox.Accepted), nil
	case t.awaits:
		return false, nil
	case t.last.State == mailbox.Accepted && t.sent.Woke:
		return t.reached(mailbox.Waking), nil
	case t.last.State == mailbox.Delivered:
		return t.answered(ctx)
	}
	return t.arrived(ctx)
}

// reached writes the newest receipt.
func (t *trail) reached(state mailbox.State) bool {
	t.last = mailbox.Receipt{
		MessageID: t.sent.MessageID, Recipient: t.sent.To, State: state, Seq: t.last.Seq, ControlID: t.sent.ControlID,
	}
	return true
}

// ended writes the newest receipt of a message that was not delivered.
func (t *trail) ended(state mailbox.State, reason string) bool {
	t.reached(state)
	t.last.Reason = reason
	return true
}

// arrived looks whether the recipient has the message, or will not get it.
func (t *trail) arrived(ctx context.Context) (bool, error) {
	subagent := t.sent.Recipient.Kind() == task.Subagent
	if fate := t.sent.Fate; fate != 0 && (!subagent || fate != mailbox.Undeliverable) {
		return t.ended(fate, t.sent.Reason), nil
	}
	if err := t.locate(ctx); err != nil {
		return false, err
	}
	switch {
	case t.sent.Recipient == mailbox.UserBox:
		return t.acknowledged(ctx)
	case t.sent.Recipient == mailbox.LeaderBox:
		return t.pumped(ctx)
	case subagent:
		return t.steered(ctx)
	}
	return t.foundIn(ctx, t.sent.Recipient)
}

// locate finds the message in the mailbox.
func (t *trail) locate(ctx context.Context) error {
	if t.pos != 0 {
		return nil
	}
	box := t.sent.Recipient
	if box == mailbox.UserBox {
		box = mailbox.LeaderBox
	}
	t.pos = t.sent.After
	for m, err := range t.view.journal.Mail(ctx, t.team, box, uint64(t.sent.After)) {
		if err != nil {
			return err
		}
		if m.ID == t.sent.MessageID {
			t.pos = task.Seq(m.Pos)
			break
		}
	}
	return nil
}

// acknowledged looks at what the user has acknowledged of the leader inbox.
func (t *trail) acknowledged(ctx context.Context) (bool, error) {
	t.bell.Taken(t.team, mailbox.UserBox)
	box, err := t.view.journal.Mailbox(ctx, t.team, mailbox.UserBox)
	if err != nil || !box.Value.Has(uint64(t.pos)) {
		return false, err
	}
	return t.reached(mailbox.Delivered), nil
}

// pumped looks at what was taken of the leader inbox. If no lead has the message, a client has acknowledged it.
func (t *trail) pumped(ctx context.Context) (bool, error) {
	t.bell.Taken(t.team, mailbox.LeaderBox)
	box, err := t.view.journal.Mailbox(ctx, t.team, mailbox.LeaderBox)
	if err != nil || !box.Value.Has(uint64(t.pos)) {
		return false, err
	}
	row, err := t.view.journal.SentTo(ctx, t.team, t.sent.MessageID, t.sent.Recipient)
	if err != nil {
		return false, err
	}
	if t.sent = row.Value; t.sent.Fate != 0 { // as the commit says that has taken it out
		return t.ended(t.sent.Fate, t.sent.Reason), nil
	}
	lead, found, err := team.Registry{Journal: t.view.journal}.Lead(ctx, t.team)
	if err != nil && !journal.IsLost(err) {
		return false, err
	}
	if found && !lead.Value.Created.After(t.sent.Time) { // else an earlier one may have it
		if has, err := t.foundIn(ctx, lead.Value.ID); has || err != nil {
			return has, err
		}
	}
	for lead, err := range t.view.journal.Leads(ctx, t.team) {
		if err != nil {
			return false, err
		}
		if has, err := t.foundIn(ctx, lead.ID); has || err != nil {
			return has, err
		}
	}
	return t.reached(mailbox.Delivered), nil
}

// steered looks for the message in the transcript of a subagent, which takes no more mail when it has ended.
func (t *trail) steered(ctx context.Context) (bool, error) {
	id := t.sent.Recipient
	t.bell.Transcript(t.team, id)
	row, err := t.view.journal.Task(ctx, id)
	if err != nil {
		return false, err
	}
	if has, err := t.foundIn(ctx, id); has || err != nil {
		return has, err
	}
	switch {
	case row.Value.State.Terminal():
	case t.sent.Fate != 0:
		return t.ended(t.sent.Fate, t.sent.Reason), nil
	default:
		return false, nil
	}
	return t.ended(mailbox.Undeliverable, fmt.Sprintf("task %s ended %s/%s before it took the message",
		id, row.Value.State, row.Value.Reason)), nil
}

// foundIn looks for the message in a transcript, behind what was read of it.
func (t *trail) foundIn(ctx context.Context, reader task.ID) (bool, error) {
	t.bell.Transcript(t.team, reader)
	if t.reader != reader {
		t.reader, t.cursor = reader, t.pos
	}
	for e, err := range t.view.journal.Entries(ctx, t.team, reader, t.cursor) {
		if err != nil {
			return false, err
		}
		t.cursor = e.Seq
		if in, ok := e.Body.(*task.Input); ok && in.MessageID == t.sent.MessageID {
			t.reached(mailbox.Delivered)
			t.last.Seq = uint64(e.Seq)
			return true, nil
		}
	}
	return false, nil
}

// answered looks for the end of the turn that took the message.
func (t *trail) answered(ctx context.Context) (bool, error) {
	t.bell.Transcript(t.team, t.reader)
	for e, err := range t.view.journal.Entries(ctx, t.team, t.reader, t.cursor) {
		if err != nil {
			return false, err
		}
		t.cursor = e.Seq
		if t.turn.See(e) {
			t.reached(mailbox.Answered)
			t.last.Text = t.turn.Text
			return true, nil
		}
	}
	return false, nil
}
