package server

import (
	"context"

	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/server/auth"
)

// teams is the TeamService.
type teams struct {
	agentdv1.UnimplementedTeamServiceServer
	supervisor *runtime.Supervisor
	view       *view.View
}

// CreateTeam makes a team.
func (s teams) CreateTeam(
	ctx context.Context, req *agentdv1.CreateTeamRequest,
) (*agentdv1.CreateTeamResponse, error) {
	budget, err := budgetOf("budget", req.GetBudget())
	if err != nil {
		return nil, err
	}
	team, err := s.supervisor.CreateTeam(ctx, runtime.CreateTeamRequest{
		RequestID: req.GetRequestId(), Caller: auth.CallerOf(ctx).String(), Name: req.GetName(),
		Workspace: req.GetWorkspace(), Description: req.GetDescription(), Budget: budget,
	})
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, team)
	return &agentdv1.CreateTeamResponse{Team: shown}, err
}

// GetTeam shows a team.
func (s teams) GetTeam(ctx context.Context, req *agentdv1.GetTeamRequest) (*agentdv1.GetTeamResponse, error) {
	team, err := s.supervisor.FindTeam(ctx, req.GetTeam(), req.GetWorkspace())
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, team)
	return &agentdv1.GetTeamResponse{Team: shown}, err
}

// show packs a team with all that follows from what is in it.
func (s teams) show(ctx context.Context, team roster.Team) (*agentdv1.Team, error) {
	shown, err := s.view.TeamView(ctx, team)
	if err != nil {
		return nil, err
	}
	return teamToWire(shown), nil
}

// ListTeams gives one page of teams.
func (s teams) ListTeams(ctx context.Context, req *agentdv1.ListTeamsRequest) (*agentdv1.ListTeamsResponse, error) {
	page, next, err := s.view.Teams(ctx, int(req.GetPageSize()), req.GetPageToken())
	if err != nil {
		return nil, err
	}
	resp := &agentdv1.ListTeamsResponse{NextPageToken: next}
	for _, t := range page {
		resp.Teams = append(resp.Teams, teamToWire(t))
	}
	return resp, nil
}

// UpdateTeam changes what is set of a team.
func (s teams) UpdateTeam(
	ctx context.Context, req *agentdv1.UpdateTeamRequest,
) (*agentdv1.UpdateTeamResponse, error) {
	update := runtime.UpdateTeamRequest{
		RequestID: req.GetRequestId(), Caller: auth.CallerOf(ctx).String(), Team: req.GetTeam(), Name: req.Name,
		Description: req.Description,
	}
	if req.GetBudget() != nil {
		budget, err := budgetOf("budget", req.GetBudget())
		if err != nil {
			return nil, err
		}
		update.Budget = &budget
	}
	team, err := s.supervisor.UpdateTeam(ctx, update)
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, team)
	return &agentdv1.UpdateTeamResponse{Team: shown}, err
}

// DeleteTeam ends all that lives in a team and forgets it.
func (s teams) DeleteTeam(
	ctx context.Context, req *agentdv1.DeleteTeamRequest,
) (*agentdv1.DeleteTeamResponse, error) {
	level, err := levelOf(req.GetLevel(), task.Cancel)
	if err != nil {
		return nil, err
	}
	err = s.supervisor.DeleteTeam(ctx, runtime.DeleteTeamRequest{
		RequestID: req.GetRequestId(), Caller: auth.CallerOf(ctx).String(), Team: req.GetTeam(), Level: level,
		Reason: req.GetReason(),
	})
	if err != nil {
		return nil, err
	}
	return &agentdv1.DeleteTeamResponse{}, nil
}

// StopTeam ends the tasks of a team and tells how it comes along.
func (s teams) StopTeam(req *agentdv1.StopTeamRequest, stream grpc.ServerStreamingServer[agentdv1.StopTeamResponse]) error {
	ctx := stream.Context()
	stop, err := stopTeamOf(req)
	if err != nil {
		return err
	}
	stop.Caller = auth.CallerOf(ctx).String()
	return s.supervisor.StopTeam(ctx, stop, func(p runtime.StopProgress) error {
		return sent(stream.Send(&agentdv1.StopTeamResponse{Progress: progressToWire(p)}))
	})
}

func teamToWire(t view.Team) *agentdv1.Team {
	return &agentdv1.Team{
		Id: t.ID, Name: t.Name, Workspace: t.Workspace, Description: t.Description, CreatedAt: timeToWire(t.Created),
		Budget: budgetToWire(t.Budget), Usage: usageToWire(t.Usage, 0), Teammates: int32(t.Teammates),
		LeadTaskId: string(t.Lead), UnreadLeader: int32(t.UnreadLeader), UnreadUser: int32(t.UnreadUser),
	}
}
