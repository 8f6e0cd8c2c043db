package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) teamCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "team",
		Short: "Show, make, change, stop and delete teams",
		Long: `A team is the scope of everything: a directory, a lead, teammates, an inbox, a budget. Each directory has one team,
which the first spawn there makes. Where NAME may be left out it is that of --team, or of this directory's team.`,
		Example: "  agentctl team list\n  agentctl team show",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.teamListCommand(), a.teamShowCommand(), a.teamCreateCommand(), a.teamRenameCommand(),
		a.teamUpdateCommand(), a.teamStopCommand(), a.teamDeleteCommand())
	return c
}

// refuseTeam refuses --team for a command to which it says nothing.
func (a *app) refuseTeam() error {
	if a.team != "" {
		return usageError{errors.New("--team means nothing here; teams are arguments")}
	}
	return nil
}

// mayTake checks that a command has one argument at most, of that name.
func mayTake(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return fmt.Errorf("%s takes %s at most, but got %d arguments", cmd.Name(), name, len(args))
	}
}

func (a *app) teamListCommand() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List all teams", Example: "  agentctl team list -o json", Args: cobra.NoArgs}
	return a.command(c, func(ctx context.Context, _ []string) error {
		if err := a.refuseTeam(); err != nil {
			return err
		}
		req := &agentdv1.ListTeamsRequest{}
		t := &table{}
		t.add("NAME", "ID", "TEAMMATES", "UNREAD", "TOKENS", "COST", "WORKSPACE", "DESCRIPTION")
		for {
			var page *agentdv1.ListTeamsResponse
			err := a.persist(ctx, func(c *client) (err error) {
				page, err = c.teams.ListTeams(ctx, req)
				return err
			})
			if err != nil {
				return err
			}
			for _, team := range page.GetTeams() {
				if a.json {
					err = errors.Join(err, a.emit(team))
				}
				t.add(clean(team.GetName()), team.GetId(), fmt.Sprint(team.GetTeammates()), fmt.Sprint(team.GetUnreadUser()),
					fmt.Sprint(spent(team.GetUsage())), dollars(team.GetUsage()), orDash(team.GetWorkspace()),
					oneLine(team.GetDescription(), maxActivity))
			}
			if req.PageToken = page.GetNextPageToken(); err != nil || req.GetPageToken() == "" {
				return errors.Join(err, a.printTable(t))
			}
		}
	})
}

// printTable prints a table for people.
func (a *app) printTable(t *table) error {
	if a.json {
		return nil
	}
	for _, line := range t.lines(screenWidth(a.out.w)) {
		fmt.Fprintln(a.out, line)
	}
	return a.out.err
}

// orDash is a text on one line; `-` for none.
func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return oneLine(text, 1000)
}

func (a *app) teamShowCommand() *cobra.Command {
	c := &cobra.Command{Use: "show [NAME]", Short: "Show a team", Example: "  agentctl team show", Args: mayTake("NAME")}
	return a.command(c, func(ctx context.Context, args []string) error {
		team, err := a.teamOf(ctx, args)
		if err != nil {
			return err
		}
		return a.showTeam(team)
	})
}

// teamOf is the team of the name in args, else that of this place.
func (a *app) teamOf(ctx context.Context, args []string) (*agentdv1.Team, error) {
	at, err := a.place()
	switch {
	case err != nil:
		return nil, err
	case len(args) > 0 && a.team != "":
		return nil, usageError{errors.New("give NAME or --team, not both")}
	case len(args) > 0:
		at = place{team: args[0]}
	}
	var team *agentdv1.Team
	err = a.persist(ctx, func(c *client) error {
		r, err := c.teams.GetTeam(ctx, &agentdv1.GetTeamRequest{Team: at.team, Workspace: at.workspace})
		team = r.GetTeam()
		return err
	})
	return team, err
}

// showTeam prints a team.
func (a *app) showTeam(team *agentdv1.Team) error {
	if a.json {
		return a.emit(team)
	}
	lead := "none lives"
	if id := team.GetLeadTaskId(); id != "" {
		lead = id
	}
	t := &table{}
	t.add("team", fmt.Sprintf("%s (%s), made %s", clean(team.GetName()), team.GetId(), localTime(team.GetCreatedAt())))
	t.add("workspace", orDash(team.GetWorkspace()))
	if team.GetDescription() != "" {
		t.add("about", oneLine(team.GetDescription(), 1000))
	}
	t.add("lead", lead)
	t.add("teammates", fmt.Sprint(team.GetTeammates()))
	t.add("inbox", fmt.Sprintf("%d not read by you, %d not by the lead", team.GetUnreadUser(), team.GetUnreadLeader()))
	t.add("used", teamUsage(team.GetUsage()))
	if bounds := budgetText(team.GetBudget()); bounds != "" {
		t.add("budget", bounds)
	}
	return a.printTable(t)
}

// teamUsage is what all tasks of a team consumed.
func teamUsage(u *agentdv1.Usage) string {
	parts := []string{count(u.GetTurns(), "turn", "turns"), count(u.GetSteps(), "step", "steps"), tokens(spent(u)),
		count(u.GetToolCalls(), "tool call", "tool calls")}
	if u.GetCostUsd() > 0 {
		parts = append(parts, dollars(u))
	}
	return strings.Join(parts, "  ")
}

