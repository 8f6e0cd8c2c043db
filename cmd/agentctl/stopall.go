package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// stopAll stops a team's tasks and shows how that comes along, to its end.
func (a *app) stopAll(ctx context.Context, s *stopFlags) error {
	team, err := a.teamHere(ctx)
	switch {
	case err != nil:
		return err
	case team == "":
		a.note("no task is at work here; --team NAME stops those of another place, agentctl ps lists them")
		return nil
	}
	return a.stopTeam(ctx, team, s)
}

// stopTeam stops the tasks of the team of that name and shows how that comes along, to its end.
func (a *app) stopTeam(ctx context.Context, team string, s *stopFlags) error {
	req := &agentdv1.StopTeamRequest{
		RequestId: requestID(s.requestID), Team: team, Level: s.level, Reason: s.reason,
		WrapUpTimeout: optional(s.wrapUp), CancelTimeout: optional(s.abort),
	}
	return a.persist(ctx, func(c *client) error {
		stream, err := c.teams.StopTeam(ctx, req)
		if err != nil {
			return err
		}
		for {
			r, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return errCut
			case err != nil:
				return err
			}
			if a.json {
				err = a.emit(r)
			} else if a.noteProgress(team, r.GetProgress()); r.GetProgress().GetTasksRemaining() == 0 {
				_, err = fmt.Fprintf(a.out, "%s: 0 tasks remain\n", team)
			}
			if err != nil || r.GetProgress().GetTasksRemaining() == 0 {
				return err
			}
		}
	})
}

// workOnlyIn refuses a team that is at work in other directories too, which nobody here may know of.
func workOnlyIn(workspace, team string, tasks []*agentdv1.Task) error {
	for _, task := range tasks {
		if task.GetTeam() == team && task.GetParentTaskId() == "" && task.GetWorkspace() != workspace {
			return usageError{fmt.Errorf("the team %s is at work in %s too; stop all of it with --team %s", team, task.GetWorkspace(), team)}
		}
	}
	return nil
}

// teamHere is the team of --team, or the one whose tasks work in the directory that a spawn from here works in; empty when
// there is none.
func (a *app) teamHere(ctx context.Context) (string, error) {
	if a.team != "" {
		return a.team, nil
	}
	workspace, err := a.workspace(&spawnFlags{})
	if err != nil {
		return "", err
	}
	tasks, err := a.listTasks(ctx, &agentdv1.ListTasksRequest{Living: true})
	if err != nil {
		return "", err
	}
	var teams []string
	for _, task := range tasks {
		if task.GetWorkspace() == workspace && !slices.Contains(teams, task.GetTeam()) {
			teams = append(teams, task.GetTeam())
		}
	}
	switch len(teams) {
	case 0:
		return "", nil
	case 1:
		return teams[0], workOnlyIn(workspace, teams[0], tasks)
	}
	return "", usageError{fmt.Errorf("the teams %s are at work in %s; choose one with --team", strings.Join(teams, ", "), workspace)}
}
