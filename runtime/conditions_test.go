package runtime_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store/storetest"
)

// conditions is a play that repairs its result for each of its conditions.
func conditions() modelFunc {
	return play(
		text("no json"), call("report", `{"summary":"s","output":{"n":5}}`), call("bash", `{"command":"echo x >> log"}`),
		call("report", `{"summary":"t"}`),
	)
}

// proves D2, D5: killed right after its n-th commit, for all n, a task with conditions ends as it would have.
func TestConditionsKilledAfterEachCommit(t *testing.T) {
	walk(t, 12, func(t *testing.T, n int) (over bool) {
		h := newHouse(t, conditions())
		h.repository()
		id := h.spawn("x", schema(numberSchema), accept("test -e log"))
		h.cut.after(n)
		over = h.endedOrDead(id)
		before := h.entries(id)
		h.restart()
		h.conditionsMet(id)
		if after := h.entries(id); len(after) < len(before) {
			t.Errorf("%d entries, then %d", len(before), len(after))
		}
		return over
	})
}

// conditionsMet checks the end of the play above. A call whose outcome is unknown makes it fail, as it must.
func (h *house) conditionsMet(id task.ID) {
	h.t.Helper()
	r := h.result(id)
	h.endedOnce(id)
	unknown := false
	for _, answer := range h.results(id) {
		unknown = unknown || strings.Contains(answer.Text, "OUTCOME_UNKNOWN")
	}
	if unknown && !h.has("log") {
		if r.Reason != task.AcceptanceFailed {
			h.t.Errorf("result: %+v", r)
		}
		return
	}
	var steps int64
	for _, e := range h.entries(id) {
		if _, ok := e.Body.(*task.Assistant); ok {
			steps++
		}
	}
	if r.State != task.Completed || r.Output != `{"n":5}` || exits(r) != "0" || r.Usage.Turns != 1 || r.Usage.Steps != steps {
		h.t.Errorf("%d steps, result: %+v", steps, r)
	}
	if got := strings.Join(r.Changes, ","); !unknown && got != filepath.Join(h.workspace, "log") {
		h.t.Errorf("changes: %s", got)
	}
	if n := len(h.repairs(id)); n != 2 {
		h.t.Errorf("repairs: %q", h.repairs(id))
	}
}

// proves D8: with the n-th commit of a task with conditions failing, for all n, it ends as it would have.
func TestConditionsWithEveryCommitFailing(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	walkFaults(t, 15, func(t *testing.T, plan storetest.Plan) (failed bool) {
		var faulty *storetest.Faulty
		h := newHouse(t, conditions(), failsBy(plan, &faulty))
		h.repository()
		h.conditionsMet(client{h}.spawnWith("1", task.AgentSpec{
			Prompt: "x", Schema: numberSchema, Acceptance: []task.Check{{Command: "test -e log"}},
		}))
		return h.healed(faulty)
	})
}

func (c client) spawnWith(request string, spec task.AgentSpec) (id task.ID) {
	c.h.t.Helper()
	c.insist("spawn", func() (err error) {
		id, err = c.h.sup.Spawn(context.Background(), task.Assignment{
			RequestID: request, Caller: "test", From: "user", Workspace: c.h.workspace, AgentSpec: spec,
		})
		return err
	})
	return id
}

// proves D8: with the n-th commit failing, for all n and all ways to fail, the rounds are neither lost nor doubled.
func TestSchemaWithEveryCommitFailing(t *testing.T) {
	walkFaults(t, 8, func(t *testing.T, plan storetest.Plan) (failed bool) {
		var faulty *storetest.Faulty
		bad := call("report", `{"summary":"s","output":{"n":0}}`)
		bubble(t, play(bad, text("no"), text(`{"n":1}`)), func(h *house) {
			id := client{h}.spawnWith("1", task.AgentSpec{Prompt: "x", Schema: numberSchema})
			r := h.ended(id, task.Completed, task.Done)
			if r.Output != `{"n":1}` || r.Usage.Steps != 3 || r.Usage.Turns != 1 || len(h.repairs(id)) != 2 {
				h.t.Errorf("repairs %q, result: %+v", h.repairs(id), r)
			}
			failed = h.healed(faulty)
		}, failsBy(plan, &faulty))
		return failed
	})
}
