package runtime

import (
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime/journal"
)

// What a task that has ended was to be told leaves the heap, whenever it was due; the rest keeps its order.
func TestEndedTasksLeaveNoDeadlines(t *testing.T) {
	d, now := newDeadlines(), time.Now()
	for hours := 5; hours > 0; hours-- {
		at := now.Add(time.Duration(hours) * time.Hour)
		d.add(journal.Due{At: at, TaskID: "sub-1", Kind: journal.DueStop})
		d.add(journal.Due{At: at, TaskID: "sub-2", Kind: journal.DueStop})
	}
	d.forget("sub-1")
	if len(d.heap) != 5 || len(d.known) != 5 {
		t.Errorf("%d in the heap, %d known", len(d.heap), len(d.known))
	}
	due := d.take(now.Add(3 * time.Hour))
	if len(due) != 3 || !due[0].At.Before(due[1].At) || !due[1].At.Before(due[2].At) {
		t.Errorf("due: %v", due)
	}
}
