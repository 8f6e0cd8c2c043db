package runtime

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// pool is the slots that the tasks of one kind share.
type pool struct {
	limit int
	used  int
	back  []comeback // waits for a slot again, and goes first
	woken fairQueue  // teammates whose next turn has something to do; they go before what is new
	queue fairQueue
}

// newPools makes the pools by kind. A group needs no slot: it only follows its children, who have theirs.
func newPools(running, shells int) map[task.Kind]*pool {
	limits := map[task.Kind]int{task.Subagent: running, task.Shell: shells, task.Group: math.MaxInt}
	pools := map[task.Kind]*pool{}
	for kind, limit := range limits {
		pools[kind] = &pool{limit: limit, woken: newFairQueue(), queue: newFairQueue()}
	}
	pools[task.Teammate] = pools[task.Subagent] // agents share their slots
	return pools
}

func (p *pool) free() bool { return p.used < p.limit }

// waiting tells whether anybody waits for a first slot, or for one after idleness.
func (p *pool) waiting() bool { return p.woken.len()+p.queue.len() > 0 }

// position is a queued task's place, 1 for the next one; 0 when it does not wait.
func (p *pool) position(id task.ID) int {
	if n := p.woken.position(id); n > 0 {
		return n
	}
	if n := p.queue.position(id); n > 0 {
		return p.woken.len() + n
	}
	return 0
}

// pop takes the next one.
func (p *pool) pop() (team string, id task.ID) {
	if p.woken.len() > 0 {
		return p.woken.pop()
	}
	return p.queue.pop()
}

// loop is a task's goroutine.
type loop struct {
	id     task.ID
	team   string
	pool   *pool
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when the goroutine returns

	// What follows is guarded by the supervisor's mu.
	slot      bool                     // it holds one of the pool's slots
	stopped   bool                     // a stop of its task is on disk
	interrupt func(messageID string)   // tells an agent's loop of a message that does not wait; nil: it has not begun
	again     bool                     // its task is to get another loop when it returns
	ended     time.Time                // since when the task is terminal although the goroutine has not returned; zero: it is not
	killed    map[sandbox.Process]bool // processes killed since then
}

// comeback is a loop that waits for a slot again.
type comeback struct {
	loop *loop
	turn chan struct{} // closed when it has the slot
}

// enqueue lets a task run as soon as a slot is free.
func (s *Supervisor) enqueue(team string, id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[id.Kind()]
	p.queue.push(team, id)
	s.dispatch(p)
}

// wake lets a teammate run that has got work, ahead of what is new (R7).
func (s *Supervisor) wake(team string, id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pools[id.Kind()]
	p.woken.push(team, id)
	s.dispatch(p)
}

// dispatch hands out free slots: first to loops that come back, then to queued tasks. The caller holds mu.
func (s *Supervisor) dispatch(p *pool) {
	for p.free() && len(p.back) > 0 {
		next := p.back[0]
		p.back = p.back[1:]
		next.loop.give()
		close(next.turn)
	}
	for p.free() && p.waiting() && !s.held && !s.stopped && s.launch != nil {
		team, id := p.pop()
		if l := s.loops[id]; l != nil {
			l.again = true // it may be on its way out
			continue
		}
		s.startLoop(team, id, false)
	}
}

// dispatchAll hands out all free slots. The caller holds mu.
func (s *Supervisor) dispatchAll() {
	for _, p := range s.pools {
		s.dispatch(p)
	}
}

// QueuePosition is a queued task's place among those of its kind, 1 for the next one; 0 when it does not wait for a slot.
func (s *Supervisor) QueuePosition(id task.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pools[id.Kind()]; p != nil {
		return p.position(id)
	}
	return 0
}

// startLoop gives a task its loop and a slot. The caller holds mu.
func (s *Supervisor) startLoop(team string, id task.ID, alone bool) *loop {
	l := &loop{id: id, team: team, pool: s.pools[id.Kind()], done: make(chan struct{}), killed: map[sandbox.Process]bool{}}
	s.loops[id] = l
	l.give()
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
			if delete(s.stuck, l); s.loops[l.id] == l {
				delete(s.loops, l.id)
			}
			if l.again && !s.stopped {
				l.pool.woken.push(l.team, l.id)
			}
			s.release(l)
			s.dispatch(l.pool)
		})
	}
}

// giveUp waits no longer for a loop whose task has ended: another life of that may have a loop of its own.
func (s *Supervisor) giveUp(l *loop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loops[l.id] != l {
		return // it has returned
	}
	delete(s.loops, l.id)
	s.stuck[l] = true
	if l.again && !s.stopped {
		l.again = false
		l.pool.woken.push(l.team, l.id)
		s.dispatch(l.pool)
	}
}

// give makes the loop the holder of a slot. The caller holds the supervisor's mu.
func (l *loop) give() {
	l.slot = true
	l.pool.used++
}

// release takes a loop's slot back, if it holds one. The caller holds mu.
func (s *Supervisor) release(l *loop) {
	if l.slot {
		l.slot = false
		l.pool.used--
		s.dispatch(l.pool)
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
	l.pool.back = append(l.pool.back, comeback{l, turn})
	s.dispatch(l.pool)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.pool.back = slices.DeleteFunc(l.pool.back, func(c comeback) bool { return c.turn == turn })
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
