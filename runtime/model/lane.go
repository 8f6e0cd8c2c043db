package model

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lane is the way to one model. It is open, or restrained: paused until a time, and from then on letting through only
// as many calls as its window allows without having heard from them, so that a crowd does not run into the limit anew.
type lane struct {
	patience time.Duration
	users    int // guarded by the gate

	mu       sync.Mutex
	window   int       // unproven calls allowed at once; 0: open
	until    time.Time // nobody goes before
	cause    *Error    // of the last pause
	strikes  int       // pauses since a call was answered
	epoch    int       // counts the pauses: what was sent before one proves nothing about the time after it
	unproven int       // calls of this epoch that have neither been answered nor failed
	last     time.Time // when a call was let through
	queue    []*ticket // who waits, in order; empty while open
}

// ticket is one attempt of one call, in the queue and then under way.
type ticket struct {
	wake    chan struct{} // told that the head of the queue, or its chance, changed
	epoch   int
	settled bool
}

func newTicket() *ticket { return &ticket{wake: make(chan struct{}, 1)} }

// poke makes the ticket's owner look again; a nil ticket is nobody.
func (t *ticket) poke() {
	if t == nil {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (l *lane) open() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.window == 0
}

// arrive lets t through (the zero time), or queues it and tells when the lane expects to move. A retried call queues at
// the end as well: a request that is itself the trouble must not block all others.
func (l *lane) arrive(t *ticket, deadline time.Time) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.window == 0 {
		l.admit(t, now)
		return time.Time{}, nil
	}
	l.queue = append(l.queue, t)
	next, err := l.advance(t, now, deadline)
	if next.IsZero() {
		return next, err
	}
	return later(l.until, now), nil
}

// await blocks until t, which is queued, is let through; it gives the cause of the pause when the deadline comes first.
func (l *lane) await(ctx context.Context, t *ticket, deadline time.Time) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.mu.Lock()
		next, err := l.advance(t, time.Now(), deadline)
		head := l.head()
		l.mu.Unlock()
		if next.IsZero() {
			head.poke()
			return err
		}
		timer.Reset(time.Until(next))
		select {
		case <-timer.C:
		case <-t.wake:
		case <-ctx.Done():
			l.quit(t)
			return context.Cause(ctx)
		}
	}
}

// advance lets t through if it is its turn, or tells when to look again. It gives the zero time when t has left the
// queue, with an error when it left in vain. The caller holds mu.
func (l *lane) advance(t *ticket, now, deadline time.Time) (time.Time, error) {
	next := l.until
	if l.unproven >= l.window {
		next = later(next, l.last.Add(l.patience))
	}
	switch first := l.queue[0] == t; {
	case l.until.After(deadline):
		l.remove(t)
		return time.Time{}, l.cause
	case first && !next.After(now): // even at its deadline: someone must find out whether the pause is over
		l.remove(t)
		l.admit(t, now)
		return time.Time{}, nil
	case !now.Before(deadline):
		l.remove(t)
		return time.Time{}, l.cause
	case first:
		return earlier(next, deadline), nil
	}
	return deadline, nil // or when poked
}

// admit counts t as under way. The caller holds mu.
func (l *lane) admit(t *ticket, now time.Time) {
	t.epoch = l.epoch
	l.unproven++
	l.last = now
}

// settle tells that t's call was answered or failed; only the first time counts. An answer widens the window, and
// opens the lane when nobody waits any more.
func (l *lane) settle(t *ticket, answered bool) {
	l.mu.Lock()
	if t.settled || t.epoch != l.epoch {
		l.mu.Unlock()
		return
	}
	t.settled = true
	l.unproven--
	if answered && l.window > 0 {
		l.strikes = 0
		l.window++
		if len(l.queue) == 0 {
			l.window = 0
		}
	}
	head := l.head()
	l.mu.Unlock()
	head.poke()
}

// pause stops the lane for as long as e asks, or else for a time that doubles with each pause in a row, and in no case
// for longer than a call may wait: a provider's absurd wish must not disable the model. Of a crowd that
// ran into the limit together only the first one counts; the others can only ask for longer.
func (l *lane) pause(t *ticket, e *Error, cfg GateConfig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delay := e.RetryAfter
	if t.epoch == l.epoch {
		l.strikes++
		if delay == 0 {
			delay = backoff(cfg, l.strikes)
		}
	}
	until := time.Now().Add(min(jittered(delay), cfg.MaxWait))
	if t.epoch != l.epoch && !until.After(l.until) {
		return
	}
	l.until, l.cause = until, e
	l.window, l.unproven = 1, 0
	l.epoch++
}

// quit takes t, whose call was canceled, out of the queue.
func (l *lane) quit(t *ticket) {
	l.mu.Lock()
	l.remove(t)
	head := l.head()
	l.mu.Unlock()
	head.poke()
}

// remove takes t out of the queue. The caller holds mu.
func (l *lane) remove(t *ticket) {
	if i := slices.Index(l.queue, t); i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
}

// head is who is next, or nil. The caller holds mu.
func (l *lane) head() *ticket {
	if len(l.queue) == 0 {
		return nil
	}
	return l.queue[0]
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
