package server

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// A team is made, shown, listed page by page, changed and deleted. proves N1, N7
func TestTeamOverTheAPI(t *testing.T) {
	h := newHouse(t, play(scribe))
	one, two := h.join(), h.join()
	create := &agentdv1.CreateTeamRequest{
		RequestId: "once", Name: "shop", Workspace: one.workspace, Description: "sells", Budget: &agentdv1.Budget{Tokens: 1000},
	}
	made, err := one.teams.CreateTeam(h.ctx(), create)
	must(t, err)
	again, err := one.teams.CreateTeam(h.ctx(), create)
	must(t, err)
	if team := made.GetTeam(); !proto.Equal(made, again) || team.GetId() == "" || team.GetName() != "shop" ||
		team.GetWorkspace() != one.workspace || team.GetBudget().GetTokens() != 1000 || team.GetDescription() != "sells" {
		t.Errorf("made %v, then %v", made, again)
	}
	_, err = two.teams.CreateTeam(h.ctx(), &agentdv1.CreateTeamRequest{Workspace: two.workspace})
	must(t, err)
	two.checkPages(2)

	one.spawn(one.mate("Ann", "hello"))
	shown, err := one.teams.GetTeam(h.ctx(), &agentdv1.GetTeamRequest{Workspace: one.workspace})
	must(t, err)
	if team := shown.GetTeam(); team.GetName() != "shop" || team.GetTeammates() != 1 || team.GetUsage().GetSteps() != 1 {
		t.Errorf("shown: %v", team)
	}
	_, err = one.teams.UpdateTeam(h.ctx(), &agentdv1.UpdateTeamRequest{Team: "shop", Name: proto.String("store")})
	refused(t, err, codes.FailedPrecondition, "TEAM_IN_USE")
	updated, err := one.teams.UpdateTeam(h.ctx(), &agentdv1.UpdateTeamRequest{Team: "shop", Budget: &agentdv1.Budget{Turns: 7}})
	must(t, err)
	if b := updated.GetTeam().GetBudget(); b.GetTurns() != 7 || b.GetTokens() != 0 {
		t.Errorf("updated: %v", updated)
	}
	for range 2 {
		_, err = one.teams.DeleteTeam(h.ctx(), &agentdv1.DeleteTeamRequest{RequestId: "gone", Team: "shop"})
		must(t, err)
	}
	_, err = one.teams.GetTeam(h.ctx(), &agentdv1.GetTeamRequest{Team: "shop"})
	refused(t, err, codes.NotFound, "TEAM_NOT_FOUND")
	two.checkPages(1)
}

// checkPages lists teams one by one.
func (c client) checkPages(n int) {
	c.h.t.Helper()
	seen, token := 0, ""
	for range n + 1 {
		page, err := c.teams.ListTeams(c.h.ctx(), &agentdv1.ListTeamsRequest{PageSize: 1, PageToken: token})
		must(c.h.t, err)
		seen, token = seen+len(page.GetTeams()), page.GetNextPageToken()
		if token == "" {
			break
		}
	}
	if seen != n || token != "" {
		c.h.t.Errorf("%d teams are listed, want %d; then %q", seen, n, token)
	}
}

func TestTeamRefusals(t *testing.T) {
	h := newHouse(t, play(scribe))
	c := h.join()
	for _, call := range []struct {
		field string
		make  func() error
	}{
		{"workspace", func() error {
			_, err := c.teams.CreateTeam(h.ctx(), &agentdv1.CreateTeamRequest{Name: "x"})
			return err
		}},
		{"name", func() error {
			_, err := c.teams.CreateTeam(h.ctx(), &agentdv1.CreateTeamRequest{Workspace: c.workspace, Name: "a b"})
			return err
		}},
		{"budget.max_steps", func() error {
			_, err := c.teams.CreateTeam(h.ctx(), &agentdv1.CreateTeamRequest{
				Workspace: c.workspace, Budget: &agentdv1.Budget{MaxSteps: 1},
			})
			return err
		}},
		{"team", func() error { _, err := c.teams.UpdateTeam(h.ctx(), &agentdv1.UpdateTeamRequest{}); return err }},
		{"team", func() error { _, err := c.teams.DeleteTeam(h.ctx(), &agentdv1.DeleteTeamRequest{}); return err }},
		{"level", func() error {
			_, err := c.teams.DeleteTeam(h.ctx(), &agentdv1.DeleteTeamRequest{Team: "x", Level: 9})
			return err
		}},
		{"name", func() error { _, err := c.teams.GetTeammate(h.ctx(), &agentdv1.GetTeammateRequest{}); return err }},
		{"name", func() error {
			_, err := c.teams.DismissTeammate(h.ctx(), &agentdv1.DismissTeammateRequest{})
			return err
		}},
		{"level", func() error {
			_, err := c.teams.DismissTeammate(h.ctx(), &agentdv1.DismissTeammateRequest{Name: "x", Level: 9})
			return err
		}},
		{"page_size", func() error {
			_, err := c.teams.ListTeams(h.ctx(), &agentdv1.ListTeamsRequest{PageSize: -1})
			return err
		}},
		{"message_id", func() error {
			_, err := c.tasks.GetMessageReceipts(h.ctx(), &agentdv1.GetMessageReceiptsRequest{})
			return err
		}},
		{"task_id", func() error {
			_, err := all(c.teams.ExportTranscript(h.ctx(), &agentdv1.ExportTranscriptRequest{}))
			return err
		}},
		{"teammate.name", func() error { _, err := all(c.agents.Spawn(h.ctx(), c.mate("user", "x"))); return err }},
		{"teammate.agent.prompt", func() error { _, err := all(c.agents.Spawn(h.ctx(), c.mate("Ann", ""))); return err }},
		{"lead.agent.prompt", func() error { _, err := all(c.agents.Spawn(h.ctx(), c.lead("", true))); return err }},
	} {
		if got := refused(t, call.make(), codes.InvalidArgument, "INVALID_ARGUMENT"); got != call.field {
			t.Errorf("the field is %q, want %q", got, call.field)
		}
	}
	_, err := c.teams.GetTeam(h.ctx(), &agentdv1.GetTeamRequest{Workspace: c.workspace})
	refused(t, err, codes.NotFound, "TEAM_NOT_FOUND")
	if want := "there is no team in " + c.workspace; !strings.Contains(err.Error(), want) { // no name in quotes that nobody gave
		t.Errorf("%v, want %q", err, want)
	}
}
