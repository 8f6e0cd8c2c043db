package model

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// provider is a Model whose n-th call (from 0) is answered by the function.
type provider struct {
	answer func(n int, req Request, sink func(Event)) (Response, error)

	mu    sync.Mutex
	calls []time.Time
}

func (p *provider) Call(ctx context.Context, req Request, sink func(Event)) (Response, error) {
	p.mu.Lock()
	n := len(p.calls)
	p.calls = append(p.calls, time.Now())
	p.mu.Unlock()
	return p.answer(n, req, sink)
}

func fails(errs ...error) *provider {
	return &provider{answer: func(n int, _ Request, _ func(Event)) (Response, error) {
		if n < len(errs) {
			return Response{}, errs[n]
		}
		return Response{Text: "done"}, nil
	}}
}

// record gives a sink that keeps the names of events.
func record(into *[]string) func(Event) {
	return func(e Event) {
		switch e := e.(type) {
		case *TextDelta:
			*into = append(*into, "text "+e.Text)
		case *Retrying:
			*into = append(*into, fmt.Sprintf("retrying %d", e.Attempt))
		case *Pausing:
			*into = append(*into, "pausing")
		case *Resuming:
			*into = append(*into, "resuming")
		}
	}
}

func ignore(Event) {}

// proves R8
// case OUT-2
func TestDeterministicErrorsAreNotRetried(t *testing.T) {
	for _, class := range []ErrorClass{ContextOverflow, Auth, InvalidRequest, NotConfigured} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			p := fails(&Error{Class: class, Message: "no", RetryAfter: time.Minute})
			_, err := NewGate(p, GateConfig{}).Call(t.Context(), Request{}, ignore)
			var e *Error
			if !errors.As(err, &e) || e.Class != class || len(p.calls) != 1 || time.Since(start) != 0 {
				t.Errorf("class %d: error %v after %d calls and %s", class, err, len(p.calls), time.Since(start))
			}
		})
	}
}

func TestBrokenAnswersAreRetriedWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := &Error{Class: Broken, Message: "cut"}
		p := fails(broken, broken)
		var events []string
		resp, err := NewGate(p, GateConfig{}).Call(t.Context(), Request{}, record(&events))
		if err != nil || resp.Text != "done" {
			t.Fatalf("got %v, %v", resp, err)
		}
		if got := fmt.Sprint(events); got != "[retrying 2 retrying 3]" {
			t.Errorf("events %s", got)
		}
		for i, least := range []time.Duration{time.Second, 2 * time.Second} {
			if d := p.calls[i+1].Sub(p.calls[i]); d < least || d > least*5/4 {
				t.Errorf("delay %d is %s", i, d)
			}
		}
	})
}

func TestAttemptsAreBounded(t *testing.T) {
	for _, e := range []*Error{{Class: Broken, Message: "cut"}, {Class: Overloaded, Status: 500, Message: "oops"}, {Class: Overloaded, Status: 503, Message: "busy"}} {
		synctest.Test(t, func(t *testing.T) {
			p := &provider{answer: func(int, Request, func(Event)) (Response, error) { return Response{}, e }}
			_, err := NewGate(p, GateConfig{MaxDelay: 4 * time.Second}).Call(t.Context(), Request{}, ignore)
			var last *Error
			if !errors.As(err, &last) || last.Message != e.Message+" (after 5 attempts)" || last.Status != e.Status {
				t.Errorf("got %v", err)
			}
			if len(p.calls) != 5 {
				t.Errorf("%d calls", len(p.calls))
			}
		})
	}
}

func TestRateLimitIsBoundedByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := &Error{Class: RateLimited, Status: 429, Message: "slow down", RetryAfter: 30 * time.Second}
		p := &provider{answer: func(int, Request, func(Event)) (Response, error) { return Response{}, limited }}
		start := time.Now()
		_, err := NewGate(p, GateConfig{}).Call(t.Context(), Request{}, ignore)
		var e *Error
		if !errors.As(err, &e) || e.Class != RateLimited {
			t.Fatalf("got %v", err)
		}
		if d := time.Since(start); d < 9*time.Minute || d > 10*time.Minute {
			t.Errorf("gave up after %s", d)
		}
	})
}

func TestPauseIsCutToTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fails(&Error{Class: RateLimited, Message: "come back tomorrow", RetryAfter: 24 * time.Hour})
		start := time.Now()
		if _, err := NewGate(p, GateConfig{}).Call(t.Context(), Request{}, ignore); err != nil {
			t.Errorf("got %v", err)
		}
		if len(p.calls) != 2 || time.Since(start) != 10*time.Minute {
			t.Errorf("%d calls in %s", len(p.calls), time.Since(start))
		}
	})
}

// Each call waits no longer than the bound, and each sends its own probe after it.
func TestEndlessPauseIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tomorrow := &Error{Class: RateLimited, Message: "come back tomorrow", RetryAfter: 24 * time.Hour}
		p := fails(tomorrow, tomorrow, tomorrow)
		g := NewGate(p, GateConfig{})
		for n, calls := range []int{2, 3} { // who caused the pause, and who comes later
			start := time.Now()
			var e *Error
			if _, err := g.Call(t.Context(), Request{}, ignore); !errors.As(err, &e) || e.Class != RateLimited {
				t.Errorf("call %d: got %v", n, err)
			}
			if len(p.calls) != calls || time.Since(start) != 10*time.Minute {
				t.Errorf("call %d: %d calls in %s", n, len(p.calls), time.Since(start))
			}
		}
		if _, err := g.Call(t.Context(), Request{}, ignore); err != nil {
			t.Errorf("the provider is back, but %v", err)
		}
	})
}

// limited is a provider that refuses every call until a time, and lets at most so many run at once afterwards.
type limited struct {
	mu      sync.Mutex
	opens   time.Time
	most    int
	running int
	refused int
	early   int // calls during the pause
	peak    int
}

func (l *limited) Call(ctx context.Context, _ Request, sink func(Event)) (Response, error) {
	l.mu.Lock()
	now := time.Now()
	refuse := now.Before(l.opens) || l.running >= l.most
	if refuse {
		l.refused++
		if now.Before(l.opens) {
			l.early++
		}
	} else {
		l.running++
		l.peak = max(l.peak, l.running)
	}
	l.mu.Unlock()
	if err := wait(ctx, 100*time.Millisecond); err != nil {
		return Response{}, err
	}
	if refuse {
		return Response{}, &Error{Class: RateLimited, Status: 429, Message: "slow down", RetryAfter: max(0, time.Until(l.opens))}
	}
	sink(&TextDelta{Text: "hello"})
	if err := wait(ctx, time.Second); err != nil {
		return Response{}, err
	}
	l.mu.Lock()
	l.running--
	l.mu.Unlock()
	return Response{Text: "hello"}, nil
}

// proves R8
// case SAF-4
func TestTwentyCallersShareOnePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &limited{opens: start.Add(20 * time.Second), most: 1000}
		g := NewGate(p, GateConfig{})
		events := make([][]string, 25)
		errs := make([]error, 25)
		var done sync.WaitGroup
		call := func(i int) {
			done.Go(func() { _, errs[i] = g.Call(t.Context(), Request{Model: "m"}, record(&events[i])) })
		}
		for i := range 20 {
			call(i)
		}
		time.Sleep(time.Second)
		for i := 20; i < 25; i++ { // these come during the pause: they never see a 429
			call(i)
		}
		done.Wait()
		for i := range 25 {
			want := "[pausing resuming text hello]"
			if i < 20 {
				want = "[retrying 2 pausing resuming text hello]"
			}
			if got := fmt.Sprint(events[i]); errs[i] != nil || got != want {
				t.Errorf("caller %d: %v, events %s", i, errs[i], got)
			}
		}
		if p.refused != 20 || p.early != 20 {
			t.Errorf("%d refusals, %d calls during the pause; want 20 each", p.refused, p.early)
		}
		if d := time.Since(start); d < 20*time.Second || d > 32*time.Second {
			t.Errorf("took %s", d)
		}
		if len(g.lanes) != 0 {
			t.Errorf("%d lanes left", len(g.lanes))
		}
	})
}

