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
	own   int64 // what the task's own calls have used of it; 0 for what one without tools uses nothing of
}

// usedUp tells whether nothing of it is left.
func (b bound) usedUp() bool { return b.limit > 0 && b.used >= b.limit }

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
	last, own := a.History.last, a.History.own
	return []bound{
		{unit: " model calls", limit: b.Steps, used: used.Steps, ahead: 1, own: int64(a.History.steps)},
		{unit: " tokens", limit: b.Tokens, used: used.Tokens(), ahead: 2 * last.Tokens(), own: own.Tokens()},
		{unit: dollars, limit: b.Cost, used: used.Cost, ahead: 2 * a.cost(last), own: own.Cost},
		{unit: " turns", limit: b.Turns, used: used.Turns},
		{unit: " tool calls", limit: b.ToolCalls, used: used.ToolCalls},
	}
}

// bounded are those whose budgets the agent's calls count against: the task, those above it, and the team, as it is now: its
// budget may change at any time.
func (a *Agent) bounded(ctx context.Context) ([]task.Task, error) {
	all := append([]task.Task{a.Task}, a.Above...)
	in, err := a.Journal.Team(ctx, a.Task.Team)
	if err == nil && in.Budget.Shared() {
		all = append(all, task.Task{ID: task.ID(in.ID), Team: in.ID, Budget: in.Budget})
	}
	return all, err
}

// budgets tells whether the budget of the task, or of one above it, leaves one more call, near, or not even that, over.
// Each says which one it is, or is empty. It is asked before each call, so that a budget is overshot by at most one call of
// each task that runs (R4): what others have used up leaves the last call of a turn that has begun.
func (a *Agent) budgets(ctx context.Context) (near, over string, err error) {
	bounded, err := a.bounded(ctx)
	if err != nil {
		return "", "", err
	}
	for _, t := range bounded {
		used, err := a.Journal.Usage(ctx, t.Team, t.ID)
		if err != nil {
			return "", "", err
		}
		used = used.Minus(t.Forgiven)
		if t.Budget.Cost > 0 && a.Facts.Price == nil {
			return "", fmt.Sprintf("the cost of %s is bounded, but the model %s has no price any more",
				t.ID, a.Task.Model), nil
		}
		for _, b := range a.bounds(t.Budget, used) {
			text := fmt.Sprintf("the budget of %s is used up: %s", t.ID, b)
			switch {
			case b.usedUp() && !a.mayOvershoot(b):
				return "", text, nil
			case b.usedUp(), b.near():
				near = cmp.Or(near, text)
			}
		}
	}
	return near, "", nil
}

// mayOvershoot tells whether an agent has its last call although nothing is left: its turn has begun, and others have used it
// up. It is asked to wrap up then, which ends its turn.
func (a *Agent) mayOvershoot(b bound) bool {
	return a.History.steps > 0 && b.own < b.limit
}

// limits tells whether the agent must wrap up with its next call, and for which reason, or may not even call.
func (a *Agent) limits(t task.Task, near, over string) (wrapUp, end task.Reason) {
	steps, wall := a.History.turn, t.Budget.WallTime
	switch {
	case over != "":
		return 0, task.BudgetExceeded
	case steps >= t.Budget.MaxSteps:
		return 0, task.MaxSteps
	case t.Stop != nil:
		return t.Stop.Reason, 0
	case near != "":
		return task.BudgetExceeded, 0
	case steps >= t.Budget.MaxSteps-1:
		return task.MaxSteps, 0
	case wall > 0 && a.Now().Sub(t.Turn) >= wall/10*9:
		return task.Timeout, 0
	}
	return 0, 0
}

// why is the sentence for people about the end at a limit. What was near before the last call is so after it; but for a
// crash between the two, when usage has it already.
func (a *Agent) why(ctx context.Context, t task.Task, limit task.Reason) (string, error) {
	if limit == task.MaxSteps {
		return fmt.Sprintf("the %d steps of this turn are used up", t.Budget.MaxSteps), nil
	}
	if limit == task.Timeout {
		return fmt.Sprintf("the wall time of %s is almost over", t.Budget.WallTime), nil
	}
	near, over, err := a.budgets(ctx)
	return cmp.Or(over, near, "the budget is used up"), err
}

// failed is the end at a limit.
func (a *Agent) failed(ctx context.Context, t task.Task, limit task.Reason) (task.Finish, error) {
	why, err := a.why(ctx, t, limit)
	return task.Finish{State: task.Failed, Reason: limit, Error: why}, err
}

// nearest is the limit that leaves the agent nothing but a wrap-up, or not even that; 0: none does.
func (a *Agent) nearest(ctx context.Context, t task.Task) (task.Reason, error) {
	near, over, err := a.budgets(ctx)
	if err != nil {
		return 0, err
	}
	wrapUp, end := a.limits(t, near, over)
	return cmp.Or(a.History.wrapUp, end, wrapUp), nil
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
	bounded, err := a.bounded(ctx)
	if err != nil {
		return 0, err
	}
	for _, t := range bounded {
		if t.Budget.ToolCalls == 0 {
			continue
		}
		used, err := a.Journal.Usage(ctx, t.Team, t.ID)
		if err != nil {
			return 0, err
		}
		n = min(n, max(0, t.Budget.ToolCalls-used.Minus(t.Forgiven).ToolCalls))
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
