package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/storetest"
)

// troop is a small group, whose agents have effects that must not happen twice.
type troop struct {
	name  string
	spawn func(*task.Assignment)
	tasks int
	least int64 // commits that a run takes
}

func troops() []troop {
	return []troop{
		{"parallel", func(a *task.Assignment) { parallel("item a", "item b", "item c")(a); atOnce(2)(a) }, 3, 12},
		{"chain", chain("item a", "item b after {previous}", "item c after {previous}"), 3, 12},
	}
}

// item has an effect of its own, asked for anew as long as its outcome is unknown, and then reports what it was told.
func item(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	if !strings.Contains(answers(req), "effect done") {
		return call("effect", fmt.Sprintf(`{"task":%q,"n":%d}`, idOf(req), len(req.Messages))), nil
	}
	return text("(" + req.Messages[1].Text + ")"), nil
}

// check says what a troop that has ended must look like, whatever happened on the way.
func (tr troop) check(h *house, id task.ID, effects *tally) {
	h.t.Helper()
	r := h.ended(id, task.Completed, task.Done)
	ids := h.children(id)
	if len(ids) != tr.tasks || fmt.Sprint(r.Children) != fmt.Sprint(ids) {
		h.t.Errorf("the group has %v, and tells of %v", ids, r.Children)
	}
	for _, child := range ids {
		h.ended(child, task.Completed, task.Done)
		h.results(child)
	}
	for key, times := range effects.n {
		if times > 1 {
			h.t.Errorf("call %s had its effect %d times", key, times)
		}
	}
	h.toldOnce(id)
	inTurn(h.t, r.Summary, "(item a)", "(item b", "(item c")
	if last := h.task(ids[2]); tr.name == "chain" {
		if got := h.inputs(last.ID); len(got) != 1 || got[0] != "item c after (item b after (item a))" {
			h.t.Errorf("the last step was told %q", got)
		}
	}
}

// proves D2, D4, S1
// case STA-2: killed right after its n-th commit, for all n, and started again, a group ends as it would have. None of its
// agents is made or runs to its end twice, and none is forgotten.
func TestGroupKilledAfterEachCommit(t *testing.T) {
	for _, tr := range troops() {
		t.Run(tr.name, func(t *testing.T) {
			walk(t, tr.least, func(t *testing.T, n int) (over bool) {
				var effects tally
				bubble(t, item, func(h *house) {
					id := h.spawn("", tr.spawn)
					h.cut.after(n)
					over = h.endedOrDead(id)
					h.restart()
					tr.check(h, id, &effects)
				}, with(effect("effect", &effects)))
				return over
			})
		})
	}
}

// proves D4, T2
// case STP-3: killed right after the n-th commit of a stop, for all n, and started again, the group and all of its agents
// end as the stop wants it; those that were queued never start.
func TestGroupKilledWhileItStops(t *testing.T) {
	walk(t, 5, func(t *testing.T, n int) (over bool) {
		bubble(t, hang, func(h *house) {
			id := h.spawn("", parallel("a", "b", "c"), atOnce(2))
			synctest.Wait()
			ids := h.children(id)
			h.cut.after(n)
			go func() { _ = h.stopTask(id, task.Cancel) }()
			over = h.endedOrDead(id)
			h.restart()
			h.ended(id, task.Killed, task.StoppedByClient)
			for _, child := range ids {
				h.ended(child, task.Killed, task.ParentEnded)
			}
			if got := h.states(ids[2]); got != "QUEUED KILLED" {
				h.t.Errorf("the queued one: %s", got)
			}
			h.counts(0, 0)
		})
		return over
	})
}

// proves D8, N7: with the n-th commit of a group failing, for all n and all ways to fail, it ends as it would have.
func TestEveryCommitOfAGroupFails(t *testing.T) {
	for _, tr := range troops() {
		t.Run(tr.name, func(t *testing.T) { walkFaults(t, tr.least, tr.runWithFault) })
	}
}

// runWithFault tells whether a commit failed.
func (tr troop) runWithFault(t *testing.T, plan storetest.Plan) (failed bool) {
	var faulty *storetest.Faulty
	var effects tally
	bubble(t, item, func(h *house) {
		var id task.ID
		client{h}.insist("spawn", func() (err error) {
			a := task.Assignment{RequestID: "1", Caller: "test", From: "user", Workspace: h.workspace}
			tr.spawn(&a)
			id, err = h.sup.Spawn(context.Background(), a)
			return err
		})
		tr.check(h, id, &effects)
		failed = h.healed(faulty)
	}, with(effect("effect", &effects)), failsBy(plan, &faulty))
	return failed
}

