package journal

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// meddler is a store in which something happens right before a read.
type meddler struct {
	store.Store
	before func(key string) // nil: nothing
}

func (m *meddler) meddle(key string) {
	if before := m.before; before != nil {
		m.before = nil // what happens reads as well
		defer func() { m.before = before }()
		before(key)
	}
}

func (m *meddler) Get(ctx context.Context, p store.Partition, key string) (store.Record, error) {
	m.meddle(key)
	return m.Store.Get(ctx, p, key)
}

func (m *meddler) Scan(ctx context.Context, p store.Partition, prefix string) iter.Seq2[store.Record, error] {
	m.meddle(prefix)
	return m.Store.Scan(ctx, p, prefix)
}

// TestLivingMissesNobody: who changes sides while the living are read is read all the same.
func TestLivingMissesNobody(t *testing.T) {
	st := &meddler{Store: newStore(t)}
	j := newJournal(t, st)
	team := newTeam(t, j, "main").ID
	ann := newMate(t, j, team, "ann")
	apply(t, j, ann, task.Start{})
	rest(t, j, ann, false)
	flips := 0
	st.before = func(key string) {
		if key != "idle" && key != "live" || flips == 5 {
			return
		}
		flips++
		now, err := rouse(j, team, ann)
		must(t, err)
		if now != AtRest {
			apply(t, j, ann, task.Wake{})
			rest(t, j, ann, false)
		}
	}
	wantIDs(t, "living", collect(t, j.Living(context.Background(), team)), ann)
	if flips != 5 {
		t.Errorf("it changed sides %d times", flips)
	}
}

// TestStandingBetweenReads: who is roused between two reads has not ended, and no batch is decided on what was read.
func TestStandingBetweenReads(t *testing.T) {
	ctx := context.Background()
	st := &meddler{Store: newStore(t)}
	j := newJournal(t, st)
	team := newTeam(t, j, "main").ID
	ann := newMate(t, j, team, "ann")
	apply(t, j, ann, task.Start{})
	for _, decide := range []func(*Batch) (Standing, error){
		func(b *Batch) (Standing, error) { return j.Rouse(ctx, b, ann) },
		func(b *Batch) (Standing, error) { return j.guardStanding(ctx, b, ann) },
	} {
		rest(t, j, ann, false)
		meddled := false
		st.before = func(key string) {
			if key != idleKey(ann) {
				return
			}
			meddled = true
			_, err := rouse(j, team, ann)
			must(t, err)
			apply(t, j, ann, task.Wake{})
		}
		b := j.Batch(team)
		now, err := decide(b)
		st.before = nil
		must(t, err)
		b.Accept(ann, mailbox.Message{ID: "m-2"})
		if conflict := j.Commit(ctx, b); now == Gone || !errdefs.Is(conflict, errdefs.Conflict) || !meddled {
			t.Errorf("it stands at %d, %v", now, conflict)
		}
	}
}

// TestLostSide: a living teammate of whom damage has left neither record is roused like any other.
func TestLostSide(t *testing.T) {
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	ann := newMate(t, j, team, "ann")
	apply(t, j, ann, task.Start{})
	rest(t, j, ann, false)
	b := j.Batch(team)
	b.raw(store.Delete, idleKey(ann), nil)
	commit(t, j, b)
	for _, standing := range []Standing{AtRest, AtWork} {
		if now, err := rouse(j, team, ann); err != nil || now != standing {
			t.Errorf("stands at %d, %v; want %d", now, err, standing)
		}
	}
}

