// Package lifecycle runs what lives long: an ordered list of parts, started in order and stopped in reverse, each with
// a budget. Whatever has a Run gets its goroutine here, so that nothing else needs to say `go`.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"
)

// Part is one long-lived thing.
type Part struct {
	// Name tells the part in logs and errors.
	Name string
	// Run blocks until ctx ends or the part can't go on. Its return ends the whole list.
	Run func(ctx context.Context) error
	// Ready is closed by the part when it works; the next part starts only then. Nil: it works at once.
	Ready <-chan struct{}
	// StopBudget is how long its return is waited for after its ctx ended. 0: it isn't waited for.
	StopBudget time.Duration
}

// Run starts the parts in order and blocks. When ctx ends or any part returns, the started parts are stopped in
// reverse: a part's own ctx ends only after the parts behind it have returned. A part that overruns its budget is
// logged and left behind. Run returns the first error that a part returned, by time, and logs the others; a panic is
// one, the context.Canceled of a part that was told to stop is none.
func Run(ctx context.Context, log *slog.Logger, parts ...Part) error {
	alive, end := context.WithCancel(ctx)
	defer end()
	returned := make(chan error, len(parts)) // in the order of time; a send never blocks
	var up []running
	for _, p := range parts {
		if alive.Err() != nil {
			break
		}
		up = append(up, start(ctx, p, returned, func() {
			if alive.Err() == nil {
				log.Warn("a part has ended by itself, and the others are stopped", "part", p.Name)
			}
			end()
		}))
		log.Debug("part started", "part", p.Name)
		if p.Ready != nil {
			select {
			case <-p.Ready:
			case <-alive.Done():
			}
		}
	}
	<-alive.Done()
	for _, r := range slices.Backward(up) {
		r.stop(log)
	}
	return firstError(returned, log)
}

// running is a part with its goroutine.
type running struct {
	Part
	cancel context.CancelFunc
	done   chan struct{} // closed when the part has returned
}

// start gives the part its goroutine and a ctx of its own, which the outer one's end does not end: the order of
// stopping does. It calls ended when the part has returned.
func start(ctx context.Context, p Part, returned chan<- error, ended func()) running {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := running{Part: p, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		defer ended()
		err := call(own, p)
		if own.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil
		}
		returned <- err
	}()
	return r
}

// call runs the part; a panic becomes its error, with the stack.
func call(ctx context.Context, p Part) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%s: panic: %v\n%s", p.Name, v, debug.Stack())
		}
	}()
	if err := p.Run(ctx); err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	return nil
}

// stop ends the part's ctx and waits for its return within the budget.
func (r running) stop(log *slog.Logger) {
	began := time.Now()
	r.cancel()
	budget := time.NewTimer(r.StopBudget)
	defer budget.Stop()
	select {
	case <-r.done:
		log.Debug("part stopped", "part", r.Name, "took", time.Since(began))
	case <-budget.C:
		log.Warn("part did not stop in time and is left behind", "part", r.Name, "budget", r.StopBudget)
	}
}

// firstError is the first error among those that have been returned so far; those after it are logged.
func firstError(returned <-chan error, log *slog.Logger) error {
	var first error
	for {
		select {
		case err := <-returned:
			switch {
			case first == nil:
				first = err
			case err != nil:
				log.Warn("another part failed too", "error", err)
			}
		default:
			return first
		}
	}
}
