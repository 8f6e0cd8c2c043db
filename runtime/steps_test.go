package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/store"
)

// bubble runs a test with a house in a bubble.
func bubble(t *testing.T, m modelFunc, test func(h *house), options ...func(*house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { inside(t, m, test, options...) })
}

// inside is bubble for a test that is in one, because its channels must be.
func inside(t *testing.T, m modelFunc, test func(h *house), options ...func(*house)) {
	t.Helper()
	test(newHouse(t, m, append(options, inBubble)...))
}

// steps caps a turn.
func steps(n int) func(*task.Assignment) {
	return func(a *task.Assignment) { a.Budget.MaxSteps = n }
}

// proves R5: the last step of a turn is a call without tools, whose text is the summary.
func TestMaxStepsWrapsUp(t *testing.T) {
	var tools []int
	bubble(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		tools = append(tools, len(req.Tools))
		return forever(ctx, req, sink)
	}, func(h *house) {
		id := h.spawn("x", steps(4))
		r := h.ended(id, task.Failed, task.MaxSteps)
		if r.Summary != "wrapped up" || r.Usage.Steps != 4 || r.Usage.ToolCalls != 3 || r.Error != "the 4 steps of this turn are used up" {
			h.t.Errorf("result: %+v", r)
		}
		if len(tools) != 4 || tools[2] == 0 || tools[3] != 0 {
			h.t.Errorf("tools given: %v", tools)
		}
	})
}

// proves R4
// case SAF-5: a budget is checked before the next call, and near its end one call without tools is left.
func TestBudgetOfStepsAndTokens(t *testing.T) {
	for limit, b := range map[string]task.Budget{"4 model calls": {Steps: 4}, "75 tokens": {Tokens: 75}} { // 15 tokens a step
		bubble(t, forever, func(h *house) {
			r := h.ended(h.spawn("x", func(a *task.Assignment) { a.Budget = b }), task.Failed, task.BudgetExceeded)
			if r.Summary != "wrapped up" || r.Usage.Steps > 5 || r.Usage.Tokens() > 75 ||
				r.Error != "the budget of sub-1 is used up: "+limit {
				h.t.Errorf("%+v: %+v", b, r)
			}
		})
	}
}

// proves R4: a call of the task's own that goes beyond its budget is the overshoot; there is no other one.
func TestNoSecondCallBeyondTheBudget(t *testing.T) {
	bubble(t, forever, func(h *house) {
		r := h.ended(h.spawn("x", within(task.Budget{Tokens: 14})), task.Failed, task.BudgetExceeded)
		if r.Usage.Steps != 1 || r.Error != "the budget of sub-1 is used up: 14 tokens" {
			h.t.Errorf("result: %+v", r)
		}
	})
}

// proves R4
// case SAF-5: children spend their parents' budget, and stop at it themselves; each that runs overshoots by one call, in
// which it reports, and what has not begun makes none.
func TestChildrenSpendTheBudgetOfThoseAbove(t *testing.T) {
	for _, b := range []task.Budget{{Steps: 6}, {Tokens: 6 * 15}, {Cost: 6 * 20_000}} {
		childrenSpend(t, b)
	}
}

func childrenSpend(t *testing.T, b task.Budget) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		top := func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			if len(req.Tools) == 0 {
				return text("top wrapped up"), nil
			}
			return call("gate", "{}"), nil
		}
		inside(t, cast(map[string]modelFunc{"top": top, "child": forever}), func(h *house) {
			top := h.spawn("top", within(b))
			<-g.entered
			child := h.spawn("child", func(a *task.Assignment) { a.Parent = top })
			r := h.ended(child, task.Failed, task.BudgetExceeded)
			if r.Summary != "wrapped up" {
				h.t.Errorf("child: %+v", r)
			}
			for h.task(top).Usage.Steps < 6 { // the bound of tokens and of cost leaves room for more than a wrap-up
				h.ended(h.spawn("child", func(a *task.Assignment) { a.Parent = top }), task.Failed, task.BudgetExceeded)
			}
			spent := h.task(top).Usage.Steps
			late := h.spawn("child", func(a *task.Assignment) { a.Parent = top })
			if r := h.ended(late, task.Failed, task.BudgetExceeded); r.Usage.Steps != 0 {
				h.t.Errorf("it has not begun: %+v", r)
			}
			close(g.open)
			r = h.ended(top, task.Failed, task.BudgetExceeded)
			if r.Usage.Steps != spent+1 || r.Summary != "top wrapped up" || !strings.HasPrefix(r.Error, "the budget of sub-1 is used up: ") {
				h.t.Errorf("top: %+v", r)
			}
		}, with(g.tool("gate")), window(0))
	})
}

