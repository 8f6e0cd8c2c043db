package task_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// TestSequences applies changes in any order. However they come, each incarnation of a task ends at most once and for good,
// and only a teammate has another one; its starts only count up, a stop only grows harder and keeps what it leads to. proves
// S1
func TestSequences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1, 0)
		kind := rapid.SampledFrom([]task.Kind{task.Subagent, task.Teammate}).Draw(t, "kind")
		at := task.Task{ID: task.NewID(kind, 1), Kind: kind, State: task.Queued, Incarnation: 1}
		ends := map[int]int{} // by incarnation
		for range rapid.IntRange(1, 40).Draw(t, "length") {
			c := rapid.SampledFrom(changes()).Draw(t, "change").Change
			now = now.Add(time.Second)
			before := at
			after, err := task.Apply(at, c, now)
			if err != nil {
				if !reflect.DeepEqual(after, before) {
					t.Fatalf("refused, and changed nevertheless: %+v", after)
				}
				wantRefusal(t, before, c, err)
				continue
			}
			if !reflect.DeepEqual(at, before) {
				t.Fatalf("Apply changed what it was given: %+v", at)
			}
			if after.State.Terminal() {
				ends[after.Incarnation]++
			}
			wantGrowth(t, before, after, now)
			wantTurns(t, before, after, now)
			at = after
		}
		for life := 1; life <= at.Incarnation; life++ {
			want := 1
			if life == at.Incarnation && !at.State.Terminal() {
				want = 0
			}
			if ends[life] != want {
				t.Fatalf("incarnation %d of %d ended %d times; it is %s", life, at.Incarnation, ends[life], at.State)
			}
		}
		if ended := at.State.Terminal(); ended == at.Ended.IsZero() || ended == (at.Reason == 0) {
			t.Fatalf("it stands as %+v", at)
		}
	})
}

func wantRefusal(t *rapid.T, before task.Task, c task.Change, err error) {
	want := errdefs.Conflict
	if _, reopen := c.(task.Reopen); before.State.Terminal() && !reopen {
		want = errdefs.TaskEnded
	}
	if !errdefs.Is(err, want) || errdefs.As(err).Subject != string(before.ID) {
		t.Fatalf("the refusal of a task that is %s: %v", before.State, err)
	}
}

func wantGrowth(t *rapid.T, before, after task.Task, now time.Time) {
	if after.Start < before.Start || after.Start > before.Start+1 {
		t.Fatalf("start went from %d to %d", before.Start, after.Start)
	}
	if !before.Started.IsZero() && !after.Started.Equal(before.Started) || after.Start > 0 == after.Started.IsZero() {
		t.Fatalf("started went from %v to %v", before.Started, after.Started)
	}
	if after.State.Terminal() && !after.Ended.Equal(now) {
		t.Fatalf("ended at %v, not %v", after.Ended, now)
	}
	if before.State.Terminal() {
		if after.State != task.Queued || after.Kind != task.Teammate || after.Incarnation != before.Incarnation+1 || after.Stop != nil {
			t.Fatalf("%s was final, and became %+v", before.State, after)
		}
		return
	}
	if after.Incarnation != before.Incarnation {
		t.Fatalf("a living task went from incarnation %d to %d", before.Incarnation, after.Incarnation)
	}
	if before.Stop == nil {
		return
	}
	if after.Stop == nil || after.Stop.Level < before.Stop.Level || after.Stop.Reason != before.Stop.Reason {
		t.Fatalf("stop went from %+v to %+v", before.Stop, after.Stop)
	}
	if !after.State.Terminal() && after.State != task.Stopping {
		t.Fatalf("a task that is being stopped became %s", after.State)
	}
}

