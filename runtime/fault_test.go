package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/storetest"
)

// proves D8, N7: with the n-th commit of a whole run failing, for all n and all ways to fail, nothing hangs and nobody
// is told a lie. The client repeats what it was not told to be done, under the same request id.
func TestEveryCommitFails(t *testing.T) {
	walkFaults(t, 30, func(t *testing.T, plan storetest.Plan) (failed bool) {
		synctest.Test(t, func(t *testing.T) { failed = runWithFault(t, plan) })
		return failed
	})
}

// runWithFault tells whether a commit failed.
func runWithFault(t *testing.T, plan storetest.Plan) bool {
	var faulty *storetest.Faulty
	var effects tally
	work, idle := newGate(), newGate()
	h := newHouse(t, cast(map[string]modelFunc{
		"worker": worker, "child": idler, "idler": idler,
	}), inBubble, with(effect("effect", &effects), work.tool("work"), idle.tool("idle")), failsBy(plan, &faulty))
	c := client{h}
	worker := c.spawn("1", "worker", "")
	idler := c.spawn("2", "idler", "")
	child := c.spawn("3", "child", idler)
	<-work.entered
	orphan := c.spawn("5", "child", worker)
	c.send(worker, "steered")
	for range 3 {
		<-idle.entered
	}
	close(work.open)
	c.stop(idler, task.Cancel)
	after := c.spawn("4", "worker", "")

	h.ended(worker, task.Completed, task.Done)
	h.ended(after, task.Completed, task.Done)
	h.ended(idler, task.Killed, task.StoppedByClient)
	h.ended(child, task.Killed, task.ParentEnded)
	h.ended(orphan, task.Killed, task.ParentEnded)
	for _, id := range []task.ID{worker, idler, child, orphan, after} {
		h.results(id)
	}
	if got := strings.Join(h.inputs(worker), ","); got != "worker,steered" {
		t.Errorf("inputs: %s", got)
	}
	for key, times := range effects.n {
		if times > 1 {
			t.Errorf("call %s had its effect %d times", key, times)
		}
	}
	steps, answered := 0, len(h.results(after))
	for _, e := range h.entries(after) {
		if _, ok := e.Body.(*task.Assistant); ok {
			steps++
		}
	}
	if used := h.task(after).Usage; used.Steps != int64(steps) || used.Turns != 1 || used.ToolCalls != int64(answered) {
		t.Errorf("usage: %+v; the transcript has %d steps and %d answers", used, steps, answered)
	}
	return h.healed(faulty)
}

// worker and idler ask anew for a call whose outcome is unknown: a fault may have come between its start and its effect.
func worker(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	n, seen := itoa(len(req.Messages)), answers(req)
	mine := `"task":"` + idOf(req) + `"`
	switch {
	case !strings.Contains(seen, "through"):
		return call("work", `{"n":`+n+`}`), nil
	case strings.Count(seen, "effect done") < 2:
		return call("effect", `{`+mine+`,"n":`+n+`}`, "ls", `{"path":"."}`, "effect", `{`+mine+`,"m":`+n+`}`), nil
	}
	return call("report", `{"summary":"worked"}`), nil
}

func idler(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	return call("idle", `{"n":`+itoa(len(req.Messages))+`}`), nil
}

// answers are all answers of tools in a history.
func answers(req model.Request) string {
	var all strings.Builder
	for _, m := range req.Messages {
		if m.Role == model.ToolAnswer {
			all.WriteString(m.Text + "\n")
		}
	}
	return all.String()
}

// client repeats each call until it is told that it is done.
type client struct{ h *house }

func (c client) insist(what string, call func() error) {
	c.h.t.Helper()
	for range 1000 {
		err := call()
		if err == nil {
			return
		}
		if errdefs.KindOf(err) != errdefs.Unavailable {
			c.h.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond) // in the bubble
	}
	c.h.t.Fatalf("%s: the store does not come back", what)
}

func (c client) spawn(request, prompt string, parent task.ID) (id task.ID) {
	c.h.t.Helper()
	c.insist("spawn", func() (err error) {
		id, err = c.h.sup.Spawn(context.Background(), task.Assignment{
			RequestID: request, Caller: "test", From: "user", Workspace: c.h.workspace, AgentSpec: task.AgentSpec{Prompt: prompt}, Parent: parent,
		})
		return err
	})
	return id
}

func (c client) send(to task.ID, words string) {
	c.h.t.Helper()
	c.insist("send", func() error {
		req := sendTo(to, words)
		req.RequestID = "send"
		_, err := c.h.sup.Send(context.Background(), req)
		return err
	})
}

