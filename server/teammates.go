package server

import (
	"context"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/server/auth"
)

// ListTeammates gives one page of a roster.
func (s teams) ListTeammates(
	ctx context.Context, req *agentdv1.ListTeammatesRequest,
) (*agentdv1.ListTeammatesResponse, error) {
	team, err := s.supervisor.FindTeam(ctx, req.GetTeam(), req.GetWorkspace())
	if err != nil {
		return nil, err
	}
	page, next, err := s.view.Teammates(ctx, view.TeammateFilter{
		Team: team.ID, Living: req.GetLiving(), PageSize: int(req.GetPageSize()), PageToken: req.GetPageToken(),
	})
	if err != nil {
		return nil, err
	}
	resp := &agentdv1.ListTeammatesResponse{NextPageToken: next}
	for _, m := range page {
		resp.Teammates = append(resp.Teammates, teammateToWire(m))
	}
	return resp, nil
}

// GetTeammate shows one teammate.
func (s teams) GetTeammate(
	ctx context.Context, req *agentdv1.GetTeammateRequest,
) (*agentdv1.GetTeammateResponse, error) {
	mate, err := s.teammate(ctx, req.GetTeam(), req.GetWorkspace(), req.GetName())
	if err != nil {
		return nil, err
	}
	return &agentdv1.GetTeammateResponse{Teammate: teammateToWire(mate)}, nil
}

// teammate finds a teammate by its name in the named team, or that of the workspace.
func (s teams) teammate(ctx context.Context, teamName, workspace, name string) (view.Teammate, error) {
	if name == "" {
		return view.Teammate{}, errdefs.BadField("name", "is missing; give the name of a teammate")
	}
	team, err := s.supervisor.FindTeam(ctx, teamName, workspace)
	if err != nil {
		return view.Teammate{}, err
	}
	return s.view.Teammate(ctx, team.ID, name)
}

// DismissTeammate ends a teammate for good and shows how it ended.
func (s teams) DismissTeammate(
	ctx context.Context, req *agentdv1.DismissTeammateRequest,
) (*agentdv1.DismissTeammateResponse, error) {
	level, err := levelOf(req.GetLevel(), task.WrapUp)
	if err != nil {
		return nil, err
	}
	if req.GetName() == "" {
		return nil, errdefs.BadField("name", "is missing; give the name of a teammate")
	}
	err = s.supervisor.Dismiss(ctx, runtime.DismissRequest{
		RequestID: req.GetRequestId(), Caller: auth.CallerOf(ctx).String(), Team: req.GetTeam(),
		Workspace: req.GetWorkspace(), Name: req.GetName(), Level: level, Reason: req.GetReason(),
	})
	if err != nil {
		return nil, err
	}
	mate, err := s.teammate(ctx, req.GetTeam(), req.GetWorkspace(), req.GetName())
	if err != nil {
		return nil, err
	}
	return &agentdv1.DismissTeammateResponse{Teammate: teammateToWire(mate)}, nil
}

func teammateToWire(m view.Teammate) *agentdv1.TeammateStatus {
	return &agentdv1.TeammateStatus{
		Name: m.Name, AgentId: roster.AgentID(m.Name, m.Task.TeamName), Task: taskToWire(m.Task), Dismissed: m.Dismissed,
		Asleep: m.Asleep, PlanApproval: m.PlanApproval, PlanApproved: m.PlanApproved, PlanControlId: m.PlanControlID,
		ShutdownControlId: m.ShutdownControlID,
	}
}
