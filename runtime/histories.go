package runtime

import (
	"sync"
	"time"

	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Bounds of the histories that are kept for teammates at rest.
const (
	maxHistories     = 256
	maxHistoryBytes  = 32 << 20        // of all of them
	historiesKeptFor = 5 * time.Second // then idleness costs nothing (W4)
)

// histories keeps what was folded of the transcripts of teammates that have come to rest a moment ago, so that a lively one
// does not read all it ever said at each turn. It is a cache and decides nothing: a transcript only grows, so a fold of its
// beginning stays right, and the next start adds what stands behind. Beyond its bounds it takes no more: the next start
// reads the store.
type histories struct {
	mu    sync.Mutex
	kept  map[task.ID]rested
	bytes int
	armed bool // a timer will drop the old ones
}

// rested is the history of a teammate at rest.
type rested struct {
	agent.Folded
	size  int
	until time.Time
}

func newHistories() *histories { return &histories{kept: map[task.ID]rested{}} }

// keep takes the history of a loop that has ended with a rest.
func (h *histories) keep(id task.ID, f agent.Folded) {
	size := f.History.Size()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.kept) == maxHistories || h.bytes+size > maxHistoryBytes {
		return
	}
	h.kept[id] = rested{f, size, time.Now().Add(historiesKeptFor)}
	h.bytes += size
	if !h.armed {
		h.armed = true
		time.AfterFunc(historiesKeptFor, h.expire)
	}
}

// take gives the history that is kept for a teammate, which is not kept any more; the zero one when there is none.
func (h *histories) take(id task.ID) agent.Folded {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.kept[id].Folded
	h.drop(id)
	return f
}

// expire drops what has been kept for long enough, and comes again while there is more.
func (h *histories) expire() {
	h.mu.Lock()
	defer h.mu.Unlock()
	next := time.Time{}
	for id, r := range h.kept {
		switch {
		case time.Until(r.until) <= 0:
			h.drop(id)
		case next.IsZero() || r.until.Before(next):
			next = r.until
		}
	}
	if h.armed = !next.IsZero(); h.armed {
		time.AfterFunc(time.Until(next), h.expire)
	}
}

// drop forgets one. The caller holds mu.
func (h *histories) drop(id task.ID) {
	h.bytes -= h.kept[id].size
	delete(h.kept, id)
}
