package runtime_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
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
