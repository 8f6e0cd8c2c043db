package runtime_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// within is the option of a spawn with a budget.
func within(b task.Budget) func(*task.Assignment) { return func(a *task.Assignment) { a.Budget = b } }

// proves R4, R5
// case SAF-5: the cost is counted in nano-dollars, and bounded like the rest.
func TestBudgetOfCost(t *testing.T) {
	const step = 10*1000 + 5*2000 // nano-dollars
	bubble(t, forever, func(h *house) {
		r := h.ended(h.spawn("x", within(task.Budget{Cost: 5 * step})), task.Failed, task.BudgetExceeded)
		if r.Summary != "wrapped up" || r.Usage.Cost > 5*step || r.Usage.Cost != r.Usage.Steps*step {
			h.t.Errorf("result: %+v", r)
		}
	}, window(0))
}

// proves R4
// case SAF-5: a call beyond the budget is answered, not run, and the agent wraps up.
func TestBudgetOfToolCalls(t *testing.T) {
	for name, tools := range map[string]string{"in parallel": "ls", "one by one": "effect"} {
		t.Run(name, func(t *testing.T) {
			var effects tally
			m := func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
				if len(req.Tools) == 0 {
					return text("wrapped up"), nil
				}
				return calls(5, tools, func(i int) string { return `{"path":".","_":` + itoa(i) + `}` }), nil
			}
			bubble(t, m, func(h *house) {
				id := h.spawn("x", within(task.Budget{ToolCalls: 3}))
				r := h.ended(id, task.Failed, task.BudgetExceeded)
				refused := 0
				for _, res := range h.results(id) {
					if res.IsError && strings.Contains(res.Text, string(tool.OverBudget)) {
						refused++
					}
				}
				if r.Summary != "wrapped up" || r.Usage.ToolCalls != 3 || r.Usage.Steps != 2 || refused != 2 {
					h.t.Errorf("%d were refused, %+v", refused, r)
				}
				if n := len(effects.n); tools == "effect" && n != 3 {
					h.t.Errorf("%d calls had their effect", n)
				}
			}, with(effect("effect", &effects)))
		})
	}
}

// proves R4
// case SAF-5: turns of children count against their parents; one that is used up lets no turn begin, and ends the one
// that has.
func TestBudgetOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var asked tally
		m := cast(map[string]modelFunc{
			"top": func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
				if len(req.Tools) == 0 {
					return text("wrapped up"), nil
				}
				return call("gate", "{}"), nil
			},
			"child": func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
				asked.add(idOf(req))
				return text("child done"), nil
			},
		})
		inside(t, m, func(h *house) {
			top := h.spawn("top", within(task.Budget{Turns: 1}))
			<-g.entered
			below := func(a *task.Assignment) { a.Parent = top }
			h.ended(h.spawn("child", below), task.Completed, task.Done)
			second := h.spawn("child", below)
			r := h.ended(second, task.Failed, task.BudgetExceeded)
			if asked.get(string(second)) != 0 || r.Error != "the budget of "+string(top)+" is used up: 1 turns" {
				h.t.Errorf("it was asked %d times, error %q", asked.get(string(second)), r.Error)
			}
			close(g.open)
			if r := h.ended(top, task.Failed, task.BudgetExceeded); r.Summary != "wrapped up" {
				h.t.Errorf("top: %+v", r)
			}
		}, with(g.tool("gate")))
	})
}

// proves R4: a bound of cost is refused where nobody can count it, below a bounded task too.
func TestCostNeedsAPrice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, play(call("gate", "{}"), text("done")), func(h *house) {
			defer close(g.open)
			spawn := func(change func(*task.Assignment)) *errdefs.Error {
				a := task.Assignment{From: "user", Caller: "test", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}}
				change(&a)
				_, err := h.sup.Spawn(context.Background(), a)
				return errdefs.As(err)
			}
			e := spawn(func(a *task.Assignment) { a.Model, a.Budget.Cost = "free", 1 })
			if e == nil || e.Field != "budget.cost_usd" || !strings.Contains(e.Message, "the model free has no price: list it under models") {
				h.t.Errorf("its own budget: %v", e)
			}
			top := h.spawn("top", within(task.Budget{Cost: task.Dollar}))
			<-g.entered
			e = spawn(func(a *task.Assignment) { a.Model, a.Parent = "free", top })
			if e == nil || e.Field != "model" || !strings.Contains(e.Message, "the cost of "+string(top)+" is bounded") {
				h.t.Errorf("its parent's budget: %v", e)
			}
			e = spawn(func(a *task.Assignment) {
				a.Group = &task.GroupSpec{Items: []task.AgentSpec{
					{Prompt: "x"}, {Prompt: "x", Model: "free", Budget: task.Budget{Cost: 1}},
				}}
			})
			if e == nil || e.Field != "items[1].budget.cost_usd" {
				h.t.Errorf("in a group: %v", e)
			}
		}, window(0), with(g.tool("gate")))
	})
}

// proves R4: when the price of a model is taken out of the configuration, a bound of cost ends the task instead of
// bounding nothing.
func TestCostWithoutItsPriceAfterARestart(t *testing.T) {
	g := newGate()
	h := newHouse(t, play(call("gate", "{}"), text("done")), inBubble, window(0), with(g.tool("gate")))
	id := h.spawn("x", within(task.Budget{Cost: task.Dollar}))
	<-g.entered
	h.cut.cut()
	close(g.open)
	h.kill()
	h.facts = nil
	h.start()
	if r := h.ended(id, task.Failed, task.BudgetExceeded); !strings.Contains(r.Error, "the model test has no price any more") {
		t.Errorf("error: %q", r.Error)
	}
}

// proves N6: a spawn is refused for what its own model lacks, and a model of one's own needs no default one.
func TestModelsAreLookedUpByName(t *testing.T) {
	bubble(t, play(text("done")), func(h *house) {
		_, err := h.sup.Spawn(context.Background(), task.Assignment{
			From: "user", Caller: "test", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"},
		})
		if e := errdefs.As(err); e == nil || e.Reason != errdefs.ModelNotConfigured || e.Kind != errdefs.FailedPrecondition ||
			e.Message != "set TEST_KEY" {
			h.t.Errorf("the default model: %v", err)
		}
		h.ended(h.spawn("x", func(a *task.Assignment) { a.Model = "other" }), task.Completed, task.Done)
	}, func(h *house) { h.facts = map[string]model.Facts{"test": {Missing: "set TEST_KEY"}} })
}
