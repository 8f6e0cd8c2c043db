package journal

import (
	"context"
	"iter"
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

// stall is the time between a commit that failed and a probe that went through (D8).
type stall struct {
	begun chan struct{} // one waiting signal for Run

	mu    sync.Mutex
	cause error         // nil: not stalled
	over  chan struct{} // closed at the end of the stall
}

func newStall() *stall { return &stall{begun: make(chan struct{}, 1)} }

func (s *stall) check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		return nil
	}
	return errdefs.Wrap(s.cause, errdefs.Unavailable, errdefs.StoreStalled, "",
		"the store can't commit now (disk full or I/O error); nothing was done, try again later")
}

func (s *stall) begin(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		s.cause, s.over = cause, make(chan struct{})
	}
	select {
	case s.begun <- struct{}{}:
	default:
	}
}

func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		s.cause = nil
		close(s.over)
	}
}

// stallable is a store whose faults begin a stall, whatever call they show at: a reader that meets one must not spin.
// While it is stalled, commits are not even tried.
type stallable struct {
	store.Store
	stall *stall
}

// note begins a stall when err says so, and gives err.
func (s stallable) note(err error) error {
	if errdefs.Is(err, errdefs.StoreStalled) || errdefs.Is(err, errdefs.OutcomeUnknown) {
		s.stall.begin(err)
	}
	return err
}

// Commit refuses during a stall.
func (s stallable) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	if err := s.stall.check(); err != nil {
		return store.Committed{}, err
	}
	done, err := s.Store.Commit(ctx, b)
	return done, s.note(err)
}

// Get notes faults.
func (s stallable) Get(ctx context.Context, p store.Partition, key string) (store.Record, error) {
	rec, err := s.Store.Get(ctx, p, key)
	return rec, s.note(err)
}

// Last notes faults.
func (s stallable) Last(ctx context.Context, p store.Partition, log string, n int) ([]store.Entry, error) {
	last, err := s.Store.Last(ctx, p, log, n)
	return last, s.note(err)
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
			if !yield(item, s.note(err)) {
				return
			}
		}
	}
}

// probe commits what nobody reads, to see whether the store can.
func (s stallable) probe(ctx context.Context) error {
	_, err := s.Store.Commit(ctx, store.Batch{Part: daemonPart, Ops: []store.Op{{Kind: store.Put, Name: "probe"}}})
	return err
}

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
	for pause := firstProbe; ; pause = min(2*pause, slowestProbe) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if j.st.probe(ctx) == nil {
			j.log.Info("the store commits again")
			j.stall.end()
			j.wakeAll()
			return
		}
	}
}
