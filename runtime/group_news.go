package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// told is what a group's transcript says of its tasks.
func (s *Supervisor) told(ctx context.Context, group task.Task) (map[task.ID]task.State, error) {
	told := map[task.ID]task.State{}
	for e, err := range s.cfg.Journal.Entries(ctx, group.Team, group.ID, 0) {
		if err != nil {
			return nil, err
		}
		if n, ok := e.Body.(*task.Notice); ok {
			told[n.TaskID] = n.State
		}
	}
	return told, nil
}

// tell puts into the group's transcript what has become of its tasks, each change once. Conflict when the group changed
// since it was read: from a KILL on the commit that ends it tells the rest.
func (g *group) tell(ctx context.Context, own journal.Row[task.Task], all members) error {
	notices := all.news(g.told)
	if len(notices) == 0 || isKilled(own.Value) {
		return nil
	}
	b := g.s.cfg.Journal.Batch(g.task.Team)
	b.GuardTask(own)
	b.Append(g.task.ID, notices...)
	if err := g.s.cfg.Journal.Commit(ctx, b); err != nil {
		return err
	}
	for _, row := range all {
		g.told[row.Value.ID] = row.Value.State
	}
	return nil
}

// lastNews is what the transcript of a group that is killed does not say yet of its tasks.
func (s *Supervisor) lastNews(ctx context.Context, t task.Task) ([]task.Body, error) {
	if t.Kind != task.Group || !isKilled(t) {
		return nil, nil
	}
	spec, err := s.cfg.Journal.Spec(ctx, t.Team, t.ID)
	if err != nil || spec.Group == nil {
		return nil, err
	}
	told, err := s.told(ctx, t)
	if err != nil {
		return nil, err
	}
	all, err := s.members(ctx, t, *spec.Group)
	return all.news(told), err
}

// isKilled tells whether a task that lives is under a KILL.
func isKilled(t task.Task) bool { return t.Stop != nil && t.Stop.Level == task.Kill }

// news tells of all tasks of a group, in their order.
func (m members) news(told map[task.ID]task.State) []task.Body {
	var notices []task.Body
	for _, row := range m {
		notices = append(notices, news(row.Value, told[row.Value.ID])...)
	}
	return notices
}

// news tells of a task's state after the one that was told, if that is another one. The start is told even of a task that
// has gone further meanwhile.
func news(t task.Task, told task.State) []task.Body {
	if t.State == told || t.State == 0 || t.State == task.Queued {
		return nil
	}
	notice := func(state task.State, text string) *task.Notice {
		return &task.Notice{Text: string(t.ID) + " " + text, TaskID: t.ID, State: state}
	}
	var notices []task.Body
	if (told == 0 || told == task.Queued) && !t.Started.IsZero() {
		notices = append(notices, notice(task.Running, "started: "+t.Description))
	}
	switch t.State {
	case task.Running:
		if len(notices) == 0 {
			notices = append(notices, notice(t.State, "goes on"))
		}
	case task.Waiting:
		notices = append(notices, notice(t.State, "waits"))
	case task.Stopping:
		notices = append(notices, notice(t.State, "is being stopped"))
	case task.Completed:
		notices = append(notices, notice(t.State, "completed"))
	case task.Failed:
		notices = append(notices, notice(t.State, "failed: "+why(t)))
	case task.Killed:
		notices = append(notices, notice(t.State, "was stopped: "+why(t)))
	case task.Queued, task.Idle: // no teammate is in a group
	}
	return notices
}

// why is the reason of an end, with what there is to say about it.
func why(t task.Task) string {
	if t.Error == "" {
		return t.Reason.String()
	}
	return t.Reason.String() + ", " + t.Error
}
