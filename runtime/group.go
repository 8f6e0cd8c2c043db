package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// maxPrevious is how often a chain's prompt may hold {previous}.
const maxPrevious = 4

// draftGroup makes the task of a group, without those that it runs.
func (s *Supervisor) draftGroup(ctx context.Context, at site, a task.Assignment) (task.Draft, error) {
	formation := &task.Formation{
		Chain: a.Group.Chain, MaxConcurrency: cmp.Or(a.Group.MaxConcurrency, s.cfg.MaxAtOnce),
	}
	description := ""
	if a.Group.ResumeFrom != "" {
		if !a.Group.Chain {
			return task.Draft{}, notResumable("only a chain goes on with a chain")
		}
		old, err := s.resumable(ctx, at, a.Group.ResumeFrom)
		if err == nil {
			err = old.checkItems(a.Group.Items)
		}
		if err != nil {
			return task.Draft{}, err
		}
		formation.Kept, description = old.kept, old.task.Description
	}
	if n := len(a.Group.Items); n > 0 {
		mode := "parallel"
		if a.Group.Chain {
			mode = "chain"
		}
		description = fmt.Sprintf("%s of %d: %s", mode, n, firstLine(a.Group.Items[len(formation.Kept)].Prompt))
	}
	t, err := s.newTask(ctx, at, task.Group)
	t.Description, t.Budget = description, task.Budget{WallTime: a.Budget.WallTime}
	return task.Draft{Task: t, Spec: task.Spec{Group: formation}}, err
}

// draftItems makes those that a group runs, and tells the group of them.
func (s *Supervisor) draftItems(ctx context.Context, at site, a task.Assignment, group *task.Draft) ([]task.Draft, error) {
	drafts, err := s.items(ctx, at, a, len(group.Spec.Group.Kept))
	for _, d := range drafts {
		group.Spec.Group.Children = append(group.Spec.Group.Children, d.Task.ID)
	}
	return drafts, err
}

// putItems adds what a group runs to the batch that makes the group, behind it. Side by side they are queued at once; the
// steps of a chain are kept until their turn comes.
func putItems(b *journal.Batch, group task.Draft, items []task.Draft, from string) {
	for i, d := range items {
		if group.Spec.Group.Chain {
			b.PutItem(group.Task.ID, i, d)
		} else {
			b.CreateTask(d, from)
		}
	}
}

// items drafts those items of a group that are not kept from an earlier one. Where none are given they are the earlier
// one's own.
func (s *Supervisor) items(ctx context.Context, at site, a task.Assignment, kept int) ([]task.Draft, error) {
	if len(a.Group.Items) == 0 {
		return s.remaining(ctx, at, a.Group.ResumeFrom)
	}
	var drafts []task.Draft
	for i := kept; i < len(a.Group.Items); i++ {
		d, err := s.draftAgent(ctx, at, a.Group.Items[i])
		if err == nil && a.Group.Chain {
			err = checkPrevious(a.Group.Items[i], d.Opening, i == 0)
		}
		if err != nil {
			return nil, inItem(err, i)
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}

// checkPrevious bounds what a step becomes when the conclusion before it is filled in. The first of all has none before
// it.
func checkPrevious(step task.AgentSpec, opening string, first bool) error {
	const none = "it holds %s, but there is no step before the first one"
	if first && strings.Contains(step.Prompt, task.Previous) {
		return errdefs.BadField("prompt", none, task.Previous)
	}
	for i, in := range step.Inputs {
		if first && strings.Contains(in.Text, task.Previous) {
			return errdefs.BadField(fmt.Sprintf("inputs[%d].text", i), none, task.Previous)
		}
	}
	if n := strings.Count(opening, task.Previous); n > maxPrevious {
		return errdefs.BadField("prompt", "it holds %s %d times; the limit is %d", task.Previous, n, maxPrevious)
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
	if named.Subject == e.Field {
		named.Subject = named.Field
	}
	if text, ok := strings.CutPrefix(e.Message, e.Field+": "); ok {
		named.Message = fmt.Sprintf("%s: %s", named.Field, text)
	}
	return &named
}
