package runtime

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// place finds the team and the workspace of an assignment (N1).
func (s *Supervisor) place(ctx context.Context, a task.Assignment) (roster.Team, string, error) {
	workspace := ""
	if a.Workspace != "" {
		var err error
		if workspace, err = s.canonical(a.Workspace); err != nil {
			return roster.Team{}, "", err
		}
	}
	team, err := s.teamFor(ctx, a, workspace)
	if err != nil {
		return team, "", err
	}
	if workspace == "" {
		workspace = team.Workspace
	}
	if workspace == "" && isDefault(team.Name) {
		workspace = s.home() // another team had that directory when this one was made
	}
	if workspace == "" {
		return team, "", errdefs.New(errdefs.FailedPrecondition, errdefs.NoWorkspace, team.Name,
			"the spawn names no workspace and team %q has none; give an absolute directory", team.Name)
	}
	workspace, err = s.canonical(workspace) // a team's own may have vanished, or lie outside the roots of today
	return team, workspace, err
}

// canonical resolves a workspace, which must exist and lie beneath a --workspace root when there is any.
func (s *Supervisor) canonical(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", errdefs.BadField("workspace", "%q is not absolute; the daemon's own directory means nothing to you", dir)
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", errdefs.BadField("workspace", "%q can't be used: %v", dir, err)
	}
	stat, err := os.Stat(resolved)
	if err != nil || !stat.IsDir() {
		return "", errdefs.BadField("workspace", "%q is not a directory", dir)
	}
	if !utf8.ValidString(resolved) {
		return "", errdefs.BadField("workspace", "%q is not valid UTF-8", dir)
	}
	for _, root := range s.cfg.Workspaces {
		if grant.Beneath(root, resolved) {
			return resolved, nil
		}
	}
	if len(s.cfg.Workspaces) > 0 {
		return "", errdefs.New(errdefs.PermissionDenied, errdefs.WorkspaceNotAllowed, resolved,
			"workspace %s lies beneath none of %s", resolved, strings.Join(s.cfg.Workspaces, ", "))
	}
	return resolved, nil
}

// isDefault tells whether a team's name, in any case, is that of the default team.
func isDefault(name string) bool { return strings.EqualFold(name, roster.DefaultTeam) }

// home is the workspace of the default team: the first --workspace, or none.
func (s *Supervisor) home() string {
	if len(s.cfg.Workspaces) == 0 {
		return ""
	}
	return s.cfg.Workspaces[0]
}

// teamFor finds the named team, or the one of the workspace, or the default; the latter two are made when needed.
func (s *Supervisor) teamFor(ctx context.Context, a task.Assignment, workspace string) (roster.Team, error) {
	j := s.cfg.Journal
	switch {
	case a.Team == "" && a.Parent != "":
		parent, err := j.Task(ctx, a.Parent)
		if err != nil {
			return roster.Team{}, err
		}
		return j.Team(ctx, parent.Value.Team)
	case a.Team != "" && !isDefault(a.Team):
		return j.TeamByName(ctx, a.Team)
	case a.Team != "" || workspace == "":
		return s.defaultTeam(ctx)
	}
	find := func() (roster.Team, error) { return j.TeamByRoot(ctx, workspace) }
	if workspace == s.home() { // the default team's, unless another one, or itself by another name, has it
		if team, err := find(); !errdefs.Is(err, errdefs.TeamNotFound) {
			return team, err
		}
		return s.defaultTeam(ctx)
	}
	return s.findOrMake(ctx, nameFor(workspace), workspace, find)
}

// defaultTeam has the first --workspace, unless that is another team's from the time before it was the first.
func (s *Supervisor) defaultTeam(ctx context.Context) (roster.Team, error) {
	find := func() (roster.Team, error) { return s.cfg.Journal.TeamByName(ctx, roster.DefaultTeam) }
	team, err := s.findOrMake(ctx, roster.DefaultTeam, s.home(), find)
	if errdefs.Is(err, errdefs.TeamNotFound) {
		return s.findOrMake(ctx, roster.DefaultTeam, "", find)
	}
	return team, err
}

// FindTeam finds the named team, or the one of the workspace, or the default one. TeamNotFound when there is none yet.
func (s *Supervisor) FindTeam(ctx context.Context, name, workspace string) (roster.Team, error) {
	j := s.cfg.Journal
	if name != "" {
		return j.TeamByName(ctx, name)
	}
	if workspace != "" {
		root, err := s.canonical(workspace)
		if err != nil {
			return roster.Team{}, err
		}
		team, err := j.TeamByRoot(ctx, root)
		if root != s.home() || !errdefs.Is(err, errdefs.TeamNotFound) {
			return team, err
		}
	}
	team, err := j.TeamByName(ctx, roster.DefaultTeam)
	if errdefs.Is(err, errdefs.TeamNotFound) {
		err = errdefs.New(errdefs.NotFound, errdefs.TeamNotFound, roster.DefaultTeam,
			"no team is meant: name one, or the workspace of one")
	}
	return team, err
}

func (s *Supervisor) findOrMake(
	ctx context.Context, name, root string, find func() (roster.Team, error),
) (roster.Team, error) {
	team, err := find()
	if !errdefs.Is(err, errdefs.TeamNotFound) {
		return team, err
	}
	team, err = s.cfg.Journal.CreateTeam(ctx, name, root)
	if errdefs.Is(err, errdefs.NameTaken) || errdefs.Is(err, errdefs.Conflict) {
		return find() // somebody else made it meanwhile
	}
	return team, err
}
