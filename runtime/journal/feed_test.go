package journal

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store/storetest"
)

// ticks are those of a team's feed.
func ticks(t *testing.T, j *Journal, team string) []Tick {
	t.Helper()
	var all []Tick
	for e, err := range j.Feed(context.Background(), team, 0) {
		must(t, err)
		all = append(all, e.Tick)
	}
	return all
}

// Every event has a tick of its own, later than all before, of other teams and other lives of the daemon too, whatever the
// clock does. proves O3
func TestTicksNeverGoBack(t *testing.T) {
	st := newStore(t)
	clock := time.Now()
	var last Tick
	for _, back := range []time.Duration{0, time.Minute, 50 * time.Minute} {
		clock = clock.Add(-back)
		j, err := Open(context.Background(), st, func() time.Time { return clock }, slog.New(slog.DiscardHandler))
		must(t, err)
		if settled := j.Settled(""); settled < last {
			t.Errorf("a start %v back has settled %d, behind %d", back, settled, last)
		}
		for _, name := range []string{"a", "b"} {
			team, err := j.TeamByName(context.Background(), name)
			if errdefs.Is(err, errdefs.TeamNotFound) {
				team = newTeam(t, j, name)
			}
			before := len(ticks(t, j, team.ID))
			newTask(t, j, team.ID)
			newTask(t, j, team.ID)
			for _, tick := range ticks(t, j, team.ID)[before:] {
				if tick <= last {
					t.Errorf("tick %d comes after %d", tick, last)
				}
				last = tick
			}
		}
	}
}

// A clock that was far ahead in an earlier life of the daemon does not rule this one: what was told then hides nothing that
// comes after it, and leaves with it.
func TestTicksOfAWrongClock(t *testing.T) {
	ctx := context.Background()
	st := newStore(t)
	clock := time.Now().AddDate(70, 0, 0)
	open := func() *Journal {
		j, err := Open(ctx, st, func() time.Time { return clock }, slog.New(slog.DiscardHandler))
		must(t, err)
		return j
	}
	j := open()
	team := newTeam(t, j, "main").ID
	newTask(t, j, team)
	clock = time.Now()
	j = open()
	newTask(t, j, team)
	if all := ticks(t, j, team); len(all) != 1 || all[0] != tickOf(clock)+1 {
		t.Errorf("the events have the ticks %v, want the one after %d alone", all, tickOf(clock))
	}
	clock = clock.Add(keepFeed + time.Hour)
	must(t, j.Prune(ctx, team))
	commit(t, j, j.Batch(team)) // a trim is done with the next commit at the latest
	if rest, err := st.Last(ctx, part(team), feedLog, 9); err != nil || len(rest) > 0 {
		t.Errorf("%d rows are left, %v", len(rest), err)
	}
}

// A commit of unknown outcome may still land, so that nothing later is settled before the store has recovered. proves O3
func TestUnknownIsNotSettled(t *testing.T) {
	for _, mode := range []storetest.Mode{storetest.Landed, storetest.Lost} {
		synctest.Test(t, func(t *testing.T) {
			// The commits before are the start, the team, the block of ids, the fence and a task.
			j, _ := faulty(t, storetest.Plan{From: 6, Count: 1, Mode: mode})
			team := newTeam(t, j, "main").ID
			newTask(t, j, team)
			more, all := j.FollowFeed(team), j.FollowFeed("")
			before := j.Settled("")
			time.Sleep(time.Millisecond)
			b := j.Batch(team)
			b.stateChange("sub-7", 0, task.Queued, 0)
			want(t, j.Commit(context.Background(), b), errdefs.OutcomeUnknown)
			time.Sleep(time.Millisecond)
			for _, scope := range []string{"", team} {
				if settled := j.Settled(scope); settled < before || settled >= j.feeds.last {
					t.Errorf("settled are %d, before %d, given %d", settled, before, j.feeds.last)
				}
			}
			if other := j.Settled("t-99"); other != tickOf(j.now()) {
				t.Error("another team is held back")
			}
			<-more
			<-all
			more = j.FollowFeed(team)
			must(t, j.Recovered(t.Context()))
			<-more
			if settled := j.Settled(""); settled != tickOf(j.now()) {
				t.Errorf("settled are %d after all", settled)
			}
			if got := len(ticks(t, j, team)); (got == 2) != (mode == storetest.Landed) {
				t.Errorf("%d rows", got)
			}
		})
	}
}

// A stall may end before the last of the batches that were on their way at its beginning has its answer: what it holds
// back is settled then, and by no stall that ended before. proves O3
func TestSettledAfterALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, newStore(t))
		team := newTeam(t, j, "main").ID
		unknown := errdefs.New(errdefs.Unavailable, errdefs.OutcomeUnknown, "", "may have landed")
		depart := func() *flight { return j.feeds.depart(team, nil, tickOf(j.now())) }
		settled := func() bool {
			time.Sleep(time.Millisecond)
			return j.Settled(team) == tickOf(j.now())
		}

		late, other := depart(), depart()
		j.stall.begin(unknown, 0)
		j.arrived(other, unknown)
		if settled() {
			t.Error("what may land is settled")
		}
		j.feeds.settle(j.stall.end())
		j.arrived(late, unknown)
		if !settled() {
			t.Error("what landed or never will is not settled")
		}

		next := depart()
		number := j.stall.end()
		j.stall.begin(unknown, 0)
		j.arrived(next, unknown)
		j.feeds.settle(number)
		if settled() {
			t.Error("a stall that ended before settles it")
		}
		j.feeds.settle(j.stall.end())
		if !settled() {
			t.Error("not settled in the end")
		}
	})
}

// Only those teams are read in which something may have happened, those of an earlier life too.
func TestStirred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore(t)
		j := newJournal(t, st)
		old, busy := newTeam(t, j, "old").ID, newTeam(t, j, "busy").ID
		newTask(t, j, old)
		time.Sleep(time.Hour)
		between := j.Settled("")
		time.Sleep(time.Second)
		newTask(t, j, busy)
		for range 2 {
			if got := j.Stirred(between); len(got) != 1 || got[0] != busy {
				t.Errorf("stirred are %v", got)
			}
			if got := j.Stirred(0); len(got) != 2 {
				t.Errorf("stirred since ever are %v", got)
			}
			j = newJournal(t, st)
		}
	})
}

// Where a tick is in a long feed is found from its end, and never too late.
func TestFeedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		j := newJournal(t, newStore(t))
		team := newTeam(t, j, "main").ID
		var cursors []Tick
		for range 40 {
			cursors = append(cursors, j.Settled(team))
			b := j.Batch(team)
			for range 20 {
				b.stateChange("sub-1", 0, task.Queued, 0)
			}
			commit(t, j, b)
			time.Sleep(10 * time.Second)
		}
		for i, after := range cursors {
			from, err := j.FeedBefore(ctx, team, after)
			must(t, err)
			later, read := 0, 0
			for e, err := range j.Feed(ctx, team, from) {
				must(t, err)
				read++
				if e.Tick > after {
					later++
				}
			}
			if want := 20 * (len(cursors) - i); later != want {
				t.Errorf("behind cursor %d are %d, want %d", i, later, want)
			}
			if i > 34 && read > 256 {
				t.Errorf("behind cursor %d %d were read", i, read)
			}
		}
	})
}
