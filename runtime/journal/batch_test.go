package journal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// TestTaskRows follows a family's rows from creation to end.
func TestTaskRows(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	parent := newTask(t, j, team)
	child := newTask(t, j, team, parent)
	wantIDs(t, "created", created(t, j, team), parent, child)
	wantIDs(t, "living", collect(t, j.Living(ctx, team)), parent, child)
	wantIDs(t, "children", collect(t, j.Children(ctx, team, parent)), child)
	wantIDs(t, "the child's children", collect(t, j.Children(ctx, team, child)))

	apply(t, j, child, task.Start{})
	b := j.Batch(team)
	for _, kind := range dueKinds() {
		b.PutDue(Due{At: time.Now(), TaskID: child, Kind: kind})
	}
	b.PutDue(Due{At: time.Now(), TaskID: parent, Kind: DueTimeout})
	commit(t, j, b)
	if _, err := j.Result(ctx, team, child); !errdefs.Is(err, errdefs.RecordNotFound) {
		t.Errorf("a living task has a result: %v", err)
	}

	apply(t, j, child, done())
	wantIDs(t, "living", collect(t, j.Living(ctx, team)), parent)
	wantIDs(t, "children", collect(t, j.Children(ctx, team, parent)), child)
	dues := slices.Collect(func(yield func(Due) bool) {
		for d, err := range j.Dues(ctx, team) {
			must(t, err)
			yield(d)
		}
	})
	if len(dues) != 1 || dues[0].TaskID != parent || dues[0].Kind != DueTimeout {
		t.Errorf("an ended task keeps deadlines: %v", dues)
	}
	want := []string{
		"*task.StateChange&{From:QUEUED To:RUNNING Reason:}", "*task.StateChange&{From:RUNNING To:COMPLETED Reason:DONE}",
	}
	if got := transcript(t, j, team, child); !slices.Equal(got, want) {
		t.Errorf("the transcript is %v", got)
	}
}

func collect[T any](t *testing.T, items func(func(T, error) bool)) []T {
	t.Helper()
	var all []T
	for item, err := range items {
		must(t, err)
		all = append(all, item)
	}
	return all
}

func created(t *testing.T, j *Journal, team string) []task.ID {
	t.Helper()
	var ids []task.ID
	for row, err := range j.Created(context.Background(), team, 0) {
		must(t, err)
		ids = append(ids, row.Value)
	}
	return ids
}

