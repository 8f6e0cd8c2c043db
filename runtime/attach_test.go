package runtime_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
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

// proves T6, R4: what was to stop a turn, its deadline or its client's leaving, does not stop a teammate whose turn ends before
// that is on disk.
func TestTurnEndsBeforeItsStop(t *testing.T) {
	const id task.ID = "tm-1"
	ends := map[string]func(h *house){
		"its time is over":  func(*house) { time.Sleep(time.Minute) },
		"its client leaves": func(h *house) { h.must(h.sup.Detach(context.Background(), id, true)) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h *house
				var once atomic.Bool
				asked, open := make(chan struct{}), make(chan struct{})
				answer := func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
					close(asked)
					<-open
					return text("over"), nil
				}
				bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
					if touches(b, "due/"+string(id)+"/stop") && once.CompareAndSwap(false, true) {
						close(open)
						h.untilState(id, task.Idle)
					}
					return commit()
				}}
				inside(t, answer, func(house *house) {
					h = house
					h.follow("x", mate("ann"), func(a *task.Assignment) {
						a.CancelOnDisconnect, a.Budget.WallTime = true, time.Minute
					})
					<-asked
					end(h)
					time.Sleep(time.Minute)
					if s := h.task(id).State; s != task.Idle || !once.Load() {
						t.Errorf("it is %s; a stop was tried: %v", s, once.Load())
					}
				}, tapped(bent))
			})
		})
	}
}
