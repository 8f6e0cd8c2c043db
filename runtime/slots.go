package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// loop is a task's goroutine.
type loop struct {
	id     task.ID
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the goroutine returns

	// What follows is guarded by the supervisor's mu.
	slot   bool                     // it holds one of the MaxRunning slots
	cut    bool                     // its ctx was ended by a stop
	ended  time.Time                // since when the task is terminal although the goroutine has not returned; zero: it is not
	killed map[sandbox.Process]bool // processes killed since it was cut
}

// comeback is a loop that waits for a slot again.
type comeback struct {
	loop *loop
	turn chan struct{} // closed when it has the slot
}

// enqueue lets a task run as soon as a slot is free. It is a hint: the store knows what is unfinished.
func (s *Supervisor) enqueue(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.queue, id) {
		s.queue = append(s.queue, id)
	}
	s.dispatch()
}

// dispatch hands out free slots: first to loops that come back, then to queued tasks. The caller holds mu.
func (s *Supervisor) dispatch() {
	for s.used < s.cfg.MaxRunning && len(s.back) > 0 {
		next := s.back[0]
		s.back = s.back[1:]
		s.give(next.loop)
		close(next.turn)
	}
	for s.used < s.cfg.MaxRunning && len(s.queue) > 0 && !s.held && !s.stopped && s.launch != nil {
		id := s.queue[0]
		s.queue = s.queue[1:]
		if s.loops[id] == nil { // else it runs already
			s.startLoop(id, false)
		}
	}
}

// startLoop gives a task its loop and a slot. The caller holds mu.
func (s *Supervisor) startLoop(id task.ID, alone bool) *loop {
	l := &loop{id: id, done: make(chan struct{}), killed: map[sandbox.Process]bool{}}
	s.loops[id] = l
	s.give(l)
	s.launch(l, alone)
	return l
}

// launcher gives loops their goroutine, under the ctx of all work and not of who asked. Who calls what it returns holds
// mu.
func (s *Supervisor) launcher(work context.Context) func(l *loop, alone bool) {
	return func(l *loop, alone bool) {
		ctx, cancel := context.WithCancelCause(work)
		l.cancel = cancel
		s.work.Go(func() {
			defer close(l.done)
			defer cancel(nil)
			s.runLoop(ctx, l, alone)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.loops, l.id)
			s.release(l)
		})
	}
}

// give makes a loop the holder of a slot. The caller holds mu.
func (s *Supervisor) give(l *loop) {
	l.slot = true
	s.used++
}

// release takes a loop's slot back, if it holds one. The caller holds mu.
func (s *Supervisor) release(l *loop) {
	if l.slot {
		l.slot = false
		s.used--
		s.dispatch()
	}
}

// acquire waits until the loop holds a slot, ahead of queued tasks; ctx's cause when that ends first.
func (s *Supervisor) acquire(ctx context.Context, l *loop) error {
	s.mu.Lock()
	if l.slot {
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.back = append(s.back, comeback{l, turn})
	s.dispatch()
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back = slices.DeleteFunc(s.back, func(c comeback) bool { return c.turn == turn })
	return context.Cause(ctx) // a slot that came meanwhile is released with the loop
}

// pauser is agent.Slots for one loop.
type pauser struct {
	s    *Supervisor
	loop *loop
}

// Pause commits WAITING and gives the slot back.
func (p pauser) Pause(ctx context.Context) error {
	if err := p.s.change(ctx, p.loop.id, task.Wait{}); err != nil {
		return err
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.release(p.loop)
	return nil
}

// Proceed waits for a slot and commits RUNNING. A task that was stopped meanwhile stays STOPPING.
func (p pauser) Proceed(ctx context.Context) error {
	if err := p.s.acquire(ctx, p.loop); err != nil {
		return err
	}
	return p.s.change(ctx, p.loop.id, task.Proceed{})
}
