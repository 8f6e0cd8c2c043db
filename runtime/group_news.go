package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/task"
)

// tell puts into the group's transcript what has become of its tasks, each change once.
func (g *group) tell(ctx context.Context, all members) error {
	var notices []task.Body
	for _, row := range all {
		notices = append(notices, news(row.Value, g.told[row.Value.ID])...)
	}
	if len(notices) == 0 {
		return nil
	}
	b := g.s.cfg.Journal.Batch(g.task.Team)
	b.GuardLive(g.task.ID, g.liveRev)
	b.Append(g.task.ID, notices...)
	err := g.s.cfg.Journal.Commit(ctx, b)
	if errdefs.Is(err, errdefs.Conflict) {
		return agent.ErrGone
	}
	if err != nil {
		return err
	}
	for _, row := range all {
		g.told[row.Value.ID] = row.Value.State
	}
	return nil
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
	case task.Queued:
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
