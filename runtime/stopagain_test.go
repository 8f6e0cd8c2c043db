package runtime_test

import (
	"context"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// TestStopIsOfOneLife: who waits for the end of a teammate that is revived meanwhile does not wait for its next life. proves T4
func TestStopIsOfOneLife(t *testing.T) {
	bubble(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if stepsOf(req) == 0 {
			return text("ready"), nil
		}
		return hang(ctx, req, sink)
	}, func(h *house) {
		id := h.spawn("first", mate("ann"))
		h.untilState(id, task.Idle)
		stop := runtime.StopRequest{RequestID: "once", Caller: "test", TaskID: id, Level: task.Kill}
		wait := func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			return h.sup.Stop(ctx, stop, func(runtime.StopProgress) error { return nil })
		}
		h.must(wait())
		if _, err := h.write("ann", "come back"); err != nil {
			h.t.Fatal(err)
		}
		h.untilState(id, task.Running)
		if err := wait(); err != nil {
			h.t.Errorf("a retry of the stop of its first life: %v", err)
		}
	})
}
