package view_test

import (
	"context"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// mate registers a queued teammate under a name.
func (d *desk) mate(team, name string) task.ID {
	d.t.Helper()
	ctx := context.Background()
	n, err := d.j.NextID(ctx, team)
	d.must(err)
	t := task.Task{
		ID: task.NewID(task.Teammate, n), Team: team, Kind: task.Teammate, Name: name, State: task.Queued, Incarnation: 1,
		Created: time.Now(),
	}
	before, err := d.j.Member(ctx, team, name)
	if err != nil && !errdefs.Is(err, errdefs.RecordNotFound) {
		d.t.Fatal(err)
	}
	b := d.j.Batch(team)
	b.CreateTask(task.Draft{Task: t, Spec: task.Spec{PlanApproval: name == "planner"}}, "")
	b.PutMember(roster.Member{Name: name, TaskID: t.ID}, before.Rev, roster.Joined)
	d.must(d.j.Commit(ctx, b))
	return t.ID
}

// idler registers a teammate that has had a turn.
func (d *desk) idler(team, name string) task.ID {
	d.t.Helper()
	id := d.mate(team, name)
	d.apply(id, task.Start{})
	d.append(id, &task.Assistant{Step: 1, Text: name + " is ready"})
	d.apply(id, task.Rest{})
	return id
}

// letter puts a message into a mailbox, as a send does, and gives its id.
func (d *desk) letter(team string, to task.ID, s mailbox.Sent) string {
	d.t.Helper()
	id, err := d.j.NextMessageID(context.Background(), team)
	d.must(err)
	s.MessageID, s.Recipient = id, to
	m := mailbox.Message{ID: id, From: mailbox.User, To: s.To, Text: "text of " + id, Kind: task.Text, ControlID: s.ControlID}
	d.post(team, s, m)
	return id
}

func (d *desk) post(team string, s mailbox.Sent, m mailbox.Message) {
	d.t.Helper()
	box := s.Recipient
	if box == mailbox.UserBox {
		box, m.To = mailbox.LeaderBox, mailbox.User
	}
	last, err := d.j.LastMail(context.Background(), team, box, 1)
	d.must(err)
	if len(last) > 0 {
		s.After = task.Seq(last[0].Pos)
	}
	b := d.j.Batch(team)
	m.Sent, s.Time = b.Now(), b.Now()
	b.Accept(box, m)
	if s.MessageID != "" {
		b.PutSent(s)
	}
	d.must(d.j.Commit(context.Background(), b))
}

// take moves messages from a mailbox into a transcript; without a reader a client acknowledges them.
func (d *desk) take(team string, box, reader task.ID, ids ...string) {
	d.t.Helper()
	mail, from, err := d.j.Unread(context.Background(), team, box)
	d.must(err)
	taken, next := mailbox.Remove(from.Value, mail, func(m mailbox.Message) bool { return slices.Contains(ids, m.ID) })
	if len(taken) != len(ids) {
		d.t.Fatalf("%d of %v are in %s", len(taken), ids, box)
	}
	b := d.j.Batch(team)
	b.Settle(box, from, taken, next)
	for _, m := range taken {
		if reader != "" {
			b.Append(reader, &task.Input{From: m.From, Text: m.Text, MessageID: m.ID})
		}
	}
	d.must(d.j.Commit(context.Background(), b))
}

// fate writes how a message ended at a recipient.
func (d *desk) fate(team, id string, to task.ID, state mailbox.State, reason string) {
	d.t.Helper()
	row, err := d.j.SentTo(context.Background(), team, id, to)
	d.must(err)
	b := d.j.Batch(team)
	b.PutFate(row, state, reason)
	d.must(d.j.Commit(context.Background(), b))
}

// reopen starts a daemon anew over the same store.
func (d *desk) reopen() {
	d.t.Helper()
	d.must(d.st.Close())
	d.open()
}
