package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// warnings counts how often a task was told that its end ends its children.
func (h *house) warnings(id task.ID) (n int) {
	h.t.Helper()
	for _, e := range h.entries(id) {
		if notice, ok := e.Body.(*task.Notice); ok && strings.Contains(notice.Text, "still run: ") {
			n++
		}
	}
	return n
}

// An agent is warned once that its end stops its children, and again when it has started more since.
func TestWarnedOfEachBatchOfChildren(t *testing.T) {
	again := call("subagent", `{"task":"hang two","background":true}`)
	for want, answers := range map[int][]model.Response{
		1: {text("done"), call("ls", `{"path":"."}`), text("done")},
		2: {text("done"), again, text("done"), call("ls", `{"path":"."}`), text("done")},
	} {
		bubble(t, cast(map[string]modelFunc{
			"lead": play(append([]model.Response{call("subagent", `{"task":"hang one","background":true}`)}, answers...)...),
			"hang": hang,
		}), func(h *house) {
			lead := h.spawn("lead")
			h.ended(lead, task.Completed, task.Done)
			if got := h.warnings(lead); got != want {
				h.t.Errorf("it was warned %d times, not %d", got, want)
			}
			for _, child := range h.children(lead) {
				h.ended(child, task.Killed, task.ParentEnded)
			}
		})
	}
}

// A conclusion stands although it comes so near a limit that nothing could be done about the children any more.
func TestNoWarningNearALimit(t *testing.T) {
	for name, budget := range map[string]task.Budget{
		"steps of the turn": {MaxSteps: 3}, "steps": {Steps: 3}, "tokens": {Tokens: 59},
	} {
		bubble(t, cast(map[string]modelFunc{
			"lead": play(call("subagent", `{"task":"hang","background":true}`), text("done")), "hang": hang,
		}), func(h *house) {
			lead := h.spawn("lead", func(a *task.Assignment) { a.Budget = budget })
			if r := h.ended(lead, task.Completed, task.Done); r.Summary != "done" || h.warnings(lead) != 0 {
				h.t.Errorf("%s: %q, warned %d times", name, r.Summary, h.warnings(lead))
			}
		})
	}
}

// To wait again and again for a task that takes its time is progress.
func TestPatientWait(t *testing.T) {
	const waits = 8
	answers := []model.Response{call("subagent", `{"task":"slow","background":true}`)}
	for range waits {
		answers = append(answers, call("task_output", `{"task_id":"sub-2","block":true}`))
	}
	bubble(t, cast(map[string]modelFunc{
		"lead": play(append(answers, text("it is over"))...),
		"slow": func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
			time.Sleep((waits - 1) * time.Minute)
			return text("at last"), nil
		},
	}), func(h *house) {
		lead := h.spawn("lead")
		h.ended(lead, task.Completed, task.Done)
		if got := h.told(lead, waits+1); got.Summary != "at last" {
			h.t.Errorf("told %+v", got)
		}
	})
}

// To wait again and again for what has ended is none.
func TestVainWait(t *testing.T) {
	again := call("task_output", `{"task_id":"sub-2","block":true}`)
	bubble(t, cast(map[string]modelFunc{
		"lead":  play(call("subagent", `{"task":"child"}`), again, again, again, again, again, again, again),
		"child": play(text("done")),
	}), func(h *house) {
		if r := h.ended(h.spawn("lead"), task.Failed, task.NoProgress); r.Usage.Steps != 7+1 {
			h.t.Errorf("it ended after %d steps, with the child's one", r.Usage.Steps)
		}
	})
}

