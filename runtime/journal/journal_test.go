package journal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/bolt"
)

// newStore opens a store that is closed at the end of the test, and whose every page is looked at then.
func newStore(t *testing.T) store.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agentd.db")
	st, err := bolt.Open(context.Background(), bolt.Options{Path: path})
	must(t, err)
	t.Cleanup(func() {
		must(t, st.Close())
		report, err := bolt.Check(context.Background(), path, io.Discard)
		if err != nil || !report.OK() {
			t.Errorf("the store is not sound: %v %v", report, err)
		}
	})
	return st
}

// newJournal starts a daemon's journal on a store.
func newJournal(t *testing.T, st store.Store) *Journal {
	t.Helper()
	j, err := Open(context.Background(), st, time.Now, slog.New(slog.DiscardHandler))
	must(t, err)
	return j
}

func newTeam(t *testing.T, j *Journal, name string) roster.Team {
	t.Helper()
	team, err := j.CreateTeam(context.Background(), name, "/ws/"+name)
	must(t, err)
	return team
}

// newTask registers a queued task.
func newTask(t *testing.T, j *Journal, team string, parents ...task.ID) task.ID {
	t.Helper()
	n, err := j.NextID(context.Background(), team)
	must(t, err)
	at := task.Task{
		ID: task.NewID(task.Subagent, n), Team: team, Kind: task.Subagent, State: task.Queued, Incarnation: 1,
		Ancestors: parents, Created: time.Now(),
	}
	if len(parents) > 0 {
		at.Parent = parents[0]
	}
	b := j.Batch(team)
	b.CreateTask(task.Draft{Task: at}, "")
	commit(t, j, b)
	return at.ID
}

// apply changes a task as the supervisor does.
func apply(t *testing.T, j *Journal, id task.ID, c task.Change) {
	t.Helper()
	row := read(t, j, id)
	b := j.Batch(row.Value.Team)
	after, err := task.Apply(row.Value, c, b.Now())
	must(t, err)
	if after.State.Terminal() {
		b.EndTask(row, after, task.Conclusion{Report: task.Report{Summary: "over"}})
	} else {
		b.ChangeTask(row, after)
	}
	commit(t, j, b)
}

func done() task.Finish { return task.Finish{State: task.Completed, Reason: task.Done} }

func read(t *testing.T, j *Journal, id task.ID) Row[task.Task] {
	t.Helper()
	row, err := j.Task(context.Background(), id)
	must(t, err)
	return row
}

func commit(t *testing.T, j *Journal, b *Batch) {
	t.Helper()
	must(t, j.Commit(context.Background(), b))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, err error, reason errdefs.Reason) {
	t.Helper()
	if !errdefs.Is(err, reason) {
		t.Errorf("the error is %v, want %s", err, reason)
	}
}

// TestStarts: the store keeps who it is, counts its starts, and tells a crash from a stop in order.
func TestStarts(t *testing.T) {
	st := newStore(t)
	first := newJournal(t, st)
	if !first.CleanStop() || len(first.StoreID()) != 16 {
		t.Errorf("a new store: clean %v, id %q", first.CleanStop(), first.StoreID())
	}
	crashed := newJournal(t, st)
	if crashed.CleanStop() || crashed.StoreID() != first.StoreID() || crashed.daemon.GetStarts() != 2 {
		t.Errorf("after a crash: clean %v, id %q, starts %d", crashed.CleanStop(), crashed.StoreID(), crashed.daemon.GetStarts())
	}
	must(t, crashed.MarkClean(context.Background()))
	if after := newJournal(t, st); !after.CleanStop() {
		t.Error("a stop in order counts as a crash")
	}
	if again := newJournal(t, st); again.CleanStop() {
		t.Error("an old stop in order hides a crash")
	}
}

// TestFence: a daemon that is displaced can write nothing more to the teams that its successor owns, nor say that it
// stopped in order in the other's name. The successor is never fenced out by it.
func TestFence(t *testing.T) {
	st := newStore(t)
	old := newJournal(t, st)
	used, unused, later := newTeam(t, old, "used").ID, newTeam(t, old, "unused").ID, newTeam(t, old, "later").ID
	newTask(t, old, used)

	young := newJournal(t, st)
	for _, team := range []string{used, unused} {
		b := young.Batch(team)
		b.Append("sub-1", &task.Notice{Text: "mine"})
		commit(t, young, b)
	}
	for _, team := range []string{used, unused} { // with a fence from before, and with none yet
		b := old.Batch(team)
		b.Append("sub-1", &task.Notice{Text: "too late"})
		want(t, old.Commit(context.Background(), b), errdefs.Fenced)
		b = young.Batch(team)
		b.Append("sub-1", &task.Notice{Text: "still mine"})
		commit(t, young, b)
	}
	newTask(t, old, later)
	newTask(t, young, later) // takes it over
	b := old.Batch(later)
	b.Append("sub-1", &task.Notice{Text: "too late"})
	want(t, old.Commit(context.Background(), b), errdefs.Fenced)
	want(t, old.MarkClean(context.Background()), errdefs.Conflict)
}

// TestFollow: who listens to a transcript is told of that one only, of each growth, and of no commit that failed.
func TestFollow(t *testing.T) {
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	mine, other := newTask(t, j, team), newTask(t, j, team)
	bell := j.Bell()
	defer bell.Close()
	bell.Transcript(team, mine)
	apply(t, j, other, task.Start{})
	if rung(bell) {
		t.Error("woken by another task's transcript")
	}
	for range 2 {
		b := j.Batch(team)
		b.Append(mine, &task.Notice{Text: "more"})
		commit(t, j, b)
		if !rung(bell) {
			t.Fatal("not woken")
		}
	}
	b := j.Batch(team)
	b.Append(mine, &task.Notice{Text: "never"})
	b.GuardLive(mine, 1)
	want(t, j.Commit(context.Background(), b), errdefs.Conflict)
	if rung(bell) {
		t.Error("woken by a commit that failed")
	}
}

// TestBadRows: what can't be encoded is refused with the whole batch. case MSG-12
func TestBadRows(t *testing.T) {
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	b := j.Batch(team)
	b.Append(id, &task.Notice{Text: "good"}, &task.Notice{Text: "not \xff UTF-8"}, &task.Notice{Text: "good"})
	want(t, j.Commit(context.Background(), b), errdefs.BadArgument)
	if got := transcript(t, j, team, id); len(got) != 0 {
		t.Errorf("part of the batch was written: %v", got)
	}
}

// transcript is a task's entries, for comparison.
func transcript(t *testing.T, j *Journal, team string, id task.ID) []string {
	t.Helper()
	var all []string
	var last task.Seq
	for e, err := range j.Entries(context.Background(), team, id, 0) {
		must(t, err)
		if e.Seq <= last {
			t.Errorf("position %d follows %d", e.Seq, last)
		}
		last = e.Seq
		all = append(all, described(e.Body))
	}
	return all
}

// described is a body with its fields.
func described(body task.Body) string { return fmt.Sprintf("%T%+v", body, body) }
