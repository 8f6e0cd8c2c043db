package server

import (
	"context"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime/definition"
)

// ListAgents lists the agent definitions that a spawn in a workspace can name, and what is wrong with broken ones.
func (d daemon) ListAgents(
	_ context.Context, req *agentdv1.ListAgentsRequest,
) (*agentdv1.ListAgentsResponse, error) {
	definitions, problems, err := d.supervisor.Definitions(req.GetWorkspace())
	if err != nil {
		return nil, err
	}
	resp := &agentdv1.ListAgentsResponse{Problems: problemsToWire(problems)}
	for _, def := range definitions {
		resp.Agents = append(resp.Agents, definitionToWire(def))
	}
	return resp, nil
}

// Reload reads the agent definitions anew.
func (d daemon) Reload(context.Context, *agentdv1.ReloadRequest) (*agentdv1.ReloadResponse, error) {
	count, problems := d.supervisor.ReloadDefinitions()
	return &agentdv1.ReloadResponse{Agents: int32(count), Problems: problemsToWire(problems)}, nil
}

func definitionToWire(d definition.Definition) *agentdv1.AgentDefinition {
	w := &agentdv1.AgentDefinition{
		Name: d.Name, Description: d.Description, Tools: d.Tools, DisallowedTools: d.Disallowed, Model: d.Model,
		Budget: budgetToWire(d.Budget), Source: sourceToWire(d.Source), Path: d.Path,
		Isolation: agentdv1.Isolation_ISOLATION_NONE,
	}
	if d.Worktree {
		w.Isolation = agentdv1.Isolation_ISOLATION_WORKTREE
	}
	return w
}

func sourceToWire(s definition.Source) agentdv1.AgentSource {
	switch s {
	case definition.Builtin:
		return agentdv1.AgentSource_AGENT_SOURCE_BUILTIN
	case definition.User:
		return agentdv1.AgentSource_AGENT_SOURCE_USER
	case definition.Workspace:
		return agentdv1.AgentSource_AGENT_SOURCE_WORKSPACE
	}
	return agentdv1.AgentSource_AGENT_SOURCE_UNSPECIFIED
}

func problemsToWire(problems []definition.Problem) []*agentdv1.AgentProblem {
	var ws []*agentdv1.AgentProblem
	for _, p := range problems {
		ws = append(ws, &agentdv1.AgentProblem{
			Path: p.Path, Line: int32(p.Line), Message: p.Message, Warning: p.Warning,
		})
	}
	return ws
}
