package runtime_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/task"
)

// proves T1: what is killed while a stop waits for the report counts too.
func TestWrapUpTellsWhatItKilled(t *testing.T) {
	h := newHouse(t, play(call("bash", `{"command":"setsid sh -c ': > up; sleep 600; :' & until test -e go; do sleep 0.02; done"}`), text("done")))
	id := h.spawn("x")
	h.awaitFile("up")
	var last runtime.StopProgress
	h.must(h.sup.Stop(context.Background(), runtime.StopRequest{TaskID: id, Level: task.WrapUp}, func(p runtime.StopProgress) error {
		last = p
		h.put("go", "") // what is told follows from the stop, which has reached the loop
		return nil
	}))
	if last.Reaped == 0 || last.Level != task.WrapUp {
		t.Errorf("last: %+v", last)
	}
}

// proves T1: a task that is asked to report and has no call left for it ends as its stop says.
func TestWrapUpWithoutACallLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, play(call("gate", "{}")), func(h *house) {
			id := h.spawn("x", within(task.Budget{Tokens: 1}))
			<-g.entered
			go func() { h.must(h.stopTask(id, task.WrapUp)) }()
			synctest.Wait()
			close(g.open)
			r := h.ended(id, task.Killed, task.StoppedByClient)
			if r.Usage.Steps != 1 || r.Error != "the budget of "+string(id)+" is used up: 1 tokens" {
				h.t.Errorf("result: %+v", r)
			}
		}, with(g.tool("gate")))
	})
}
