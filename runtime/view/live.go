package view

import (
	"sync"

	"github.com/agentd-dev/agentd/runtime/task"
)

// liveBuffer is how many deltas a slow reader may lag behind before it loses some (O2).
const liveBuffer = 256

// Live passes the text of model calls under way to those who watch now. Nothing is kept: the step's entry replaces it.
type Live struct {
	mu   sync.Mutex
	subs map[task.ID]map[chan task.Delta]bool
}

// NewLive makes one with no watchers.
func NewLive() *Live { return &Live{subs: map[task.ID]map[chan task.Delta]bool{}} }

// Publish hands a delta to the task's watchers. It never blocks: who is slow loses it.
func (l *Live) Publish(id task.ID, d task.Delta) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.subs[id] {
		select {
		case ch <- d:
		default:
		}
	}
}

// Subscribe watches a task until cancel is called.
func (l *Live) Subscribe(id task.ID) (deltas <-chan task.Delta, cancel func()) {
	ch := make(chan task.Delta, liveBuffer)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subs[id] == nil {
		l.subs[id] = map[chan task.Delta]bool{}
	}
	l.subs[id][ch] = true
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subs[id], ch)
		if len(l.subs[id]) == 0 {
			delete(l.subs, id)
		}
	}
}
