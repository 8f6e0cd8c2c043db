package team

import (
	"context"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// LeaderInboxPump feeds the leader inbox into the lead. The inbox is a log that belongs to the team and outlives every lead;
// the pump moves the lead's cursor over it (M10), in the commit that puts what it took into the lead's transcript.
//
// It has no goroutine and waits for nothing. While the lead works it is asked at each step boundary; an idle lead is woken by
// the commit that accepts mail to it (Post.Deliver), and its next turn begins with such a boundary. What is there when a lead
// ends stays, in order, for its next incarnation or for the next lead. Mail to mailbox.User is passed over: that is for the
// people behind the clients.
type LeaderInboxPump struct{ Journal *journal.Journal }

// Look gives the leader inbox as the lead finds it, with the row of what was taken of it.
func (p LeaderInboxPump) Look(ctx context.Context, team string) (mailbox.Shelf, journal.Row[mailbox.Box], error) {
	mail, from, err := p.Journal.Unread(ctx, team, mailbox.LeaderBox)
	return mailbox.Shelf{Box: from.Value, Mail: mail, Lead: true}, from, err
}

// Lives tells whether there is a living agent behind the address.
func (r Recipient) Lives() bool { return r.hasTask() && !r.Task.Value.State.Terminal() }

// GuardNoLead makes a batch fail with Conflict when the recipient, the lead that does not live, has come to life meanwhile:
// a lead is woken by the mail that comes while it lives, and reads what was there before.
func (r Recipient) GuardNoLead(b *journal.Batch) {
	b.GuardMember(journal.Row[roster.Member]{Value: roster.Member{Name: task.LeadName}, Rev: r.Member.Rev})
	if r.hasTask() {
		b.GuardTask(r.Task)
	}
}
