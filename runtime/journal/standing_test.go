package journal

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// newMate registers a queued teammate with a name.
func newMate(t rapid.TB, j *Journal, team, name string) task.ID {
	t.Helper()
	n, err := j.NextID(context.Background(), team)
	if err != nil {
		t.Fatal(err)
	}
	at := task.Task{
		ID: task.NewID(task.Teammate, n), Team: team, Kind: task.Teammate, Name: name, State: task.Queued, Incarnation: 1,
		Created: time.Now(),
	}
	b := j.Batch(team)
	b.CreateTask(task.Draft{Task: at}, "")
	b.PutMember(roster.Member{Name: name, TaskID: at.ID}, 0, roster.Joined)
	if err := j.Commit(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	return at.ID
}

// rest ends a teammate's turn.
func rest(t rapid.TB, j *Journal, id task.ID, more bool) {
	t.Helper()
	row, err := j.Task(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	b := j.Batch(row.Value.Team)
	after, err := task.Apply(row.Value, task.Rest{}, b.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.RestTask(row, after, more)
	if err := j.Commit(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

// rouse sends a teammate something.
func rouse(j *Journal, team string, id task.ID) (Standing, error) {
	b := j.Batch(team)
	now, err := j.Rouse(context.Background(), b, id)
	if err == nil && now != Gone {
		b.Accept(id, mailbox.Message{ID: "m-1"})
		err = j.Commit(context.Background(), b)
	}
	return now, err
}

// sides gives who has a live record and who an idle one.
func sides(t rapid.TB, j *Journal, team string) (live, idle []task.ID) {
	t.Helper()
	for prefix, ids := range map[string]*[]task.ID{"live": &live, "idle": &idle} {
		for id, err := range j.idsBelow(context.Background(), team, prefix) {
			if err != nil {
				t.Fatal(err)
			}
			*ids = append(*ids, id)
		}
		slices.Sort(*ids)
	}
	return live, idle
}

// mates is a team whose members change in every way that there is.
type mates struct {
	j    *Journal
	team string
	all  []task.ID
	told []string // what OnWork was told since the last step
	work Rev      // as it was after the last step
}

// TestSides: however teammates begin, rest, are roused, end and are reopened, each has a live record while it has work, an
// idle one while it lives without, and none when it has ended; the record `work` changes with these and with nothing else; who
// is to get a loop is told. proves W4 as far as rows go
func TestSides(t *testing.T) {
	j := newJournal(t, newStore(t))
	teams := 0
	var m *mates
	j.OnWork(func(_ string, id task.ID) { m.told = append(m.told, string(id)) })
	rapid.Check(t, func(rt *rapid.T) {
		teams++
		m = &mates{j: j, team: newTeam(t, j, fmt.Sprintf("team%d", teams)).ID}
		m.all = []task.ID{newMate(rt, j, m.team, "ann"), newMate(rt, j, m.team, "bob")}
		rt.Repeat(map[string]func(*rapid.T){
			"change": m.change,
			"rouse":  m.rouse,
			"mail":   m.mail,
			"":       m.check,
		})
	})
}

func (m *mates) pick(t *rapid.T) Row[task.Task] {
	row, err := m.j.Task(context.Background(), rapid.SampledFrom(m.all).Draw(t, "who"))
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// change makes a change of state of a teammate, as the supervisor does.
func (m *mates) change(t *rapid.T) {
	row := m.pick(t)
	m.settle(t)
	c := rapid.SampledFrom([]task.Change{
		task.Start{}, task.Wait{}, task.Proceed{}, task.Resume{}, task.Rest{}, task.Wake{}, done(), task.Reopen{},
	}).Draw(t, "change")
	if _, isLive := m.hasLive(t, row.Value.ID); !isLive && c == (task.Wake{}) {
		return // it has no loop that could
	}
	b := m.j.Batch(m.team)
	after, err := task.Apply(row.Value, c, b.Now())
	if err != nil {
		return
	}
	var told []string
	changes := true // the sides
	switch c.(type) {
	case task.Rest:
		more := rapid.Bool().Draw(t, "more")
		b.RestTask(row, after, more)
		if more {
			told, changes = []string{string(after.ID)}, false
		}
	case task.Finish:
		b.EndTask(row, after, task.Conclusion{})
	case task.Reopen:
		b.ReopenTask(row, after)
		told = []string{string(after.ID)}
	default:
		b.ChangeTask(row, after)
		changes = false
	}
	m.commit(t, b, told, changes)
}

func (m *mates) rouse(t *rapid.T) {
	row := m.pick(t)
	m.settle(t)
	_, isLive := m.hasLive(t, row.Value.ID)
	now, err := rouse(m.j, m.team, row.Value.ID)
	if err != nil {
		t.Fatal(err)
	}
	want, told := Gone, []string(nil)
	switch {
	case isLive:
		want = AtWork
	case !row.Value.State.Terminal():
		want, told = AtRest, []string{string(row.Value.ID)}
	}
	if now != want {
		t.Fatalf("a teammate that is %s stands at %d", row.Value.State, now)
	}
	m.verify(t, told, want == AtRest)
}

// mail accepts and settles mail that wakes nobody.
func (m *mates) mail(t *rapid.T) {
	id := m.pick(t).Value.ID
	m.settle(t)
	b := m.j.Batch(m.team)
	if now, err := m.j.guardStanding(context.Background(), b, id); err != nil || now == Gone {
		return
	}
	b.Accept(id, mailbox.Message{ID: "m-2", Quiet: true})
	m.commit(t, b, nil, false)
}

func (m *mates) hasLive(t *rapid.T, id task.ID) (Rev, bool) {
	row, err := m.j.Live(context.Background(), m.team, id)
	if err != nil && !errdefs.Is(err, errdefs.RecordNotFound) {
		t.Fatal(err)
	}
	return row.Rev, err == nil
}

// settle notes how things are before a step.
func (m *mates) settle(t *rapid.T) {
	work, err := m.j.Work(context.Background(), m.team)
	if err != nil {
		t.Fatal(err)
	}
	m.work, m.told = work, nil
}

func (m *mates) commit(t *rapid.T, b *Batch, told []string, changes bool) {
	if len(m.told) > 0 {
		t.Fatal("told before the commit")
	}
	if err := m.j.Commit(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	m.verify(t, told, changes)
}

func (m *mates) verify(t *rapid.T, told []string, changes bool) {
	if !slices.Equal(m.told, told) {
		t.Fatalf("told of %q, want %q", m.told, told)
	}
	work, err := m.j.Work(context.Background(), m.team)
	if err != nil || (work != m.work) != changes {
		t.Fatalf("work went from %d to %d, %v", m.work, work, err)
	}
}

// check compares the records of sides with the tasks'.
func (m *mates) check(t *rapid.T) {
	live, idle := sides(t, m.j, m.team)
	var living []task.ID
	for _, id := range m.all {
		row, err := m.j.Task(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		state, isLive, isIdle := row.Value.State, slices.Contains(live, id), slices.Contains(idle, id)
		switch {
		case isLive && isIdle, state.Terminal() && (isLive || isIdle), !state.Terminal() && !isLive && !isIdle,
			isIdle && state != task.Idle:
			t.Fatalf("%s is %s, live %v, idle %v", id, state, isLive, isIdle)
		}
		if !state.Terminal() {
			living = append(living, id)
		}
	}
	var got []task.ID
	for id, err := range m.j.Living(context.Background(), m.team) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	slices.Sort(got)
	slices.Sort(living)
	if !slices.Equal(got, living) {
		t.Fatalf("living are %v, want %v", got, living)
	}
}

// TestWorkOfFamilies: the record `work` tells of what stands below a teammate too, and of no family without one.
func TestWorkOfFamilies(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	changed := func(what string, want bool, f func()) {
		t.Helper()
		before, err := j.Work(ctx, team)
		must(t, err)
		b := j.Batch(team)
		b.GuardWork(before)
		b.Append("sub-1", &task.Notice{})
		f()
		if after, err := j.Work(ctx, team); err != nil || (after != before) != want {
			t.Errorf("%s: work went from %d to %d, %v", what, before, after, err)
		}
		if err := j.Commit(ctx, b); errdefs.Is(err, errdefs.Conflict) != want {
			t.Errorf("%s: the guard of work: %v", what, err)
		}
	}
	var mate, child, other task.ID
	changed("a teammate", true, func() { mate = newMate(t, j, team, "ann") })
	changed("its child", true, func() { child = newTask(t, j, team, mate) })
	changed("its grandchild", true, func() { newTask(t, j, team, child, mate) })
	changed("a client's subagent", false, func() { other = newTask(t, j, team) })
	changed("and its end", false, func() { apply(t, j, other, task.Finish{State: task.Killed, Reason: task.StoppedByClient}) })
	changed("the child's start", false, func() { apply(t, j, child, task.Start{}) })
	changed("the child's end", true, func() { apply(t, j, child, done()) })
}

// TestRacesForATeammate: of two that decide on how a teammate stands, the second finds that it has changed. proves W2 as far
// as rows go
func TestRacesForATeammate(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	ann := newMate(t, j, team, "ann")
	apply(t, j, ann, task.Start{})
	prepare := func(guard func(*Batch) (Standing, error)) (Standing, *Batch) {
		b := j.Batch(team)
		now, err := guard(b)
		must(t, err)
		b.Accept(ann, mailbox.Message{ID: "m-1"})
		return now, b
	}
	send := func(b *Batch) (Standing, error) { return j.Rouse(ctx, b, ann) }
	stand := func(b *Batch) (Standing, error) { return j.guardStanding(ctx, b, ann) }

	now, sent := prepare(send)
	_, stood := prepare(stand)
	rest(t, j, ann, false)
	if now != AtWork {
		t.Errorf("one that runs stands at %d", now)
	}
	want(t, j.Commit(ctx, sent), errdefs.Conflict)
	want(t, j.Commit(ctx, stood), errdefs.Conflict)

	now, first := prepare(send)
	_, second := prepare(send)
	_, stood = prepare(stand)
	if now != AtRest {
		t.Errorf("one that rests stands at %d", now)
	}
	commit(t, j, first)
	want(t, j.Commit(ctx, second), errdefs.Conflict)
	want(t, j.Commit(ctx, stood), errdefs.Conflict)
	now, again := prepare(send)
	if now != AtWork {
		t.Errorf("one that was roused stands at %d", now)
	}
	commit(t, j, again)

	_, sent = prepare(send)
	apply(t, j, ann, task.Finish{State: task.Killed, Reason: task.StoppedByClient})
	want(t, j.Commit(ctx, sent), errdefs.Conflict)
	if now, _ := prepare(send); now != Gone {
		t.Errorf("one that has ended stands at %d", now)
	}

	revive := func() *Batch {
		row := read(t, j, ann)
		b := j.Batch(team)
		after, err := task.Apply(row.Value, task.Reopen{}, b.Now())
		must(t, err)
		b.ReopenTask(row, after)
		return b
	}
	winner, loser := revive(), revive()
	commit(t, j, winner)
	want(t, j.Commit(ctx, loser), errdefs.Conflict)
	if live, err := j.Live(ctx, team, ann); err != nil || live.Value != (Live{}) {
		t.Errorf("the next life begins with %+v, %v", live.Value, err)
	}

	apply(t, j, ann, task.Start{})
	rest(t, j, ann, false)
	_, sent = prepare(send)
	_, stood = prepare(stand)
	apply(t, j, ann, done()) // as an idle one is stopped
	want(t, j.Commit(ctx, sent), errdefs.Conflict)
	want(t, j.Commit(ctx, stood), errdefs.Conflict)
}

// TestRouseTwice: a batch may give a teammate several messages.
func TestRouseTwice(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	ann := newMate(t, j, team, "ann")
	apply(t, j, ann, task.Start{})
	rest(t, j, ann, false)
	b := j.Batch(team)
	for _, standing := range []Standing{AtRest, AtWork} {
		if now, err := j.Rouse(ctx, b, ann); err != nil || now != standing {
			t.Errorf("stands at %d, %v; want %d", now, err, standing)
		}
		b.Accept(ann, mailbox.Message{ID: "m-1", Text: "hi"})
	}
	commit(t, j, b)
	if unread, err := j.Inbox(ctx, team, ann); err != nil || unread.Value != (mailbox.Unread{Messages: 2, Bytes: 4}) {
		t.Errorf("unread are %+v, %v", unread.Value, err)
	}
}
