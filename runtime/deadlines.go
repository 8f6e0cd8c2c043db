package runtime

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// deadlines is the heap of what is due. It is a hint: what fires is looked up in the store.
type deadlines struct {
	changed chan struct{} // the earliest may have changed

	mu   sync.Mutex
	heap dueHeap
	of   map[task.ID][]journal.Due // what is in the heap, by task
}

func newDeadlines() *deadlines {
	return &deadlines{changed: make(chan struct{}, 1), of: map[task.ID][]journal.Due{}}
}

// add takes a deadline, once.
func (d *deadlines) add(due journal.Due) {
	due.At = due.At.Round(0).UTC() // one form of a time, to compare
	d.mu.Lock()
	if !slices.Contains(d.of[due.TaskID], due) {
		d.of[due.TaskID] = append(d.of[due.TaskID], due)
		heap.Push(&d.heap, due)
	}
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// timer fires when the earliest is due; never when there is none.
func (d *deadlines) timer(now time.Time) *time.Timer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.heap) == 0 {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return t
	}
	return time.NewTimer(max(d.heap[0].At.Sub(now), 0))
}

// take removes what is due now.
func (d *deadlines) take(now time.Time) []journal.Due {
	d.mu.Lock()
	defer d.mu.Unlock()
	var due []journal.Due
	for len(d.heap) > 0 && !d.heap[0].At.After(now) {
		next := heap.Pop(&d.heap).(journal.Due)
		d.drop(next)
		due = append(due, next)
	}
	return due
}

// pending gives the deadlines of a task.
func (d *deadlines) pending(id task.ID) []journal.Due {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.of[id])
}

// forget drops deadlines of a task that has ended, which may be a year away. Those of its next life are others.
func (d *deadlines) forget(dues []journal.Due) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, due := range dues {
		if at := slices.Index(d.heap, due); at >= 0 {
			heap.Remove(&d.heap, at)
			d.drop(due)
		}
	}
}

// forgetTurn drops the deadline of a turn that is over.
func (d *deadlines) forgetTurn(id task.ID) {
	d.forget(slices.DeleteFunc(d.pending(id), func(due journal.Due) bool { return due.Kind != journal.DueTimeout }))
}

// drop forgets one that has left the heap. The caller holds mu.
func (d *deadlines) drop(due journal.Due) {
	rest := slices.DeleteFunc(d.of[due.TaskID], func(one journal.Due) bool { return one == due })
	if d.of[due.TaskID] = rest; len(rest) == 0 {
		delete(d.of, due.TaskID)
	}
}

// dueHeap orders by time, for container/heap.
type dueHeap []journal.Due

// Len is for container/heap.
func (h dueHeap) Len() int { return len(h) }

// Less is for container/heap.
func (h dueHeap) Less(i, j int) bool { return h[i].At.Before(h[j].At) }

// Swap is for container/heap.
func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is for container/heap.
func (h *dueHeap) Push(x any) { *h = append(*h, x.(journal.Due)) }

// Pop is for container/heap.
func (h *dueHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// fire does what a deadline is for, if it still stands. While the store is stalled it waits.
func (s *Supervisor) fire(ctx context.Context, d journal.Due) {
	err := s.persist(ctx, func() error {
		for {
			if err := s.fireOnce(ctx, d); !errdefs.Is(err, errdefs.Conflict) {
				return err
			}
		}
	})
	if err != nil && !s.isDraining() {
		s.cfg.Log.Error("a deadline had no effect; the next start fires it again", "task", d.TaskID, "error", err)
	}
}

// fireOnce is one try. Conflict when the task changed meanwhile: then the deadline may stand no longer.
func (s *Supervisor) fireOnce(ctx context.Context, d journal.Due) error {
	if d.Kind == journal.DueExpiry { // it is a message's
		return s.expire(ctx, d)
	}
	row, err := s.cfg.Journal.Task(ctx, d.TaskID)
	if err != nil || row.Value.State.Terminal() {
		return err
	}
	due, err := s.cfg.Journal.Due(ctx, row.Value.Team, d.TaskID, d.Kind)
	if errdefs.Is(err, errdefs.RecordNotFound) || (err == nil && !due.Value.At.Equal(d.At)) {
		return nil // taken away, or moved: then the other one fires
	}
	if err != nil {
		return err
	}
	switch d.Kind {
	case journal.DueResume:
		return s.comeBack(ctx, row.Value)
	case journal.DueStop:
		return s.escalate(ctx, row)
	case journal.DueTimeout:
		return s.halt(ctx, row, task.StopOrder{
			Level: task.Cancel, State: task.Failed, Reason: task.Timeout, Message: "the wall time is over",
			CancelTimeout: task.DefaultCancelTimeout,
		}, nil)
	case journal.DueShutdown:
		return s.forceShutdown(ctx, d.TaskID)
	case journal.DueReattach:
		return s.halt(ctx, row, task.StopOrder{
			Level: task.Cancel, State: task.Killed, Reason: task.StoppedByClient,
			Message: "the client did not come back", CancelTimeout: task.DefaultCancelTimeout,
		}, nil)
	case journal.DueExpiry: // seen to above
	}
	return nil
}
