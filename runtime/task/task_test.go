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

// TestSequences applies changes in any order. However they come, a task ends at most once and for good, its starts only
// count up, a stop only grows harder and keeps what it leads to. proves S1
func TestSequences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1, 0)
		at := task.Task{ID: "sub-1", State: task.Queued, Incarnation: 1}
		ends := 0
		for range rapid.IntRange(1, 30).Draw(t, "length") {
			c := rapid.SampledFrom(changes()).Draw(t, "change").Change
			now = now.Add(time.Second)
			before := at
			after, err := task.Apply(at, c, now)
			if err != nil {
				if !reflect.DeepEqual(after, before) {
					t.Fatalf("refused, and changed nevertheless: %+v", after)
				}
				wantRefusal(t, before, err)
				continue
			}
			if !reflect.DeepEqual(at, before) {
				t.Fatalf("Apply changed what it was given: %+v", at)
			}
			if after.State.Terminal() {
				ends++
			}
			wantGrowth(t, before, after, now)
			at = after
		}
		if ends > 1 {
			t.Fatalf("it ended %d times", ends)
		}
		if ended := at.State.Terminal(); ended != (ends == 1) || ended == at.Ended.IsZero() || ended == (at.Reason == 0) {
			t.Fatalf("after %d ends it stands as %+v", ends, at)
		}
	})
}

func wantRefusal(t *rapid.T, before task.Task, err error) {
	want := errdefs.Conflict
	if before.State.Terminal() {
		want = errdefs.TaskEnded
	}
	if !errdefs.Is(err, want) || errdefs.As(err).Subject != string(before.ID) {
		t.Fatalf("the refusal of a task that is %s: %v", before.State, err)
	}
}

func wantGrowth(t *rapid.T, before, after task.Task, now time.Time) {
	if before.State.Terminal() {
		t.Fatalf("%s was final, and became %s", before.State, after.State)
	}
	if after.Start < before.Start || after.Start > before.Start+1 {
		t.Fatalf("start went from %d to %d", before.Start, after.Start)
	}
	if !before.Started.IsZero() && !after.Started.Equal(before.Started) || after.Start > 0 == after.Started.IsZero() {
		t.Fatalf("started went from %v to %v", before.Started, after.Started)
	}
	if after.State.Terminal() && !after.Ended.Equal(now) {
		t.Fatalf("ended at %v, not %v", after.Ended, now)
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
	for i, s := range task.States() {
		check(s.String())
		if int(s) != i+1 {
			t.Errorf("%s is %d: states are numbers on disk", s, s)
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

func TestWallTime(t *testing.T) {
	start := time.Unix(100, 0)
	now := start.Add(time.Minute)
	for _, tt := range []struct {
		task task.Task
		want time.Duration
	}{
		{task.Task{}, 0},
		{task.Task{Ended: now}, 0}, // it never started
		{task.Task{Started: start}, time.Minute},
		{task.Task{Started: start, Ended: start.Add(time.Second)}, time.Second},
	} {
		if got := tt.task.WallTime(now); got != tt.want {
			t.Errorf("started %v, ended %v: %v, want %v", tt.task.Started, tt.task.Ended, got, tt.want)
		}
	}
}

// proves N3 as far as their form goes
func TestIDs(t *testing.T) {
	if id := task.NewID(task.Subagent, 17); id != "sub-17" {
		t.Errorf("the id is %q", id)
	}
	child := task.Task{Ancestors: []task.ID{"sub-2", "sub-1"}}
	if child.Depth() != 2 || (task.Task{}).Depth() != 0 {
		t.Error("depth is not the number of ancestors")
	}
}
