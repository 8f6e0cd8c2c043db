package runtime_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
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
	for n := 1; ; n++ {
		over := false
		t.Run(fmt.Sprint(n), func(t *testing.T) {
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
		})
		if over || t.Failed() {
			if n < 12 {
				t.Errorf("only %d commits were walked over", n)
			}
			return
		}
	}
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
	for name, mode := range map[string]storetest.Mode{"landed": storetest.Landed, "lost": storetest.Lost} {
		for n := 1; n <= 20; n++ { // the run has as many
			t.Run(fmt.Sprint(name, n), func(t *testing.T) {
				t.Parallel()
				var faulty *storetest.Faulty
				h := newHouse(t, conditions(), failsAt(n, mode, &faulty))
				h.repository()
				h.conditionsMet(client{h}.spawnWith("1", task.AgentSpec{
					Prompt: "x", Schema: numberSchema, Acceptance: []task.Check{{Command: "test -e log"}},
				}))
				if faulty.Failed() == 0 && n < 15 {
					t.Error("no commit failed")
				}
			})
		}
	}
}

// failsAt is the option of a store whose n-th commit after the start fails, and the one behind it.
func failsAt(n int, mode storetest.Mode, faulty **storetest.Faulty) func(*house) {
	return func(h *house) {
		h.wrap = func(st store.Store) store.Store {
			*faulty = storetest.Wrap(st, storetest.Plan{From: n + 1, Count: 2, Mode: mode}) // the journal's start is one
			return *faulty
		}
	}
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
	for name, mode := range map[string]storetest.Mode{
		"refused": storetest.Refused, "landed": storetest.Landed, "lost": storetest.Lost,
	} {
		t.Run(name, func(t *testing.T) {
			for n, failed := 1, true; failed && !t.Failed(); n++ {
				synctest.Test(t, func(t *testing.T) {
					var faulty *storetest.Faulty
					bad := call("report", `{"summary":"s","output":{"n":0}}`)
					h := newHouse(t, play(bad, text("no"), text(`{"n":1}`)), inBubble, failsAt(n, mode, &faulty))
					id := client{h}.spawnWith("1", task.AgentSpec{Prompt: "x", Schema: numberSchema})
					r := h.ended(id, task.Completed, task.Done)
					if r.Output != `{"n":1}` || r.Usage.Steps != 3 || r.Usage.Turns != 1 || len(h.repairs(id)) != 2 {
						t.Errorf("commit %d: repairs %q, result: %+v", n, h.repairs(id), r)
					}
					faulty.Heal()
					for h.journal.Stalled() != nil {
						time.Sleep(time.Second)
					}
					if failed = faulty.Failed() > 0; !failed && n < 8 {
						t.Errorf("only %d commits were walked over", n)
					}
				})
			}
		})
	}
}
