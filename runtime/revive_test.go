package runtime_test

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// asks keeps what the model was asked with.
type asks struct {
	mu  sync.Mutex
	all []model.Request
}

func (a *asks) model(m modelFunc) modelFunc {
	return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		req.Messages = slices.Clone(req.Messages)
		a.mu.Lock()
		a.all = append(a.all, req)
		a.mu.Unlock()
		return m(ctx, req, sink)
	}
}

func (a *asks) last() model.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[len(a.all)-1]
}

// TestRevivalHasWhatTheSpawnGave: a teammate that was stopped, slept through a restart and is revived has the model, the
// tools, the prompt, the grant, the workspace and the budget that its spawn gave it, and remembers. proves W1
func TestRevivalHasWhatTheSpawnGave(t *testing.T) {
	var seen asks
	h := newHouse(t, seen.model(echo))
	network, depth := false, 1
	id := h.spawn("the assignment", mate("ann"), func(a *task.Assignment) {
		a.Agent, a.Model = "explorer", "special"
		a.Budget = task.Budget{MaxSteps: 7, Tokens: 100_000, WallTime: time.Hour}
		a.Grant = grant.Request{Network: &network, Depth: &depth}
	})
	h.untilState(id, task.Idle)
	first, before := seen.last(), h.task(id)
	h.must(h.stopTask(id, task.Kill))
	h.restart()
	if _, err := h.write("ann", "are you there?"); err != nil {
		t.Fatal(err)
	}
	h.untilSaid(id, "are you there?", task.Idle)
	now, after := seen.last(), h.task(id)
	if now.Model != "special" || now.Model != first.Model || !reflect.DeepEqual(now.Tools, first.Tools) {
		t.Errorf("the model is %s, the tools are %v", now.Model, now.Tools)
	}
	if now.Messages[0].Text != first.Messages[0].Text || !strings.HasPrefix(now.Messages[1].Text, "the assignment") {
		t.Errorf("it was told %+v", now.Messages[:2])
	}
	if !reflect.DeepEqual(after.Grant, before.Grant) || after.Budget != before.Budget || after.Agent != before.Agent ||
		after.Workspace != before.Workspace || after.Color != before.Color {
		t.Errorf("it was %+v, and is %+v", before.Task, after.Task)
	}
	if after.Incarnation != 2 || after.State != task.Idle || after.Stop != nil {
		t.Errorf("it is %+v", after.Task)
	}
}

// TestBudgetAnew: one whose budget ran out is revived by the leader alone, with the budget anew. proves W3
func TestBudgetAnew(t *testing.T) {
	h := newHouse(t, echo)
	id := h.spawn("one", mate("ann"), func(a *task.Assignment) { a.Budget.Steps = 3 })
	h.untilState(id, task.Idle)
	turn := func(text string, state task.State) {
		t.Helper()
		if _, err := h.write("ann", text); err != nil {
			t.Fatal(err)
		}
		h.until(id, text, func(now task.Task, entries []task.Entry) bool {
			last := entries[len(entries)-1].Seq
			for _, e := range entries {
				if in, ok := e.Body.(*task.Input); ok && in.Text == text {
					return now.State == state && last > e.Seq
				}
			}
			return false
		})
	}
	turn("two", task.Idle)
	turn("three", task.Failed)
	if got := h.task(id).Reason; got != task.BudgetExceeded {
		t.Fatalf("it ended with %s", got)
	}
	turn("four", task.Idle)
	if h.task(id).Incarnation != 2 {
		t.Error("it was not revived")
	}
	turn("five", task.Idle)
}

// TestTeammatesOfOneName: while one lives its name is taken, in any case, and what was done is told. proves N2
// case MSG-5
func TestTeammatesOfOneName(t *testing.T) {
	h := newHouse(t, echo)
	id := h.spawn("one", mate("Ann"))
	h.untilState(id, task.Idle)
	_, err := h.sup.Spawn(context.Background(), task.Assignment{
		From: "user", Caller: "test", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "two"},
		Teammate: &task.TeammateSpec{Name: "ann"},
	})
	if !errdefs.Is(err, errdefs.NameTaken) || errdefs.KindOf(err) != errdefs.AlreadyExists || !strings.Contains(err.Error(), string(id)) {
		t.Errorf("a second ann: %v", err)
	}
	for _, name := range []string{"", "team lead", "user", "tm-1", "lead"} {
		h.refusal(errdefs.BadArgument, mate(name))
	}
	h.must(h.stopTask(id, task.Kill))
	again := h.spawn("two", mate("ann"))
	h.untilState(again, task.Idle)
	if again == id || h.inputs(again)[0] != "two" {
		t.Errorf("the new one is %s, and was told %q", again, h.inputs(again))
	}
}