// wantTurns: a turn is under way exactly while the task has begun one and is neither idle nor ended, and time passes for the
// task only meanwhile.
func wantTurns(t *rapid.T, before, after task.Task, now time.Time) {
	under := after.State == task.Running || after.State == task.Waiting || after.State == task.Stopping
	if under == after.Turn.IsZero() {
		t.Fatalf("%s, and the turn began at %v", after.State, after.Turn)
	}
	if after.State == task.Idle && after.Kind != task.Teammate {
		t.Fatalf("a %s is idle", after.Kind)
	}
	if got, want := after.WallTime(now), before.WallTime(now); got != want {
		t.Fatalf("it had worked for %v, and by the change for %v", want, got)
	}
}

// TestReopened: the next incarnation has nothing of the end of the one before, and all that the teammate is.
func TestReopened(t *testing.T) {
	ended := task.Task{
		ID: "tm-1", Kind: task.Teammate, Name: "ada", Model: "m", Color: "blue", SpawnedBy: "tm-2", State: task.Killed,
		Reason: task.Shutdown, Error: "was asked to", Stop: &task.StopOrder{Level: task.Kill}, Incarnation: 3, Start: 7,
		Created: time.Unix(1, 0), Started: time.Unix(2, 0), Ended: time.Unix(9, 0), Worked: time.Second,
	}
	want := ended
	want.State, want.Reason, want.Error, want.Stop, want.Incarnation, want.Ended = task.Queued, 0, "", nil, 4, time.Time{}
	want.Forgiven = task.Usage{Steps: 5}
	got, err := task.Apply(ended, task.Reopen{Forgiven: task.Usage{Steps: 5}}, time.Unix(10, 0))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestOnlyTeammates rest and are reopened.
func TestOnlyTeammates(t *testing.T) {
	for _, kind := range task.Kinds() {
		for state, c := range map[task.State]task.Change{task.Running: task.Rest{}, task.Completed: task.Reopen{}} {
			_, err := task.Apply(task.Task{ID: task.NewID(kind, 1), Kind: kind, State: state}, c, time.Unix(1, 0))
			if kind == task.Teammate && err != nil || kind != task.Teammate && !errdefs.Is(err, errdefs.Conflict) {
				t.Errorf("%s of a %s: %v", c.Arrow(), kind, err)
			}
		}
	}
}

// TestHarderStop: a harder stop brings its own patience, and keeps why the task was stopped first.
func TestHarderStop(t *testing.T) {
	first := task.StopOrder{
		Level: task.WrapUp, State: task.Failed, Reason: task.Timeout, Message: "late",
		WrapUpTimeout: time.Minute, CancelTimeout: time.Minute,
	}
	running := task.Task{ID: "sub-1", State: task.Running}
	stopping, err := task.Apply(running, task.Stop{Order: first}, time.Time{})
	if err != nil || *stopping.Stop != first || running.Stop != nil {
		t.Fatalf("%+v, %v", stopping, err)
	}
	harder := task.StopOrder{
		Level: task.Cancel, State: task.Killed, Reason: task.StoppedByClient, Message: "now", CancelTimeout: time.Second,
	}
	canceled, err := task.Apply(stopping, task.Stop{Order: harder}, time.Time{})
	want := task.StopOrder{
		Level: task.Cancel, State: task.Failed, Reason: task.Timeout, Message: "late", CancelTimeout: time.Second,
	}
	if err != nil || *canceled.Stop != want || *stopping.Stop != first {
		t.Fatalf("%+v, %v; before %+v", *canceled.Stop, err, *stopping.Stop)
	}
	if first.Patience() != time.Minute || want.Patience() != time.Second {
		t.Errorf("patience %v, %v", first.Patience(), want.Patience())
	}
}

// TestUsageVector: every field of Usage is in its vector, in an order that old stores know, and comes back.
func TestUsageVector(t *testing.T) {
	var u task.Usage
	v := reflect.ValueOf(&u).Elem()
	for i := range v.NumField() {
		v.Field(i).SetInt(int64(i + 1))
	}
	if got := u.Vector(); len(got) != v.NumField() || !slices.Equal(got, []int64{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Fatalf("the vector is %v: fields are only ever appended", got)
	}
	if got := task.UsageOf(u.Vector()); got != u {
		t.Errorf("%+v came back as %+v", u, got)
	}
	if got := task.UsageOf([]int64{8}); got != (task.Usage{InputTokens: 8}) {
		t.Errorf("a shorter vector reads as %+v", got)
	}
	if got := task.UsageOf([]int64{1, 2, 3, 4, 5, 6, 7, 8, 9}); got != u {
		t.Errorf("a longer vector reads as %+v", got)
	}
	if u.Tokens() != 3 {
		t.Errorf("tokens are %d, not input and output", u.Tokens())
	}
}

// TestWords: every value that a record can hold has a word of its own.
func TestWords(t *testing.T) {
	seen := map[string]bool{"": true, "NONE": true}
	check := func(word string) {
		t.Helper()
		if seen[word] {
			t.Errorf("the word %q stands twice", word)
		}
		seen[word] = true
	}
	numbers := []task.State{
		task.Queued, task.Running, task.Waiting, task.Stopping, task.Completed, task.Failed, task.Killed, task.Idle,
	}
	for i, s := range numbers {
		check(s.String())
		if int(s) != i+1 {
			t.Errorf("%s is %d: states are numbers on disk", s, s)
		}
		if !slices.Contains(task.States(), s) {
			t.Errorf("the list lacks %s", s)
		}
	}
	for i, r := range task.Reasons() {
		check(r.String())
		if int(r) != i+1 {
			t.Errorf("%s is %d: reasons are numbers on disk", r, r)
		}
	}
	// The next numbers are nobody's: the lists are complete.
	if task.State(len(task.States())+1).String() != "NONE" || task.Reason(len(task.Reasons())+1).String() != "" {
		t.Error("a list lacks its newest value")
	}
	for _, l := range levels() {
		check("level " + l.String())
	}
}

// TestWallTime: what counts is the time of turns, not that between them.
func TestWallTime(t *testing.T) {
	at := task.Task{ID: "tm-1", Kind: task.Teammate, State: task.Queued}
	now := time.Unix(100, 0)
	for i, step := range []struct {
		task.Change
		after time.Duration // of the change, to the next
		want  time.Duration
	}{
		{task.Start{}, time.Minute, time.Minute},
		{task.Wait{}, time.Minute, 2 * time.Minute},
		{task.Proceed{}, time.Minute, 3 * time.Minute},
		{task.Rest{}, time.Hour, 3 * time.Minute},
		{task.Wake{}, time.Minute, 4 * time.Minute},
		{task.Resume{}, time.Minute, 5 * time.Minute},
		{task.Finish{State: task.Completed, Reason: task.Done}, time.Hour, 5 * time.Minute},
		{task.Reopen{}, time.Hour, 5 * time.Minute},
		{task.Start{}, time.Minute, 6 * time.Minute},
	} {
		var err error
		if at, err = task.Apply(at, step.Change, now); err != nil {
			t.Fatal(err)
		}
		now = now.Add(step.after)
		if got := at.WallTime(now); got != step.want {
			t.Errorf("%d, after %s: %v, want %v", i, step.Arrow(), got, step.want)
		}
	}
	if got := (task.Task{State: task.Failed, Ended: now}).WallTime(now); got != 0 {
		t.Errorf("one that never started worked for %v", got)
	}
}

// proves N3 as far as their form goes
func TestIDs(t *testing.T) {
	for _, kind := range task.Kinds() {
		id := task.NewID(kind, 17)
		got, n, ok := task.ParseID(id)
		if got != kind || n != 17 || !ok || id.Kind() != kind || id.Number() != 17 || kind.String() == "" {
			t.Errorf("%s is read as the %dth %s, %v", id, n, got, ok)
		}
	}
	child := task.Task{Ancestors: []task.ID{"sub-2", "sub-1"}}
	if child.Depth() != 2 || (task.Task{}).Depth() != 0 {
		t.Error("depth is not the number of ancestors")
	}
	if child.Root() != "sub-1" || (task.Task{ID: "tm-3"}).Root() != "tm-3" {
		t.Error("the root is not the last of those above, or the task itself")
	}
}
