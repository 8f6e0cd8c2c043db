package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/runtime/task"
)

// enqueue lets a task run as soon as a slot is free. It is a hint: the store knows what is unfinished.
func (s *Supervisor) enqueue(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, id)
	s.dispatch()
}

// dispatch starts queued tasks while there are slots. The caller holds mu.
func (s *Supervisor) dispatch() {
	for s.used < s.cfg.MaxRunning && len(s.queue) > 0 && !s.held && !s.stopped && s.ctx != nil {
		id := s.queue[0]
		s.queue = s.queue[1:]
		if s.loops[id] != nil {
			continue // it runs already
		}
		s.startLoop(id, false)
	}
}

// startLoop gives a task its goroutine and a slot. The caller holds mu.
func (s *Supervisor) startLoop(id task.ID, alone bool) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	l := &loop{cancel: cancel}
	s.loops[id] = l
	s.used++
	s.work.Go(func() {
		defer cancel(nil)
		s.runLoop(ctx, id, alone)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.loops, id)
		s.release()
	})
}

// release gives a slot back: first to a task that comes back, then to the queue. The caller holds mu.
func (s *Supervisor) release() {
	if len(s.back) > 0 {
		close(s.back[0])
		s.back = s.back[1:]
		return
	}
	s.used--
	s.dispatch()
}

// acquire waits for a slot, ahead of queued tasks.
func (s *Supervisor) acquire(ctx context.Context) error {
	s.mu.Lock()
	if s.used < s.cfg.MaxRunning {
		s.used++
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.back = append(s.back, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		return s.giveUp(ctx, turn)
	}
}

// giveUp leaves the line. When the slot came meanwhile it is kept, since whoever ends releases one.
func (s *Supervisor) giveUp(ctx context.Context, turn chan struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, ch := range s.back {
		if ch == turn {
			s.back = append(s.back[:i], s.back[i+1:]...)
			s.used++ // over the bound, for the short time until this loop ends
			break
		}
	}
	return context.Cause(ctx)
}

// pauser is agent.Slots for one loop.
type pauser struct {
	s  *Supervisor
	id task.ID
}

// Pause commits WAITING and gives the slot back.
func (p pauser) Pause(ctx context.Context) error {
	if err := p.s.change(ctx, p.id, task.Wait{}); err != nil {
		return err
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.release()
	return nil
}

// Proceed waits for a slot and commits RUNNING. A task that was stopped meanwhile stays STOPPING.
func (p pauser) Proceed(ctx context.Context) error {
	if err := p.s.acquire(ctx); err != nil {
		return err
	}
	return p.s.change(ctx, p.id, task.Proceed{})
}
