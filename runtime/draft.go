package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/definition"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// newTask is a queued task at a site. The caller fills in what it is to do.
func (s *Supervisor) newTask(ctx context.Context, at site, kind task.Kind) (task.Task, error) {
	n, err := s.cfg.Journal.NextID(ctx, at.team.ID)
	t := task.Task{
		ID: task.NewID(kind, n), Team: at.team.ID, Kind: kind, State: task.Queued, Incarnation: 1, Workspace: at.workspace,
		Ancestors: at.above, Grant: at.grant, Created: at.batch.Now(),
	}
	if len(at.above) > 0 {
		t.Parent = at.above[0]
	}
	return t, err
}

// draftAgent makes one agent's task.
func (s *Supervisor) draftAgent(ctx context.Context, at site, a task.AgentSpec) (task.Draft, error) {
	def, err := s.cfg.Definitions.Find(at.workspace, cmp.Or(a.Agent, DefaultAgent))
	if err != nil {
		return task.Draft{}, err
	}
	if def.Worktree {
		return task.Draft{}, errdefs.New(errdefs.FailedPrecondition, errdefs.NotOffered, def.Name,
			"the definition %s asks for a worktree, which is not offered yet", def.Name)
	}
	if at.byAgent && len(a.Acceptance) > 0 && !at.grant.AllowsTool(tool.BashName) {
		return task.Draft{}, exceeded([]grant.Excess{{Field: "acceptance", Subject: tool.BashName, Allowed: at.grant.Tools}})
	}
	g, dropped, err := narrow(at, def, a.Grant)
	if err != nil {
		return task.Draft{}, err
	}
	opening, err := s.opening(ctx, a, at.team)
	if err != nil {
		return task.Draft{}, err
	}
	kind := task.Subagent
	if at.as != nil {
		kind = task.Teammate
	}
	t, err := s.newTask(ctx, at, kind)
	t.Agent, t.Model = def.Name, cmp.Or(a.Model, def.Model, s.cfg.DefaultModel)
	t.Description, t.Grant, t.Budget = firstLine(a.Prompt), g, orElse(a.Budget, def.Budget)
	if err := errors.Join(err, s.checkModel(ctx, t)); err != nil {
		return task.Draft{}, err
	}
	if at.as != nil {
		t.Name, t.Color, t.UntilQuiet = at.as.Name, at.as.Color, at.as.UntilQuiet
	}
	spec := task.Spec{Instructions: def.Instructions, Dropped: dropped, Acceptance: a.Acceptance, Schema: a.Schema}
	spec.PlanApproval = at.as != nil && at.as.PlanApproval
	if g.AllowsTool(tool.SubagentName) {
		spec.Agents = s.notes(at.workspace)
	}
	return task.Draft{Task: t, Spec: spec, Opening: opening}, err
}

// maxNotes bounds the definitions that a delegating agent is told of.
const maxNotes = 50

// notes tell a delegating agent of the definitions that there are. What a workspace says of its own stays out of the prompt
// of an agent that is not its own: whoever wrote the repository is not whom the agent works for.
func (s *Supervisor) notes(workspace string) []task.AgentNote {
	definitions, _ := s.cfg.Definitions.List(workspace)
	var notes []task.AgentNote
	for _, d := range definitions[:min(len(definitions), maxNotes)] {
		note := task.AgentNote{Name: d.Name, Description: d.Description}
		if d.Source == definition.Workspace {
			note.Description = "defined by this workspace"
		}
		notes = append(notes, note)
	}
	return notes
}