// TestOneMemberOfAName: of two that give the same name at once, in any case, one wins; the name of one that has ended is
// given anew once. proves N2 as far as rows go
// case MSG-5
func TestOneMemberOfAName(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	give := func(name string, id task.ID, before Rev) error {
		b := j.Batch(team)
		b.PutMember(roster.Member{Name: name, TaskID: id}, before, roster.Joined)
		return j.Commit(ctx, b)
	}
	must(t, give("Ann", "tm-1", 0))
	want(t, give("aNN", "tm-2", 0), errdefs.Conflict)
	was, err := j.Member(ctx, team, "ANN")
	if err != nil || was.Value != (roster.Member{Name: "Ann", TaskID: "tm-1"}) {
		t.Errorf("%+v, %v", was, err)
	}
	must(t, give("ann", "tm-3", was.Rev))
	want(t, give("ann", "tm-4", was.Rev), errdefs.Conflict)
	b := j.Batch(team)
	b.GuardMember(was) // a message to the one before
	b.Accept("tm-1", mailbox.Message{ID: "m-1"})
	want(t, j.Commit(ctx, b), errdefs.Conflict)
	if all := collect(t, j.Members(ctx, team)); len(all) != 1 || all[0].TaskID != "tm-3" {
		t.Errorf("members are %+v", all)
	}
	for _, odd := range []string{"", "nobody", "a/b", "../owner", "ann/x", "a\x00", "é", "-"} {
		_, err := j.Member(ctx, team, odd)
		want(t, err, errdefs.RecordNotFound)
	}
	var told []RosterChange
	for e, err := range j.Feed(ctx, team, 0) {
		must(t, err)
		told = append(told, *e.Roster)
	}
	if !slices.Equal(told, []RosterChange{{"Ann", roster.Joined}, {"ann", roster.Joined}}) {
		t.Errorf("the feed tells of %+v", told)
	}
}

// TestControl: of two that decide on the same handshakes the first wins. proves M6 as far as rows go
func TestControl(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	put := func(before Rev, c Control) error {
		b := j.Batch(team)
		b.PutControl("tm-1", before, c)
		return j.Commit(ctx, b)
	}
	none, err := j.Control(ctx, team, "tm-1")
	if err != nil || none != (Row[Control]{}) {
		t.Errorf("%+v, %v", none, err)
	}
	asked := Control{Shutdown: Handshake{ID: "c-1", Incarnation: 2, From: "user"}}
	must(t, put(none.Rev, asked))
	want(t, put(none.Rev, Control{Plan: Handshake{ID: "c-2"}}), errdefs.Conflict)
	row, err := j.Control(ctx, team, "tm-1")
	if err != nil || row.Value != asked {
		t.Errorf("%+v, %v", row, err)
	}
	must(t, put(row.Rev, Control{}))
	want(t, put(row.Rev, asked), errdefs.Conflict)
}

// TestErrands: what is still to be handed on is told once it is on disk and not before, and found by the next daemon; who
// works on an errand that has changed starts anew.
func TestErrands(t *testing.T) {
	ctx := context.Background()
	st := newStore(t)
	j := newJournal(t, st)
	told := 0
	j.OnWork(func(_ string, id task.ID) {
		if id == "" {
			told++
		}
	})
	team := newTeam(t, j, "main").ID
	e := Errand{ID: "m-1", Mail: mailbox.Message{ID: "m-1", Text: "hi"}, Recipients: []task.ID{"tm-1", "tm-2"}}
	b := j.Batch(team)
	b.PutErrand(e, 0)
	b.LeaveMail("tm-7")
	if told != 0 {
		t.Error("told before the commit")
	}
	before, err := j.Work(ctx, team)
	must(t, err)
	commit(t, j, b)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	quiet := j.Batch(team) // of who found the team quiet before there was mail to hand on
	quiet.GuardWork(before)
	quiet.Append("tm-1", &task.Notice{Text: "over"})
	want(t, j.Commit(ctx, quiet), errdefs.Conflict)
	b = j.Batch(team)
	b.PutErrand(e, 0) // there is one of this id
	want(t, j.Commit(ctx, b), errdefs.Conflict)
	if told != 1 {
		t.Errorf("told of what was not written")
	}

	j = newJournal(t, st)
	rows, err := j.Errands(ctx, team)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%+v, %v", rows, err)
	}
	slices.SortFunc(rows, func(a, b Row[Errand]) int { return len(a.Value.Recipients) - len(b.Value.Recipients) })
	if rows[0].Value.UnreadOf != "tm-7" || rows[0].Value.ID != "tm-7" {
		t.Errorf("what was left is %+v", rows[0])
	}
	next := rows[1].Value
	next.Recipients = next.Recipients[1:]
	b = j.Batch(team)
	b.PutErrand(next, rows[1].Rev)
	commit(t, j, b)
	b = j.Batch(team)
	b.DeleteErrand(rows[1])
	want(t, j.Commit(ctx, b), errdefs.Conflict)
	for len(rows) > 0 {
		rows, err = j.Errands(ctx, team)
		must(t, err)
		b = j.Batch(team)
		for _, row := range rows {
			b.DeleteErrand(row)
		}
		commit(t, j, b)
	}
}

