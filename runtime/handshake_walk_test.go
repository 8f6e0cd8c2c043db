package runtime_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store/storetest"
)

// handshake is a play of a client and a teammate that can be gone on with wherever it was cut off.
type handshake struct {
	model modelFunc
	tools func(effects *tally) []func(*house)
	run   func(h *house, effects *tally)
}

// surely repeats a call until it is done, also over the death of the daemon.
func (h *house) surely(what string, call func() error) {
	h.t.Helper()
	h.reaches(what, func() bool {
		err := call()
		if err != nil && errdefs.KindOf(err) != errdefs.Unavailable {
			h.t.Fatalf("%s: %v", what, err)
		}
		return err == nil
	})
}

// reaches waits until something is so, also over the death of the daemon.
func (h *house) reaches(what string, so func() bool) {
	h.t.Helper()
	for range 3000 {
		if h.cut.isDead() {
			h.restart()
		}
		if so() && !h.cut.isDead() {
			return
		}
		time.Sleep(10 * time.Millisecond) // in the bubble
	}
	h.t.Fatalf("never reached: %s", what)
}

// spawnAs spawns a teammate, once.
func (h *house) spawnAs(as task.TeammateSpec) (id task.ID) {
	h.t.Helper()
	h.surely("spawn", func() (err error) {
		id, err = h.sup.Spawn(context.Background(), task.Assignment{
			RequestID: "spawn", Caller: "test", From: "user", Workspace: h.workspace, Teammate: &as,
			AgentSpec: task.AgentSpec{Prompt: "ann"},
		})
		return err
	})
	return id
}

// shutdown: ann is asked to shut down, and agrees.
func shutdown() handshake {
	return handshake{model: polite("true"), run: func(h *house, _ *tally) {
		id := h.spawnAs(task.TeammateSpec{Name: "ann"})
		h.surely("ask", func() error {
			_, err := h.control(runtime.ControlRequest{RequestID: "ask", To: "ann", Kind: task.ShutdownRequest})
			return err
		})
		h.reaches("the end", func() bool { return h.task(id).State.Terminal() })
		h.ended(id, task.Completed, task.Shutdown)
		if n := h.took(id, task.ShutdownRequest); n != 1 {
			h.t.Errorf("it was asked %d times", n)
		}
		for _, r := range h.results(id) {
			if r.IsError {
				h.t.Errorf("its consent was refused: %s", r.Text)
			}
		}
		h.noDeadline(id)
	}}
}

// refusal: ann is asked to shut down, and refuses, which the leader learns once.
func refusal() handshake {
	return handshake{model: polite("false"), run: func(h *house, _ *tally) {
		id := h.spawnAs(task.TeammateSpec{Name: "ann"})
		h.surely("ask", func() error {
			_, err := h.control(runtime.ControlRequest{RequestID: "ask", To: "ann", Kind: task.ShutdownRequest})
			return err
		})
		h.reaches("the refusal", func() bool {
			return h.took(id, task.ShutdownRequest) == 1 && h.task(id).State == task.Idle && h.handshakes(id).Shutdown.ID == ""
		})
		time.Sleep(time.Hour)
		if n, s := len(h.leaderMail(id, task.ShutdownResponse)), h.task(id).State; n != 1 || s != task.Idle {
			h.t.Errorf("%d answers; it is %s", n, s)
		}
		h.noDeadline(id)
	}}
}

// noDeadline demands that the time to answer a shutdown request is over for good.
func (h *house) noDeadline(id task.ID) {
	h.t.Helper()
	_, err := h.journal.Due(context.Background(), h.task(id).Team, id, journal.DueShutdown)
	if !errdefs.Is(err, errdefs.RecordNotFound) {
		h.t.Errorf("the deadline still stands: %v", err)
	}
}

