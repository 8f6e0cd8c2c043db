package runtime

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/runtime/task"
)

// below makes a task with its ancestors, the parent first.
func below(id task.ID, ancestors ...task.ID) task.Task {
	t := task.Task{ID: id, Ancestors: ancestors}
	if len(ancestors) > 0 {
		t.Parent = ancestors[0]
	}
	return t
}

// proves R9
// case STA-11: a wait that closes a circle is refused with its members, whoever began.
func TestCirclesOfWaits(t *testing.T) {
	type wait struct {
		waiter  task.Task
		awaited task.ID
		circle  string // members in the order of their waits; empty: it waits
	}
	for name, waits := range map[string][]wait{
		"itself":         {{below("sub-1"), "sub-1", "[sub-1]"}},
		"its parent":     {{below("sub-2", "sub-1"), "sub-1", "[sub-2 sub-1]"}},
		"further above":  {{below("sub-4", "grp-3", "sub-1"), "sub-1", "[sub-4 grp-3 sub-1]"}},
		"its own group":  {{below("sub-4", "grp-3", "sub-1"), "grp-3", "[sub-4 grp-3]"}},
		"two":            {{below("sub-1"), "sub-2", ""}, {below("sub-2"), "sub-1", "[sub-2 sub-1]"}},
		"a line is none": {{below("sub-1"), "sub-2", ""}, {below("sub-2"), "sub-3", ""}, {below("sub-1"), "sub-3", ""}},
		"three": {
			{below("sub-1"), "sub-2", ""}, {below("sub-2"), "sub-3", ""}, {below("sub-3"), "sub-1", "[sub-3 sub-1 sub-2]"},
		},
		"beside others": {
			{below("sub-1"), "sub-2", ""}, {below("sub-1"), "sub-3", ""}, {below("sub-3"), "sub-1", "[sub-3 sub-1]"},
			{below("sub-4"), "sub-1", ""},
		},
		"a child of the group that is waited for": {
			{below("sub-1"), "grp-3", ""}, {below("sub-4", "grp-3", "sub-2"), "sub-1", "[sub-4 sub-1 grp-3]"},
		},
		"the group of a child that waits": {
			{below("sub-4", "grp-3", "sub-2"), "sub-1", ""}, {below("sub-1"), "grp-3", "[sub-1 grp-3 sub-4]"},
		},
		"another child of that group": {
			{below("sub-4", "grp-3", "sub-2"), "sub-5", ""}, {below("sub-5", "grp-3", "sub-2"), "sub-6", ""},
			{below("sub-6"), "grp-3", "[sub-6 grp-3 sub-4 sub-5]"},
		},
		"below an agent that nobody waits for": {
			{below("sub-2", "sub-1"), "sub-3", ""}, {below("sub-3"), "sub-1", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWaits()
			for _, wait := range waits {
				got := ""
				if circle := w.begin(wait.waiter, wait.awaited); circle != nil {
					got = fmt.Sprint(circle)
				}
				if got != wait.circle {
					t.Errorf("%s waits for %s: circle %q, want %q", wait.waiter.ID, wait.awaited, got, wait.circle)
				}
			}
		})
	}
}

// A wait that is over, or was refused, closes no circle; one of two alike still does.
func TestWaitsEnd(t *testing.T) {
	w := newWaits()
	a, b := below("sub-4", "grp-3"), below("sub-5")
	for range 2 {
		if w.begin(a, "sub-5") != nil {
			t.Fatal("nobody waits yet")
		}
	}
	w.end(a, "sub-5")
	if w.begin(b, "sub-4") == nil || w.begin(b, "grp-3") == nil {
		t.Error("the other wait is on, and no circle is seen")
	}
	w.end(a, "sub-5")
	if circle := w.begin(b, "sub-4"); circle != nil {
		t.Errorf("circle %v although nobody waits", circle)
	}
	w.end(b, "sub-4")
	if len(w.ends) != 0 {
		t.Errorf("left over: %v", w.ends)
	}
}

// However tasks wait: what is taken up never holds a circle, and what is refused would close the one that is named.
func TestWaitsNeverHoldACircle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWaits()
		type wait struct{ from, to int }
		on := map[wait]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "waits") {
			next := wait{rapid.IntRange(1, 6).Draw(t, "waiter"), rapid.IntRange(1, 6).Draw(t, "awaited")}
			from, to := task.NewID(task.Subagent, uint64(next.from)), task.NewID(task.Subagent, uint64(next.to))
			if on[next] {
				delete(on, next)
				w.end(below(from), to)
				continue
			}
			circle := w.begin(below(from), to)
			if circle == nil {
				on[next] = true
				continue
			}
			steps := slices.Concat(circle, circle[:1])
			for i, id := range circle {
				link := wait{int(id.Number()), int(steps[i+1].Number())}
				if link != next && !on[link] {
					t.Fatalf("%v is no circle: %s does not wait for %s", circle, id, steps[i+1])
				}
			}
		}
		var free []int // who ends, since those that it waits for do
		for range 6 {
			for id := 1; id <= 6; id++ {
				stuck := slices.Contains(free, id)
				for wait := range on {
					stuck = stuck || wait.from == id && !slices.Contains(free, wait.to)
				}
				if !stuck {
					free = append(free, id)
				}
			}
		}
		if len(free) != 6 {
			t.Fatalf("of those that wait so only %v ever end: %v", free, on)
		}
	})
}
