package team

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Post puts mail into mailboxes, and whoever is to read it to work.
type Post struct {
	Journal  *journal.Journal
	Registry Registry
	Waker    Waker
	Spawner  Spawner
}

// NewPost makes the post of all teams.
func NewPost(j *journal.Journal) *Post {
	return &Post{Journal: j, Registry: Registry{j}, Waker: Waker{j}, Spawner: Spawner{j}}
}

// Deliver adds to a batch what gives a recipient a message, and what wakes it: an idle teammate gets work, one that has
// ended its next incarnation. woke tells of the two. Errors say why nothing is accepted: the mailbox is full, or the
// recipient has ended for good (M1, M11, M12). The batch fails with Conflict when the recipient's standing changes
// meanwhile.
func (p *Post) Deliver(ctx context.Context, b *journal.Batch, r Recipient, m mailbox.Message) (woke bool, err error) {
	m.To = r.Name
	if err := p.fits(ctx, b.Team(), r, m); err != nil {
		return false, err
	}
	switch {
	case r.Name == mailbox.User || m.Quiet:
	case r.hasTask():
		if woke, err = p.rouse(ctx, b, r, m); err != nil {
			return false, err
		}
	default:
		r.GuardNoLead(b)
	}
	b.Accept(r.Box, m)
	return woke, nil
}

// fits refuses mail to a full mailbox. Notices are never refused, nor is what ends a teammate: there is one at a time; nor what
// revives one, for it takes nothing until then.
func (p *Post) fits(ctx context.Context, team string, r Recipient, m mailbox.Message) error {
	t := r.Task.Value
	revives := t.Kind == task.Teammate && !t.IsLead() && t.State.Terminal()
	if m.IsNotice() || m.Kind == task.ShutdownRequest || m.Kind == task.ShutdownResponse || revives {
		return nil
	}
	unread, err := p.Journal.Inbox(ctx, team, r.Key())
	if err == nil && !unread.Value.Fits(m.Text) {
		err = errdefs.New(errdefs.ResourceExhausted, errdefs.MailboxFull, r.Name,
			"%s has %d unread messages (%d bytes); send again when it has taken some", r.Name, unread.Value.Messages,
			unread.Value.Bytes)
	}
	return err
}

// rouse gives the recipient work for a message.
func (p *Post) rouse(ctx context.Context, b *journal.Batch, r Recipient, m mailbox.Message) (woke bool, err error) {
	t := r.Task.Value
	if t.Kind == task.Subagent {
		return false, p.steer(ctx, b, t)
	}
	now, err := p.Journal.Rouse(ctx, b, t.ID)
	if err != nil || now != journal.Gone {
		return now == journal.AtRest, err
	}
	if !t.State.Terminal() {
		return false, errdefs.New(errdefs.Aborted, errdefs.Conflict, string(t.ID), "task %s has ended since it was read", t.ID)
	}
	if t.IsLead() {
		r.GuardNoLead(b)
	}
	client := m.Leader && m.FromTask == ""
	switch {
	case t.IsLead() && (!client || Final(t, r.Member.Value.Dismissed)), m.Kind == task.ShutdownRequest:
		return false, nil // the inbox keeps it for a client and for the next lead; control messages never revive (M6)
	case m.IsNotice():
		return false, nil
	}
	return true, p.Waker.Reopen(ctx, b, r, m.Leader)
}

// steer lets a running subagent take mail, and no other.
func (p *Post) steer(ctx context.Context, b *journal.Batch, t task.Task) error {
	now, err := p.Journal.Rouse(ctx, b, t.ID) // of one whose live record is damaged, too
	switch {
	case err != nil:
		return err
	case t.State == task.Stopping:
		return errdefs.New(errdefs.FailedPrecondition, errdefs.TaskStopping, string(t.ID),
			"task %s is stopping and takes no more mail", t.ID)
	case now == journal.Gone:
		return errdefs.New(errdefs.FailedPrecondition, errdefs.TaskEnded, string(t.ID),
			"task %s has ended (%s) and takes no mail", t.ID, t.State)
	}
	return nil
}

