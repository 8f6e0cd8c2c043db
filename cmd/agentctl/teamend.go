package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) teamStopCommand() *cobra.Command {
	var s stopFlags
	c := &cobra.Command{
		Use:     "stop [NAME]",
		Short:   "End all tasks of a team",
		Long:    "stop ends all tasks of a team. The team stays, and messages of a client still wake its teammates.",
		Example: "  agentctl team stop --level cancel",
		Args:    mayTake("NAME"),
	}
	s.register(c.Flags())
	return a.command(c, func(ctx context.Context, args []string) error {
		team, err := a.teamOf(ctx, args)
		if err != nil {
			return err
		}
		return a.stopTeam(ctx, team.GetName(), &s)
	})
}

func (a *app) teamDeleteCommand() *cobra.Command {
	req := &agentdv1.DeleteTeamRequest{}
	c := &cobra.Command{
		Use:   "delete NAME",
		Short: "End all tasks of a team and forget it",
		Long: `delete ends all tasks of a team, waits until their processes are gone, and forgets the team: its name and directory are
free again. What its tasks did stays readable by their ids.`,
		Example: "  agentctl team delete shop",
		Args:    takes("NAME"),
	}
	flags := c.Flags()
	registerLevel(flags, &req.Level, "cancel")
	flags.StringVar(&req.Reason, "reason", "", "`TEXT` for people: why")
	flags.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	return a.command(c, func(ctx context.Context, args []string) error {
		if err := a.refuseTeam(); err != nil {
			return err
		}
		req.RequestId, req.Team = requestID(req.GetRequestId()), args[0]
		var gone *agentdv1.DeleteTeamResponse
		err := a.persist(ctx, func(c *client) (err error) {
			gone, err = c.teams.DeleteTeam(ctx, req)
			return err
		})
		switch {
		case err != nil:
			return err
		case a.json:
			return a.emit(gone)
		}
		_, err = fmt.Fprintf(a.out, "%s is deleted\n", args[0])
		return err
	})
}
