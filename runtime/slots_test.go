package runtime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// paused is a model call that the provider holds up for so long.
func paused(wait time.Duration, then modelFunc) modelFunc {
	return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		sink(&model.Pausing{Until: time.Now().Add(wait)})
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return model.Response{}, context.Cause(ctx)
		}
		sink(&model.Resuming{})
		return then(ctx, req, sink)
	}
}

// counts checks how many tasks wait for a start and how many loops hold a slot.
func (h *house) counts(queued, running int) {
	h.t.Helper()
	synctest.Wait()
	if q, r, stuck := h.sup.Counts(); q != queued || r != running || stuck != 0 {
		h.t.Errorf("%d queued, %d running, %d stuck; not %d and %d", q, r, stuck, queued, running)
	}
}

// proves R7: no more loops run at once than there are slots, and every task gets its turn.
func TestSlotsAreRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, play(call("gate", "{}"), text("done")), inBubble, slots(3), with(g.tool("gate")))
		var ids []task.ID
		for range 10 {
			ids = append(ids, h.spawn("x"))
		}
		h.counts(7, 3)
		if n := len(g.entered); n != 3 {
			t.Errorf("%d run at once", n)
		}
		close(g.open)
		for _, id := range ids {
			h.ended(id, task.Completed, task.Done)
		}
		h.counts(0, 0)
	})
}

// proves R7: who waits for the provider holds no slot, and goes first when it comes back.
func TestWaitingGivesTheSlotBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, cast(map[string]modelFunc{
			"waits": paused(time.Minute, play(text("done"))),
			"busy":  play(call("gate", "{}"), text("done")),
		}), inBubble, slots(1), with(g.tool("gate")))
		waits, busy, late := h.spawn("waits"), h.spawn("busy"), h.spawn("busy")
		h.counts(1, 1)
		if a, b := h.task(waits).State, h.task(busy).State; a != task.Waiting || b != task.Running {
			t.Errorf("%s and %s", a, b)
		}
		time.Sleep(2 * time.Minute)
		if s := h.task(waits).State; s != task.Waiting {
			t.Errorf("without a slot it is %s", s)
		}
		g.open <- struct{}{} // one passes
		h.ended(waits, task.Completed, task.Done)
		if s := h.states(waits); s != "QUEUED RUNNING WAITING RUNNING COMPLETED" {
			t.Errorf("states: %s", s)
		}
		h.ended(busy, task.Completed, task.Done)
		time.Sleep(time.Second)
		close(g.open)
		h.ended(late, task.Completed, task.Done)
		if w, l := h.task(waits).Ended, h.task(late).Started; l.Before(w) {
			t.Error("the queued task went ahead of the one that came back")
		}
		h.counts(0, 0)
	})
}

// A short pause is not worth a change of state.
func TestShortPauseIsNoWaiting(t *testing.T) {
	bubble(t, paused(time.Second-1, play(text("done"))), func(h *house) {
		id := h.spawn("x")
		h.ended(id, task.Completed, task.Done)
		if s := h.states(id); s != "QUEUED RUNNING COMPLETED" {
			h.t.Errorf("states: %s", s)
		}
	})
}

// proves R7, T1: a stop finds a task that waits for the provider, or for a slot; no slot is lost or made by it.
func TestStopWhileWaitingKeepsTheSlots(t *testing.T) {
	for _, level := range []task.StopLevel{task.WrapUp, task.Cancel, task.Kill} {
		for name, at := range map[string]time.Duration{"for the provider": time.Second, "for a slot": 2 * time.Minute} {
			t.Run(level.String()+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newGate()
					h := newHouse(t, cast(map[string]modelFunc{
						"waits": paused(time.Minute, play(text("done"))),
						"busy":  play(call("gate", "{}"), text("done")),
					}), inBubble, slots(2), with(g.tool("gate")))
					waits := []task.ID{h.spawn("waits"), h.spawn("waits")}
					busy := []task.ID{h.spawn("busy"), h.spawn("busy"), h.spawn("busy")}
					time.Sleep(at)
					h.counts(1, 2)
					for _, id := range waits {
						h.must(h.stopTask(id, level))
						h.ended(id, task.Killed, task.StoppedByClient)
					}
					h.counts(1, 2)
					close(g.open)
					for _, id := range busy {
						h.ended(id, task.Completed, task.Done)
					}
					h.counts(0, 0)
				})
			})
		}
	}
}

// A provider that never lets go: the task fails in its pause, and its slot is not given back twice.
func TestFailureWhileWaitingKeepsTheSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, func(_ context.Context, _ model.Request, sink func(model.Event)) (model.Response, error) {
			sink(&model.Pausing{Until: time.Now().Add(time.Hour)})
			return model.Response{}, &model.Error{Class: model.RateLimited, Message: "for too long"}
		}, inBubble, slots(1))
		h.ended(h.spawn("x"), task.Failed, task.ModelError)
		h.counts(0, 0)
	})
}

// proves S4: what was WAITING when the daemon died and runs again says so.
func TestWaitingIsRunningAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		h := newHouse(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			if calls.add("calls") == 1 {
				return paused(time.Hour, hang)(ctx, req, sink)
			}
			return hang(ctx, req, sink)
		}, inBubble)
		id := h.spawn("x")
		h.untilState(id, task.Waiting)
		h.restart()
		synctest.Wait()
		if s := h.task(id).State; s != task.Running {
			t.Errorf("it is %s", s)
		}
	})
}

// proves D4: when the daemon stops, running steps are finished and no new one begins; the tasks stay as they are, and
// the next start goes on.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, play(call("gate", "{}"), text("done")), inBubble, slots(1), with(g.tool("gate")))
		id, queued := h.spawn("x"), h.spawn("x")
		<-g.entered
		began := time.Now()
		go func() {
			time.Sleep(10 * time.Second)
			close(g.open)
		}()
		h.stop()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if _, err := h.sup.Spawn(context.Background(), task.Assignment{Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}}); err == nil {
			t.Error("a stopped daemon takes a spawn")
		}
		h.start()
		h.ended(id, task.Completed, task.Done)
		h.ended(queued, task.Completed, task.Done)
		if r := h.results(id)["c00000001"]; r.Text != "through" {
			t.Errorf("the step was not finished: %+v", r)
		}
		if s := h.states(id); s != "QUEUED RUNNING COMPLETED" {
			t.Errorf("states: %s", s)
		}
	})
}

// proves D4: what does not finish its step in 20 s is cut off at its last commit; what does not even return is left.
func TestDrainCutsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, cast(map[string]modelFunc{
			"slow": play(call("gate", "{}"), text("done")), "deaf": play(call("deaf", "{}"), text("done")),
		}), inBubble, with(g.tool("gate"), g.deaf("deaf")))
		slow, deaf := h.spawn("slow"), h.spawn("deaf")
		<-g.entered
		<-g.entered
		began := time.Now()
		h.stop()
		if took := time.Since(began); took != 25*time.Second {
			t.Errorf("the stop took %v", took)
		}
		close(g.open)
		synctest.Wait()
		h.start()
		h.ended(slow, task.Completed, task.Done)
		h.ended(deaf, task.Completed, task.Done)
	})
}
