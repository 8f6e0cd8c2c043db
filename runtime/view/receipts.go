package view

import (
	"context"
	"fmt"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Receipts sends how far a task's accepted message has come, up to the state asked for. What a receipt says follows from
// the transcript: delivered is what stands in it, undeliverable what does not when the task has ended.
func (v *View) Receipts(
	ctx context.Context, to task.ID, messageID string, until mailbox.State, send func(mailbox.Receipt) error,
) error {
	if err := send(mailbox.Receipt{MessageID: messageID, State: mailbox.Accepted}); err != nil || until <= mailbox.Accepted {
		return err
	}
	row, err := v.journal.Task(ctx, to)
	if err != nil {
		return err
	}
	cursor, err := v.unreadPos(ctx, row.Value, messageID)
	if err != nil {
		return err
	}
	for {
		var more <-chan struct{}
		if !row.Value.State.Terminal() { // an ended task would be followed in vain
			more = v.journal.Follow(row.Value.Team, string(to))
			if row, err = v.journal.Task(ctx, to); err != nil {
				return err
			}
			if row.Value.State.Terminal() {
				v.journal.Unfollow(row.Value.Team, string(to))
			}
		}
		seq, next, err := v.findInput(ctx, row.Value, messageID, cursor)
		switch {
		case err != nil:
			return err
		case seq != 0:
			return send(mailbox.Receipt{MessageID: messageID, State: mailbox.Delivered, Seq: uint64(seq)})
		case row.Value.State.Terminal():
			return send(mailbox.Receipt{
				MessageID: messageID, State: mailbox.Undeliverable,
				Reason: fmt.Sprintf("task %s ended %s/%s before it took the message", to, row.Value.State, row.Value.Reason),
			})
		}
		cursor = next
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// unreadPos is where a message stands among the unread mail: it is delivered behind that, if at all. 0 when it is not
// there: if it was taken, it stands somewhere in the transcript. So the cost does not grow with the mail that was ever
// accepted.
func (v *View) unreadPos(ctx context.Context, t task.Task, messageID string) (task.Seq, error) {
	box, err := v.journal.Mailbox(ctx, t.Team, t.ID)
	if err != nil {
		return 0, err
	}
	for m, err := range v.journal.Mail(ctx, t.Team, t.ID, box.Value.Low) {
		if err != nil || m.ID == messageID {
			return task.Seq(m.Pos), err
		}
	}
	return 0, nil
}

// findInput looks for a message in the transcript after a position and gives where to go on.
func (v *View) findInput(ctx context.Context, t task.Task, messageID string, after task.Seq) (found, next task.Seq, err error) {
	next = after
	for e, err := range v.journal.Entries(ctx, t.Team, t.ID, after) {
		if err != nil {
			return 0, next, err
		}
		next = e.Seq
		if in, ok := e.Body.(*task.Input); ok && in.MessageID == messageID {
			return e.Seq, next, nil
		}
	}
	return 0, next, nil
}
