package agent

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// bound is one bound of a budget.
type bound struct {
	unit  string // of the limit, for people
	limit int64  // 0: none
	used  int64
	ahead int64 // what the calls until the end of a wrap-up may use
	soft  bool  // a call that asks for no tools uses nothing of it
}

// forbids tells whether not even one more call fits.
func (b bound) forbids(begun bool) bool {
	return b.limit > 0 && b.used >= b.limit && (!b.soft || !begun)
}

// near tells whether the next call must be the last one.
func (b bound) near() bool { return b.limit > 0 && b.used+b.ahead >= b.limit }

// String is the limit for people.
func (b bound) String() string {
	if b.unit == dollars {
		text := strconv.FormatFloat(float64(b.limit)/task.Dollar, 'f', -1, 64)
		return text + b.unit
	}
	return fmt.Sprint(b.limit, b.unit)
}

const dollars = " dollars"

// bounds are those of a task of whose budget so much is used. One more call may use as much as the last one.
func (a *Agent) bounds(b task.Budget, used task.Usage) []bound {
	last := a.History.last
	return []bound{
		{unit: " model calls", limit: b.Steps, used: used.Steps, ahead: 1},
		{unit: " tokens", limit: b.Tokens, used: used.Tokens(), ahead: 2 * last.Tokens()},
		{unit: dollars, limit: b.Cost, used: used.Cost, ahead: 2 * a.cost(last)},
		{unit: " turns", limit: b.Turns, used: used.Turns, soft: true},
		{unit: " tool calls", limit: b.ToolCalls, used: used.ToolCalls, soft: true},
	}
}

// budgets tells whether the budget of the task, or of one above it, is nearly used up: then one more call fits. over says
// which one is used up, or is empty. It is asked before each call, so that a budget is overshot by at most one call of
// each task that runs (R4). Turns and tool calls that are used up leave the last call of a turn that has begun.
func (a *Agent) budgets(ctx context.Context) (near bool, over string, err error) {
	for _, t := range append([]task.Task{a.Task}, a.Above...) {
		used, err := a.Journal.Usage(ctx, t.Team, t.ID)
		if err != nil {
			return false, "", err
		}
		if t.Budget.Cost > 0 && a.Facts.Price == nil {
			return false, fmt.Sprintf("the cost of %s is bounded, but the model %s has no price any more",
				t.ID, a.Task.Model), nil
		}
		for _, b := range a.bounds(t.Budget, used) {
			if b.forbids(a.History.steps > 0) {
				return true, fmt.Sprintf("the budget of %s is used up: %s", t.ID, b), nil
			}
			near = near || b.near()
		}
	}
	return near, "", nil
}

// limits tells whether the agent must wrap up with its next call, and for which reason, or may not even call.
func (a *Agent) limits(t task.Task, near bool, over string) (wrapUp, end task.Reason) {
	steps, wall := a.History.steps, t.Budget.WallTime
	switch {
	case over != "":
		return 0, task.BudgetExceeded
	case steps >= t.Budget.MaxSteps:
		return 0, task.MaxSteps
	case t.Stop != nil:
		return t.Stop.Reason, 0
	case near:
		return task.BudgetExceeded, 0
	case steps >= t.Budget.MaxSteps-1:
		return task.MaxSteps, 0
	case wall > 0 && t.WallTime(a.Now()) >= wall/10*9:
		return task.Timeout, 0
	}
	return 0, 0
}

func wrapUpText(reason task.Reason) string {
	const ask = "You get no more tools. Write your final report now, as text: what you did, what you found, what is open."
	why := map[task.Reason]string{
		task.MaxSteps:       "The steps of this turn are used up.",
		task.BudgetExceeded: "The budget is used up.",
		task.Timeout:        "The time is almost over.",
	}[reason]
	return "[agentd] " + cmp.Or(why, "You are asked to stop.") + " " + ask
}

// allowed is how many calls of a group the budgets of the task and of those above it still allow (R4). One that an earlier
// loop has started is answered in any case.
func (a *Agent) allowed(ctx context.Context, group []pendingCall) (int, error) {
	n := int64(len(group))
	for _, t := range append([]task.Task{a.Task}, a.Above...) {
		if t.Budget.ToolCalls == 0 {
			continue
		}
		used, err := a.Journal.Usage(ctx, t.Team, t.ID)
		if err != nil {
			return 0, err
		}
		n = min(n, max(0, t.Budget.ToolCalls-used.ToolCalls))
	}
	if group[0].Orphan {
		n = max(n, 1)
	}
	return int(n), nil
}

// beyondBudget answers a call that no budget is left for.
func beyondBudget(c pendingCall) *task.ToolResult {
	answer := tool.Fail(tool.Error{
		Reason: tool.OverBudget, Subject: c.Name, Message: "the budget of tool calls is used up, so this call was not run",
	})
	return &task.ToolResult{CallID: c.ID, Tool: c.Name, Text: answer.Text, IsError: true}
}

// cost is what the tokens of a call cost, in nano-dollars; 0 when nobody knows.
func (a *Agent) cost(u task.Usage) int64 {
	if a.Facts.Price == nil {
		return 0
	}
	return a.Facts.Price.Cost(u)
}