func (c client) stop(id task.ID, level task.StopLevel) {
	c.h.t.Helper()
	c.insist("stop", func() error {
		req := runtime.StopRequest{RequestID: "stop", Caller: "test", TaskID: id, Level: level}
		return c.h.sup.Stop(context.Background(), req, func(runtime.StopProgress) error { return nil })
	})
}

// proves D8: however many commits fail at once, the store is taken up once.
func TestManyUnknownCommitsAreTakenUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20
		all := make(chan bool)
		var came tally
		bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			if !touches(b, "created") {
				return commit()
			}
			if came.add("spawns") == many {
				close(all)
			}
			<-all
			_, _ = commit()
			return store.Committed{}, unknown()
		}}
		h := newHouse(t, play(text("done")), inBubble, tapped(bent), slots(many))
		before := bent.scans.get("live")
		for range many {
			go func() {
				_, err := h.sup.Spawn(context.Background(), task.Assignment{From: "user", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}})
				if !errdefs.Is(err, errdefs.OutcomeUnknown) {
					t.Errorf("spawn: %v", err)
				}
			}()
		}
		time.Sleep(time.Minute)
		if n := bent.scans.get("live") - before; n != 1 {
			t.Errorf("%d scans for what lives", n)
		}
		for n := range many {
			h.ended(task.ID(fmt.Sprintf("sub-%d", n+1)), task.Completed, task.Done)
		}
	})
}

// proves D8: while the store is stalled, writes are refused with the reason, and tasks keep their state.
func TestStalledStoreRefusesAndKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var faulty *storetest.Faulty
		g := newGate()
		h := newHouse(t, play(call("gate", "{}"), text("done")), inBubble, with(g.tool("gate")), func(h *house) {
			h.wrap = func(st store.Store) store.Store {
				faulty = storetest.Wrap(st, storetest.Plan{})
				return faulty
			}
		})
		id := h.spawn("work")
		<-g.entered
		faulty.Stall()
		for what, err := range map[string]error{
			"send": h.send(id, "x"),
			"spawn": func() error {
				_, err := h.sup.Spawn(context.Background(), task.Assignment{From: "user", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}})
				return err
			}(),
		} {
			if !errdefs.Is(err, errdefs.StoreStalled) || errdefs.KindOf(err) != errdefs.Unavailable {
				t.Errorf("%s while stalled: %v", what, err)
			}
		}
		close(g.open)
		time.Sleep(time.Hour)
		if s := h.states(id); s != "QUEUED RUNNING" {
			t.Errorf("it claims %s", s)
		}
		faulty.Heal()
		h.ended(id, task.Completed, task.Done)
	})
}

// proves D8: a daemon that stops while the store is stalled neither hangs nor lies.
func TestStopWhileStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, play(call("ls", `{"path":"."}`), text("done")), inBubble)
		h.cut.after(4)
		id := h.spawn("work")
		<-h.cut.dead
		h.restart()
		h.ended(id, task.Completed, task.Done)
		if err := h.send(id, "late"); !errdefs.Is(err, errdefs.TaskEnded) || errors.Is(err, context.Canceled) {
			t.Errorf("mail to what has ended: %v", err)
		}
	})
}

// proves D8: a recovery that the store stalls lets clients read what there is, refuses what would change it, and goes on
// once there is room.
func TestRecoveryThatIsStalledCanBeSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, hang, inBubble)
		id := h.spawn("work")
		synctest.Wait()
		h.kill()
		var faulty *storetest.Faulty
		h.wrap = func(st store.Store) store.Store {
			faulty = storetest.Wrap(st, storetest.Plan{From: 2, Mode: storetest.Refused}) // after the journal's own
			return faulty
		}
		h.start() // returns: it can be reached
		if s := h.task(id).State; s != task.Running {
			t.Errorf("it reads %s", s)
		}
		if h.journal.Stalled() == nil {
			t.Error("the stall is not to be seen")
		}
		_, spawn := h.sup.Spawn(context.Background(), task.Assignment{From: "user", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}})
		stop := h.sup.Stop(context.Background(), runtime.StopRequest{TaskID: id, Level: task.Kill},
			func(runtime.StopProgress) error { return nil })
		for what, err := range map[string]error{"spawn": spawn, "send": h.send(id, "x"), "stop": stop} {
			if !errdefs.Is(err, errdefs.ShuttingDown) {
				t.Errorf("%s while it recovers: %v", what, err)
			}
		}
		time.Sleep(time.Hour)
		faulty.Heal()
		c := client{h}
		c.stop(id, task.Kill)
		h.ended(id, task.Killed, task.StoppedByClient)
	})
}
