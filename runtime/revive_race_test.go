package runtime_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// trap is a store in which something happens right after a commit that writes a record, before the one who commits knows.
type trap struct {
	store.Store
	mu   sync.Mutex
	key  string
	then func()
}

// set lets it snap once.
func (s *trap) set(key string, then func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.then = key, then
}

func (s *trap) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	done, err := s.Store.Commit(ctx, b)
	s.mu.Lock()
	then := s.then
	if !slices.ContainsFunc(b.Ops, func(op store.Op) bool { return op.Name == s.key && op.Kind == store.Put }) {
		then = nil
	}
	if then != nil {
		s.then = nil
	}
	s.mu.Unlock()
	if err == nil && then != nil {
		then()
	}
	return done, err
}

// trapped runs a test in a house with a trap.
func trapped(t *testing.T, m modelFunc, test func(h *house, s *trap), options ...func(*house)) {
	synctest.Test(t, func(t *testing.T) {
		s := &trap{}
		options = append(options, func(h *house) {
			h.wrap = func(st store.Store) store.Store {
				s.Store = st
				return s
			}
		})
		inside(t, m, func(h *house) { test(h, s) }, options...)
	})
}

// revive writes to a teammate that has ended a moment ago.
func (h *house) revive(name string) func() {
	return func() {
		if _, err := h.write(name, "live again"); err != nil {
			h.t.Error(err)
		}
	}
}

// proves W1: a message that revives a teammate in the instant between the commit of its end and what follows it finds it a loop,
// whether there is a slot for that at once or it has to wait for one.
func TestRevivedInTheInstantOfItsEnd(t *testing.T) {
	for name, full := range map[string]bool{"at once": false, "behind a full pool": true} {
		t.Run(name, func(t *testing.T) {
			trapped(t, cast(map[string]modelFunc{"ann": echo, "hang": hang}), func(h *house, s *trap) {
				ann := h.spawn("ann", mate("ann"))
				h.untilState(ann, task.Idle)
				var other task.ID
				if full {
					other = h.spawn("hang")
					h.untilState(other, task.Running)
				}
				s.set("result/"+string(ann), h.revive("ann"))
				h.must(h.stopTask(ann, task.Kill))
				if full {
					h.must(h.stopTask(other, task.Kill))
				}
				h.untilSaid(ann, "live again", task.Idle)
				h.counts(0, 0)
			}, slots(1))
		})
	}
}

// proves W1: so does one that revives a teammate whose turn has ended by itself before its stop was carried out.
func TestRevivedBeforeItsStopWasCarriedOut(t *testing.T) {
	for _, level := range []task.StopLevel{task.Cancel, task.Kill} {
		t.Run(level.String(), func(t *testing.T) { revivedBeforeItsStop(t, level) })
	}
}

func revivedBeforeItsStop(t *testing.T, level task.StopLevel) {
	g := newGate()
	ann := func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if strings.Contains(req.Messages[len(req.Messages)-1].Text, "live again") {
			return echo(ctx, req, sink)
		}
		return play(call("gate", "{}"), text("over"))(ctx, req, sink)
	}
	trapped(t, ann, func(h *house, s *trap) {
		id := h.spawn("ann", mate("ann"))
		<-g.entered
		s.set("due/"+string(id)+"/stop", func() {
			close(g.open)
			h.untilState(id, task.Killed)
			h.revive("ann")()
		})
		h.must(h.stopTask(id, level))
		h.untilSaid(id, "live again", task.Idle)
		h.counts(0, 0)
	}, with(g.tool("gate")))
}

// proves W1, T1: a loop that does not return after a KILL keeps no later life of its teammate waiting for longer than it takes to
// count as stuck.
func TestRevivedBesideALoopThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		open := sync.OnceFunc(func() { close(g.open) })
		defer open()
		ann := func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			if strings.Contains(req.Messages[len(req.Messages)-1].Text, "live again") {
				return echo(ctx, req, sink)
			}
			return play(call("deaf", "{}"))(ctx, req, sink)
		}
		inside(t, ann, func(h *house) {
			id := h.spawn("ann", mate("ann"))
			<-g.entered
			h.must(h.stopTask(id, task.Kill))
			h.revive("ann")()
			h.untilSaid(id, "live again", task.Idle)
			synctest.Wait()
			if queued, running, stuck := h.sup.Counts(); queued != 0 || running != 0 || stuck != 1 {
				t.Errorf("counts: %d queued, %d running, %d stuck", queued, running, stuck)
			}
			open()
			h.counts(0, 0)
		}, with(g.deaf("deaf")))
	})
}
