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
	over := d.pending("sub-1")
	later := journal.Due{At: now.Add(9 * time.Hour), TaskID: "sub-1", Kind: journal.DueTimeout}
	d.add(later) // of its next life
	d.forget(over)
	if got := d.pending("sub-1"); len(d.heap) != 6 || len(d.pending("sub-2")) != 5 || len(got) != 1 || got[0].Kind != later.Kind {
		t.Errorf("%d in the heap, left are %v", len(d.heap), got)
	}
	d.forgetTurn("sub-1")
	if len(d.heap) != 5 || len(d.of) != 1 {
		t.Errorf("%d in the heap, of %d tasks", len(d.heap), len(d.of))
	}
	due := d.take(now.Add(3 * time.Hour))
	if len(due) != 3 || !due[0].At.Before(due[1].At) || !due[1].At.Before(due[2].At) {
		t.Errorf("due: %v", due)
	}
}
