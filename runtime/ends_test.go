package runtime_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/runtime/view"
)

// proves S1, S3, S4: each way out leads to one terminal state, which stands once in the transcript and in the record,
// and another task goes on beside it.
func TestEveryWayOutEndsOnce(t *testing.T) {
	stop := func(level task.StopLevel) func(*house, task.ID) {
		return func(h *house, id task.ID) {
			synctest.Wait()
			h.must(h.stopTask(id, level))
		}
	}
	for _, way := range []struct {
		name   string
		model  modelFunc
		budget task.Budget
		do     func(*house, task.ID)
		state  task.State
		reason task.Reason
	}{
		{"done", play(text("done")), task.Budget{}, nil, task.Completed, task.Done},
		{"report", play(call("report", `{"summary":"s"}`)), task.Budget{}, nil, task.Completed, task.Done},
		{"model error", fails(model.Auth), task.Budget{}, nil, task.Failed, task.ModelError},
		{"context overflow", fails(model.ContextOverflow), task.Budget{}, nil, task.Failed, task.ContextOverflow},
		{"panic in the model", panics, task.Budget{}, nil, task.Failed, task.Panic},
		{"panic in a tool", play(call("panics", "{}"), text("so what")), task.Budget{}, nil, task.Completed, task.Done},
		{"max steps", forever, task.Budget{MaxSteps: 3}, nil, task.Failed, task.MaxSteps},
		{"budget of steps", forever, task.Budget{Steps: 3}, nil, task.Failed, task.BudgetExceeded},
		{"budget of tokens", forever, task.Budget{Tokens: 100}, nil, task.Failed, task.BudgetExceeded},
		{"no progress", stubborn, task.Budget{}, nil, task.Failed, task.NoProgress},
		{"wall time", hang, task.Budget{WallTime: time.Hour}, nil, task.Failed, task.Timeout},
		{"cancel", hang, task.Budget{}, stop(task.Cancel), task.Killed, task.StoppedByClient},
		{"kill", hang, task.Budget{}, stop(task.Kill), task.Killed, task.StoppedByClient},
		{"wrap up, then cancel", hang, task.Budget{}, stop(task.WrapUp), task.Killed, task.StoppedByClient},
	} {
		t.Run(way.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				boom := prop{name: "panics", run: func(context.Context, tool.Call) (tool.Answer, error) { panic("tool") }}
				h := newHouse(t, cast(map[string]modelFunc{
					"way": way.model, "other": play(call("gate", "{}"), text("untouched")),
				}), inBubble, with(boom, g.tool("gate")))
				other := h.spawn("other")
				<-g.entered
				id := h.spawn("way", func(a *task.Assignment) { a.Budget = way.budget })
				if way.do != nil {
					way.do(h, id)
				}
				h.ended(id, way.state, way.reason)
				h.restart()
				h.endedOnce(id)
				close(g.open)
				if r := h.ended(other, task.Completed, task.Done); r.Summary != "untouched" {
					t.Errorf("the other task: %+v", r)
				}
			})
		})
	}
}

func fails(class model.ErrorClass) modelFunc {
	return func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
		return model.Response{}, &model.Error{Class: class, Message: "the provider says no"}
	}
}

func panics(context.Context, model.Request, func(model.Event)) (model.Response, error) {
	panic("model")
}

// forever asks for one more call as long as it is given tools.
func forever(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	if len(req.Tools) == 0 {
		return text("wrapped up"), nil
	}
	return call("ls", `{"path":".","_":`+itoa(len(req.Messages))+`}`), nil
}

// stubborn asks for the same call for ever.
func stubborn(_ context.Context, _ model.Request, _ func(model.Event)) (model.Response, error) {
	return call("ls", `{"path":"."}`), nil
}

// proves S2
// case STA-1: what can't be started ends SPAWN_FAILED and is to be seen, and never says that it runs.
func TestStartThatFailsEndsTheTask(t *testing.T) {
	g := newGate()
	h := newHouse(t, cast(map[string]modelFunc{"busy": play(call("gate", "{}"), text("done")), "late": play(text("done"))}),
		slots(1), with(g.tool("gate")))
	busy := h.spawn("busy")
	<-g.entered
	dir := filepath.Join(h.workspace, "sub")
	h.must(os.Mkdir(dir, 0o700))
	late := h.spawn("late", func(a *task.Assignment) { a.Workspace = dir })
	if s := h.task(late).State; s != task.Queued {
		t.Fatalf("it is %s although the slot is taken", s)
	}
	h.must(os.Remove(dir))
	close(g.open)
	if r := h.ended(late, task.Failed, task.SpawnFailed); r.Error == "" {
		t.Error("nothing says why")
	}
	if got := h.states(late); got != "QUEUED FAILED" {
		t.Errorf("states: %s", got)
	}
	h.ended(busy, task.Completed, task.Done)
	if tasks, _, err := h.view.List(context.Background(), view.Filter{}); err != nil || len(tasks) != 2 {
		t.Errorf("listed: %v, %v", tasks, err)
	}
}

// case STA-1: a start for which the machine has no open files right now is put off.
func TestStartWaitsForOpenFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, cast(map[string]modelFunc{"busy": play(call("gate", "{}"), text("done")), "late": play(text("done"))}),
			inBubble, slots(1), with(g.tool("gate")))
		busy := h.spawn("busy")
		<-g.entered
		late := h.spawn("late")
		var limit syscall.Rlimit
		h.must(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
		restore := func() { h.must(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }
		h.must(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}))
		close(g.open)
		time.Sleep(time.Minute)
		restore()
		if got := h.states(late); got != "QUEUED" {
			t.Errorf("states: %s", got)
		}
		h.ended(late, task.Completed, task.Done)
		h.ended(busy, task.Completed, task.Done)
	})
}