// End adds a task's end to a batch, with who learns of it: the agent that spawned it, or the leader of a teammate (R6). A
// client's own spawn is told by its terminal event alone. What mail it has not taken is left to be seen to.
func (p *Post) End(
	ctx context.Context, b *journal.Batch, row journal.Row[task.Task], t task.Task, left task.Conclusion,
) error {
	b.EndTask(row, t, left)
	if t.Kind.IsAgent() {
		if err := p.leaveMail(ctx, b, t); err != nil {
			return err
		}
	}
	notice := mailbox.Message{
		ID: fmt.Sprintf("end-%s-%d", t.ID, t.Incarnation), From: mailbox.Daemon, Sent: b.Now(), Kind: task.Ended, About: t.ID,
	}
	switch {
	case t.CallID != "" && t.Parent != "":
		return p.tell(ctx, b, t.Parent, notice)
	case t.Kind == task.Teammate && !t.IsLead():
		return p.tellLeader(ctx, b, notice)
	}
	return nil
}

// leaveMail writes the errand to see to the mail that an agent has not taken when it ends. What is bound to the life that
// ends is over with it.
func (p *Post) leaveMail(ctx context.Context, b *journal.Batch, t task.Task) error {
	left := int64(0)
	for _, box := range (Mail{Journal: p.Journal, Task: t}).Boxes() {
		inbox, err := p.Journal.Inbox(ctx, t.Team, box)
		if err != nil {
			return err
		}
		b.GuardInbox(box, inbox.Rev)
		unread, err := p.Journal.CountUnread(ctx, t.Team, box)
		if err != nil {
			return err
		}
		left += unread
		if box == t.ID {
			bound, err := p.withdrawHandshakes(ctx, b, t)
			if err != nil {
				return err
			}
			left -= bound
		}
	}
	if left > 0 {
		b.LeaveMail(t.ID)
	}
	return nil
}

// tell gives a notice to an agent that lives.
func (p *Post) tell(ctx context.Context, b *journal.Batch, id task.ID, notice mailbox.Message) error {
	if id.Kind() == task.Teammate {
		if now, err := p.Journal.Rouse(ctx, b, id); err != nil || now == journal.Gone {
			return err
		}
	}
	b.Accept(id, notice)
	return nil
}

// tellLeader puts a notice into the leader inbox and wakes the lead, unless it is a quiet one.
func (p *Post) tellLeader(ctx context.Context, b *journal.Batch, notice mailbox.Message) error {
	lead, err := p.Registry.Find(ctx, b.Team(), task.LeadName)
	if err != nil {
		return err
	}
	_, err = p.Deliver(ctx, b, lead, notice)
	return err
}

// lookBack is how many messages of the leader inbox are looked at for what a turn has told already.
const lookBack = 32

// Rested adds to the batch of a turn's end what the leader learns of it: a pointer to what stands behind a position of the
// transcript. When the turn said nothing, or what it has sent to the leader already, it wakes nobody (M9).
func (p *Post) Rested(ctx context.Context, b *journal.Batch, t task.Task, text string, after task.Seq) error {
	if t.IsLead() {
		return nil
	}
	told, err := p.told(ctx, t, strings.TrimSpace(text))
	if err != nil {
		return err
	}
	return p.tellLeader(ctx, b, mailbox.Message{
		ID: fmt.Sprintf("idle-%s-%d", t.ID, t.Start), From: mailbox.Daemon, Sent: b.Now(), Kind: task.WentIdle, About: t.ID,
		After: after, Quiet: told,
	})
}

// told tells whether the leader knows a text of this turn, or there is nothing to know.
func (p *Post) told(ctx context.Context, t task.Task, text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	mail, err := p.Journal.LastMail(ctx, t.Team, mailbox.LeaderBox, lookBack)
	if err != nil {
		return false, err
	}
	for _, m := range mail {
		if m.FromTask == t.ID && !m.Sent.Before(t.Turn) && strings.TrimSpace(m.Text) == text {
			return true, nil
		}
	}
	return false, nil
}
