package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// Bounds of what one commit gives back, within the store's bounds of a batch.
const (
	maxFates   = 40 // receipts, each with its guard
	maxSenders = 8  // agents that are told, each with two guards
	maxListed  = 20 // messages that a notice names, of each sender
)

// leftovers is the unread mail of a task that has ended.
type leftovers struct {
	errand journal.Row[journal.Errand]
	to     team.Recipient // the task; of a teammate with its name's row
	box    task.ID
	from   journal.Row[mailbox.Box]
	log    []mailbox.Message // from the box's low mark on
	unread []mailbox.Message // what of it was not taken
	final  bool              // nothing revives the task any more
}

// seeToMail does the next thing about the unread mail of a task that has ended, in one commit: a message that revives it
// does (W3), what waits for another to revive it stays (M12), and what nothing can deliver any more goes back (M5).
// Conflict when the task or its mail has changed meanwhile.
func (s *Supervisor) seeToMail(ctx context.Context, in string, row journal.Row[journal.Errand]) error {
	left, err := s.leftovers(ctx, in, row)
	if err != nil && !journal.IsLost(err) {
		return err
	}
	b := s.cfg.Journal.Batch(in)
	if err != nil || !left.to.Task.Value.State.Terminal() {
		b.DeleteErrand(row)
		return s.commit(ctx, b)
	}
	b.GuardTask(left.to.Task) // a message that revives it comes before or after
	if left.final {
		return s.returnMail(ctx, b, left, left.unread)
	}
	fresh, stale, err := s.reviving(ctx, left)
	switch {
	case err != nil:
		return err
	case len(fresh) > 0:
		leader := slices.ContainsFunc(fresh, func(m mailbox.Message) bool { return m.Leader })
		if err := s.post.Waker.Reopen(ctx, b, left.to, leader); err != nil {
			return err
		}
	case len(stale) > 0:
		return s.returnMail(ctx, b, left, stale)
	}
	b.DeleteErrand(row)
	return s.commit(ctx, b)
}

// leftovers reads what an errand is about.
func (s *Supervisor) leftovers(ctx context.Context, in string, row journal.Row[journal.Errand]) (leftovers, error) {
	left := leftovers{errand: row, box: row.Value.UnreadOf, final: true}
	t, err := s.cfg.Journal.Task(ctx, row.Value.UnreadOf)
	if err != nil {
		return left, err
	}
	left.to = team.Recipient{Box: left.box, Name: string(left.box), Task: t}
	if t.Value.Kind == task.Teammate {
		left.to.Name = t.Value.Name
		left.to.Member, err = s.cfg.Journal.Member(ctx, in, t.Value.Name)
		if err != nil && !errdefs.Is(err, errdefs.RecordNotFound) {
			return left, err
		}
		left.final = left.to.Member.Value.TaskID != t.Value.ID || team.Final(t.Value, left.to.Member.Value.Dismissed)
	}
	closed, err := s.cfg.Journal.IsClosed(ctx, in)
	if err != nil {
		return left, err
	}
	left.final = left.final || closed // nobody lives again in a team that is deleted
	if t.Value.IsLead() && !closed {  // the leader inbox is the team's, and outlives it
		left.box, left.final = mailbox.LeaderBox, false
	}
	left.log, left.from, err = s.cfg.Journal.Unread(ctx, in, left.box)
	for _, m := range left.log {
		if !left.from.Value.Has(m.Pos) {
			left.unread = append(left.unread, m)
		}
	}
	return left, err
}

// reviving are the unread messages for which the task lives again, and those that waited for all of its last life, which
// ended before it took them: they would only end the next one, too.
func (s *Supervisor) reviving(ctx context.Context, left leftovers) (fresh, stale []mailbox.Message, err error) {
	t := left.to.Task.Value
	if t.Reason == task.Shutdown || t.Reason == task.StoppedByClient {
		return nil, nil, nil // it was to end whatever waited for it
	}
	if left.to.Member.Value.TaskID != t.ID {
		return nil, nil, nil // a lead whose name is another task's
	}
	began, err := s.lifeBegan(ctx, t)
	for _, m := range left.unread {
		client := m.Leader && m.FromTask == ""
		switch {
		case m.Kind != task.Text, m.Expired(s.cfg.Now()), t.IsLead() && (!client || m.To == mailbox.User):
		case team.Asleep(t, left.to.Member.Value.Dismissed, m.Leader) != "":
		case task.Seq(m.Pos) > began:
			fresh = append(fresh, m)
		case !t.IsLead():
			stale = append(stale, m)
		}
	}
	return fresh, stale, err
}

// shortLife is how many entries a life has at least that got as far as its mail.
const shortLife = 16

