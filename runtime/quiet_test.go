package runtime_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store/storetest"
)

// untilQuiet makes a spawn one of a lead that ends when its team is quiet.
func untilQuiet(a *task.Assignment) {
	a.Teammate = &task.TeammateSpec{Name: task.LeadName, UntilQuiet: true}
}

// teamwork is a lead that starts a child in the background and a teammate, writes to that one when it rests, and ends each other
// turn with what woke it.
func teamwork() modelFunc {
	return cast(map[string]modelFunc{
		"lead": func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			last := req.Messages[len(req.Messages)-1]
			if last.Role == model.User && strings.Contains(last.Text, "heard: ann") && !strings.Contains(last.Text, "heard: ann, go on") {
				return call("send_message", `{"to":"ann","text":"ann, go on"}`), nil
			}
			return boss(
				call("subagent", `{"task":"child","background":true}`, "subagent", `{"task":"ann","name":"ann"}`), text("I wait"),
			)(ctx, req, sink)
		},
		"child": play(call("ls", `{"path":"."}`), text("child is done")),
		"ann":   said,
	})
}

// said answers with the last message, without its envelope.
func said(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	lines := strings.Split(req.Messages[len(req.Messages)-1].Text, "\n")
	return text("heard: " + lines[len(lines)/2]), nil
}

// quietAtLast checks the run of teamwork: the lead has ended, was told of everything before, and left the team at rest.
func (h *house) quietAtLast(id task.ID) {
	h.t.Helper()
	if r := h.ended(id, task.Completed, task.Done); !strings.HasPrefix(r.Summary, "heard: ") {
		h.t.Errorf("its last words: %q", r.Summary)
	}
	if got := h.envelopes(id); len(got) != 1 || !strings.Contains(got[0], "child is done") {
		h.t.Errorf("told of the child: %q", got)
	}
	if got := h.idleTexts(id); !slices.Equal(got, []string{"ann: heard: ann", "ann: heard: ann, go on"}) {
		h.t.Errorf("told of ann: %q", got)
	}
	for _, other := range []task.ID{"tm-2", "tm-3"} {
		row, err := h.journal.Task(context.Background(), other)
		if errdefs.Is(err, errdefs.TaskNotFound) {
			continue // the ids of a start that failed are gone
		}
		h.must(err)
		if row.Value.State != task.Idle {
			h.t.Errorf("%s is %s", other, row.Value.State)
		}
	}
}

// A lead that waits for quiet ends when its child and its teammate have nothing more to do and it was told of it. What a client
// runs beside it does not keep it.
func TestUntilQuiet(t *testing.T) {
	h := newHouse(t, teamwork())
	h.quietAtLast(h.spawn("lead", untilQuiet))
}

// A client's own agent keeps no lead, and a lead without until_quiet stays.
func TestQuietIsTheTeamsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, cast(map[string]modelFunc{"lead": echo, "hang": hang}), func(h *house) {
			h.spawn("hang")
			id := h.spawn("lead", lead)
			h.untilState(id, task.Idle)
			synctest.Wait()
			if a := h.task(id); a.State != task.Idle {
				h.t.Errorf("it is %s", a.State)
			}
			h.must(h.stopTask(id, task.Kill))
			h.ended(h.spawn("lead", untilQuiet), task.Completed, task.Done)
		})
	})
}

// A lead that waits for quiet stays while a teammate works, and ends when that one is ended from outside, after it was told.
// A message revives it, for as long as there is no quiet.
func TestQuietAfterAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, cast(map[string]modelFunc{
			"lead": boss(call("subagent", `{"task":"hang","name":"ann"}`), text("I wait")), "hang": hang,
		}), func(h *house) {
			id := h.spawn("lead", untilQuiet)
			h.untilState(id, task.Idle)
			synctest.Wait()
			if a := h.task(id); a.State != task.Idle {
				h.t.Errorf("it did not wait for ann: it is %s", a.State)
			}
			h.must(h.stopTask("tm-2", task.Kill))
			h.ended(id, task.Completed, task.Done)
			if got := h.envelopes(id); len(got) != 1 {
				h.t.Errorf("told %q", got)
			}
			if _, err := h.write("team-lead", "more"); err != nil {
				h.t.Fatal(err)
			}
			h.untilSaid(id, "more", task.Completed)
			if a := h.task(id); a.Incarnation != 2 {
				h.t.Errorf("it lives for the %d. time", a.Incarnation)
			}
		})
	})
}

// What ends without a loop, and whose end nobody is told, ends the wait for quiet too.
func TestQuietAfterTheEndOfWhatNeverRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, cast(map[string]modelFunc{"lead": boss(call("gate", "{}")), "hang": hang, "child": echo}), func(h *house) {
			id := h.spawn("lead", untilQuiet)
			<-g.entered
			h.spawn("hang")
			h.spawn("hang") // takes the lead's slot when that rests
			child := h.spawn("child", func(a *task.Assignment) { a.Parent = id })
			close(g.open)
			h.untilState(id, task.Idle)
			synctest.Wait()
			if a, b := h.task(id), h.task(child); a.State != task.Idle || b.State != task.Queued {
				h.t.Errorf("the lead is %s and its child %s", a.State, b.State)
			}
			h.must(h.stopTask(child, task.Kill))
			h.ended(id, task.Completed, task.Done)
		}, with(g.tool("gate")), slots(2))
	})
}

// proves D4: killed right after its n-th commit, for all n, and started again, a lead ends when its team is quiet, and never
// before; nobody is told anything twice.
func TestUntilQuietKilledAfterEachCommit(t *testing.T) {
	walk(t, 20, func(t *testing.T, n int) (over bool) {
		h := newHouse(t, teamwork())
		id := h.spawn("lead", untilQuiet)
		h.cut.after(n)
		over = h.endedOrDead(id)
		h.restart()
		h.quietAtLast(id)
		return over
	})
}

// proves D8: a lead ends when its team is quiet although the store failed meanwhile, at each of its commits.
func TestUntilQuietThroughFaults(t *testing.T) {
	walkFaults(t, 20, func(t *testing.T, plan storetest.Plan) (failed bool) {
		var faulty *storetest.Faulty
		h := newHouse(t, teamwork(), failsBy(plan, &faulty))
		id := client{h}.spawnAs("lead", task.Assignment{
			AgentSpec: task.AgentSpec{Prompt: "lead"}, Teammate: &task.TeammateSpec{Name: task.LeadName, UntilQuiet: true},
		})
		h.quietAtLast(id)
		return h.healed(faulty)
	})
}