// approval: ann submits a plan, a client approves it, and ann acts.
func approval() handshake {
	return handshake{
		model: plans,
		tools: func(effects *tally) []func(*house) { return []func(*house){with(effect("effect", effects))} },
		run: func(h *house, effects *tally) {
			id := h.spawnAs(task.TeammateSpec{Name: "ann", PlanApproval: true})
			h.reaches("the plan", func() bool { return h.task(id).State == task.Idle && h.handshakes(id).Plan.ID != "" })
			h.surely("approve", func() error {
				_, err := h.control(runtime.ControlRequest{
					RequestID: "approve", To: "ann", Kind: task.PlanResponse, ControlID: h.handshakes(id).Plan.ID, Approve: true,
				})
				return err
			})
			h.reaches("the deed", func() bool { return h.took(id, task.PlanResponse) == 1 && h.task(id).State == task.Idle })
			if n := len(h.leaderMail(id, task.PlanRequest)); n != 1 {
				h.t.Errorf("the leader got %d plans", n)
			}
			for key, times := range effects.n {
				if times > 1 || strings.Contains(key, "early") {
					h.t.Errorf("%s had its effect %d times", key, times)
				}
			}
			if got := h.results(id)["c00000004"]; got == nil {
				h.t.Error("it did not act")
			}
		},
	}
}

// dismissal: ann, who rests, is dismissed.
func dismissal() handshake {
	return handshake{model: hang, run: func(h *house, _ *tally) {
		id := h.spawnAs(task.TeammateSpec{Name: "ann"})
		h.reaches("work", func() bool { return h.task(id).State == task.Running })
		h.surely("dismiss", func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			err := h.sup.Dismiss(ctx, runtime.DismissRequest{
				RequestID: "dismiss", Caller: "test", Workspace: h.workspace, Name: "ann", Level: task.Cancel,
			})
			if ctx.Err() != nil {
				return errdefs.New(errdefs.Unavailable, errdefs.ShuttingDown, "", "the daemon died while it waited")
			}
			return err
		})
		h.ended(id, task.Killed, task.StoppedByClient)
		h.surely("mail", func() error {
			_, err := h.write("ann", "come back")
			if errdefs.Is(err, errdefs.NotRevivable) {
				return nil
			}
			if err == nil {
				h.t.Error("it was revived")
			}
			return err
		})
	}}
}

func handshakes() map[string]handshake {
	return map[string]handshake{
		"shutdown": shutdown(), "refusal": refusal(), "approval": approval(), "dismissal": dismissal(),
	}
}

func (s handshake) house(t *testing.T, effects *tally, options ...func(*house)) *house {
	if s.tools != nil {
		options = append(options, s.tools(effects)...)
	}
	return newHouse(t, s.model, append(options, inBubble)...)
}

// proves M6, T5, D5, W3: killed right after its n-th commit, for all n, and started again, each handshake comes to the end that
// it would have come to, and nothing of it happens twice.
func TestHandshakesKilledAfterEachCommit(t *testing.T) {
	for name, play := range handshakes() {
		t.Run(name, func(t *testing.T) {
			walk(t, 5, func(t *testing.T, n int) (over bool) {
				synctest.Test(t, func(t *testing.T) {
					var effects tally
					h := play.house(t, &effects)
					h.cut.after(n)
					first := h.cut
					play.run(h, &effects)
					over = h.cut == first
				})
				return over
			})
		})
	}
}

// proves M6, T5, D5, D8: the same with every n-th commit failing, and the one behind it.
func TestHandshakesWithFaults(t *testing.T) {
	for name, play := range handshakes() {
		t.Run(name, func(t *testing.T) {
			walkFaults(t, 5, func(t *testing.T, plan storetest.Plan) (failed bool) {
				synctest.Test(t, func(t *testing.T) {
					var effects tally
					var faulty *storetest.Faulty
					h := play.house(t, &effects, failsBy(plan, &faulty))
					play.run(h, &effects)
					failed = h.healed(faulty)
				})
				return failed
			})
		})
	}
}
