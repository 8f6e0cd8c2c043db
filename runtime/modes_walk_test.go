package runtime_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store/storetest"
)

// delegates is an agent that delegates in every way, says too early that it is done, and ends when all has come back.
func delegates(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
	first := play(
		call("subagent", `{"task":"work alone"}`),
		call("subagent", `{"tasks":[{"task":"work left"},{"task":"work right"}],"background":true}`),
		call("subagent", `{"chain":[{"task":"work first"},{"task":"work after {previous}"}]}`),
		text("I am done, unless something is still to come."),
	)
	if stepsOf(req) < 4 {
		return first(ctx, req, sink)
	}
	return awaitUntold(req, text("I am done.")), nil
}

// awaitUntold asks for the end of a task that the agent has started and was not told the end of, or gives the last answer
// when there is none. Even a task that was waited for may go on behind the call, when there is mail.
func awaitUntold(req model.Request, last model.Response) model.Response {
	started := regexp.MustCompile(`^\{"task_id":"([a-z]+-[0-9]+)","status":"([a-z]+)"`)
	var all []string
	told := map[string]bool{}
	for _, m := range req.Messages {
		if found := started.FindStringSubmatch(m.Text); m.Role == model.ToolAnswer && found != nil {
			all = append(all, found[1])
			told[found[1]] = told[found[1]] || slices.Contains([]string{"completed", "failed", "killed"}, found[2])
		}
		for _, found := range regexp.MustCompile(`<task-id>([a-z]+-[0-9]+)<`).FindAllStringSubmatch(m.Text, -1) {
			told[found[1]] = true
		}
	}
	for _, id := range all {
		if !told[id] {
			return call("task_output", fmt.Sprintf(`{"task_id":%q,"block":true,"timeout_ms":%d}`, id, 10_000+len(req.Messages)))
		}
	}
	return last
}

// walked is a run of modes that need no real process.
type walked struct {
	h              *house
	tops           []task.ID // what the client has spawned
	groups, agents int       // at the end, those that others have spawned too
}

// walkDelegate is what an agent delegates.
func walkDelegate(h *house) walked {
	delegate := client{h}.spawnAs("delegate", task.Assignment{AgentSpec: task.AgentSpec{Prompt: "delegate"}})
	return walked{h: h, tops: []task.ID{delegate}, groups: 2, agents: 1 + 1 + 2 + 2}
}

// walkModes is that, and a client's groups beside it.
func walkModes(h *house) walked {
	w, c := walkDelegate(h), client{h}
	items := []task.AgentSpec{{Prompt: "work 1"}, {Prompt: "work 2"}, {Prompt: "work 3, after {previous}"}}
	w.tops = append(w.tops,
		c.spawnAs("parallel", task.Assignment{Group: &task.GroupSpec{Items: items, MaxConcurrency: 2}}),
		c.spawnAs("chain", task.Assignment{Group: &task.GroupSpec{Items: items, Chain: true}}))
	w.groups, w.agents = w.groups+2, w.agents+3+3
	return w
}

// endedOrDead waits until all has ended, true, or the store is cut.
func (w walked) endedOrDead() bool {
	for _, id := range w.tops {
		if !w.h.endedOrDead(id) {
			return false
		}
	}
	return true
}

// spawnAs repeats a spawn until it is acknowledged.
func (c client) spawnAs(request string, a task.Assignment) (id task.ID) {
	c.h.t.Helper()
	a.RequestID, a.Caller, a.From, a.Workspace = request, "test", "user", c.h.workspace
	c.insist("spawn", func() (err error) {
		id, err = c.h.sup.Spawn(context.Background(), a)
		return err
	})
	return id
}

// check waits for all ends and looks at what must hold of every task that there is.
func (w walked) check() {
	h := w.h
	for _, id := range w.tops {
		h.ended(id, task.Completed, task.Done)
	}
	ctx, team := context.Background(), h.task(w.tops[0]).Team
	kinds := map[task.Kind]int{}
	for created, err := range h.journal.Created(ctx, team, 0) {
		h.must(err)
		id := created.Value
		t := h.task(id)
		kinds[t.Kind]++
		if t.CallID != "" && t.State == task.Completed {
			if n := h.announcements(t.Parent, id); n != 1 {
				h.t.Errorf("%s was told %d times of the end of %s", t.Parent, n, id)
			}
		}
		if t.Kind == task.Subagent {
			h.results(id)
		}
		steps := int64(0)
		for _, below := range append(h.allBelow(team, id), id) {
			for _, e := range h.entries(below) {
				if a, ok := e.Body.(*task.Assistant); ok && !a.Partial {
					steps++
				}
			}
		}
		if t.Usage.Steps != steps {
			h.t.Errorf("%s counts %d steps; the transcripts have %d", id, t.Usage.Steps, steps)
		}
	}
	if kinds[task.Group] != w.groups || kinds[task.Subagent] != w.agents {
		h.t.Errorf("there are %v", kinds)
	}
	h.nothingLeft(w.tops[0])
}

// allBelow lists the descendants of a task.
func (h *house) allBelow(team string, id task.ID) []task.ID {
	var all []task.ID
	for child, err := range h.journal.Children(context.Background(), team, id) {
		h.must(err)
		all = append(append(all, child), h.allBelow(team, child)...)
	}
	return all
}

func modeWalkers() map[string]modelFunc {
	return map[string]modelFunc{"delegate": delegates, "work": play(call("ls", `{"path":"."}`), call("report", `{"summary":"worked"}`))}
}

// proves D4, D5, S1, R6
// case STA-2, STA-5: killed right after its n-th commit, for all n of a run of groups, chains and delegation (every other one
// with the race detector), and started again, everything ends as it would have: no step runs twice, and each end is told once.
func TestModesKilledAfterEachCommit(t *testing.T) {
	stride := sized(1, 2)
	walk(t, 50/int64(stride), func(t *testing.T, n int) (over bool) {
		bubble(t, cast(modeWalkers()), func(h *house) {
			w := walkModes(h)
			h.cut.after(n * stride)
			over = w.endedOrDead()
			h.restart()
			w.check()
		})
		return over
	})
}

// proves D8, N7, R6: with the n-th commit failing of what an agent delegates, for all n and all ways to fail, it ends as it
// would have.
func TestModesEveryCommitFails(t *testing.T) {
	walkFaults(t, 30, func(t *testing.T, plan storetest.Plan) (failed bool) {
		var faulty *storetest.Faulty
		bubble(t, cast(modeWalkers()), func(h *house) {
			walkDelegate(h).check()
			failed = h.healed(faulty)
		}, failsBy(plan, &faulty))
		return failed
	})
}