// draftShell makes a shell's task. Who may not run commands may not spawn them either.
func (s *Supervisor) draftShell(ctx context.Context, at site, a task.Assignment) (task.Draft, error) {
	if !at.grant.AllowsTool(tool.BashName) {
		return task.Draft{}, exceeded([]grant.Excess{{Field: "tools", Subject: tool.BashName, Allowed: at.grant.Tools}})
	}
	dir, err := canonicalRoot(at.workspace, a.Shell.Dir)
	if err != nil {
		return task.Draft{}, errdefs.BadField("cwd", "%v", err)
	}
	if at.grant.ReadableRoot(dir) == "" {
		return task.Draft{}, exceeded([]grant.Excess{{Field: "cwd", Subject: dir, Allowed: at.grant.Readable}})
	}
	t, err := s.newTask(ctx, at, task.Shell)
	t.Description, t.Budget = firstLine(a.Shell.Command), task.Budget{WallTime: a.Budget.WallTime}
	spec := task.Spec{Shell: &task.ShellSpec{Command: a.Shell.Command, Dir: dir, Env: a.Shell.Env}}
	return task.Draft{Task: t, Spec: spec}, err
}

// wholeGrant is what a client's spawn in a workspace may be granted at most.
func (s *Supervisor) wholeGrant(workspace string) grant.Grant {
	return grant.ForWorkspace(workspace, s.cfg.Tools.Names(), s.cfg.MaxDepth)
}

// heritage is what a child of p in a workspace may be granted at most. In its parent's workspace it has its parent's
// roots, elsewhere that directory alone.
func heritage(p task.Task, workspace string) (grant.Grant, error) {
	g := p.Grant
	g.Depth = max(0, g.Depth-1)
	if workspace == p.Workspace {
		return g, nil
	}
	if g.ReadableRoot(workspace) == "" {
		return g, errdefs.New(errdefs.PermissionDenied, errdefs.WorkspaceNotAllowed, workspace,
			"parent %s is not granted %s; it is granted %v", p.ID, workspace, g.Readable)
	}
	r := grant.Request{Readable: []string{workspace}}
	if g.WritableRoot(workspace) != "" {
		r.Writable = r.Readable
	}
	g, _ = g.Narrow(r)
	return g, nil
}

// ownTools are the tools that an agent of its kind has whatever a definition or a request lists (P2).
func (at site) ownTools() []string {
	own := []string{tool.TaskOutputName, tool.TaskStopName}
	switch {
	case at.as == nil:
		return append(own, tool.ReportName)
	case at.as.Name == task.LeadName:
		return append(own, tool.SubagentName, tool.SendMessageName, tool.TeamCreateName)
	case at.as.PlanApproval:
		return append(own, tool.SendMessageName, tool.SubmitPlanName)
	}
	return append(own, tool.SendMessageName)
}

// barred are the tools that an agent of its kind never has.
func (at site) barred() []string {
	switch {
	case at.as == nil:
		return []string{tool.SendMessageName, tool.SubmitPlanName, tool.TeamCreateName}
	case at.as.Name == task.LeadName:
		return []string{tool.ReportName, tool.SubmitPlanName}
	case at.as.PlanApproval:
		return []string{tool.ReportName, tool.TeamCreateName}
	}
	return []string{tool.ReportName, tool.TeamCreateName, tool.SubmitPlanName}
}

// equipped is what an agent may be granted at most, with the tools of its kind and no others' own. A teammate has its own
// by force, whatever its spawner has.
func (at site) equipped() grant.Grant {
	g := at.grant
	if at.as != nil {
		g = g.With(at.ownTools()...)
	}
	return g.Without(at.barred()...)
}

