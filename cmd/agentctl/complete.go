package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// completeTimeout bounds how long the shell waits for names.
const completeTimeout = time.Second

// candidates asks the daemon for names.
type candidates func(context.Context, *app) ([]string, error)

// completeNames lets the shell complete names of teams, teammates and tasks, of a daemon that runs.
func (a *app) completeNames(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("team", a.names(-1, teamNames)) // the flag is there
	for _, path := range []struct {
		command []string
		give    candidates
	}{
		{[]string{"send"}, recipientNames}, {[]string{"output"}, taskNames}, {[]string{"stop"}, taskNames},
		{[]string{"transcript"}, taskNames}, {[]string{"dismiss"}, teammateNames}, {[]string{"team", "show"}, teamNames},
		{[]string{"team", "rename"}, teamNames}, {[]string{"team", "update"}, teamNames},
		{[]string{"team", "stop"}, teamNames}, {[]string{"team", "delete"}, teamNames},
	} {
		if c, _, err := root.Find(path.command); err == nil {
			c.ValidArgsFunction = a.names(0, path.give)
		}
	}
	for _, name := range []string{"ps", "spawn"} {
		if c, _, err := root.Find([]string{name}); err == nil {
			_ = c.RegisterFlagCompletionFunc("parent", a.names(-1, taskNames)) // the flag is there
		}
	}
}

// names completes the argument at a place, or at any; a daemon that does not run or answer at once has none.
func (a *app) names(place int, give candidates) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if place >= 0 && len(args) != place {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		asker := *a // it neither starts a daemon nor says anything
		asker.noStart, asker.err = true, io.Discard
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		found, err := give(ctx, &asker)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// teamNames are those of the first teams.
func teamNames(ctx context.Context, a *app) (names []string, err error) {
	err = a.attempt(ctx, func(c *client) error {
		page, err := c.teams.ListTeams(ctx, &agentdv1.ListTeamsRequest{PageSize: maxPage})
		for _, team := range page.GetTeams() {
			names = append(names, team.GetName()+"\t"+oneLine(team.GetWorkspace(), 60))
		}
		return err
	})
	return names, err
}

// teammateNames are those of the team of this place that were not dismissed.
func teammateNames(ctx context.Context, a *app) (names []string, err error) {
	at, err := a.place()
	if err != nil {
		return nil, err
	}
	err = a.attempt(ctx, func(c *client) error {
		page, err := c.teams.ListTeammates(ctx, &agentdv1.ListTeammatesRequest{Team: at.team, Workspace: at.workspace, PageSize: maxPage})
		for _, m := range page.GetTeammates() {
			if !m.GetDismissed() {
				names = append(names, m.GetName()+"\t"+stateWord(m.GetTask().GetState()))
			}
		}
		return err
	})
	return names, err
}

// recipientNames are who a message may be for, beside tasks.
func recipientNames(ctx context.Context, a *app) ([]string, error) {
	names, err := teammateNames(ctx, a)
	return append(names, "user\tthe inbox, for people", everyone+"\tall living teammates"), err
}

// taskNames are the teammates of this place, and the ids of what lives.
func taskNames(ctx context.Context, a *app) ([]string, error) {
	names, _ := teammateNames(ctx, a) // there may be no team here
	err := a.attempt(ctx, func(c *client) error {
		page, err := c.tasks.ListTasks(ctx, &agentdv1.ListTasksRequest{Team: a.team, Living: true, PageSize: maxPage})
		for _, task := range page.GetTasks() {
			names = append(names, task.GetId()+"\t"+oneLine(activity(task), 60))
		}
		return err
	})
	return names, err
}
