package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// mate makes a spawn one of a teammate.
func mate(name string) func(*task.Assignment) {
	return func(a *task.Assignment) { a.Teammate = &task.TeammateSpec{Name: name} }
}

// echo answers each turn with what came last.
func echo(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	last := req.Messages[len(req.Messages)-1].Text
	return text("heard: " + last), nil
}

// write sends a client's message to a name in the workspace's team.
func (h *house) write(to, text string) (runtime.Sending, error) {
	return h.sup.Send(context.Background(), runtime.SendRequest{Caller: "test", Workspace: h.workspace, To: to, Text: text})
}

// TestTeammateSleepsAndWakes: a teammate rests between its turns, a message wakes it, also after kill -9, and one that has
// ended is revived with its history. proves W1 and W4 as far as one teammate goes
func TestTeammateSleepsAndWakes(t *testing.T) {
	h := newHouse(t, echo)
	id := h.spawn("first", mate("Ann"))
	h.untilState(id, task.Idle)
	if _, err := h.write("ann", "second"); err != nil {
		t.Fatal(err)
	}
	h.untilSaid(id, "second", task.Idle)
	h.restart()
	if _, err := h.write("ANN", "third"); err != nil {
		t.Fatal(err)
	}
	h.untilSaid(id, "third", task.Idle)
	h.must(h.stopTask(id, task.Kill))
	h.untilState(id, task.Killed)
	if _, err := h.write("ann", "fourth"); err != nil {
		t.Fatal(err)
	}
	h.untilSaid(id, "fourth", task.Idle)
	row, err := h.journal.Task(context.Background(), id)
	h.must(err)
	if row.Value.Incarnation != 2 {
		t.Errorf("it lives for the %d. time", row.Value.Incarnation)
	}
}

// untilSaid waits until the task has answered with a text and stands as given.
func (h *house) untilSaid(id task.ID, part string, state task.State) {
	h.t.Helper()
	h.until(id, "an answer with "+part, func(t task.Task, entries []task.Entry) bool {
		for _, e := range entries {
			if a, ok := e.Body.(*task.Assistant); ok && strings.Contains(a.Text, part) {
				return t.State == state
			}
		}
		return false
	})
}
