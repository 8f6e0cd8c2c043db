package journal

import (
	"context"
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
		return ctx.Err()
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
			j.probe(ctx)
		}
	}
}

func (j *Journal) probe(ctx context.Context) {
	for pause := firstProbe; ; pause = min(2*pause, slowestProbe) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		_, err := j.st.Commit(ctx, store.Batch{
			Part: daemonPart, Ops: []store.Op{{Kind: store.Put, Name: "probe", Value: nil}},
		})
		if err == nil {
			j.log.Info("the store commits again")
			j.stall.end()
			return
		}
	}
}
