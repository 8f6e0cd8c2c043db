package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// draftGroup makes the task of a group, without those that it runs.
func (s *Supervisor) draftGroup(ctx context.Context, at site, a task.Assignment) (task.Draft, error) {
	t, err := s.newTask(ctx, at, task.Group)
	mode := "parallel"
	if a.Group.Chain {
		mode = "chain"
	}
	if len(a.Group.Items) > 0 {
		t.Description = fmt.Sprintf("%s of %d: %s", mode, len(a.Group.Items), firstLine(a.Group.Items[0].Prompt))
	}
	t.Budget = task.Budget{WallTime: a.Budget.WallTime}
	formation := &task.Formation{Chain: a.Group.Chain, MaxConcurrency: cmp.Or(a.Group.MaxConcurrency, s.cfg.MaxAtOnce)}
	return task.Draft{Task: t, Spec: task.Spec{Group: formation}}, err
}

// draftItems makes those that a group runs, and tells the group of them. Side by side they are queued at once; the steps
// of a chain are kept until their turn comes.
func (s *Supervisor) draftItems(
	ctx context.Context, at site, a task.Assignment, group *task.Draft, b *journal.Batch,
) error {
	for i, item := range a.Group.Items {
		d, err := s.draftAgent(ctx, at, item)
		if err != nil {
			return inItem(err, i)
		}
		group.Spec.Group.Children = append(group.Spec.Group.Children, d.Task.ID)
		if a.Group.Chain {
			b.PutItem(group.Task.ID, i, d)
		} else {
			b.CreateTask(d, a.From)
		}
	}
	return nil
}

// inItem names the field of an item as the group has it.
func inItem(err error, i int) error {
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok || e.Field == "" {
		return err
	}
	named := *e
	named.Field = fmt.Sprintf("items[%d].%s", i, e.Field)
	return &named
}

// startGroup makes the loop of a group.
func (s *Supervisor) startGroup(context.Context, *loop, task.Task, task.Spec, bool) (work, error) {
	return work{}, errdefs.New(errdefs.Internal, errdefs.Fault, "", "groups: to be written")
}

// concludeGroup gives what a group's children concluded so far.
func (s *Supervisor) concludeGroup(context.Context, task.Task) (task.Conclusion, error) {
	return task.Conclusion{}, nil
}
