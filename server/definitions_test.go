package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// definition writes a file of the workspace's definitions.
func (h *house) definition(name, text string) string {
	h.t.Helper()
	dir := filepath.Join(h.workspace, ".agentd", "agents")
	must(h.t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, name)
	must(h.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// agentsOf lists the definitions of a workspace, and the names without the built-in ones.
func (h *house) agentsOf(workspace string) (*agentdv1.ListAgentsResponse, []string) {
	h.t.Helper()
	got, err := h.daemon.ListAgents(h.ctx(), &agentdv1.ListAgentsRequest{Workspace: workspace})
	must(h.t, err)
	var names []string
	for _, d := range got.GetAgents() {
		if d.GetSource() != agentdv1.AgentSource_AGENT_SOURCE_BUILTIN {
			names = append(names, d.GetName())
		}
	}
	return got, names
}

func TestDefinitionsAreListed(t *testing.T) {
	h := newHouse(t, says("done"))
	path := h.definition("full.md", `---
name: full
description: d
tools: read
disallowed_tools: bash
model: m
max_steps: 1
budget: {steps: 2, tokens: 3, turns: 4, tool_calls: 5, wall_time: 6s, cost_usd: 0.5}
isolation: worktree
---
Do it.`)
	broken := h.definition("wrong.md", "---\nname: wrong\nmodel_name: m\n---\nDo it.")
	got, names := h.agentsOf(h.workspace)
	if strings.Join(names, " ") != "full" || len(got.GetAgents()) != 6 {
		t.Fatalf("got %v", got)
	}
	full := got.GetAgents()[2] // after coder and explorer
	noMissing(t, full)
	want := &agentdv1.Budget{MaxSteps: 1, Steps: 2, Tokens: 3, Turns: 4, ToolCalls: 5, WallTime: full.GetBudget().GetWallTime(), CostUsd: 0.5}
	if !proto.Equal(full.GetBudget(), want) || full.GetBudget().GetWallTime().GetSeconds() != 6 ||
		full.GetSource() != agentdv1.AgentSource_AGENT_SOURCE_WORKSPACE || full.GetPath() != path ||
		full.GetIsolation() != agentdv1.Isolation_ISOLATION_WORKTREE {
		t.Errorf("got %v", full)
	}
	first := got.GetAgents()[0]
	if first.GetName() != "coder" || first.GetIsolation() != agentdv1.Isolation_ISOLATION_NONE || first.GetPath() != "" {
		t.Errorf("got %v", first)
	}
	problems := got.GetProblems()
	if len(problems) != 2 || problems[1].GetPath() != broken || problems[1].GetLine() != 3 || problems[1].GetWarning() ||
		!problems[0].GetWarning() || !strings.Contains(problems[1].GetMessage(), `"model_name"`) {
		t.Errorf("problems: %v", problems)
	}
	if got, names := h.agentsOf(""); names != nil || got.GetProblems() != nil {
		t.Errorf("without a workspace: %v", got)
	}
}

func TestWorkspacesOfDefinitionsAreChecked(t *testing.T) {
	h := newHouse(t, says("done"))
	for _, workspace := range []string{"relative", h.workspace + "/nowhere"} {
		_, err := h.daemon.ListAgents(h.ctx(), &agentdv1.ListAgentsRequest{Workspace: workspace})
		if field := refused(t, err, codes.InvalidArgument, "INVALID_ARGUMENT"); field != "workspace" {
			t.Errorf("%s: the field %q", workspace, field)
		}
	}
}

// TestDefinitionsChangeWithoutRestart: the next spawn has the new definition, one that was spawned keeps its own.
func TestDefinitionsChangeWithoutRestart(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	spawn := func() (*agentdv1.Task, error) {
		req := h.request("do it")
		req.GetSingle().Agent, req.Detach = "mine", true
		items, err := all(h.agents.Spawn(h.ctx(), req))
		if err != nil {
			return nil, err
		}
		return items[0].GetTask(), nil
	}
	_, err := spawn()
	refused(t, err, codes.NotFound, "AGENT_NOT_FOUND")
	h.definition("mine.md", "---\ndescription: d\nmodel: one\n---\nDo it.")
	first, err := spawn()
	must(t, err)
	<-m.begun
	h.definition("mine.md", "---\ndescription: d\nmodel: two\n---\nDo it.")
	second, err := spawn()
	must(t, err)
	if first.GetModel() != "one" || second.GetModel() != "two" {
		t.Errorf("models %q and %q", first.GetModel(), second.GetModel())
	}
	again, err := h.tasks.GetTask(h.ctx(), &agentdv1.GetTaskRequest{TaskId: first.GetId()})
	must(t, err)
	if again.GetTask().GetModel() != "one" {
		t.Errorf("a running task has %q now", again.GetTask().GetModel())
	}
	close(m.more)
	h.end(first.GetId())
	h.end(second.GetId())
}

func TestReloadTellsWhatIsRead(t *testing.T) {
	h := newHouse(t, says("done"))
	h.definition("good.md", "---\ndescription: d\n---\nDo it.")
	h.definition("bad.md", "Do it.")
	h.agentsOf(h.workspace) // it is in use from now on
	got, err := h.daemon.Reload(h.ctx(), &agentdv1.ReloadRequest{})
	must(t, err)
	if got.GetAgents() != 1 || len(got.GetProblems()) != 1 || got.GetProblems()[0].GetLine() != 1 {
		t.Errorf("got %v", got)
	}
}
