package view

import (
	"cmp"
	"context"
	"slices"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Result is how a task ended; TaskNotFound when there is none, RecordNotFound while it lives.
func (v *View) Result(ctx context.Context, id task.ID) (task.Result, error) {
	row, err := v.journal.Task(ctx, id)
	if err != nil {
		return task.Result{}, err
	}
	if !row.Value.State.Terminal() {
		return task.Result{}, errdefs.New(errdefs.NotFound, errdefs.RecordNotFound, string(id), "task %s has not ended", id)
	}
	return v.result(ctx, row.Value)
}

// result is what a task left that has ended.
func (v *View) result(ctx context.Context, t task.Task) (task.Result, error) {
	left, err := v.journal.Result(ctx, t.Team, t.ID)
	if err != nil {
		return task.Result{}, err
	}
	used, err := v.journal.Usage(ctx, t.Team, t.ID)
	if err != nil {
		return task.Result{}, err
	}
	result := task.Result{
		TaskID: t.ID, State: t.State, Reason: t.Reason, Error: t.Error, Conclusion: left, Usage: used,
		WallTime: t.WallTime(v.now()),
	}
	for child, err := range v.journal.Children(ctx, t.Team, t.ID) {
		if err != nil {
			return task.Result{}, err
		}
		result.Children = append(result.Children, child)
	}
	slices.SortFunc(result.Children, func(a, b task.ID) int { return cmp.Compare(a.Number(), b.Number()) })
	return result, nil
}