// TestSent: a message is found with all its recipients, and no other; an id that is none finds nothing. proves M4 as far as
// rows go
func TestSent(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	b := j.Batch(team)
	for _, id := range []string{"m-1", "m-10"} {
		for _, to := range []task.ID{"tm-1", mailbox.LeaderBox, mailbox.UserBox} {
			b.PutSent(mailbox.Sent{MessageID: id, Recipient: to, From: "ann"})
		}
	}
	commit(t, j, b)
	rows, err := j.Sent(ctx, team, "m-1")
	if err != nil || len(rows) != 3 {
		t.Fatalf("%+v, %v", rows, err)
	}
	b = j.Batch(team)
	b.PutFate(rows[0], mailbox.Expired, "too late")
	commit(t, j, b)
	b = j.Batch(team)
	b.PutFate(rows[0], mailbox.Undeliverable, "ended")
	want(t, j.Commit(ctx, b), errdefs.Conflict)
	got, err := j.SentTo(ctx, team, "m-1", rows[0].Value.Recipient)
	if err != nil || got.Value.Fate != mailbox.Expired || got.Value.Reason != "too late" || got.Value.From != "ann" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, odd := range []string{"", "m-2", "m-1/tm-1", "m-1/", "/", "..", "m-1\x00", "\xff"} {
		if rows, err := j.Sent(ctx, team, odd); err != nil || len(rows) != 0 {
			t.Errorf("%q: %v, %v", odd, rows, err)
		}
		_, err := j.SentTo(ctx, team, odd, "tm-1")
		want(t, err, errdefs.RecordNotFound)
	}
}

// TestLast: a batch knows what comes after it, once it is on disk.
func TestLast(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	b := j.Batch(team)
	b.Append(id, &task.Notice{Text: "one"}, &task.Notice{Text: "two"})
	b.TellMail(id, "m-1")
	if b.Last() != 0 {
		t.Error("it is somewhere before it is on disk")
	}
	commit(t, j, b)
	next := j.Batch(team)
	next.Append(id, &task.Notice{Text: "three"})
	commit(t, j, next)
	last, err := j.LastEntries(ctx, team, id, 2)
	must(t, err)
	if last[0].Seq > b.Last() || last[1].Seq <= b.Last() || next.Last() < last[1].Seq {
		t.Errorf("batches end at %d and %d, their entries stand at %d and %d", b.Last(), next.Last(), last[0].Seq, last[1].Seq)
	}
}

// TestTwoCursors: the leader inbox is one log, of which the lead and the user take each their own, and what is unread counts
// for each. proves M10 as far as rows go
func TestTwoCursors(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	b := j.Batch(team)
	b.Accept(mailbox.LeaderBox, mailbox.Message{ID: "m-1", To: task.LeadName, Text: "lead"})
	b.Accept(mailbox.LeaderBox, mailbox.Message{ID: "m-2", To: mailbox.User, Text: "users"})
	b.TellMail(mailbox.LeaderBox, "m-2")
	commit(t, j, b)
	if news := feed(t, j, team); !slices.Equal(news, []string{" m-2"}) {
		t.Errorf("the feed is %q", news)
	}
	unread := func(box task.ID, want int64) {
		t.Helper()
		if got, err := j.Inbox(ctx, team, box); err != nil || got.Value.Messages != want {
			t.Errorf("%s has %+v, %v", box, got.Value, err)
		}
	}
	unread(mailbox.LeaderBox, 1)
	unread(mailbox.UserBox, 1)
	mail, box, err := j.Unread(ctx, team, mailbox.LeaderBox)
	must(t, err)
	took := mailbox.TakeAll([]mailbox.Shelf{{Box: box.Value, Mail: mail, Lead: true}}, mailbox.Boundary{})[0]
	b = j.Batch(team)
	b.Settle(mailbox.LeaderBox, box, took.Mail, took.Next)
	commit(t, j, b)
	unread(mailbox.LeaderBox, 0)
	unread(mailbox.UserBox, 1)
	if mail, box, err = j.Unread(ctx, team, mailbox.UserBox); err != nil || len(mail) != 2 || box.Value.Low != 0 {
		t.Errorf("the user's are %v after %+v, %v", mail, box, err)
	}
}