// proves R4: the wall time has its wrap-up too.
func TestWallTimeWrapsUp(t *testing.T) {
	slow := prop{name: "slow", run: func(context.Context, tool.Call) (tool.Answer, error) {
		time.Sleep(11 * time.Minute)
		return tool.Answer{Text: "slept"}, nil
	}}
	bubble(t, func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		if len(req.Tools) == 0 {
			return text("wrapped up"), nil
		}
		return call("slow", `{"n":`+itoa(len(req.Messages))+`}`), nil
	}, func(h *house) {
		id := h.spawn("x", func(a *task.Assignment) { a.Budget.WallTime = time.Hour })
		if r := h.ended(id, task.Failed, task.Timeout); r.Summary != "wrapped up" || r.WallTime >= time.Hour {
			h.t.Errorf("result: %+v", r)
		}
	}, with(slow))
}

// The fifth identical call in a row is told so instead of run, and the sixth ends the task.
func TestNoProgress(t *testing.T) {
	bubble(t, stubborn, func(h *house) {
		id := h.spawn("x")
		r := h.ended(id, task.Failed, task.NoProgress)
		if r.Usage.Steps != 6 || !strings.Contains(r.Error, "6 times") {
			h.t.Errorf("result: %+v", r)
		}
		told := 0
		for _, e := range h.entries(id) {
			if res, ok := e.Body.(*task.ToolResult); ok && strings.Contains(res.Text, string(tool.Repeated)) {
				told++
			}
		}
		if told != 1 {
			h.t.Errorf("it was told %d times", told)
		}
	})
}

// Forty identical calls in one answer are no reason to end: the model was never told.
func TestManyCallsAtOnce(t *testing.T) {
	same := func(int) string { return `{"path":"."}` }
	bubble(t, play(calls(40, "ls", same), text("I see")), func(h *house) {
		id := h.spawn("x")
		h.ended(id, task.Completed, task.Done)
		results := h.results(id)
		if len(results) != 32 {
			h.t.Errorf("%d calls were taken", len(results))
		}
		if !strings.Contains(results["c00000005"].Text, "REPEATED") || results["c00000004"].IsError {
			h.t.Errorf("the fifth: %+v", results["c00000005"])
		}
	})
}

// What the model gets wrong is an answer that it can correct.
func TestModelsMistakesAreAnswered(t *testing.T) {
	bubble(t, play(call(
		"ls", `{"path":`, "ls", `[]`, "ls", `{"where":"."}`, "nosuch", `{}`, "no.such tool!", `{}`, "", ``,
		"read", `{"path":"/etc/passwd"}`, strings.Repeat("n", 100), `{}`,
	), text("corrected")), func(h *house) {
		id := h.spawn("x")
		h.ended(id, task.Completed, task.Done)
		for i, reason := range []tool.Reason{
			tool.InvalidArguments, tool.InvalidArguments, tool.InvalidArguments, tool.UnknownTool, tool.UnknownTool,
			tool.UnknownTool, tool.NotGranted, tool.UnknownTool,
		} {
			r := h.results(id)[fmt.Sprintf("c%08d", i+1)]
			if !r.IsError || !strings.Contains(r.Text, string(reason)) || len(r.Tool) == 0 || len(r.Tool) > 64 {
				h.t.Errorf("call %d: %+v, not %s", i, r, reason)
			}
		}
	})
}

// Calls that only read run at once; the others one after the other, each in its place.
func TestReadersInParallelOthersInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var came tally
		all := make(chan struct{})
		var mu sync.Mutex
		var order []string
		meet := prop{name: "meet", readOnly: true, run: func(context.Context, tool.Call) (tool.Answer, error) {
			if came.add("") == 3 {
				close(all)
			}
			<-all // opens only if all three are here at once
			return tool.Answer{Text: "met"}, nil
		}}
		write := prop{name: "write1", run: func(_ context.Context, c tool.Call) (tool.Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, string(c.Arguments))
			return tool.Answer{Text: "written"}, nil
		}}
		inside(t, play(call("write1", `{"n":1}`, "meet", `{"n":1}`, "meet", `{"n":2}`, "meet", `{"n":3}`, "write1", `{"n":2}`,
			"write1", `{"n":3}`), text("done")), func(h *house) {
			h.ended(h.spawn("x"), task.Completed, task.Done)
			if got := strings.Join(order, " "); got != `{"n":1} {"n":2} {"n":3}` {
				h.t.Errorf("order: %s", got)
			}
		}, with(meet, write))
	})
}

func TestEmptyFinalTextHasNoSummary(t *testing.T) {
	bubble(t, play(text("")), func(h *house) {
		if r := h.ended(h.spawn("x"), task.Completed, task.Done); r.Summary != task.NoSummary {
			h.t.Errorf("summary: %q", r.Summary)
		}
	})
}

