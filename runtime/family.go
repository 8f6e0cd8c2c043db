package runtime

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// family is tool.Tasks for one loop of an agent.
type family struct {
	s    *Supervisor
	loop *loop
	task task.Task // the agent's

	turn   chan struct{} // holds a token while somebody pauses the loop or lets it proceed
	paused int           // calls that wait; whoever holds the turn may change it

	mu    sync.Mutex
	known map[task.ID]bool // tasks that a call of the step asks about, or whose end one has told: no news for the others
}

func newFamily(s *Supervisor, l *loop, t task.Task) *family {
	return &family{s: s, loop: l, task: t, turn: make(chan struct{}, 1), known: map[task.ID]bool{}}
}

// Spawn starts a task below the agent, or a teammate, in its workspace.
func (f *family) Spawn(ctx context.Context, callID string, a task.Assignment) (task.ID, error) {
	if a.Teammate != nil {
		if err := f.mayRecruit(ctx, a); err != nil {
			return "", err
		}
	}
	a.RequestID, a.Caller, a.From = callID, string(f.task.ID), string(f.task.ID)
	a.Team, a.Workspace, a.Parent, a.CallID = "", f.task.Workspace, f.task.ID, callID
	id, err := f.s.Spawn(ctx, a)
	if err != nil {
		return "", f.refused(err)
	}
	return id, nil
}

// Look shows a task of the agent's.
func (f *family) Look(ctx context.Context, id task.ID) (tool.Waited, error) {
	id, err := f.named(ctx, id)
	if err == nil {
		err = f.own(ctx, id)
	}
	if err != nil {
		return tool.Waited{}, err
	}
	return f.show(ctx, id, tool.Looked)
}

// Wait waits for the end of a task of the agent's, or of a teammate's turn.
func (f *family) Wait(ctx context.Context, id task.ID, timeout time.Duration) (tool.Waited, error) {
	id, err := f.named(ctx, id)
	if err != nil {
		return tool.Waited{}, err
	}
	if circle := f.s.waits.begin(f.task, id); circle != nil {
		return tool.Waited{End: tool.Circle, Members: circle}, nil
	}
	defer f.s.waits.end(f.task, id)
	f.learn(id, true)
	if err := f.own(ctx, id); err != nil {
		return tool.Waited{}, err
	}
	end, err := f.await(ctx, id, timeout)
	if err != nil {
		return tool.Waited{}, err
	}
	return f.show(ctx, id, end)
}

// Stop stops a task of the agent's and waits until it and all below it have ended, which has a bound (T1).
func (f *family) Stop(ctx context.Context, id task.ID, level task.StopLevel) (tool.Waited, error) {
	id, err := f.named(ctx, id)
	if err == nil {
		err = f.own(ctx, id)
	}
	if err != nil {
		return tool.Waited{}, err
	}
	req := StopRequest{TaskID: id, Level: level, Reason: f.stopReason()}
	err = f.aside(ctx, func() error { // what is stopped may need a slot to report
		return f.s.Stop(ctx, req, func(StopProgress) error { return nil })
	})
	if err != nil {
		return tool.Waited{}, f.refused(err)
	}
	return f.show(ctx, id, tool.TaskEnded)
}

// own refuses what is not the agent's to look after: that are its children, and those of its groups; a lead's is all of its
// team but itself.
func (f *family) own(ctx context.Context, id task.ID) error {
	row, err := f.s.cfg.Journal.Task(ctx, id)
	switch {
	case errdefs.Is(err, errdefs.TaskNotFound):
		return f.notOwn(ctx, tool.Error{Reason: tool.NotFound, Message: fmt.Sprintf("there is no task %q", string(id))}, id)
	case err != nil:
		return err
	case f.looksAfter(row.Value):
		return nil
	}
	return f.notOwn(ctx, tool.Error{Reason: tool.NotGranted, Message: fmt.Sprintf("task %s is not yours", id)}, id)
}

// notOwn names the tasks that could have been meant.
func (f *family) notOwn(ctx context.Context, e tool.Error, id task.ID) error {
	e.Subject, e.Message = string(id), e.Message+"; you can look after the tasks that you started"
	if f.task.IsLead() {
		e.Message += " and after all others of your team"
	}
	for living, err := range f.s.cfg.Journal.Living(ctx, f.task.Team) {
		if err != nil {
			return err
		}
		if row, err := f.s.cfg.Journal.Task(ctx, living); err == nil && f.looksAfter(row.Value) {
			e.Allowed = append(e.Allowed, string(living))
		}
		if len(e.Allowed) == maxAllowed {
			break
		}
	}
	slices.Sort(e.Allowed)
	return &e
}