// proves R8
func TestRampSendsOneProbeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := &limited{opens: start.Add(20 * time.Second), most: 1000}
		g := NewGate(p, GateConfig{})
		var done sync.WaitGroup
		for range 20 {
			done.Go(func() { _, _ = g.Call(t.Context(), Request{}, ignore) })
		}
		time.Sleep(time.Second)
		synctest.Wait()
		until := g.lanes[""].until // the pause with its jitter; nothing else runs
		time.Sleep(time.Until(until) + 50*time.Millisecond)
		synctest.Wait()
		for step, want := range []int{1, 3, 7, 15, 20} {
			p.mu.Lock()
			if p.running != want {
				t.Errorf("%d calls at step %d of the ramp, want %d", p.running, step, want)
			}
			p.mu.Unlock()
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		done.Wait()
	})
}

// A provider with less room than callers: refusals pause anew, and nobody is left behind.
func TestCrowdDrainsThroughANarrowProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &limited{opens: time.Now(), most: 3}
		g := NewGate(p, GateConfig{})
		var done sync.WaitGroup
		for i := range 40 {
			done.Go(func() {
				if _, err := g.Call(t.Context(), Request{}, ignore); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
			})
		}
		done.Wait()
		if p.refused > 120 {
			t.Errorf("%d refusals for 40 calls", p.refused)
		}
	})
}

func TestQueueIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		p := &provider{answer: func(n int, req Request, _ func(Event)) (Response, error) {
			if n == 0 {
				return Response{}, &Error{Class: RateLimited, Message: "slow down", RetryAfter: time.Minute}
			}
			order = append(order, req.Messages[0].Text)
			return Response{}, nil
		}}
		g := NewGate(p, GateConfig{})
		var done sync.WaitGroup
		for i := range 5 {
			req := Request{Messages: []Message{{Role: User, Text: fmt.Sprint(i)}}}
			done.Go(func() { _, _ = g.Call(t.Context(), req, ignore) })
			synctest.Wait()
		}
		done.Wait()
		if got := fmt.Sprint(order); got != "[0 1 2 3 4]" {
			t.Errorf("order %s", got)
		}
	})
}

// A silent probe does not keep the others waiting for ever.
func TestPatienceLetsTheNextGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{}
		p.answer = func(n int, _ Request, _ func(Event)) (Response, error) {
			if n == 0 {
				return Response{}, &Error{Class: RateLimited, Message: "slow down", RetryAfter: time.Second}
			}
			time.Sleep(time.Hour)
			return Response{}, nil
		}
		g := NewGate(p, GateConfig{})
		var done sync.WaitGroup
		for range 3 {
			done.Go(func() { _, _ = g.Call(t.Context(), Request{}, ignore) })
			synctest.Wait()
		}
		done.Wait()
		for i := 2; i < 4; i++ {
			if d := p.calls[i].Sub(p.calls[i-1]); d != 5*time.Second {
				t.Errorf("call %d came %s after the one before it", i, d)
			}
		}
	})
}

func TestCanceledWaiterGivesUpItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := fails(&Error{Class: RateLimited, Message: "slow down", RetryAfter: time.Minute})
		g := NewGate(p, GateConfig{})
		cause := errors.New("stopped by the client")
		ctx, cancel := context.WithCancelCause(t.Context())
		first := make(chan error, 1)
		go func() { _, err := g.Call(ctx, Request{}, ignore); first <- err }()
		synctest.Wait()
		second := make(chan error, 1)
		go func() { _, err := g.Call(t.Context(), Request{}, ignore); second <- err }()
		synctest.Wait()
		start := time.Now()
		cancel(cause)
		if err := <-first; !errors.Is(err, cause) || time.Since(start) != 0 {
			t.Errorf("canceled waiter: %v after %s", err, time.Since(start))
		}
		if err := <-second; err != nil {
			t.Error(err)
		}
	})
}

func TestModelsDoNotShareAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{answer: func(n int, req Request, _ func(Event)) (Response, error) {
			if n == 0 {
				return Response{}, &Error{Class: RateLimited, Message: "slow down", RetryAfter: time.Minute}
			}
			return Response{Text: req.Model}, nil
		}}
		g := NewGate(p, GateConfig{})
		go func() { _, _ = g.Call(t.Context(), Request{Model: "a"}, ignore) }()
		synctest.Wait()
		start := time.Now()
		if _, err := g.Call(t.Context(), Request{Model: "b"}, ignore); err != nil || time.Since(start) != 0 {
			t.Errorf("the other model: %v after %s", err, time.Since(start))
		}
		time.Sleep(2 * time.Minute)
	})
}
