package runtime

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/runtime/task"
)

// proves R7: teams take turns, however many one of them has waiting, and every position says the truth.
func TestFairQueue(t *testing.T) {
	q := newFairQueue()
	for i := range 4 {
		q.push("a", task.ID(fmt.Sprint("a", i)))
	}
	q.push("b", "b0")
	q.push("c", "c0")
	q.push("c", "c1")
	q.push("a", "a0") // waits already
	q.remove("a1")
	q.remove("never here")
	want := []task.ID{"a0", "b0", "c0", "a2", "c1", "a3"}
	for i, id := range want {
		if place := q.position(id); place != i+1 {
			t.Errorf("the place of %s is %d, not %d", id, place, i+1)
		}
	}
	if q.len() != len(want) || q.position("a1") != 0 {
		t.Errorf("%d wait; the place of one that was removed is %d", q.len(), q.position("a1"))
	}
	var got []task.ID
	for q.len() > 0 {
		_, id := q.pop()
		got = append(got, id)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v, not %v", got, want)
	}
}

// proves R7: in any order of comings and goings, positions are those in which the tasks then come, each once.
func TestFairQueueInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newFairQueue()
		waiting := map[task.ID]bool{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				id := task.ID(fmt.Sprint("sub-", i))
				q.push(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "team"), id)
				waiting[id] = true
			case 2:
				if q.len() > 0 {
					_, id := q.pop()
					delete(waiting, id)
				}
			case 3:
				if all := slices.Sorted(maps.Keys(waiting)); len(all) > 0 {
					q.remove(all[0])
					delete(waiting, all[0])
				}
			}
			if q.len() != len(waiting) {
				t.Fatalf("%d wait, not %d", q.len(), len(waiting))
			}
		}
		places := map[int]task.ID{}
		for id := range waiting {
			places[q.position(id)] = id
		}
		for place := 1; q.len() > 0; place++ {
			if _, id := q.pop(); places[place] != id {
				t.Fatalf("%s came as number %d; that was the place of %s", id, place, places[place])
			}
		}
	})
}
