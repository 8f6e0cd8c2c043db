package main

import (
	"context"
	"fmt"

	"github.com/rogpeppe/go-internal/testscript"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// listed is what the fake daemon was asked about definitions.
type listed struct {
	workspace string
	reloads   int
}

func (d *daemon) ListAgents(_ context.Context, req *agentdv1.ListAgentsRequest) (*agentdv1.ListAgentsResponse, error) {
	d.mu.Lock()
	d.listed.workspace = req.GetWorkspace()
	d.mu.Unlock()
	return &agentdv1.ListAgentsResponse{
		Agents: []*agentdv1.AgentDefinition{
			{Name: "coder", Description: "Makes a bounded change.", Tools: []string{"read", "edit", "bash"},
				Source: agentdv1.AgentSource_AGENT_SOURCE_BUILTIN, Isolation: agentdv1.Isolation_ISOLATION_NONE},
			{Name: "explorer", Description: "Reads \x1b[31m\nand tells.", DisallowedTools: []string{"bash", "write"},
				Source: agentdv1.AgentSource_AGENT_SOURCE_WORKSPACE, Path: "/w/.claude/agents/explorer.md"},
			{Name: "triage", Model: "small", Tools: []string{"report"}, Budget: &agentdv1.Budget{Steps: 3},
				Source: agentdv1.AgentSource_AGENT_SOURCE_USER, Path: "/c/agentd/agents/triage.md"},
		},
		Problems: []*agentdv1.AgentProblem{
			{Path: "/w/.agentd/agents/bad.md", Message: "can't be read: permission denied"},
			{Path: "/w/.agentd/agents/bad.md", Line: 3, Message: `there is no key "tool"; the nearest is "tools"`},
			{Path: "/w/.claude/agents/explorer.md", Line: 5, Warning: true, Message: "agentd has no tool \"WebSearch\" \x1b[0m"},
		},
	}, nil
}

func (d *daemon) Reload(context.Context, *agentdv1.ReloadRequest) (*agentdv1.ReloadResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listed.reloads++
	return &agentdv1.ReloadResponse{Agents: 2}, nil
}

// checkListed is `listed WORKSPACE RELOADS`: the workspace that was asked about last, and how often files were reloaded.
func checkListed(ts *testscript.TestScript, _ bool, args []string) {
	d := ts.Value("daemon").(*daemon)
	d.mu.Lock()
	got := []string{d.listed.workspace, fmt.Sprint(d.listed.reloads)}
	d.mu.Unlock()
	if got[0] != args[0] || got[1] != args[1] {
		ts.Fatalf("asked about %q, want %q", got, args)
	}
}
