package team

import (
	"context"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Mail is what an agent reads its mail with: its own mailbox and, of a lead, the leader inbox, which the pump reads.
type Mail struct {
	Journal *journal.Journal
	Task    task.Task
}

// Taken is what a boundary takes, of each mailbox.
type Taken []Share

// Share is what a boundary takes of one mailbox.
type Share struct {
	Box  task.ID
	From journal.Row[mailbox.Box]
	mailbox.Taking

	rouses bool // there is mail in it that the agent goes on for, taken now or later
}

// Empty tells whether there is nothing to take.
func (t Taken) Empty() bool {
	return !slices.ContainsFunc(t, func(s Share) bool { return !s.Empty() })
}

// Rouses tells whether there is anything that the agent goes on for, here or in what the bounds of a boundary left behind.
func (t Taken) Rouses() bool {
	return slices.ContainsFunc(t, func(s Share) bool { return s.rouses })
}

// Mail is all messages in the order in which they are read.
func (t Taken) Mail() []mailbox.Message {
	takings := make([]mailbox.Taking, 0, len(t))
	for _, s := range t {
		takings = append(takings, s.Taking)
	}
	return mailbox.Merge(takings)
}

// Boxes are the agent's mailboxes.
func (m Mail) Boxes() []task.ID {
	if m.Task.IsLead() {
		return []task.ID{m.Task.ID, mailbox.LeaderBox}
	}
	return []task.ID{m.Task.ID}
}

// Take gives what a boundary takes.
func (m Mail) Take(ctx context.Context, at mailbox.Boundary) (Taken, error) {
	at.Incarnation = m.Task.Incarnation
	shelves, from, err := m.shelves(ctx)
	if err != nil {
		return nil, err
	}
	taken := make(Taken, 0, len(shelves))
	for i, taking := range mailbox.TakeAll(shelves, at) {
		rousing := slices.DeleteFunc(shelves[i].Waiting(at), func(m mailbox.Message) bool { return m.Quiet })
		taken = append(taken, Share{Box: m.Boxes()[i], From: from[i], Taking: taking, rouses: len(rousing) > 0})
	}
	return taken, nil
}

// Rousing gives the unread mail that the agent wakes for.
func (m Mail) Rousing(ctx context.Context, now time.Time) ([]mailbox.Message, error) {
	shelves, _, err := m.shelves(ctx)
	var rousing []mailbox.Message
	for _, shelf := range shelves {
		rousing = append(rousing, shelf.Waiting(mailbox.Boundary{Now: now, Incarnation: m.Task.Incarnation})...)
	}
	return slices.DeleteFunc(rousing, func(m mailbox.Message) bool { return m.Quiet }), err
}

// shelves are the agent's mailboxes as they stand, with the rows of what was taken of them.
func (m Mail) shelves(ctx context.Context) ([]mailbox.Shelf, []journal.Row[mailbox.Box], error) {
	mail, from, err := m.Journal.Unread(ctx, m.Task.Team, m.Task.ID)
	shelves, rows := []mailbox.Shelf{{Box: from.Value, Mail: mail}}, []journal.Row[mailbox.Box]{from}
	if err != nil || !m.Task.IsLead() {
		return shelves, rows, err
	}
	inbox, row, err := LeaderInboxPump{m.Journal}.Look(ctx, m.Task.Team)
	return append(shelves, inbox), append(rows, row), err
}

// Guard makes a batch fail with Conflict when mail was accepted or taken since the revisions were read.
type Guard map[task.ID]journal.Rev

// Revisions reads the guard of a turn's end.
func (m Mail) Revisions(ctx context.Context) (Guard, error) {
	g := Guard{}
	for _, box := range m.Boxes() {
		inbox, err := m.Journal.Inbox(ctx, m.Task.Team, box)
		if err != nil {
			return nil, err
		}
		g[box] = inbox.Rev
	}
	return g, nil
}

// Add adds the guard to a batch.
func (g Guard) Add(b *journal.Batch) {
	for box, rev := range g {
		b.GuardInbox(box, rev)
	}
}
