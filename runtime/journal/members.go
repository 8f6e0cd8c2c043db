package journal

import (
	"context"
	"iter"
	"slices"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// PutMember writes who has a name, guarded by who had it before: the zero revision for a name that nobody had. It tells the
// feed.
func (b *Batch) PutMember(m roster.Member, before Rev, event roster.Event) {
	b.guard(memberKey(m.Name), before)
	b.op(store.Put, memberKey(m.Name), memberRow(m))
	b.feed = append(b.feed, &storev1.FeedRow{
		TaskId: string(m.TaskID), Event: &storev1.FeedRow_Roster{Roster: &storev1.RosterRow{Name: m.Name, Event: uint32(event)}},
	})
}

// GuardMember makes the batch fail with Conflict when the name went to another task, or its teammate was dismissed, since
// the row was read.
func (b *Batch) GuardMember(row Row[roster.Member]) { b.guard(memberKey(row.Value.Name), row.Rev) }

// Member finds who has a name, in any case; RecordNotFound when nobody ever had it. A damaged record is made anew (D7).
func (j *Journal) Member(ctx context.Context, team, name string) (Row[roster.Member], error) {
	row := &storev1.MemberRow{}
	if !roster.IsName(name) { // it would not do as a key
		return Row[roster.Member]{}, errdefs.New(errdefs.NotFound, errdefs.RecordNotFound, name, "there is no teammate %q", name)
	}
	rev, err := j.get(ctx, part(team), memberKey(name), row)
	if errdefs.Is(err, errdefs.RecordCorrupt) {
		if err = j.remakeMember(ctx, team, name); err == nil {
			rev, err = j.get(ctx, part(team), memberKey(name), row)
		}
	}
	return Row[roster.Member]{Rev: rev, Value: memberOf(row)}, err
}

// Members yields all who have names in a team, living and ended, in no order.
func (j *Journal) Members(ctx context.Context, team string) iter.Seq2[roster.Member, error] {
	return scan(ctx, j, team, "member", func(_ string, row *storev1.MemberRow) roster.Member { return memberOf(row) })
}

func memberRow(m roster.Member) *storev1.MemberRow {
	return &storev1.MemberRow{Name: m.Name, TaskId: string(m.TaskID), Dismissed: m.Dismissed}
}

func memberOf(row *storev1.MemberRow) roster.Member {
	return roster.Member{Name: row.GetName(), TaskID: task.ID(row.GetTaskId()), Dismissed: row.GetDismissed()}
}

// Standing is what a task is to its mail.
type Standing uint8

// The standings.
const (
	Gone   Standing = iota // it has ended
	AtWork                 // it has a loop, or is to get one
	AtRest                 // a teammate without work
)

// Rouse gives a teammate at rest work, in the batch: a loop will take its mail. The batch fails with Conflict when its
// standing has changed meanwhile. Of a task that is gone it guards nothing.
func (j *Journal) Rouse(ctx context.Context, b *Batch, id task.ID) (Standing, error) {
	if slices.Contains(b.roused, id) {
		return AtWork, nil // by this batch
	}
	now, err := j.guardStanding(ctx, b, id)
	if err != nil || now != AtRest {
		return now, err
	}
	b.raw(store.Delete, idleKey(id), nil)
	b.startWork(id, Live{})
	b.roused = append(b.roused, id)
	return now, nil
}

// guardStanding tells how a task stands, and makes the batch fail with Conflict when that changes. Of one that is gone it guards
// nothing. One that has neither record, for it was in between or damage has taken it, rests: the guards hold in the second case
// alone.
func (j *Journal) guardStanding(ctx context.Context, b *Batch, id task.ID) (Standing, error) {
	live, err := j.Live(ctx, b.team, id)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound):
	case errdefs.Is(err, errdefs.RecordCorrupt): // whatever loop it has can commit nothing any more
		live.Rev = store.Damaged
	default:
		b.GuardLive(id, live.Rev)
		return AtWork, err
	}
	idle, err := j.get(ctx, part(b.team), idleKey(id), &storev1.IdleRow{})
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound):
		// Between two reads a teammate may change sides: only its own record tells that it has ended.
		row, err := j.Task(ctx, id)
		if IsLost(err) || err == nil && row.Value.State.Terminal() {
			return Gone, nil
		}
		if err != nil {
			return Gone, err
		}
	case errdefs.Is(err, errdefs.RecordCorrupt):
		idle = store.Damaged
	case err != nil:
		return Gone, err
	}
	b.GuardLive(id, live.Rev)
	b.guard(idleKey(id), idle)
	return AtRest, nil
}

// Work reads the revision that changes when a teammate of the team, or a task below one, gets work or runs out of it.
func (j *Journal) Work(ctx context.Context, team string) (Rev, error) {
	_, rev, err := j.vector(ctx, team, workKey)
	return rev, err
}