// narrow is what an agent may do: parent ∩ definition ∩ request (P1, P2). An excess of the request is refused, one of the
// definition dropped and listed.
func narrow(at site, def definition.Definition, asked grant.Request) (g grant.Grant, dropped []string, err error) {
	if asked.Readable, err = canonicalRoots(at.workspace, asked.Readable); err != nil {
		return g, nil, errdefs.BadField("grant.readable_roots", "%v", err)
	}
	if asked.Writable, err = canonicalRoots(at.workspace, asked.Writable); err != nil {
		return g, nil, errdefs.BadField("grant.writable_roots", "%v", err)
	}
	named, own := asked.Tools, at.ownTools()
	at.grant = at.equipped()
	asked.Tools = withOwn(at.grant, asked.Tools, own)
	g, over := at.grant.Narrow(grant.Request{Tools: withOwn(at.grant, def.Tools, own), Denied: def.Disallowed})
	for _, e := range over {
		dropped = append(dropped, e.Subject)
	}
	if at.byAgent {
		g = g.Without(tool.SubagentName)
	}
	g, excess := g.Narrow(asked)
	if g.AllowsTool(tool.BashName) && g.Confined(at.grant) {
		// Nothing here can keep a command within narrower roots, or off the network.
		g = g.Without(tool.BashName)
		dropped = append(dropped, tool.BashName)
		if slices.Contains(named, tool.BashName) {
			excess = append(excess, grant.Excess{
				Field: "tools", Subject: "bash together with narrowed roots or network", Allowed: g.Tools,
			})
		}
	}
	if len(excess) > 0 {
		return g, nil, exceeded(excess)
	}
	if !g.AllowsTool(tool.BashName) && !g.AllowsTool(tool.SubagentName) {
		g = g.Without(tool.TaskOutputName, tool.TaskStopName) // it has no children to look after
	}
	return g, dropped, nil
}

// withOwn adds the tools of its kind to a list of tools; no list stays none.
func withOwn(parent grant.Grant, tools, own []string) []string {
	if tools == nil {
		return nil
	}
	all := slices.Clone(tools)
	for _, name := range own {
		if parent.AllowsTool(name) {
			all = append(all, name)
		}
	}
	return all
}

// overreach is a request for more than is granted.
type overreach struct {
	refusal *errdefs.Error
	excess  []grant.Excess
}

// Error names each excess.
func (o *overreach) Error() string { return o.refusal.Error() }

// Unwrap gives the error as clients see it.
func (o *overreach) Unwrap() error { return o.refusal }

// exceeded refuses what a request asks for beyond what its parent is granted, naming each.
func exceeded(excess []grant.Excess) error {
	e := errdefs.New(errdefs.PermissionDenied, errdefs.GrantExceeded, excess[0].Subject, "not granted: %s", excess[0])
	for _, more := range excess[1:] {
		e.Message += "; " + more.String()
	}
	return &overreach{e, excess}
}

// allowed lists what a refused request could have asked for instead.
func allowed(refusal error) []string {
	o, ok := errors.AsType[*overreach](refusal)
	if !ok {
		return nil
	}
	var all []string
	for _, e := range o.excess {
		for _, name := range e.Allowed {
			if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// canonicalRoots resolves directories that are named relative to a workspace; nil stays nil.
func canonicalRoots(workspace string, dirs []string) ([]string, error) {
	var roots []string
	for _, dir := range dirs {
		root, err := canonicalRoot(workspace, dir)
		if err != nil {
			return nil, err
		}
		roots = append(roots, root)
	}
	return roots, nil
}

func canonicalRoot(workspace, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(workspace, dir)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("%s can't be used: %w", dir, err)
	}
	if stat, err := os.Stat(resolved); err != nil || !stat.IsDir() {
		return "", fmt.Errorf("%s is not a directory", dir)
	}
	return resolved, nil
}

// opening is the assignment as the agent reads it: the prompt, then each input under its heading.
func (s *Supervisor) opening(ctx context.Context, a task.AgentSpec, team roster.Team) (string, error) {
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
	if len(text) > task.MaxPrompt+maxInputs*maxName {
		return "", tooLarge("inputs", len(text), task.MaxPrompt)
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
	left, err := s.cfg.Journal.Result(ctx, team.ID, id)
	return left.Summary, err
}

// waitsForGroup tells whether a queued task's start is its group's to decide.
func waitsForGroup(t task.Task) bool { return t.State == task.Queued && t.Parent.Kind() == task.Group }
