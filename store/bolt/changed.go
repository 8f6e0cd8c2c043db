package bolt

import (
	"sync"

	"github.com/agentd-dev/agentd/store"
)

// watchers holds the channels of those who wait for a commit, one a partition. With nobody waiting it is empty.
type watchers struct {
	mu    sync.Mutex // guards what follows
	chans map[store.Partition]chan struct{}
	ended bool
}

// Changed gives a channel that is closed at the partition's next commit, or by Close.
func (s *Store) Changed(p store.Partition) <-chan struct{} { return s.watchers.watch(p) }

func (w *watchers) watch(p store.Partition) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch, ok := w.chans[p]; ok {
		return ch
	}
	ch := make(chan struct{})
	if w.ended {
		close(ch)
		return ch
	}
	if w.chans == nil {
		w.chans = make(map[store.Partition]chan struct{})
	}
	w.chans[p] = ch
	return ch
}

func (w *watchers) notify(p store.Partition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch, ok := w.chans[p]; ok {
		close(ch)
		delete(w.chans, p)
	}
}

// end wakes everyone, for good.
func (w *watchers) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	for _, ch := range w.chans {
		close(ch)
	}
	clear(w.chans)
}
