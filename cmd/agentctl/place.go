package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// place is the team that a command is about, as the daemon is asked for it: its name, or the directory whose team it is.
type place struct{ team, workspace string }

// place is the team of --team, or else of this directory.
func (a *app) place() (place, error) {
	if a.team != "" {
		return place{team: a.team}, nil
	}
	dir, err := directoryHere()
	if err != nil {
		return place{}, usageError{err}
	}
	return place{workspace: dir}, nil
}

// workspace is the directory to work in: the one given; none for a team or a parent, which have theirs; else the one of
// this place.
func (a *app) workspace(s *spawnFlags) (string, error) {
	if s.workspace == "" && (a.team != "" || s.parent != "") {
		return "", nil
	}
	return directory(s.workspace)
}

// directory is the one that --workspace gives, without symbolic links; with none given the one of this place.
func directory(given string) (string, error) {
	if given == "" {
		return directoryHere()
	}
	dir, err := filepath.Abs(given)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("--workspace: %w", err)
	}
	return dir, nil
}

// directoryHere is the repository around the current directory, or that directory itself (N1).
func directoryHere() (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if cwd, err = filepath.EvalSymlinks(cwd); err != nil {
		return "", err
	}
	for dir := cwd; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return cwd, nil
		}
	}
}

// isTaskID tells whether a TASK is an id. No teammate has such a name (N2).
func isTaskID(text string) bool {
	kind, number, found := strings.Cut(text, "-")
	if !found || number == "" || strings.Trim(number, "0123456789") != "" {
		return false
	}
	switch kind {
	case "sub", "sh", "grp", "tm":
		return true
	}
	return false
}

// taskID is the id of a TASK: an id as it is, or a teammate of the team of this place. None stays none.
func (a *app) taskID(ctx context.Context, task string) (string, error) {
	if task == "" || isTaskID(task) {
		return task, nil
	}
	found, err := a.teammate(ctx, task)
	return found.GetTask().GetId(), err
}

// teammate is the one of a name in the team of this place.
func (a *app) teammate(ctx context.Context, name string) (*agentdv1.TeammateStatus, error) {
	at, err := a.place()
	if err != nil {
		return nil, err
	}
	var found *agentdv1.TeammateStatus
	err = a.persist(ctx, func(c *client) error {
		r, err := c.teams.GetTeammate(ctx, &agentdv1.GetTeammateRequest{Team: at.team, Workspace: at.workspace, Name: name})
		found = r.GetTeammate()
		return err
	})
	return found, err
}
