package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/task"
)

// proves N2: a lead names its team and tells what it is for, as long as it has no living teammate; a name that is taken or that
// may not be given is an answer.
func TestLeadNamesItsTeam(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{
		"lead": boss(
			call("team_create", `{"name":"lead"}`),
			call("team_create", `{"name":"builders","description":"builds"}`),
			call("subagent", `{"task":"ann","name":"ann"}`),
			call("team_create", `{"name":"painters"}`),
			text("done")),
		"ann": echo,
	}), func(h *house) {
		id := h.spawn("lead", lead)
		h.untilTook(id, task.WentIdle, 1, task.Idle)
		for n, want := range map[int]string{
			1: `"reason":"INVALID_ARGUMENTS"`, 2: "your team is named builders now", 3: `"agent_id":"ann@builders"`,
			4: `"reason":"TEAM_IN_USE"`,
		} {
			if got := h.results(id)[callID(n)].Text; !strings.Contains(got, want) {
				h.t.Errorf("call %d was answered %s, not %s", n, got, want)
			}
		}
		in, err := h.journal.Team(context.Background(), h.task(id).Team)
		h.must(err)
		if in.Name != "builders" || in.Description != "builds" {
			h.t.Errorf("%+v", in)
		}
	})
}

// proves D5: killed right after its n-th commit, for all n, a lead names its team once, and starts its teammate once.
func TestLeadsToolsRunAgain(t *testing.T) {
	walk(t, 8, func(t *testing.T, n int) (over bool) {
		h := newHouse(t, cast(map[string]modelFunc{
			"lead": boss(call("team_create", `{"name":"crew"}`), call("subagent", `{"task":"ann","name":"ann"}`), text("done")),
			"ann":  echo,
		}))
		id := h.spawn("lead", untilQuiet)
		h.cut.after(n)
		over = h.endedOrDead(id)
		h.restart()
		h.ended(id, task.Completed, task.Done)
		for n, want := range map[int]string{1: "your team is named crew now", 2: `@crew","status":"running"}`} {
			if got := h.results(id)[callID(n)].Text; !strings.Contains(got, want) {
				t.Errorf("call %d was answered %s, not %s", n, got, want)
			}
		}
		mates := 0
		for created, err := range h.journal.Created(context.Background(), h.task(id).Team, 0) {
			h.must(err)
			if created.Value.Kind() == task.Teammate {
				mates++
			}
		}
		if mates != 2 {
			t.Errorf("there are %d teammates with the lead", mates)
		}
		return over
	})
}
