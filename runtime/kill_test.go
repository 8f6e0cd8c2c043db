package runtime_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// lateKill is what kills the process of a running tool, and comes to its end only after the loop has.
type lateKill struct {
	noProcesses
	gate   *gate
	opened sync.Once
	loop   func() // waits until the loop has nothing left to do
}

func (k *lateKill) Kill(context.Context, string) ([]sandbox.Process, error) {
	k.opened.Do(func() {
		close(k.gate.open)
		k.loop()
	})
	return nil, nil
}

// proves T1: a loop that sees its tool killed can't go on and complete before the kill is on disk.
func TestKillIsNotOvertakenByTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		kill := &lateKill{gate: g}
		h := newHouse(t, play(call("deaf", "{}"), text("it went")), with(g.deaf("deaf")),
			func(h *house) { h.processes = kill })
		id := h.spawn("x")
		kill.loop = func() { h.result(id) }
		<-g.entered
		h.must(h.stopTask(id, task.Kill))
		h.ended(id, task.Killed, task.StoppedByClient)
	})
}

// proves W1, T1: the loop is faster than the kill, and a message revives the teammate at once: the kill is of the life that is over,
// and leaves the next one alone, also when that is asked to end gently.
func TestKillIsOfOneLife(t *testing.T) {
	for _, level := range []task.StopLevel{0, task.WrapUp} {
		synctest.Test(t, func(t *testing.T) {
			kill := &lateKill{gate: newGate()}
			h := newHouse(t, hang, func(h *house) { h.processes = kill })
			id := h.spawn("first", mate("ann"))
			h.untilState(id, task.Running)
			kill.loop = func() {
				h.untilState(id, task.Killed)
				h.wants("ann", "again")
				h.untilTook(id, task.Text, 1, task.Running)
				if level != 0 {
					go func() { h.must(h.stopTask(id, level)) }()
					h.until(id, "a stop", func(now task.Task, _ []task.Entry) bool { return now.Stop != nil })
				}
			}
			go func() { h.must(h.stopTask(id, task.Kill)) }()
			time.Sleep(time.Second)
			synctest.Wait()
			if now := h.task(id); now.Incarnation != 2 || now.State.Terminal() || (now.Stop != nil) != (level != 0) {
				t.Errorf("it is %s in life %d, with the stop %+v", now.State, now.Incarnation, now.Stop)
			}
			h.must(h.stopTask(id, task.Kill))
		})
	}
}

// proves W1, D10: nor is a deadline of a stop of any life but its own.
func TestEscalationIsOfOneLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var h *house
		var id task.ID
		var waits atomic.Bool
		bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			if touches(b, "due/tm-1/") && waits.CompareAndSwap(true, false) {
				close(g.open)
				h.untilState(id, task.Killed)
				h.wants("ann", "again")
				h.untilTook(id, task.Text, 1, task.Idle)
			}
			return commit()
		}}
		h = newHouse(t, play(call("deaf", "{}"), text("as before")), inBubble, tapped(bent), with(g.deaf("deaf")))
		id = h.spawn("first", mate("ann"))
		<-g.entered
		go func() { h.must(h.stopTask(id, task.Cancel)) }()
		h.until(id, "a stop", func(now task.Task, _ []task.Entry) bool { return now.Stop != nil })
		waits.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if now := h.task(id); now.Incarnation != 2 || now.State != task.Idle {
			t.Errorf("it is %s in life %d", now.State, now.Incarnation)
		}
	})
}

// proves W1: a message that finds its recipient at work, which ends before that is written down, revives it as any other does.
func TestMailInTheInstantOfTheEnd(t *testing.T) {
	var h *house
	var sends atomic.Bool
	ends := &tap{get: func(key string) {
		if key == "live/tm-1" && sends.CompareAndSwap(true, false) {
			h.must(h.stopTask("tm-1", task.Kill))
		}
	}}
	bubble(t, hang, func(house *house) {
		h = house
		id := h.spawn("first", mate("ann"))
		h.untilState(id, task.Running)
		sends.Store(true)
		h.wants("ann", "again")
		h.untilTook(id, task.Text, 1, task.Running)
	}, tapped(ends))
}