// Handshake is something that was asked of a teammate, or that it has asked for, until it is answered (M6).
type Handshake struct {
	ID          string // c-N; empty: there is none
	Incarnation int    // of the teammate, to which it is bound
	From        string // who asked
	MessageID   string // of the message that asked
	Approved    bool   // of a plan
}

// Control is the handshakes of a teammate.
type Control struct {
	Shutdown Handshake // that waits for its answer
	Plan     Handshake // that waits for its answer, or was approved last
}

// PutControl writes a teammate's handshakes, guarded by what they were.
func (b *Batch) PutControl(id task.ID, before Rev, c Control) {
	b.guard(controlKey(id), before)
	b.op(store.Put, controlKey(id), &storev1.ControlRow{Shutdown: handshakeRow(c.Shutdown), Plan: handshakeRow(c.Plan)})
}

// Control reads a teammate's handshakes. Damaged ones are lost: nothing waits for an answer any more.
func (j *Journal) Control(ctx context.Context, team string, id task.ID) (Row[Control], error) {
	row := &storev1.ControlRow{}
	rev, err := j.get(ctx, part(team), controlKey(id), row)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound):
		err = nil
	case errdefs.Is(err, errdefs.RecordCorrupt):
		rev, err = store.Damaged, nil
	}
	return Row[Control]{Rev: rev, Value: Control{
		Shutdown: handshakeOf(row.GetShutdown()), Plan: handshakeOf(row.GetPlan()),
	}}, err
}

func handshakeRow(h Handshake) *storev1.HandshakeRow {
	if h.ID == "" {
		return nil
	}
	return &storev1.HandshakeRow{
		Id: h.ID, Incarnation: int32(h.Incarnation), From: h.From, MessageId: h.MessageID, Approved: h.Approved,
	}
}

func handshakeOf(row *storev1.HandshakeRow) Handshake {
	return Handshake{
		ID: row.GetId(), Incarnation: int(row.GetIncarnation()), From: row.GetFrom(), MessageID: row.GetMessageId(),
		Approved: row.GetApproved(),
	}
}

// Errand is mail that is still to be handed on.
type Errand struct {
	ID         string          // of the outbox record
	Mail       mailbox.Message // for Recipients
	Recipients []task.ID       // who has yet to get it
	UnreadOf   task.ID         // instead: the unread mail of this task, which has ended
}

// PutErrand writes an errand, guarded by what it was: the zero revision for a new one.
func (b *Batch) PutErrand(e Errand, before Rev) {
	b.guard(outboxKey(e.ID), before)
	b.op(store.Put, outboxKey(e.ID), &storev1.OutboxRow{
		Mail: mailRow(e.Mail), Recipients: stringsOf(e.Recipients), UnreadOf: string(e.UnreadOf),
	})
	b.posted = true
	b.raw(store.Add, workKey, store.EncodeVector([]int64{0})) // it is work for others: see GuardWork
}

// DeleteErrand forgets an errand that is done.
func (b *Batch) DeleteErrand(row Row[Errand]) {
	b.guard(outboxKey(row.Value.ID), row.Rev)
	b.raw(store.Delete, outboxKey(row.Value.ID), nil)
}

// LeaveMail writes the errand to see to the unread mail of a task that ends.
func (b *Batch) LeaveMail(id task.ID) {
	b.op(store.Put, outboxKey(string(id)), &storev1.OutboxRow{UnreadOf: string(id)})
	b.posted = true
	b.raw(store.Add, workKey, store.EncodeVector([]int64{0}))
}

// Errands reads a team's errands, in no order.
func (j *Journal) Errands(ctx context.Context, team string) ([]Row[Errand], error) {
	var all []Row[Errand]
	for rec, err := range j.st.Scan(ctx, part(team), "outbox") {
		row := &storev1.OutboxRow{}
		if err == nil {
			err = decode(rec.Key, rec.Value, row)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Row[Errand]{Rev: rec.Rev, Value: errandOf(rec.Key[len("outbox/"):], row)})
	}
	return all, nil
}

// Errand reads one errand again; RecordNotFound when it is done.
func (j *Journal) Errand(ctx context.Context, team, id string) (Row[Errand], error) {
	row := &storev1.OutboxRow{}
	rev, err := j.get(ctx, part(team), outboxKey(id), row)
	return Row[Errand]{Rev: rev, Value: errandOf(id, row)}, err
}

func errandOf(id string, row *storev1.OutboxRow) Errand {
	return Errand{
		ID: id, Mail: mailOf(row.GetMail()), Recipients: idsOf(row.GetRecipients()), UnreadOf: task.ID(row.GetUnreadOf()),
	}
}
