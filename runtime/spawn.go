package runtime

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// Limits of a spawn (N8).
const (
	maxPrompt   = 256 << 10 // bytes of the prompt and the inputs together
	maxInputs   = 32        // named texts
	maxName     = 64        // bytes of a named text's name
	maxLine     = 1 << 10   // bytes of a line for people
	maxMaxSteps = 1000      // model calls a turn
	maxWallTime = 365 * 24 * time.Hour
)

func tooLarge(field string, size, limit int) error {
	return &errdefs.Error{
		Kind: errdefs.InvalidArgument, Reason: errdefs.TooLarge, Subject: field, Field: field,
		Message: fmt.Sprintf("%s: it has %d bytes; the limit is %d", field, size, limit),
	}
}

// Run spawns an assignment and waits for its result: the one typed entry for host code and tools. The task goes on when
// ctx ends.
func (s *Supervisor) Run(ctx context.Context, a task.Assignment) (task.Result, error) {
	id, err := s.Spawn(ctx, a)
	if err != nil {
		return task.Result{}, err
	}
	var result task.Result
	err = s.cfg.View.Output(ctx, view.OutputRequest{TaskID: id, Terminal: true, Tail: 1}, func(item view.Item) error {
		if item.Outcome != nil {
			result = *item.Outcome
		}
		return nil
	})
	return result, err
}

// Spawn makes a task durable as QUEUED (S2) and lets it run. With a request id that was used before it gives the task of
// then.
func (s *Supervisor) Spawn(ctx context.Context, a task.Assignment) (task.ID, error) {
	return s.spawn(ctx, a, false)
}

func (s *Supervisor) spawn(ctx context.Context, a task.Assignment, attach bool) (task.ID, error) {
	if err := s.ready(); err != nil {
		return "", err
	}
	ctx = context.WithoutCancel(ctx)
	body := a
	body.RequestID, body.Caller = "", ""
	r := newRequest(a.Caller, a.RequestID, body)
	team, workspace, err := s.admit(ctx, a)
	if err != nil {
		if id, known := s.retried(ctx, a, r); known {
			return id, s.reattach(ctx, id, attach)
		}
		return "", err
	}
	for {
		if found, known, err := s.first(ctx, team.ID, r); err != nil {
			return "", err
		} else if known {
			return found.TaskID, s.reattach(ctx, found.TaskID, attach)
		}
		id, err := s.register(ctx, a, team, workspace, r)
		if errdefs.Is(err, errdefs.Conflict) {
			continue // the parent changed, or the same request id was first
		}
		if err == nil {
			if attach {
				s.attach(id)
			}
			s.enqueue(id)
		}
		return id, err
	}
}

// admit refuses what can't be spawned now, and finds the team and the workspace of what can.
func (s *Supervisor) admit(ctx context.Context, a task.Assignment) (roster.Team, string, error) {
	if err := s.check(a); err != nil {
		return roster.Team{}, "", err
	}
	return s.place(ctx, a)
}

// check refuses what is wrong with an assignment by itself.
func (s *Supervisor) check(a task.Assignment) error {
	switch {
	case strings.TrimSpace(a.Prompt) == "":
		return errdefs.BadField("prompt", "must not be empty; say what is to be done")
	case len(a.Inputs) > maxInputs:
		return errdefs.BadField("inputs", "there are %d; the limit is %d", len(a.Inputs), maxInputs)
	case len(a.Description) > maxLine:
		return tooLarge("description", len(a.Description), maxLine)
	case len(a.Model) > task.MaxModelName:
		return tooLarge("model", len(a.Model), task.MaxModelName)
	case a.Agent != "" && a.Agent != DefaultAgent:
		return errdefs.New(errdefs.NotFound, errdefs.AgentNotFound, a.Agent,
			"there is no agent definition %q; there is %q", a.Agent, DefaultAgent)
	case s.cfg.DefaultModel == "":
		return errdefs.New(errdefs.FailedPrecondition, errdefs.ModelNotConfigured, "", "%s", s.cfg.ModelHint)
	}
	size := len(a.Prompt)
	for i, in := range a.Inputs {
		size += len(in.Text)
		field := fmt.Sprintf("inputs[%d]", i)
		switch {
		case in.Name == "" || len(in.Name) > maxName:
			return errdefs.BadField(field+".name", "must be 1 to %d bytes", maxName)
		case (in.Text == "") == (in.TaskID == ""):
			return errdefs.BadField(field, "needs a text or a task_id")
		}
	}
	if size > maxPrompt {
		return tooLarge("prompt", size, maxPrompt)
	}
	if err := checkBudget(a.Budget); err != nil {
		return err
	}
	return checkRequestID(a.RequestID)
}

func checkBudget(b task.Budget) error {
	switch {
	case b.MaxSteps < 0 || b.MaxSteps > maxMaxSteps:
		return errdefs.BadField("budget.max_steps", "must be 1 to %d, or 0 for %d", maxMaxSteps, task.DefaultMaxSteps)
	case b.Steps < 0:
		return errdefs.BadField("budget.steps", "must not be negative; 0 is no bound")
	case b.Tokens < 0:
		return errdefs.BadField("budget.tokens", "must not be negative; 0 is no bound")
	case b.WallTime < 0 || b.WallTime > maxWallTime:
		return errdefs.BadField("budget.wall_time", "must be 0 to %s; 0 is no bound", maxWallTime)
	}
	return nil
}

