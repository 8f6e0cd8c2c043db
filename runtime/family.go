package runtime

import (
	"context"
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// family is tool.Tasks for one loop of an agent.
type family struct {
	s    *Supervisor
	loop *loop
	task task.Task
}

// Spawn starts a task below the agent.
func (f *family) Spawn(ctx context.Context, callID string, a task.Assignment) (task.ID, error) {
	a.RequestID, a.Caller, a.From = callID, string(f.task.ID), string(f.task.ID)
	a.Team, a.Workspace, a.Parent, a.CallID = "", f.task.Workspace, f.task.ID, callID
	return f.s.Spawn(ctx, a)
}

// Wait waits for a task.
func (f *family) Wait(context.Context, task.ID, time.Duration) (tool.Waited, error) {
	return tool.Waited{}, nil
}

// Look shows a task.
func (f *family) Look(context.Context, task.ID) (tool.Waited, error) { return tool.Waited{}, nil }

// Stop stops a task.
func (f *family) Stop(context.Context, task.ID, task.StopLevel) (tool.Waited, error) {
	return tool.Waited{}, nil
}