// lifeBegan is the position at which a teammate's last incarnation began if it ended soon after that; else 0.
func (s *Supervisor) lifeBegan(ctx context.Context, t task.Task) (task.Seq, error) {
	last, err := s.cfg.Journal.LastEntries(ctx, t.Team, t.ID, shortLife)
	for _, e := range slices.Backward(last) {
		if c, ok := e.Body.(*task.StateChange); ok && c.To == task.Queued {
			return e.Seq, nil
		}
	}
	return 0, err
}

// returnMail gives unread messages back, commit by commit: how they ended, for their receipts, then, of some senders at a
// time, the messages leave the mailbox and the senders and the leader are told.
func (s *Supervisor) returnMail(ctx context.Context, b *journal.Batch, left leftovers, mail []mailbox.Message) error {
	why := left.why()
	fates := 0
	for _, m := range mail {
		fate, reason := mailbox.Undeliverable, why
		if m.Expired(b.Now()) {
			fate, reason = m.Lapse(b.Now())
		}
		isNew, err := s.post.Fate(ctx, b, left.box, m.ID, fate, reason)
		if err != nil {
			return err
		}
		if isNew {
			fates++
		}
		if fates == maxFates {
			return s.commit(ctx, b)
		}
	}
	mail, all := someSenders(mail)
	removed, next := mailbox.Remove(left.from.Value, left.log, func(m mailbox.Message) bool {
		return slices.ContainsFunc(mail, func(one mailbox.Message) bool { return one.ID == m.ID })
	})
	b.Settle(left.box, left.from, removed, next)
	if err := s.tellReturned(ctx, b, left, removed, why); err != nil {
		return err
	}
	if all {
		b.DeleteErrand(left.errand)
	}
	return s.commit(ctx, b)
}

// someSenders is the mail of as many agents as one commit can tell, and of all others; all tells whether that is the whole.
func someSenders(mail []mailbox.Message) (some []mailbox.Message, all bool) {
	senders := map[task.ID]bool{}
	for _, m := range mail {
		if m.FromTask != "" && len(senders) < maxSenders {
			senders[m.FromTask] = true
		}
		if m.FromTask == "" || senders[m.FromTask] {
			some = append(some, m)
		}
	}
	return some, len(some) == len(mail)
}

// why says why a message can't be delivered any more.
func (l leftovers) why() string {
	t := l.to.Task.Value
	ended := fmt.Sprintf("task %s ended %s/%s before it took the message", t.ID, t.State, t.Reason)
	if t.Error != "" {
		ended += ": " + t.Error
	}
	member := l.to.Member.Value
	switch {
	case t.Kind != task.Teammate:
		return ended
	case member.TaskID != t.ID:
		return fmt.Sprintf("%s, and the name %s is now task %s's", ended, t.Name, member.TaskID)
	}
	if asleep := team.Asleep(t, member.Dismissed, true); asleep != "" {
		return ended + "; " + asleep
	}
	return ended
}

// tellReturned adds the notices about messages that go back. What has only expired, or is a notice itself, gives none.
func (s *Supervisor) tellReturned(
	ctx context.Context, b *journal.Batch, left leftovers, mail []mailbox.Message, why string,
) error {
	ids, names, id := map[task.ID][]string{}, map[task.ID]string{}, ""
	for _, m := range mail {
		if m.IsNotice() || m.Expired(b.Now()) {
			continue
		}
		if id == "" {
			id = fmt.Sprintf("back-%s-%s", m.ID, left.to.Task.Value.ID)
		}
		ids[m.FromTask], names[m.FromTask] = append(ids[m.FromTask], m.ID), m.From
	}
	if id == "" {
		return nil
	}
	texts, parts := map[task.ID]string{}, []string{}
	for _, sender := range slices.Sorted(maps.Keys(ids)) {
		list := listed(ids[sender])
		texts[sender] = fmt.Sprintf("Your mail to %s could not be delivered (%s): %s.", left.to.Name, list, why)
		parts = append(parts, names[sender]+": "+list)
	}
	return s.giveBack(ctx, b, id, texts,
		fmt.Sprintf("Mail to %s could not be delivered (from %s): %s.", left.to.Name, strings.Join(parts, "; from "), why))
}

// listed names messages, up to a bound.
func listed(ids []string) string {
	text := strings.Join(ids[:min(len(ids), maxListed)], ", ")
	if more := len(ids) - maxListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// giveBack tells the agents that have sent messages, by their ids, and the leader that they could not be delivered (M5). A
// client, which has no id, learns it by the receipts.
func (s *Supervisor) giveBack(
	ctx context.Context, b *journal.Batch, id string, texts map[task.ID]string, toLeader string,
) error {
	for _, sender := range slices.Sorted(maps.Keys(texts)) {
		if sender == "" {
			continue
		}
		if err := s.post.Return(ctx, b, sender, id, texts[sender]); err != nil {
			return err
		}
	}
	return s.post.Remark(ctx, b, task.Returned, id, toLeader)
}