// proves D4, R7: after a restart those that ran go on, and no more of the queued ones start than there is room for.
func TestRestartKeepsAGroupBounded(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{"short": play(text("done")), "long": hang}), func(h *house) {
		id := h.spawn("", parallel("long", "short", "long", "long", "long"), atOnce(2))
		ids := h.children(id)
		for range 3 {
			synctest.Wait()
			if got := h.task(id).Activity; got != "1 of 5 done, 2 running, 2 queued" {
				h.t.Errorf("it does: %q", got)
			}
			for i, state := range []task.State{task.Running, task.Completed, task.Running, task.Queued, task.Queued} {
				if got := h.task(ids[i]).State; got != state {
					h.t.Errorf("%s is %s", ids[i], got)
				}
			}
			h.restart()
		}
	})
}

// proves D4, D6: however often the daemon goes down, a group is not to blame, and goes on with what is left.
func TestGroupIsNotBlamedForCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		g := newGate()
		inside(t, cast(map[string]modelFunc{
			"bad": poison(&calls), "next": play(text("done")),
			"good": func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
				return call("gate", `{"n":`+itoa(len(req.Messages))+`}`), nil
			},
		}), func(h *house) {
			id := h.spawn("", parallel("bad", "next"), atOnce(1))
			other := h.spawn("", parallel("good"))
			for range 3 {
				<-g.entered
				synctest.Wait()
				h.restart()
			}
			time.Sleep(time.Second) // its backoff
			synctest.Wait()
			if n := calls.get("calls"); n != 4 {
				t.Fatalf("the suspect was called %d times", n)
			}
			if s := h.task(id).State; s != task.Running {
				t.Errorf("the group is %s", s)
			}
			h.restart()
			h.ended(id, task.Failed, task.CrashLoop)
			ids := h.children(id)
			h.ended(ids[0], task.Failed, task.CrashLoop)
			h.ended(ids[1], task.Completed, task.Done)
			h.toldOnce(id)
			if s := h.task(other).State; s != task.Running {
				t.Errorf("the other group is %s", s)
			}
			if h.states(id) != "QUEUED RUNNING FAILED" {
				t.Errorf("states: %s", h.states(id))
			}
		}, with(g.tool("gate")))
	})
}

// proves D7: a damaged record of one of its agents fails that one, not the rest.
func TestGroupWithALostAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		bent := &tap{}
		inside(t, play(call("gate", "{}"), text("done")), func(h *house) {
			id := h.spawn("", parallel("a", "b"), atOnce(1))
			<-g.entered
			ids := h.children(id)
			h.kill()
			bent.spoil("task/" + string(ids[0]))
			h.start()
			<-g.entered
			if got := h.task(id).Activity; got != "0 of 2 done, 1 failed, 1 running" {
				t.Errorf("it does: %q", got)
			}
			close(g.open)
			r := h.ended(id, task.Failed, task.Interrupted)
			inTurn(t, r.Summary, string(ids[0])+" FAILED", "damaged", string(ids[1])+" COMPLETED")
			h.ended(ids[1], task.Completed, task.Done)
		}, with(g.tool("gate")), tapped(bent))
	})
}

// proves D7: so does a record that has vanished, as after a salvage.
func TestGroupWithAVanishedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, play(call("gate", "{}"), text("done")), func(h *house) {
			id := h.spawn("", parallel("a", "b"), atOnce(1))
			<-g.entered
			_, err := h.cut.Store.Commit(context.Background(), store.Batch{
				Part: store.Partition(h.task(id).Team),
				Ops:  []store.Op{{Kind: store.Delete, Name: "task/" + string(h.children(id)[1])}},
			})
			h.must(err)
			if got := h.task(id).Activity; got != "0 of 2 done, 1 failed, 1 running" {
				t.Errorf("it does: %q", got)
			}
			close(g.open)
			r := h.ended(id, task.Failed, task.Interrupted)
			inTurn(t, r.Summary, "COMPLETED", "FAILED", "damaged")
		}, with(g.tool("gate")))
	})
}

// proves S1, S3: a group of which nobody knows any more what it was to run ends, and is to be seen.
func TestGroupWhoseSpecificationIsLost(t *testing.T) {
	bent := &tap{}
	bubble(t, hang, func(h *house) {
		id := h.spawn("", parallel("a"))
		synctest.Wait()
		h.kill()
		bent.spoil("spec/" + string(id))
		h.start()
		r := h.ended(id, task.Failed, task.CrashLoop)
		if r.Summary != task.NoSummary {
			h.t.Errorf("result: %+v", r)
		}
		h.ended(h.children(id)[0], task.Killed, task.ParentEnded)
	}, tapped(bent))
}
