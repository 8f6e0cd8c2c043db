package runtime_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// proves T6: the stream of a teammate's spawn ends with its first turn, and from then on no client's leaving and no restart
// cancels it. That of a lead which waits for quiet ends with the lead, also when a restart finds it idle.
func TestCancelOnDisconnectOfTeammates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangsAt := func(word string) modelFunc {
			return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
				if strings.Contains(req.Messages[len(req.Messages)-1].Text, word) {
					return hang(ctx, req, sink)
				}
				return echo(ctx, req, sink)
			}
		}
		inside(t, cast(map[string]modelFunc{
			"ann": hangsAt("again"), "bob": hangsAt("again"), "hang": hang,
			"lead": boss(call("subagent", `{"task":"hang","name":"carl"}`), text("I wait")),
		}), func(h *house) {
			bound := func(a *task.Assignment) { a.CancelOnDisconnect, a.RequestID = true, a.Prompt }
			ann, bob := h.follow("ann", mate("ann"), bound), h.follow("bob", mate("bob"), bound)
			waits := h.follow("lead", untilQuiet, bound)
			for _, id := range []task.ID{ann, bob, waits} {
				h.untilState(id, task.Idle)
			}
			h.must(h.sup.Detach(context.Background(), ann, false))
			h.must(h.sup.Detach(context.Background(), bob, true))
			if _, err := h.write("ann", "again"); err != nil {
				t.Error(err)
			}
			h.untilState(ann, task.Running)
			h.restart()
			h.ended(waits, task.Killed, task.StoppedByClient)
			time.Sleep(time.Hour)
			if a, b := h.task(ann).State, h.task(bob).State; a != task.Running || b != task.Idle {
				t.Errorf("ann is %s and bob %s", a, b)
			}
		})
	})
}