// maxAllowed bounds the tasks that a refusal lists.
const maxAllowed = 100

// started tells whether the agent started a task, or the group that runs it.
func (f *family) started(t task.Task) bool {
	if t.Parent.Kind() == task.Group && len(t.Ancestors) > 1 {
		return t.Ancestors[1] == f.task.ID
	}
	return t.Parent == f.task.ID
}

// refused is the answer to what the supervisor refuses; an error that the model can do nothing about stays one.
func (f *family) refused(err error) error {
	if f.s.isDraining() {
		return agent.ErrDrained // the call runs again after the next start
	}
	e := errdefs.As(err)
	fail := tool.Error{Reason: tool.Reason(e.Reason.String()), Message: e.Message, Subject: e.Subject}
	switch e.Kind {
	case errdefs.InvalidArgument:
		fail.Reason, fail.Subject = tool.InvalidArguments, e.Field
	case errdefs.NotFound:
		fail.Reason = tool.NotFound
	case errdefs.PermissionDenied:
		fail.Reason, fail.Allowed = tool.NotGranted, allowed(err)
	case errdefs.FailedPrecondition, errdefs.ResourceExhausted, errdefs.AlreadyExists: // the reason says it
	default:
		return err
	}
	if e.Reason == errdefs.AgentNotFound {
		definitions, _ := f.s.cfg.Definitions.List(f.task.Workspace)
		for _, d := range definitions {
			fail.Allowed = append(fail.Allowed, d.Name)
		}
	}
	return &fail
}

// soFarEntries is how many entries are looked at for what a task has given so far.
const soFarEntries = 256

// show shows a task as it is now.
func (f *family) show(ctx context.Context, id task.ID, end tool.WaitEnd) (tool.Waited, error) {
	t, err := f.s.cfg.View.Task(ctx, id)
	if err != nil {
		return tool.Waited{}, err
	}
	f.learn(id, t.State.Terminal() || t.State == task.Idle) // the answer tells the end, or leaves it for later
	seen := tool.Waited{End: end, Task: t.Task, Usage: t.Usage, WallTime: t.WallTime, Activity: t.Activity}
	if seen.AgentID, err = f.agentID(ctx, t.Task); err != nil {
		return seen, err
	}
	if t.State.Terminal() {
		result, err := f.s.cfg.View.Result(ctx, id)
		if err != nil {
			return seen, err
		}
		seen.Result = &result
	} else if seen.Output, err = f.soFar(ctx, t.Task); err != nil {
		return seen, err
	}
	if t.Kind == task.Group {
		seen.Children, err = f.children(ctx, t.Task)
	}
	return seen, err
}

// children shows those that a group runs, in the order of its items. Steps of a chain that never came are left out.
func (f *family) children(ctx context.Context, group task.Task) ([]tool.Waited, error) {
	spec, err := f.s.cfg.Journal.Spec(ctx, group.Team, group.ID)
	if err != nil || spec.Group == nil {
		return nil, err
	}
	var children []tool.Waited
	for _, id := range append(spec.Group.Kept, spec.Group.Children...) {
		child, err := f.show(ctx, id, tool.Looked)
		if errdefs.Is(err, errdefs.TaskNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		children = append(children, child)
	}
	return children, nil
}

// soFar is what a living task has to show: the end of a shell's output, or an agent's last text.
func (f *family) soFar(ctx context.Context, t task.Task) (string, error) {
	if t.Kind == task.Group {
		return "", nil
	}
	for n := 4; ; n *= 4 {
		entries, err := f.s.cfg.Journal.LastEntries(ctx, t.Team, t.ID, n)
		if err != nil {
			return "", err
		}
		text, enough := lastOf(entries)
		if enough || len(entries) < n || n >= soFarEntries {
			return text, nil
		}
	}
}

// lastOf is the last text of the agent, or the end of the shell's output, that the entries hold; enough tells that
// earlier entries would add nothing.
func lastOf(entries []task.Entry) (text string, enough bool) {
	var out []byte
	for _, e := range entries {
		switch body := e.Body.(type) {
		case *task.Output:
			out = append(out, body.Data...)
		case *task.Assistant:
			if body.Text != "" {
				text = body.Text
			}
		}
	}
	if len(out) == 0 {
		out = []byte(text)
		enough = text != ""
	}
	return string(out), enough || len(out) >= tool.MaxSoFar
}
