package runtime

import (
	"cmp"
	"context"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

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
	var taken error // the name is: by what the same request has spawned at the same time, perhaps
	for {
		found, known, err := s.first(ctx, team.ID, r)
		switch {
		case err != nil:
			return "", err
		case known:
			return found.TaskID, s.reattach(ctx, found.TaskID, attach)
		case taken != nil:
			return "", taken
		}
		id, err := s.register(ctx, a, team, workspace, r)
		switch {
		case errdefs.Is(err, errdefs.Conflict):
			continue // the parent changed, or the same request id was first
		case errdefs.Is(err, errdefs.NameTaken):
			taken = err
			continue
		case err == nil:
			if attach {
				s.attach(id)
			}
			s.enqueue(team.ID, id)
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

// register commits the task with all that belongs to it: those that it runs, its request id and its place below its
// parent.
func (s *Supervisor) register(
	ctx context.Context, a task.Assignment, team roster.Team, workspace string, r *requestRow,
) (task.ID, error) {
	b := s.cfg.Journal.Batch(team.ID)
	at, err := s.siteOf(ctx, a, team, workspace, b)
	if err != nil {
		return "", err
	}
	d, err := s.draft(ctx, at, a)
	if err != nil {
		return "", err
	}
	d.Task.CallID, d.Task.CancelOnDisconnect = a.CallID, a.CancelOnDisconnect
	d.Task.Description = cmp.Or(a.Description, d.Task.Description)
	if a.Teammate != nil {
		d.Task.SpawnedBy = a.Parent
		if err := s.post.Spawner.Enlist(ctx, b, &d.Task); err != nil {
			return "", err
		}
	}
	var items []task.Draft
	if a.Group != nil {
		if items, err = s.draftItems(ctx, at.below(d.Task), a, &d); err != nil {
			return "", err
		}
	}
	b.CreateTask(d, a.From)
	putItems(b, d, items, a.From)
	if r != nil {
		r.outcome.TaskID = d.Task.ID
		r.put(b)
	}
	return d.Task.ID, s.commit(ctx, b)
}

// draft makes the task itself.
func (s *Supervisor) draft(ctx context.Context, at site, a task.Assignment) (task.Draft, error) {
	switch {
	case a.Group != nil:
		return s.draftGroup(ctx, at, a)
	case a.Shell != nil:
		return s.draftShell(ctx, at, a)
	}
	return s.draftAgent(ctx, at, a.AgentSpec)
}

// site is where and below whom new tasks come into being.
type site struct {
	team      roster.Team
	workspace string
	above     []task.ID          // the parent first
	grant     grant.Grant        // what they may be granted at most
	byAgent   bool               // an agent's tool call asks for them (P2)
	as        *task.TeammateSpec // of a teammate
	batch     *journal.Batch
}

// below is the site of those that a new group runs.
func (at site) below(group task.Task) site {
	at.above = append([]task.ID{group.ID}, at.above...)
	at.grant = group.Grant
	return at
}

// siteOf finds what new tasks may have of their parent. The batch holds only while the parent stays as it is, so a stop
// that comes between finds the child or refuses it (T2).
func (s *Supervisor) siteOf(
	ctx context.Context, a task.Assignment, team roster.Team, workspace string, b *journal.Batch,
) (site, error) {
	at := site{team: team, workspace: workspace, byAgent: a.CallID != "", batch: b, as: a.Teammate}
	if a.Parent == "" {
		at.grant = s.wholeGrant(workspace)
		return at, nil
	}
	row, err := s.cfg.Journal.Task(ctx, a.Parent)
	if err != nil {
		return at, err
	}
	p := row.Value
	if err := s.checkParent(p, team, a.Shell != nil); err != nil {
		return at, err
	}
	if a.Teammate != nil && !p.IsLead() {
		return at, errdefs.BadField("parent_task_id", "the parent of a teammate is its team; name the lead, or nobody")
	}
	if at.grant, err = heritage(p, workspace); err != nil {
		return at, err
	}
	if a.Teammate == nil { // whose parent is its team (N4)
		at.above = append([]task.ID{p.ID}, p.Ancestors...)
	}
	b.GuardTask(row)
	return at, nil
}

// checkParent refuses a parent that can't have children, or no more. A shell has none below it, so depth does not keep it
// out.
func (s *Supervisor) checkParent(p task.Task, team roster.Team, shell bool) error {
	switch {
	case p.Team != team.ID:
		return errdefs.BadField("parent_task_id", "task %s belongs to another team", p.ID)
	case !p.Kind.IsAgent():
		return errdefs.BadField("parent_task_id", "task %s is no agent; only an agent can be a parent", p.ID)
	case p.State.Terminal():
		return errdefs.New(errdefs.FailedPrecondition, errdefs.TaskEnded, string(p.ID), "parent %s has ended", p.ID)
	case p.State == task.Stopping:
		return errdefs.New(errdefs.FailedPrecondition, errdefs.TaskStopping, string(p.ID), "parent %s is stopping", p.ID)
	case !shell && (p.Depth() >= s.cfg.MaxDepth || p.Grant.Depth < 1):
		return errdefs.New(errdefs.FailedPrecondition, errdefs.DepthExceeded, string(p.ID),
			"parent %s has depth %d and may have no task below it; %d levels are the limit", p.ID, p.Depth(), s.cfg.MaxDepth)
	}
	return nil
}

// firstLine is the start of a prompt as a description.
func firstLine(prompt string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	if r := []rune(line); len(r) > 80 {
		return string(r[:80]) + "…"
	}
	return line
}
