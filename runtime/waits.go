package runtime

import (
	"maps"
	"slices"
	"sync"

	"github.com/agentd-dev/agentd/runtime/task"
)

// waits is who waits for whose end, so that a wait that could never end is refused (R9). It is a hint in memory: who
// waits when the daemon goes down begins anew.
type waits struct {
	mu   sync.Mutex
	ends map[task.ID]map[task.ID]int // by whose end needs it, whose end is needed; counted, for a step may wait twice
}

func newWaits() *waits { return &waits{ends: map[task.ID]map[task.ID]int{}} }

// begin takes up that a task waits for the end of another one, until end is called with the same two. When that would
// close a circle it takes up nothing and gives the members, each of which waits for the next one, and the last one for
// the first.
func (w *waits) begin(waiter task.Task, awaited task.ID) (circle []task.ID) {
	if i := slices.Index(waiter.Ancestors, awaited); i >= 0 { // whose end would stop the waiter before it learned of it
		return append([]task.ID{waiter.ID}, waiter.Ancestors[:i+1]...)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(waiter, awaited, 1)
	path := w.path(awaited, waiter.ID, map[task.ID]bool{})
	if path == nil {
		return nil
	}
	w.count(waiter, awaited, -1)
	return append([]task.ID{waiter.ID}, path[:len(path)-1]...)
}

// end takes back what a begin took up.
func (w *waits) end(waiter task.Task, awaited task.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(waiter, awaited, -1)
}

// count counts a wait in or out, and with it that a group ends no sooner than its child that waits. The caller holds mu.
func (w *waits) count(waiter task.Task, awaited task.ID, by int) {
	w.add(waiter.ID, awaited, by)
	if waiter.Parent.Kind() == task.Group {
		w.add(waiter.Parent, waiter.ID, by)
	}
}

func (w *waits) add(from, to task.ID, by int) {
	if w.ends[from] == nil {
		w.ends[from] = map[task.ID]int{}
	}
	if w.ends[from][to] += by; w.ends[from][to] == 0 {
		delete(w.ends[from], to)
	}
	if len(w.ends[from]) == 0 {
		delete(w.ends, from)
	}
}

// path is the tasks from one to another, both included, each of which needs the end of the next one; nil when there is
// no such path. The caller holds mu.
func (w *waits) path(from, to task.ID, seen map[task.ID]bool) []task.ID {
	if from == to {
		return []task.ID{to}
	}
	seen[from] = true
	for _, next := range slices.Sorted(maps.Keys(w.ends[from])) {
		if seen[next] {
			continue
		}
		if rest := w.path(next, to, seen); rest != nil {
			return append([]task.ID{from}, rest...)
		}
	}
	return nil
}
