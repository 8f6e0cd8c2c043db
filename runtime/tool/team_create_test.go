package tool

import (
	"context"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/task"
)

// namers keep the name that a lead gives its team.
type namers struct {
	mates
	name, description string
}

func (n *namers) NameTeam(_ context.Context, call Call, name, description string) error {
	n.name, n.description, n.callID = name, description, call.ID
	return n.refusal
}

func TestTeamCreate(t *testing.T) {
	a, n := newAgent(t), &namers{}
	a.fail(NotGranted, "team_create", `{"name":"crew"}`) // it has no team
	a.scope.Crew = n
	if got := a.text("team_create", `{"name":"crew","description":"builds"}`); got != "your team is named crew now" {
		t.Errorf("answered %q", got)
	}
	if n.name != "crew" || n.description != "builds" || n.callID == "" {
		t.Errorf("%+v", n)
	}
	a.fail(InvalidArguments, "team_create", `{"name":""}`)
	n.refusal = &Error{Reason: "TEAM_IN_USE", Message: "it has teammates"}
	a.fail("TEAM_IN_USE", "team_create", `{"name":"other"}`)
}

// proves N4: with a name the agent is a teammate; the call gives both its ids at once and waits for nothing.
func TestSubagentWithAName(t *testing.T) {
	resting := Waited{AgentID: "ann@crew", Task: task.Task{ID: "tm-2", Kind: task.Teammate, State: task.Idle}}
	a, r := newParent(t, resting)
	answer := a.run("subagent", `{"task":"look","name":"ann","team_name":"crew","color":"red","agent":"explorer","max_steps":3}`)
	if want := `{"task_id":"tm-2","agent_id":"ann@crew","status":"running"}`; answer.Text != want || answer.Ends != nil {
		t.Errorf("%+v", answer)
	}
	if got := strings.Join(r.asked, ", "); got != "spawn call00001, look tm-2" {
		t.Errorf("asked: %s", got)
	}
	if s := r.spawned; *s.Teammate != (task.TeammateSpec{Name: "ann", Color: "red"}) || s.Team != "crew" || s.Agent != "explorer" ||
		s.Prompt != "look" || s.Budget.MaxSteps != 3 {
		t.Errorf("%+v", s)
	}
	resting.End, resting.Output = TurnOver, "I have looked"
	a, _ = newParent(t, resting)
	answer = a.run("task_output", `{"task_id":"ann","block":true}`)
	has(t, answer.Text, `"agent_id":"ann@crew"`, `"status":"idle"`, `"output":"I have looked"`, "its turn is over")
}
