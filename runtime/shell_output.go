package runtime

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Quotas of what shells write (O4), in bytes.
const (
	DefaultShellQuota = 16 << 20  // of one shell
	DefaultShellTotal = 256 << 20 // of all living shells together
)

const (
	pieceSize  = 256 << 10 // of an entry at most; as much makes the next commit due
	fullPieces = 64        // as many pieces do, too
	dropTail   = 64 << 10  // of what is beyond a quota, what is kept of its end
	tailPieces = 1024      // in as many pieces at most: a stream that changes at each line makes small ones
)

// collector holds what a command writes until it is committed. Whoever writes waits while there is as much as one commit
// takes. Beyond its quotas it only counts, and keeps the end.
type collector struct {
	total *allowance
	some  chan struct{} // one waiting signal: there is something
	full  chan struct{} // one waiting signal: there is as much as a commit takes
	over  chan struct{} // closed when nothing more comes
	once  sync.Once     // closes it

	mu      sync.Mutex
	room    *sync.Cond // somebody may write
	loose   bool       // nobody has to wait
	quota   int64      // what is left of its own
	granted int64      // what it holds of total
	written int64      // bytes taken
	cut     map[task.Stream][]byte
	pieces  []*task.Output
	size    int    // of pieces, in bytes
	spent   string // the quota that is used up; empty: none
	kept    int64  // bytes taken before it was
	tail    []*task.Output
	tailed  int    // size of tail, in bytes
	last    []byte // the end of all
}

func newCollector(quota int64, total *allowance) *collector {
	c := &collector{
		total: total, quota: quota, cut: map[task.Stream][]byte{},
		some: make(chan struct{}, 1), full: make(chan struct{}, 1), over: make(chan struct{}),
	}
	c.room = sync.NewCond(&c.mu)
	return c
}

// writer is one stream of a command, into a collector.
type writer struct {
	c      *collector
	stream task.Stream
}

func (c *collector) stream(s task.Stream) io.Writer { return writer{c, s} }

// Write takes all of p as soon as there is room. A rune that the end of p cuts waits for its rest.
func (w writer) Write(p []byte) (int, error) {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.isFull() && !c.loose {
		c.room.Wait()
	}
	b := p
	if cut := c.cut[w.stream]; len(cut) > 0 {
		b = slices.Concat(cut, p)
	}
	whole := sandbox.WholeEnd(b)
	c.cut[w.stream] = slices.Clone(b[len(whole):])
	c.take(w.stream, whole)
	return len(p), nil
}

// isFull tells whether there is as much as one commit takes. The caller holds mu.
func (c *collector) isFull() bool { return c.size >= pieceSize || len(c.pieces) >= fullPieces }

// take takes bytes: within the quotas to be committed, beyond them to be counted. The caller holds mu.
func (c *collector) take(s task.Stream, b []byte) {
	c.last = append(c.last, lastBytes(b, summaryTail)...)
	if len(c.last) > 2*summaryTail {
		c.last = append(c.last[:0], lastBytes(c.last, summaryTail)...)
	}
	within := b[:c.grant(len(b))]
	if len(within) < len(b) {
		within = sandbox.WholeEnd(within)
	}
	if len(within) > 0 {
		c.pieces = c.put(c.pieces, s, within, pieceSize)
		c.size += len(within)
		signal(c.some)
	}
	if c.isFull() {
		signal(c.full)
	}
	if c.spent == "" {
		return
	}
	if len(c.tail) == 0 {
		c.kept = c.written
	}
	if beyond := b[len(within):]; len(beyond) > 0 {
		c.tail = c.put(c.tail, s, beyond, dropTail)
		c.tailed += len(beyond)
		c.trim()
	}
}

// grant gives as much of n bytes as the quotas allow; what did not fit once never fits again. The caller holds mu.
func (c *collector) grant(n int) int {
	if c.spent != "" {
		return 0
	}
	want := min(int64(n), c.quota)
	got := c.total.take(want)
	c.granted, c.quota = c.granted+got, c.quota-got
	switch {
	case got < want:
		c.spent = "the total quota of all running shells"
	case want < int64(n):
		c.spent = "the quota of a shell"
	}
	return int(got)
}