// register commits the task with its opening, its request id and its place below its parent.
func (s *Supervisor) register(
	ctx context.Context, a task.Assignment, team roster.Team, workspace string, r *requestRow,
) (task.ID, error) {
	opening, err := s.opening(ctx, a, team)
	if err != nil {
		return "", err
	}
	n, err := s.cfg.Journal.NextID(ctx, team.ID)
	if err != nil {
		return "", err
	}
	b := s.cfg.Journal.Batch(team.ID)
	t := task.Task{
		ID: task.NewID(task.Subagent, n), Team: team.ID, Kind: task.Subagent, State: task.Queued, Incarnation: 1,
		Agent: cmp.Or(a.Agent, DefaultAgent), Model: cmp.Or(a.Model, s.cfg.DefaultModel),
		Description: cmp.Or(a.Description, firstLine(a.Prompt)), Workspace: workspace,
		Grant: grant.ForWorkspace(workspace, s.cfg.Tools.Names()), Budget: a.Budget,
		CancelOnDisconnect: a.CancelOnDisconnect, Created: b.Now(),
	}
	t.Budget.MaxSteps = cmp.Or(t.Budget.MaxSteps, task.DefaultMaxSteps)
	if a.Parent != "" {
		if err := s.adopt(ctx, &t, a.Parent, b); err != nil {
			return "", err
		}
	}
	b.CreateTask(t)
	b.Append(t.ID, &task.Input{From: a.From, Text: opening})
	if r != nil {
		r.outcome.TaskID = t.ID
		r.put(b)
	}
	return t.ID, s.commit(ctx, b)
}

// adopt makes t a child. The batch holds only while the parent stays as it is, so a stop that comes between finds the
// child or refuses it (T2).
func (s *Supervisor) adopt(ctx context.Context, t *task.Task, parent task.ID, b *journal.Batch) error {
	row, err := s.cfg.Journal.Task(ctx, parent)
	if err != nil {
		return err
	}
	p := row.Value
	switch {
	case p.Team != t.Team:
		return errdefs.BadField("parent_task_id", "task %s belongs to another team", parent)
	case p.State.Terminal():
		return errdefs.New(errdefs.FailedPrecondition, errdefs.TaskEnded, string(parent), "parent %s has ended", parent)
	case p.State == task.Stopping:
		return errdefs.New(errdefs.FailedPrecondition, errdefs.TaskStopping, string(parent), "parent %s is stopping", parent)
	case p.Depth() >= task.MaxDepth:
		return errdefs.New(errdefs.FailedPrecondition, errdefs.DepthExceeded, string(parent),
			"parent %s has depth %d; %d is the limit", parent, p.Depth(), task.MaxDepth)
	case p.Grant.ReadableRoot(t.Workspace) == "" || p.Grant.WritableRoot(t.Workspace) == "":
		return errdefs.New(errdefs.PermissionDenied, errdefs.WorkspaceNotAllowed, t.Workspace,
			"parent %s is not granted %s; it is granted %s", parent, t.Workspace, strings.Join(p.Grant.Writable, ", "))
	}
	t.Parent, t.Ancestors = parent, append([]task.ID{parent}, p.Ancestors...)
	t.Grant.Tools = slices.DeleteFunc(t.Grant.Tools, func(name string) bool { return !p.Grant.AllowsTool(name) })
	b.GuardTask(row)
	return nil
}

// opening is the assignment as the agent reads it: the prompt, then each input under its heading.
func (s *Supervisor) opening(ctx context.Context, a task.Assignment, team roster.Team) (string, error) {
	text := a.Prompt
	for i, in := range a.Inputs {
		body := in.Text
		if in.TaskID != "" {
			summary, err := s.summary(ctx, in.TaskID, team, fmt.Sprintf("inputs[%d].task_id", i))
			if err != nil {
				return "", err
			}
			body = summary
		}
		text += fmt.Sprintf("\n\n## %s\n\n%s", in.Name, body)
	}
	if len(text) > maxPrompt+maxInputs*maxName {
		return "", tooLarge("inputs", len(text), maxPrompt)
	}
	return text, nil
}

// summary is what an ended task of the same team concluded.
func (s *Supervisor) summary(ctx context.Context, id task.ID, team roster.Team, field string) (string, error) {
	row, err := s.cfg.Journal.Task(ctx, id)
	switch {
	case err != nil:
		return "", err
	case row.Value.Team != team.ID:
		return "", errdefs.BadField(field, "task %s belongs to another team", id)
	case !row.Value.State.Terminal():
		return "", errdefs.BadField(field, "task %s has not ended yet", id)
	}
	report, _, err := s.cfg.Journal.Result(ctx, team.ID, id)
	return report.Summary, err
}

// firstLine is the start of a prompt as a description.
func firstLine(prompt string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	if r := []rune(line); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return line
}