// proves R9: the end of a task that an earlier call only asked about is mail to a later wait.
func TestEndThatWasAskedAboutEndsALaterWait(t *testing.T) {
	takes := func(d time.Duration) modelFunc {
		return func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
			time.Sleep(d)
			return text("done"), nil
		}
	}
	bubble(t, cast(map[string]modelFunc{
		"lead": play(call("subagent", `{"task":"short","background":true}`), call("task_output", `{"task_id":"sub-2","wait":true}`),
			call("subagent", `{"task":"long"}`), call("task_output", `{"task_id":"sub-3","block":true}`), text("bye")),
		"short": takes(time.Second), "long": takes(time.Minute),
	}), func(h *house) {
		lead := h.spawn("lead")
		h.ended(lead, task.Completed, task.Done)
		if got := h.told(lead, 3); got.Status != "running" {
			h.t.Errorf("told %+v", got)
		}
		h.wantToldOnce(lead, 2)
	})
}

// proves S3: a fault of the daemon while an agent waits is the answer of that call; the agent runs on, in a slot.
func TestPanicInAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var armed atomic.Bool
		bent := &tap{get: func(key string) {
			if key == "mailbox/sub-1" && armed.CompareAndSwap(true, false) {
				panic("in the wait")
			}
		}}
		g := newGate()
		inside(t, cast(map[string]modelFunc{
			"lead":  play(call("subagent", `{"task":"child"}`), text("bye")),
			"child": play(call("gate", "{}"), call("nap", "{}"), text("done")),
		}), func(h *house) {
			lead := h.spawn("lead")
			<-g.entered
			synctest.Wait()
			armed.Store(true)
			close(g.open)
			h.ended(lead, task.Completed, task.Done)
			if got := h.states(lead); got != "QUEUED RUNNING WAITING RUNNING COMPLETED" {
				h.t.Errorf("states: %s", got)
			}
			h.wantToldOnce(lead, 1)
			row, err := h.journal.Task(t.Context(), lead)
			h.must(err)
			if row.Value.Start != 1 {
				h.t.Errorf("it was started %d times", row.Value.Start)
			}
		}, slots(1), tapped(bent), with(g.tool("gate"), nap()))
	})
}

// case OUT-5: a child whose record is damaged keeps nobody from a summary.
func TestSummaryBesideADamagedChild(t *testing.T) {
	damaged := &tap{}
	bubble(t, cast(map[string]modelFunc{
		"parent": func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			switch n := len(req.Messages); {
			case asksForSummary(req):
				damaged.spoil("task/sub-2")
				return text("the sum"), nil
			case strings.Contains(req.Messages[1].Text, "the sum"):
				return text("done"), nil
			case n == 2:
				return call("subagent", `{"task":"nap","background":true}`), nil
			}
			return reads(9000, call("nap", "{}")), nil
		},
		"nap": play(call("nap", "{}"), call("nap", `{"n":2}`), call("nap", `{"n":3}`)),
	}), func(h *house) {
		parent := h.spawn("parent")
		h.ended(parent, task.Completed, task.Done)
		if all := h.summaries(parent); len(all) != 1 || all[0].Summary != "the sum" {
			h.t.Errorf("summaries: %+v", all)
		}
		damaged.spoil()
	}, window(10_000), tapped(damaged), with(nap()))
}

// proves T2: a child that can't be stopped keeps the stop from none of the others.
func TestCascadeGoesRoundAStubbornChild(t *testing.T) {
	var stubborn atomic.Bool
	bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
		if stubborn.Load() && touches(b, "task/sub-2") {
			return store.Committed{}, errdefs.New(errdefs.InvalidArgument, errdefs.TooLarge, "task/sub-2", "too large (made to fail)")
		}
		return commit()
	}}
	bubble(t, cast(map[string]modelFunc{
		"lead": play(calls(3, "subagent", func(i int) string { return fmt.Sprintf(`{"task":"hang %d","background":true}`, i) }),
			call("nap", "{}"), text("done"), text("done")),
		"hang": hang,
	}), func(h *house) {
		lead := h.spawn("lead")
		synctest.Wait() // until it naps
		stubborn.Store(true)
		h.ended(lead, task.Completed, task.Done)
		h.ended("sub-3", task.Killed, task.ParentEnded)
		h.ended("sub-4", task.Killed, task.ParentEnded)
		stubborn.Store(false)
		h.must(h.stopTask("sub-2", task.Kill))
	}, tapped(bent), with(nap()))
}