func wantIDs(t *testing.T, what string, got []task.ID, want ...task.ID) {
	t.Helper()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// TestFeed: each change of state and each accepted message has its feed row, in its own batch. proves O3 as far as rows
// go
func TestFeed(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	apply(t, j, id, task.Start{})
	apply(t, j, id, task.Resume{}) // changes no state
	live, err := j.Live(ctx, team, id)
	must(t, err)
	b := j.Batch(team)
	b.Append(id, &task.Notice{Text: "no news"})
	b.GuardLive(id, live.Rev)
	b.Accept(id, mailbox.Message{ID: "m-7", From: "user", Text: "hi", Sent: b.Now()})
	b.TellMail(id, "m-7")
	commit(t, j, b)
	b = j.Batch(team)
	b.GuardLive(id, live.Rev+1)
	b.Accept(id, mailbox.Message{ID: "m-8", From: "user", Text: "refused", Sent: b.Now()})
	b.TellMail(id, "m-8")
	want(t, j.Commit(ctx, b), errdefs.Conflict)
	apply(t, j, id, done())
	news := []string{
		"sub-1 NONE>QUEUED ", "sub-1 QUEUED>RUNNING ", "sub-1 m-7", "sub-1 RUNNING>COMPLETED DONE",
	}
	if got := feed(t, j, team); !slices.Equal(got, news) {
		t.Errorf("the feed is %q, want %q", got, news)
	}
}

func feed(t *testing.T, j *Journal, team string) []string {
	t.Helper()
	var news []string
	for e, err := range j.st.Read(context.Background(), part(team), "feed", 0) {
		must(t, err)
		row := &storev1.FeedRow{}
		must(t, decode("feed", e.Value, row))
		if s := row.GetState(); s != nil {
			news = append(news, fmt.Sprintf("%s %s>%s %s",
				row.GetTaskId(), task.State(s.GetFrom()), task.State(s.GetTo()), task.Reason(s.GetReason())))
			continue
		}
		news = append(news, row.GetTaskId()+" "+row.GetMessageId())
	}
	return news
}

// TestGuards: what was decided on rows that have changed is not written, nor is anything of a loop that has a successor
// or whose task has ended. proves T1 as far as commits go
func TestGuards(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	old := read(t, j, id)
	live, err := j.Live(ctx, team, id)
	must(t, err)
	write := func(guard func(*Batch)) error {
		b := j.Batch(team)
		guard(b)
		b.Append(id, &task.Notice{Text: "written"})
		return j.Commit(ctx, b)
	}
	loop := func(b *Batch) { b.GuardLive(id, live.Rev) }
	must(t, write(loop))

	apply(t, j, id, task.Start{})
	want(t, write(func(b *Batch) { b.GuardTask(old) }), errdefs.Conflict)
	must(t, write(loop)) // the record of the task may change under the loop

	b := j.Batch(team)
	b.GuardLive(id, live.Rev)
	b.PutLive(id, Live{Start: 2})
	commit(t, j, b)
	want(t, write(loop), errdefs.Conflict)

	if live, err = j.Live(ctx, team, id); err != nil || live.Value.Start != 2 {
		t.Fatalf("%+v, %v", live, err)
	}
	must(t, write(loop))
	apply(t, j, id, done())
	want(t, write(loop), errdefs.Conflict)
	if n := len(transcript(t, j, team, id)); n != 3+2 {
		t.Errorf("%d entries: a refused batch left some", n)
	}

	b = j.Batch(team)
	b.CreateTask(task.Draft{Task: read(t, j, id).Value}, "") // an id is never given twice
	want(t, j.Commit(ctx, b), errdefs.Conflict)
}

// TestMail: a send and the end of a turn can't miss each other, and a take moves mail in one commit. proves D2
func TestMail(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	apply(t, j, id, task.Start{})
	live, err := j.Live(ctx, team, id)
	must(t, err)
	inbox, err := j.Inbox(ctx, team, id)
	must(t, err)
	b := j.Batch(team)
	b.GuardLive(id, live.Rev)
	b.Accept(id, mailbox.Message{ID: "m-1", From: "user", Text: "hi", Sent: b.Now()})
	b.TellMail(id, "m-1")
	commit(t, j, b)

	row := read(t, j, id)
	after, err := task.Apply(row.Value, done(), time.Now())
	must(t, err)
	b = j.Batch(team)
	b.GuardInbox(id, inbox.Rev)
	b.EndTask(row, after, task.Conclusion{})
	want(t, j.Commit(ctx, b), errdefs.Conflict)

	box, err := j.Mailbox(ctx, team, id)
	must(t, err)
	mail := collect(t, j.Mail(ctx, team, id, box.Value.Low))
	taken := mailbox.Take(box.Value, mail, mailbox.Boundary{})
	for i := range 2 { // the second of two loops that took the same
		b = j.Batch(team)
		b.Settle(id, box, taken.Mail, taken.Next)
		b.Append(id, &task.Input{From: taken.Mail[0].From, Text: taken.Mail[0].Text, MessageID: taken.Mail[0].ID})
		if err := j.Commit(ctx, b); (err == nil) != (i == 0) {
			t.Errorf("take %d: %v", i, err)
		}
	}
	entries, err := j.LastEntries(ctx, team, id, 9)
	must(t, err)
	if in, ok := entries[len(entries)-1].Body.(*task.Input); len(entries) != 2 || !ok || in.MessageID != "m-1" || in.Text != "hi" {
		t.Errorf("the transcript is %v", entries)
	}
	if box, err = j.Mailbox(ctx, team, id); err != nil || len(collect(t, j.Mail(ctx, team, id, box.Value.Low))) != 0 {
		t.Errorf("mail is left after %+v: %v", box, err)
	}
}

// TestUsage: what a task consumes counts for all above it. proves R4 as far as adding goes
func TestUsage(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	top := newTask(t, j, team)
	middle := newTask(t, j, team, top)
	low := newTask(t, j, team, middle, top)
	for _, id := range []task.ID{low, middle, low} {
		b := j.Batch(team)
		b.AddUsage(read(t, j, id).Value, task.Usage{Steps: 1, InputTokens: 10})
		commit(t, j, b)
	}
	for id, steps := range map[task.ID]int64{low: 2, middle: 3, top: 3} {
		if used, err := j.Usage(ctx, team, id); err != nil || used != (task.Usage{Steps: steps, InputTokens: 10 * steps}) {
			t.Errorf("%s used %+v, %v", id, used, err)
		}
	}
}

// TestDues: a deadline is a row of its task; the newest of a kind counts. proves D10 as far as rows go
func TestDues(t *testing.T) {
	ctx := context.Background()
	st := newStore(t)
	j := newJournal(t, st)
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	at := time.Unix(0, 1_000_000_007)
	b := j.Batch(team)
	b.PutDue(Due{At: at.Add(time.Hour), TaskID: id, Kind: DueStop})
	b.PutDue(Due{At: at, TaskID: id, Kind: DueTimeout})
	commit(t, j, b)
	b = j.Batch(team)
	b.PutDue(Due{At: at, TaskID: id, Kind: DueStop})
	b.DeleteDue(id, DueTimeout)
	b.DeleteDue(id, DueResume) // there is none
	commit(t, j, b)

	j = newJournal(t, st) // the next daemon finds it
	if dues := collect(t, j.Dues(ctx, team)); len(dues) != 1 || !dues[0].At.Equal(at) || dues[0].Kind != DueStop {
		t.Errorf("deadlines are %v", dues)
	}
	_, err := j.Due(ctx, team, id, DueTimeout)
	want(t, err, errdefs.RecordNotFound)
}

func TestOutput(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	const mib = 1 << 20
	whole := make([]byte, 2*mib)
	for i := range whole {
		whole[i] = byte(i % 251)
	}
	// Each replaces the one before: shorter ones too, and those that fill their last piece.
	for _, size := range []int{2 * mib, pieceSize + 1, pieceSize, pieceSize - 1, 0, 1} {
		b := j.Batch(team)
		b.PutOutput("sub-1", "call1", whole[:size])
		commit(t, j, b)
		r, err := j.Output(ctx, team, "sub-1", "call1")
		must(t, err)
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, whole[:size]) {
			t.Errorf("%d bytes came back as %d, %v", size, len(got), err)
		}
		must(t, r.Close())
	}
	for _, call := range []string{"call", "call2"} {
		_, err := j.Output(ctx, team, "sub-1", call)
		want(t, err, errdefs.RecordNotFound)
	}
}
