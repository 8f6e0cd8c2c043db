package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// GateConfig bounds what the gate does about failures. Zero values mean the defaults.
type GateConfig struct {
	MaxAttempts int           // of one call that fails for other reasons than its rate; 0: 5
	FirstDelay  time.Duration // before the second attempt when the provider names no delay; doubles; 0: 1 s
	MaxDelay    time.Duration // bound of the doubling; 0: 30 s
	MaxWait     time.Duration // for the provider's limits, by one call in all; a longer pause is cut to it; 0: 10 minutes
	Patience    time.Duration // during a ramp, how long a silent call keeps the next one waiting; 0: 5 s
}

// Gate is a Model that retries what is worth it and shares the limits of one provider among all callers: when one call
// is told to wait, all calls to that model wait, in the order in which they came (R8). After the pause one call goes
// first; each that is answered lets two follow. It starts no goroutine and holds nothing while nobody calls. A call
// that gives up returns the last *Error. Make one Gate per provider; it keeps models apart by name.
type Gate struct {
	inner Model
	cfg   GateConfig

	mu    sync.Mutex
	lanes map[string]*lane // by model; only those in use or restrained
}

// NewGate puts a gate before inner, which is one provider.
func NewGate(inner Model, cfg GateConfig) *Gate {
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, 5)
	cfg.FirstDelay = cmp.Or(cfg.FirstDelay, time.Second)
	cfg.MaxDelay = cmp.Or(cfg.MaxDelay, 30*time.Second)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, 10*time.Minute)
	cfg.Patience = cmp.Or(cfg.Patience, 5*time.Second)
	return &Gate{inner: inner, cfg: cfg, lanes: make(map[string]*lane)}
}

// Call makes attempts until one succeeds, the error is not Retryable, or the bounds of GateConfig are reached.
func (g *Gate) Call(ctx context.Context, req Request, sink func(Event)) (Response, error) {
	l := g.join(req.Model)
	defer g.leave(req.Model, l)
	v := visit{gate: g, lane: l, sink: sink}
	for attempt := 1; ; attempt++ {
		t, err := v.enter(ctx)
		if err != nil {
			return Response{}, err
		}
		resp, err := v.attempt(ctx, t, req)
		var failed *Error
		if err == nil || !errors.As(err, &failed) || ctx.Err() != nil {
			return resp, err
		}
		delay, again := v.judge(failed)
		if !again {
			return Response{}, gaveUp(failed, attempt)
		}
		sink(&Retrying{Attempt: attempt + 1, Cause: failed})
		if err := wait(ctx, delay); err != nil {
			return Response{}, err
		}
	}
}

// join finds or makes the lane of a model.
func (g *Gate) join(model string) *lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[model]
	if l == nil {
		l = &lane{patience: g.cfg.Patience}
		g.lanes[model] = l
	}
	l.users++
	return l
}

// leave forgets the lane when nobody uses it and it restrains nobody.
func (g *Gate) leave(model string, l *lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.users--; l.users == 0 && l.open() {
		delete(g.lanes, model)
	}
}

// visit is one Call on its way through the gate.
type visit struct {
	gate     *Gate
	lane     *lane
	sink     func(Event)
	failures int           // for other reasons than the rate
	waited   time.Duration // for the lane
}

// enter waits for the call's turn and gives its ticket.
func (v *visit) enter(ctx context.Context) (*ticket, error) {
	t, start := newTicket(), time.Now()
	deadline := start.Add(v.gate.cfg.MaxWait - v.waited)
	next, err := v.lane.arrive(t, deadline)
	if err != nil || next.IsZero() {
		return t, err
	}
	v.sink(&Pausing{Until: next})
	if err := v.lane.await(ctx, t, deadline); err != nil {
		return t, err
	}
	v.waited += time.Since(start)
	v.sink(&Resuming{})
	return t, nil
}

// attempt makes one inner call. The first text proves that the provider takes calls again, as does the answer; what
// concerns all callers pauses the lane, before the ticket is given back and another call can go.
func (v *visit) attempt(ctx context.Context, t *ticket, req Request) (Response, error) {
	answered := false
	defer func() { v.lane.settle(t, answered) }()
	proven := false
	resp, err := v.gate.inner.Call(ctx, req, func(e Event) {
		if !proven {
			proven = true
			v.lane.settle(t, true)
		}
		v.sink(e)
	})
	answered = err == nil
	var failed *Error
	if errors.As(err, &failed) && ctx.Err() == nil && shared(failed) {
		v.lane.pause(t, failed, v.gate.cfg)
	}
	return resp, err
}

// judge decides whether to try again, and after which delay of this call's own: none when the lane pauses anyway.
func (v *visit) judge(e *Error) (delay time.Duration, again bool) {
	switch {
	case !e.Class.Retryable():
		return 0, false
	case e.Class == RateLimited:
		return 0, true // bounded by MaxWait
	}
	v.failures++
	switch {
	case v.failures >= v.gate.cfg.MaxAttempts:
		return 0, false
	case shared(e):
		return 0, true
	}
	return jittered(backoff(v.gate.cfg, v.failures)), true
}

// shared tells whether a failure says something about the provider rather than about one call.
func shared(e *Error) bool {
	if e.Class == RateLimited || (e.Class == Overloaded && e.RetryAfter > 0) {
		return true
	}
	const overloaded = 529 // not in net/http
	switch e.Status {
	case 0, http.StatusBadGateway, http.StatusServiceUnavailable, overloaded:
		return e.Class == Overloaded
	}
	return false
}

// backoff doubles from FirstDelay with each failure, from 1.
func backoff(cfg GateConfig, failures int) time.Duration {
	d := cfg.FirstDelay
	for ; failures > 1 && d < cfg.MaxDelay; failures-- {
		d *= 2
	}
	return min(d, cfg.MaxDelay)
}

// jittered lengthens d by up to a quarter, at most 5 s, so that daemons do not retry in step. Never shorter: d may be
// what the provider asked for.
func jittered(d time.Duration) time.Duration { return d + rand.N(min(d/4, 5*time.Second)+1) }

// gaveUp is e with the number of attempts in its message.
func gaveUp(e *Error, attempts int) *Error {
	if attempts == 1 {
		return e
	}
	last := *e
	last.Message = fmt.Sprintf("%s (after %d attempts)", e.Message, attempts)
	return &last
}

// wait is a sleep that ctx ends early, with ctx's cause.
func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
