package journal

import (
	"context"
	"crypto/rand"
	"iter"
	"strconv"
	"sync"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// Pauses between probes of a stalled store: fast at first, for a passing fault, then gentle.
const (
	firstProbe   = 50 * time.Millisecond
	slowestProbe = 5 * time.Second
)

// A stall that begins within calm of the end of the one before is the same fault: the probe was deceived, and all that
// was tried again, model calls above all, was lost. So it is not probed before a hold that doubles with each relapse.
const (
	calm        = 10 * time.Minute
	firstHold   = 5 * time.Second
	longestHold = 5 * time.Minute
)

// opCost is what an operation may need beside its value, in bytes: a page or so that is written anew.
const opCost = 4 << 10

// stall is the time between a commit that failed and a probe that went through (D8).
type stall struct {
	begun chan struct{} // one waiting signal for Run

	mu    sync.Mutex
	count int           // stalls so far, the one now included
	cause error         // nil: not stalled
	over  chan struct{} // closed at the end of the stall
	need  int           // bytes that must fit before it ends
	hold  time.Duration // pause before the first probe; 0: this is no relapse
	ended time.Time     // end of the stall before
}

func newStall() *stall { return &stall{begun: make(chan struct{}, 1)} }

// refuse refuses a commit of size bytes during a stall, which then lasts until as much fits.
func (s *stall) refuse(size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		return nil
	}
	s.need = max(s.need, size)
	return errdefs.Wrap(s.cause, errdefs.Unavailable, errdefs.StoreStalled, "",
		"the store can't commit now (disk full or I/O error); nothing was done, try again later")
}

// begin begins a stall. It lasts until as many bytes fit as all that failed to, for they will be tried together again.
func (s *stall) begin(cause error, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause, s.over = cause, make(chan struct{})
		s.count++
		if time.Since(s.ended) < calm {
			s.hold = min(max(2*s.hold, firstHold), longestHold)
		} else {
			s.hold, s.need = 0, 0
		}
	}
	s.need += size
	select {
	case s.begun <- struct{}{}:
	default:
	}
}

// end ends the stall and gives its number.
func (s *stall) end() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		s.cause, s.ended = nil, time.Now()
		close(s.over)
	}
	return s.count
}

// current is the number of the stall, from 1; 0: not stalled.
func (s *stall) current() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		return 0
	}
	return s.count
}

// firstPause is the pause before the first probe.
func (s *stall) firstPause() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.hold, firstProbe)
}

// room is the number of bytes that a probe has to write: what one batch can carry at most.
func (s *stall) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(s.need, store.MaxBatch)
}

// IsFault tells errors that begin a stall: the same is to be tried again, from what is on disk, once Recovered returns.
func IsFault(err error) bool {
	return errdefs.Is(err, errdefs.StoreStalled) || errdefs.Is(err, errdefs.OutcomeUnknown)
}

// stallable is a store whose faults begin a stall, whatever call they show at: a reader that meets one must not spin.
// While it is stalled, commits are not even tried.
type stallable struct {
	store.Store
	stall *stall
}

// note begins a stall when err says so, and gives err. size is that of a batch which failed, 0 for a read.
func (s stallable) note(err error, size int) error {
	if IsFault(err) {
		s.stall.begin(err, size)
	}
	return err
}

// Commit refuses during a stall.
func (s stallable) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	size := b.Size() + opCost*len(b.Ops)
	if err := s.stall.refuse(size); err != nil {
		return store.Committed{}, err
	}
	done, err := s.Store.Commit(ctx, b)
	return done, s.note(err, size)
}

// Get notes faults.
func (s stallable) Get(ctx context.Context, p store.Partition, key string) (store.Record, error) {
	rec, err := s.Store.Get(ctx, p, key)
	return rec, s.note(err, 0)
}

// Last notes faults.
func (s stallable) Last(ctx context.Context, p store.Partition, log string, n int) ([]store.Entry, error) {
	last, err := s.Store.Last(ctx, p, log, n)
	return last, s.note(err, 0)
}

// Read notes faults.
func (s stallable) Read(
	ctx context.Context, p store.Partition, log string, after store.Pos,
) iter.Seq2[store.Entry, error] {
	return noted(s, s.Store.Read(ctx, p, log, after))
}

// Scan notes faults.
func (s stallable) Scan(ctx context.Context, p store.Partition, prefix string) iter.Seq2[store.Record, error] {
	return noted(s, s.Store.Scan(ctx, p, prefix))
}

func noted[T any](s stallable, items iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range items {
			if !yield(item, s.note(err, 0)) {
				return
			}
		}
	}
}

// probe commits as many bytes as the stall is about, which nobody reads, and drops them again: then they fit. A small
// write that went through would prove nothing, for it may find a place within the file.
func (s stallable) probe(ctx context.Context) error {
	if _, err := s.Store.Commit(ctx, store.Batch{Part: daemonPart, Ops: probeOps(s.stall.room())}); err != nil {
		return err
	}
	_, err := s.Store.Commit(ctx, store.Batch{Part: daemonPart, Ops: dropProbe()})
	return err
}

// probeOps write the records of a probe of that many bytes, at least one record. What they hold is random, lest a file
// system compress it.
func probeOps(size int) []store.Op {
	var ops []store.Op
	for n := 0; n == 0 || size > 0; n++ {
		value := make([]byte, min(size, store.MaxValue))
		rand.Read(value) // never fails; see crypto/rand
		ops = append(ops, store.Op{Kind: store.Put, Name: probeKey(n), Value: value})
		size -= len(value)
	}
	return ops
}

// dropProbe deletes all records that a probe may have written.
func dropProbe() []store.Op {
	var ops []store.Op
	for n := range store.MaxBatch / store.MaxValue {
		ops = append(ops, store.Op{Kind: store.Delete, Name: probeKey(n)})
	}
	return ops
}

func probeKey(n int) string { return "probe/" + strconv.Itoa(n) }

// Stalled tells why commits fail now; nil when they don't.
func (j *Journal) Stalled() error {
	j.stall.mu.Lock()
	defer j.stall.mu.Unlock()
	return j.stall.cause
}

// Recovered waits until the store can commit again, or for the end of ctx.
func (j *Journal) Recovered(ctx context.Context) error {
	j.stall.mu.Lock()
	cause, over := j.stall.cause, j.stall.over
	j.stall.mu.Unlock()
	if cause == nil {
		return context.Cause(ctx)
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run ends stalls: it commits a probe until one goes through. It blocks until ctx ends.
func (j *Journal) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-j.stall.begun:
		}
		if cause := j.Stalled(); cause != nil {
			j.log.Error("the store is stalled", "error", cause)
			j.endStall(ctx)
		}
	}
}

func (j *Journal) endStall(ctx context.Context) {
	for pause := j.stall.firstPause(); ; pause = min(2*pause, slowestProbe) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if j.st.probe(ctx) == nil {
			j.log.Info("the store commits again")
			j.feeds.settle(j.stall.end())
			j.wakeAll()
			return
		}
	}
}
