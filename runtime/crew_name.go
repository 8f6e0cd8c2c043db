package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/runtime/tool"
)

// NameTeam gives the lead's team a name, and a description unless that is empty.
func (c *crew) NameTeam(ctx context.Context, call tool.Call, name, description string) error {
	if !c.task.IsLead() {
		return &tool.Error{Reason: tool.NotGranted, Subject: tool.TeamCreateName, Message: "only the lead names its team"}
	}
	in, err := c.s.cfg.Journal.Team(ctx, c.task.Team)
	if err != nil {
		return err
	}
	req := UpdateTeamRequest{
		RequestID: call.ID, Caller: string(c.task.ID), Lead: c.task.ID, Team: in.Name, Name: &name,
	}
	if description != "" {
		req.Description = &description
	}
	if _, err := c.s.UpdateTeam(ctx, req); err != nil {
		return c.refused(err)
	}
	return nil
}
