package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) rosterCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "roster",
		Short: "List the lead and the teammates of a team",
		Long: `roster lists the lead and the teammates of --team, or of the team of this directory, the ended ones too: a message wakes
them, or their line tells why not. LIFE counts the lives of each: a message to one that has ended begins the next.`,
		Example: "  agentctl roster --all",
		Args:    cobra.NoArgs,
	}
	c.Flags().BoolVar(&all, "all", false, "also those that were dismissed")
	return a.command(c, func(ctx context.Context, _ []string) error {
		teammates, err := a.teammates(ctx)
		if err != nil {
			return err
		}
		t := &table{}
		t.add("NAME", "TASK", "STATE", "AGENT", "COLOR", "LIFE", "STEPS", "TOKENS", "COST", "ACTIVITY")
		for _, m := range teammates {
			if m.GetDismissed() && !all {
				continue
			}
			if a.json {
				if err := a.emit(m); err != nil {
					return err
				}
			}
			task := m.GetTask()
			t.add(clean(m.GetName()), task.GetId(), stateCell(task), oneLine(task.GetAgent(), 30), cmp.Or(clean(task.GetColor()), "-"),
				fmt.Sprint(task.GetIncarnation()), fmt.Sprint(task.GetUsage().GetSteps()), fmt.Sprint(spent(task.GetUsage())),
				dollars(task.GetUsage()), oneLine(standing(m), maxLine))
		}
		return a.printTable(t)
	})
}

// teammates reads the roster of the team of this place, all pages.
func (a *app) teammates(ctx context.Context) ([]*agentdv1.TeammateStatus, error) {
	at, err := a.place()
	if err != nil {
		return nil, err
	}
	req := &agentdv1.ListTeammatesRequest{Team: at.team, Workspace: at.workspace}
	var all []*agentdv1.TeammateStatus
	for {
		var page *agentdv1.ListTeammatesResponse
		err := a.persist(ctx, func(c *client) (err error) {
			page, err = c.teams.ListTeammates(ctx, req)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetTeammates()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return all, nil
		}
	}
}

// standing is what people have to know of a teammate: what waits for an answer, why it is asleep, or what it does.
func standing(m *agentdv1.TeammateStatus) string {
	var parts []string
	if id := m.GetPlanControlId(); id != "" {
		parts = append(parts, "its plan "+id+" waits for an answer")
	} else if m.GetPlanApproval() && !m.GetPlanApproved() {
		parts = append(parts, "it has no approved plan")
	}
	if id := m.GetShutdownControlId(); id != "" {
		parts = append(parts, "it was asked to shut down ("+id+")")
	}
	task := m.GetTask()
	switch {
	case m.GetDismissed():
		parts = append(parts, "dismissed")
	case hasEnded(task.GetState()):
		parts = append(parts, cmp.Or(m.GetAsleep(), reasonWord(task.GetReason())+"; a message wakes it"))
	default:
		parts = append(parts, activity(task))
	}
	return strings.Join(parts, "; ")
}

func (a *app) dismissCommand() *cobra.Command {
	req := &agentdv1.DismissTeammateRequest{}
	c := &cobra.Command{
		Use:   "dismiss NAME",
		Short: "End a teammate for good",
		Long: `dismiss ends a teammate for good: no message wakes it, and what it has not read goes back to the senders. It gets time to
report first; --level shortens that. To let it end and be woken again: send --shutdown, or stop.`,
		Example: "  agentctl dismiss reviewer --reason 'the review is over'",
		Args:    takes("NAME"),
	}
	flags := c.Flags()
	registerLevel(flags, &req.Level, "wrap-up")
	flags.StringVar(&req.Reason, "reason", "", "`TEXT` for people: why")
	flags.StringVar(&req.RequestId, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	return a.command(c, func(ctx context.Context, args []string) error {
		at, err := a.place()
		if err != nil {
			return err
		}
		req.RequestId, req.Team, req.Workspace, req.Name = requestID(req.GetRequestId()), at.team, at.workspace, args[0]
		var gone *agentdv1.DismissTeammateResponse
		err = a.persist(ctx, func(c *client) (err error) {
			gone, err = c.teams.DismissTeammate(ctx, req)
			return err
		})
		switch m := gone.GetTeammate(); {
		case err != nil:
			return err
		case a.json:
			return a.emit(m)
		default:
			_, err = fmt.Fprintf(a.out, "%s is dismissed: %s %s %s\n", clean(m.GetName()), m.GetTask().GetId(),
				stateWord(m.GetTask().GetState()), reasonWord(m.GetTask().GetReason()))
			return err
		}
	})
}
