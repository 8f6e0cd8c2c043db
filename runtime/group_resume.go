package runtime

import (
	"context"
	"errors"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// resumption is an ended chain that a new one goes on with.
type resumption struct {
	task  task.Task
	steps int       // of the whole chain
	kept  []task.ID // its completed leading steps
	next  int       // the first of its own items that is left
}

func notResumable(format string, args ...any) error {
	return errdefs.BadField("resume_from", format, args...)
}

// resumable finds a chain that a new one at a site can go on with. Its tasks have ended for good, so nothing of this
// changes any more.
func (s *Supervisor) resumable(ctx context.Context, at site, id task.ID) (resumption, error) {
	row, err := s.cfg.Journal.Task(ctx, id)
	if err != nil {
		return resumption{}, err
	}
	spec, err := s.cfg.Journal.Spec(ctx, row.Value.Team, id)
	if err != nil {
		return resumption{}, err
	}
	switch t := row.Value; {
	case t.Team != at.team.ID:
		return resumption{}, notResumable("task %s belongs to another team", id)
	case spec.Group == nil || !spec.Group.Chain:
		return resumption{}, notResumable("task %s is no chain", id)
	case !t.State.Terminal():
		return resumption{}, notResumable("chain %s has not ended yet; it goes on by itself", id)
	case t.Workspace != at.workspace:
		return resumption{}, notResumable("chain %s worked in %s; resume it there", id, t.Workspace)
	}
	old := resumption{task: row.Value, steps: len(spec.Group.Kept) + len(spec.Group.Children), kept: spec.Group.Kept}
	for _, step := range spec.Group.Children {
		row, err := s.member(ctx, old.task, *spec.Group, step)
		if err != nil {
			return old, err
		}
		if row.Value.State != task.Completed {
			return old, nil
		}
		old.kept, old.next = append(old.kept, step), old.next+1
	}
	return old, notResumable("all %d steps of chain %s completed; nothing is left to do", old.steps, id)
}

// checkItems refuses items that are not one for each step: which of them are left would have to be guessed.
func (old resumption) checkItems(items []task.AgentSpec) error {
	if len(items) == 0 || len(items) == old.steps {
		return nil
	}
	return errdefs.BadField("items", "there are %d, and chain %s in resume_from has %d steps; give one for each, or none",
		len(items), old.task.ID, old.steps)
}

// remaining drafts the steps of an ended chain that are left to do.
func (s *Supervisor) remaining(ctx context.Context, at site, id task.ID) ([]task.Draft, error) {
	old, err := s.resumable(ctx, at, id)
	if err != nil {
		return nil, err
	}
	var drafts []task.Draft
	for n := old.next; n < old.steps-len(old.kept)+old.next; n++ {
		d, err := s.cfg.Journal.Item(ctx, at.team.ID, id, n)
		if journal.IsLost(err) || errdefs.Is(err, errdefs.RecordNotFound) {
			err = notResumable("a step of chain %s can't be read any more; give the items", id)
		}
		if err == nil {
			d, err = s.redraft(ctx, at, d)
		}
		if e, ok := errors.AsType[*errdefs.Error](err); ok && e.Field != "" && e.Field != "resume_from" {
			err = notResumable("step %d of chain %s: %s", len(old.kept)+len(drafts)+1, id, e.Message)
		}
		if err != nil {
			return nil, err
		}
		drafts = append(drafts, d)
	}
	return drafts, nil
}

// redraft makes a step of an ended chain one of another chain. It gets no more than it had, and no more than there is to
// be had here (P1, P2).
func (s *Supervisor) redraft(ctx context.Context, at site, d task.Draft) (task.Draft, error) {
	t, err := s.newTask(ctx, at, d.Task.Kind)
	t.Agent, t.Model, t.Description, t.Budget = d.Task.Agent, d.Task.Model, d.Task.Description, d.Task.Budget
	had := d.Task.Grant
	t.Grant, _ = at.grant.Narrow(grant.Request{
		Tools: exactly(had.Tools), Readable: exactly(had.Readable), Writable: exactly(had.Writable),
		Network: &had.Network, Depth: &had.Depth,
	})
	if at.byAgent {
		t.Grant = t.Grant.Without(tool.SubagentName)
	}
	d.Task = t
	return d, errors.Join(err, s.checkModel(ctx, t))
}

// exactly is a list that narrows even when it is empty.
func exactly(list []string) []string { return append([]string{}, list...) }