// budgetText is what a team may consume, in the words of --budget.
func budgetText(b *agentdv1.Budget) string {
	var bounds []string
	for _, bound := range []struct {
		name string
		n    int64
	}{{"steps", b.GetSteps()}, {"tokens", b.GetTokens()}, {"turns", b.GetTurns()}, {"tool-calls", b.GetToolCalls()}} {
		if bound.n > 0 {
			bounds = append(bounds, fmt.Sprintf("%s=%d", bound.name, bound.n))
		}
	}
	if b.GetCostUsd() > 0 {
		bounds = append(bounds, fmt.Sprintf("cost=%g", b.GetCostUsd()))
	}
	return strings.Join(bounds, " ")
}

// teamBudget is the flag --budget of a team.
type teamBudget struct{ budgetFlag }

// Set takes a list of bounds. Those of one task mean nothing for a team.
func (f *teamBudget) Set(list string) error {
	if err := f.budgetFlag.Set(list); err != nil {
		return err
	}
	if f.budget.GetWallTime() != nil || f.budget.GetMaxSteps() > 0 {
		return errors.New("a team has no bound of time or max-steps: give them to its agents")
	}
	return nil
}

// teamBudgetUsage is the help of --budget.
const teamBudgetUsage = "what all its tasks together may consume: steps, tokens, turns, tool-calls, cost (USD)"

func (a *app) teamCreateCommand() *cobra.Command {
	req := &agentdv1.CreateTeamRequest{}
	var budget teamBudget
	c := &cobra.Command{
		Use:     "create [NAME]",
		Short:   "Make the team of a directory",
		Long:    "create makes the team of a directory, which has none yet. Without NAME it is called after the directory.",
		Example: "  agentctl team create shop --workspace ~/src/shop --budget cost=20",
		Args:    mayTake("NAME"),
	}
	flags := c.Flags()
	flags.StringVar(&req.Workspace, "workspace", "", "`DIR` that its agents work in (default the repository around this one, or this one)")
	flags.StringVar(&req.Description, "description", "", "`TEXT` for people and for its agents")
	flags.Var(&budget, "budget", teamBudgetUsage)
	flags.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	return a.command(c, func(ctx context.Context, args []string) (err error) {
		if err := a.refuseTeam(); err != nil {
			return err
		}
		if req.Workspace, err = directory(req.GetWorkspace()); err != nil {
			return usageError{err}
		}
		req.RequestId, req.Budget, req.Name = requestID(req.GetRequestId()), budget.budget, strings.Join(args, "")
		var made *agentdv1.CreateTeamResponse
		err = a.persist(ctx, func(c *client) (err error) {
			made, err = c.teams.CreateTeam(ctx, req)
			return err
		})
		if err != nil {
			return err
		}
		return a.showTeam(made.GetTeam())
	})
}

func (a *app) teamRenameCommand() *cobra.Command {
	req := &agentdv1.UpdateTeamRequest{}
	c := &cobra.Command{
		Use:     "rename OLD NEW",
		Short:   "Give a team without living teammates another name",
		Example: "  agentctl team rename shop-1f2e3d shop",
		Args:    takes("OLD", "NEW"),
	}
	c.Flags().StringVar(&req.RequestId, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	return a.command(c, func(ctx context.Context, args []string) error {
		if err := a.refuseTeam(); err != nil {
			return err
		}
		req.Team, req.Name = args[0], proto.String(args[1])
		return a.updateTeam(ctx, req)
	})
}

func (a *app) teamUpdateCommand() *cobra.Command {
	req := &agentdv1.UpdateTeamRequest{}
	var description string
	var budget teamBudget
	c := &cobra.Command{
		Use:     "update [NAME]",
		Short:   "Change a team's description or budget",
		Long:    "update changes what is given. A budget takes the place of the old one as a whole.",
		Example: "  agentctl team update --budget cost=50,tokens=5000000",
		Args:    mayTake("NAME"),
	}
	flags := c.Flags()
	flags.StringVar(&description, "description", "", "`TEXT` for people and for its agents")
	flags.Var(&budget, "budget", teamBudgetUsage)
	flags.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	return a.command(c, func(ctx context.Context, args []string) error {
		if flags.Changed("description") {
			req.Description = proto.String(description)
		}
		if req.Budget = budget.budget; req.Budget == nil && req.Description == nil {
			return usageError{errors.New("update needs --description or --budget")}
		}
		team, err := a.teamOf(ctx, args)
		if err != nil {
			return err
		}
		req.Team = team.GetName()
		return a.updateTeam(ctx, req)
	})
}

// updateTeam changes a team and shows it.
func (a *app) updateTeam(ctx context.Context, req *agentdv1.UpdateTeamRequest) error {
	req.RequestId = requestID(req.GetRequestId())
	var now *agentdv1.UpdateTeamResponse
	err := a.persist(ctx, func(c *client) (err error) {
		now, err = c.teams.UpdateTeam(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	return a.showTeam(now.GetTeam())
}