// put adds bytes to the pieces: to the last one, or as a new one. The caller holds mu.
func (c *collector) put(pieces []*task.Output, s task.Stream, b []byte, most int) []*task.Output {
	offset := c.written
	c.written += int64(len(b))
	if n := len(pieces); n > 0 && pieces[n-1].Stream == s && len(pieces[n-1].Data)+len(b) <= most {
		pieces[n-1].Data = append(pieces[n-1].Data, b...)
		return pieces
	}
	return append(pieces, &task.Output{Data: slices.Clone(b), Stream: s, Offset: offset})
}

// trim drops pieces of the tail that are not needed. The caller holds mu.
func (c *collector) trim() {
	for len(c.tail) > 1 && (c.tailed-len(c.tail[0].Data) >= dropTail || len(c.tail) > tailPieces) {
		c.tailed -= len(c.tail[0].Data)
		c.tail[0] = nil
		c.tail = c.tail[1:]
	}
}

// await waits until output is to be committed: a while after it began to come, or when there is enough. It is false when
// nothing more comes.
func (c *collector) await() bool {
	select {
	case <-c.some:
	case <-c.over:
		return false
	}
	timer := time.NewTimer(outputEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.full:
	case <-c.over:
		return false
	}
	return true
}

// next gives the pieces for one commit, and makes room.
func (c *collector) next() []task.Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, size := 0, 0
	var pieces []task.Body
	for n < len(c.pieces) && n <= fullPieces && size < 2*pieceSize {
		size += len(c.pieces[n].Data)
		pieces = append(pieces, c.pieces[n])
		n++
	}
	c.pieces = slices.Clone(c.pieces[n:])
	c.size -= size
	if len(c.pieces) > 0 {
		signal(c.some)
	}
	c.room.Broadcast()
	return pieces
}

// many tells whether there is more than the last commit should take.
func (c *collector) many() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isFull()
}

// loosen lets whoever writes do so without waiting: the command is about to end, or nobody commits any more.
func (c *collector) loosen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loose = true
	c.room.Broadcast()
}

// close says that nothing more comes. What is left of a rune that never became whole is taken as it is.
func (c *collector) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range []task.Stream{task.Stdout, task.Stderr} {
		c.take(s, c.cut[s])
		c.cut[s] = nil
	}
	c.once.Do(func() { close(c.over) })
}

// rest is what the last commit takes, after close: what is left, and of what was beyond a quota the end.
func (c *collector) rest() []task.Body {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rest []task.Body
	for _, p := range c.pieces {
		rest = append(rest, p)
	}
	if len(c.tail) == 0 {
		return rest
	}
	first := *c.tail[0]
	if excess := c.tailed - dropTail; excess > 0 {
		first.Data = sandbox.WholeStart(first.Data[excess:])
	}
	first.Offset += int64(len(c.tail[0].Data) - len(first.Data))
	if first.Dropped = first.Offset - c.kept; first.Dropped > 0 {
		rest = append(rest, &task.Notice{Text: fmt.Sprintf("%d bytes of the output were dropped, for %s is used up (%d bytes "+
			"were kept). What follows is its end.", first.Dropped, c.spent, c.kept)})
	}
	rest = append(rest, &first)
	for _, p := range c.tail[1:] {
		rest = append(rest, p)
	}
	return rest
}

// end is the end of all that came.
func (c *collector) end() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.last)
}

// release gives back what the shell holds of the total quota.
func (c *collector) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.give(c.granted)
	c.granted = 0
}

// signal sends to a channel that holds one signal, unless it does.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// allowance is bytes that several take from.
type allowance struct {
	mu   sync.Mutex
	left int64
}

// take takes n bytes, or what is left.
func (a *allowance) take(n int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	n = min(n, a.left)
	a.left -= n
	return n
}

// give gives bytes back.
func (a *allowance) give(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left += n
}
