package runtime_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
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
	said, steps := answers(req), 0
	for _, m := range req.Messages {
		switch m.Role {
		case model.User:
			said += m.Text
		case model.Assistant:
			steps++
		case model.System, model.ToolAnswer:
		}
	}
	if steps < 4 {
		return first(ctx, req, sink)
	}
	for _, found := range regexp.MustCompile(`"task_id":"(grp-[0-9]+)","status":"running"`).FindAllStringSubmatch(said, -1) {
		group := found[1]
		if strings.Contains(said, "<task-id>"+group+"<") || strings.Contains(said, `"task_id":"`+group+`","status":"completed"`) {
			continue
		}
		wait := fmt.Sprintf(`{"task_id":%q,"block":true,"timeout_ms":%d}`, group, 10_000+len(req.Messages))
		return call("task_output", wait), nil
	}
	return text("I am done."), nil
}

// walked is a run of all modes that need no real process.
type walked struct {
	h                           *house
	delegate, parallel, chained task.ID
}

func walkModes(h *house) walked {
	c := client{h}
	w := walked{h: h}
	items := []task.AgentSpec{{Prompt: "work 1"}, {Prompt: "work 2"}, {Prompt: "work 3, after {previous}"}}
	w.delegate = c.spawnAs("delegate", task.Assignment{AgentSpec: task.AgentSpec{Prompt: "delegate"}})
	w.parallel = c.spawnAs("parallel", task.Assignment{Group: &task.GroupSpec{Items: items, MaxConcurrency: 2}})
	w.chained = c.spawnAs("chain", task.Assignment{Group: &task.GroupSpec{Items: items, Chain: true}})
	return w
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
	for _, id := range []task.ID{w.delegate, w.parallel, w.chained} {
		h.ended(id, task.Completed, task.Done)
	}
	ctx, team := context.Background(), h.task(w.delegate).Team
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
	if kinds[task.Group] != 4 || kinds[task.Subagent] != 1+1+2+2+3+3 {
		h.t.Errorf("there are %v", kinds)
	}
	h.nothingLeft(w.delegate)
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
// case STA-2, STA-5: killed right after its n-th commit, for all n of a run of groups, chains and delegation, and started
// again, everything ends as it would have: no step runs twice, and each end is told once.
func TestModesKilledAfterEachCommit(t *testing.T) {
	for n := 1; ; n++ {
		over := false
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, cast(modeWalkers()), func(h *house) {
				w := walkModes(h)
				h.cut.after(n)
				over = h.endedOrDead(w.delegate) && h.endedOrDead(w.parallel) && h.endedOrDead(w.chained)
				h.restart()
				w.check()
			})
		})
		if over || t.Failed() {
			if n < 50 {
				t.Errorf("only %d commits were walked over", n)
			}
			return
		}
	}
}

// proves D8, N7, R6: with the n-th commit of such a run failing, for all n and all ways to fail, it ends as it would have.
func TestModesEveryCommitFails(t *testing.T) {
	for name, mode := range map[string]storetest.Mode{
		"refused": storetest.Refused, "landed": storetest.Landed, "lost": storetest.Lost,
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				over := false
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						over = !modesWithFault(t, storetest.Plan{From: n, Count: 2, Mode: mode})
					})
				})
				if over || t.Failed() {
					if n < 50 {
						t.Errorf("only %d commits were walked over", n)
					}
					return
				}
			}
		})
	}
}

// modesWithFault tells whether a commit failed.
func modesWithFault(t *testing.T, plan storetest.Plan) bool {
	var faulty *storetest.Faulty
	h := newHouse(t, cast(modeWalkers()), inBubble, func(h *house) {
		h.wrap = func(st store.Store) store.Store {
			plan.From++ // the journal's start is one commit
			faulty = storetest.Wrap(st, plan)
			return faulty
		}
	})
	walkModes(h).check()
	faulty.Heal() // the end of the house is not part of the run
	for h.journal.Stalled() != nil {
		time.Sleep(time.Second)
	}
	return faulty.Failed() > 0
}
