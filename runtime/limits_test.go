package runtime_test

import (
	"slices"
	"testing"

	"github.com/agentd-dev/agentd/runtime/task"
)

// proves R7: the largest group that can be configured, with all that an item can have, is one commit of the store.
func TestLargestGroupIsOneCommit(t *testing.T) {
	const most = 24 // the bound of max_items
	bubble(t, play(text("done")), func(h *house) {
		id := h.spawn("", parallel(slices.Repeat([]string{"x"}, most)...), func(a *task.Assignment) {
			a.RequestID = "r"
			for i := range a.Group.Items {
				a.Group.Items[i].Schema = `{"type":"string"}`
			}
		})
		if n := len(h.children(id)); n != most {
			t.Errorf("it has %d children", n)
		}
		h.must(h.stopTask(id, task.Kill))
	}, func(h *house) { h.items = most })
}