// proves R1: an accepted report ends the turn, when the calls beside it are answered.
func TestReportEndsTheTurn(t *testing.T) {
	bubble(t, play(call("report", `{"summary":""}`), call("report", `{"summary":"the answer"}`, "ls", `{"path":"."}`)),
		func(h *house) {
			id := h.spawn("x")
			if r := h.ended(id, task.Completed, task.Done); r.Summary != "the answer" || r.Usage.Steps != 2 {
				h.t.Errorf("result: %+v", r)
			}
			h.results(id)
		})
}

// An answer beyond every bound is a model's error, and not a fault of the store.
func TestHugeAnswers(t *testing.T) {
	for _, huge := range []model.Response{
		text(strings.Repeat("x", 1<<20)), call("ls", `{"path":"`+strings.Repeat("x", 1<<20)+`"}`),
	} {
		bubble(t, play(huge), func(h *house) { h.ended(h.spawn("x"), task.Failed, task.ModelError) })
	}
	long := text("kept")
	long.Reasoning = strings.Repeat("r", 1<<20)
	bubble(t, play(long), func(h *house) {
		if r := h.ended(h.spawn("x"), task.Completed, task.Done); r.Summary != "kept" {
			h.t.Errorf("summary: %q", r.Summary)
		}
	})
}

// proves O4: what an answer leaves out is to be read, in the next step and after a restart.
func TestTruncatedOutputIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flood := prop{name: "flood", run: func(context.Context, tool.Call) (tool.Answer, error) {
			var b strings.Builder
			for i := range 20_000 {
				fmt.Fprintf(&b, "line %d\n", i)
			}
			return tool.Answer{Text: b.String()}, nil
		}}
		g := newGate()
		inside(t, play(call("flood", "{}"), call("gate", "{}"), call("read", `{"path":"@output/c00000001","offset":10001,"limit":1}`),
			text("done")), func(h *house) {
			id := h.spawn("x")
			<-g.entered
			h.cut.cut()
			h.restart()
			h.ended(id, task.Completed, task.Done)
			results := h.results(id)
			if r := results["c00000001"]; !r.Truncated || len(r.Text) > tool.MaxAnswer {
				h.t.Errorf("truncated %v, %d bytes", r.Truncated, len(r.Text))
			}
			if r := results["c00000003"]; !strings.Contains(r.Text, "line 10000") {
				h.t.Errorf("read: %+v", r)
			}
		}, with(flood, g.tool("gate")))
	})
}

// proves P4: a tool that exists and is not granted is neither shown nor unknown.
func TestUngrantedToolIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		extra := prop{name: "extra", run: func(context.Context, tool.Call) (tool.Answer, error) {
			return tool.Answer{Text: "ran"}, errors.New("it must not run")
		}}
		var shown []string
		g := newGate()
		h := func(h *house) {
			id := h.spawn("x")
			<-g.entered
			h.tools = append(h.tools, extra) // the next daemon has a tool more; the grant of the task has not
			h.cut.cut()
			h.restart()
			h.ended(id, task.Completed, task.Done)
			if r := h.results(id)["c00000002"]; !strings.Contains(r.Text, string(tool.NotGranted)) {
				h.t.Errorf("answer: %+v", r)
			}
			if slices.Contains(shown, "extra") || !slices.Contains(shown, "ls") {
				h.t.Errorf("shown: %v", shown)
			}
		}
		script := play(call("gate", "{}"), call("extra", "{}"), text("done"))
		inside(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			shown = nil
			for _, spec := range req.Tools {
				shown = append(shown, spec.Name)
			}
			return script(ctx, req, sink)
		}, h, with(g.tool("gate")))
	})
}

// countedStore counts reads.
type countedStore struct {
	store.Store
	reads tally
}

func (c *countedStore) Get(ctx context.Context, p store.Partition, key string) (store.Record, error) {
	c.reads.add("reads")
	return c.Store.Get(ctx, p, key)
}

func (c *countedStore) Read(
	ctx context.Context, p store.Partition, log string, after store.Pos,
) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range c.Store.Read(ctx, p, log, after) {
			c.reads.add("reads")
			if !yield(e, err) {
				return
			}
		}
	}
}

// A step reads no more at the end of a long history than at its start.
func TestStepCostDoesNotGrow(t *testing.T) {
	counted := &countedStore{}
	at := map[int]int{}
	bubble(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		at[len(req.Messages)/2] = counted.reads.get("reads")
		return forever(ctx, req, sink)
	}, func(h *house) {
		id := h.spawn("x", steps(100))
		synctest.Wait() // nobody else reads meanwhile
		h.ended(id, task.Failed, task.MaxSteps)
		if early, late := at[11]-at[10], at[91]-at[90]; early == 0 || late > early {
			h.t.Errorf("step 10 read %d rows, step 90 %d", early, late)
		}
	}, func(h *house) {
		h.wrap = func(st store.Store) store.Store { counted.Store = st; return counted }
	})
}
