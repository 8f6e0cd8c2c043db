package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/store"
)

// late is a model whose first answer is there when its ctx ends.
func late(answer model.Response) modelFunc {
	return func(ctx context.Context, _ model.Request, _ func(model.Event)) (model.Response, error) {
		<-ctx.Done()
		return answer, nil
	}
}

// proves O5, R5
// A last answer that comes at the same moment as a stop is kept, and paid.
func TestAnswerAtTheStopIsKept(t *testing.T) {
	bubble(t, late(text("the answer")), func(h *house) {
		id := h.spawn("x")
		h.untilState(id, task.Running)
		h.must(h.stopTask(id, task.Cancel))
		r := h.ended(id, task.Killed, task.StoppedByClient)
		if r.Summary != "the answer" || r.Usage.Tokens() != 15 || r.Usage.Steps != 1 {
			h.t.Errorf("result: %+v", r)
		}
	})
}

// proves D5: the calls of an answer that comes at the same moment as a stop did not start, and are said so.
func TestCallsAtTheStopDoNotStart(t *testing.T) {
	bubble(t, late(call("ls", `{"path":"."}`, "ls", `{"path":".."}`)), func(h *house) {
		id := h.spawn("x")
		h.untilState(id, task.Running)
		h.must(h.stopTask(id, task.Cancel))
		if r := h.ended(id, task.Killed, task.StoppedByClient); r.Usage.Tokens() != 15 {
			h.t.Errorf("usage: %+v", r.Usage)
		}
		for callID, r := range h.results(id) {
			if !strings.Contains(r.Text, string(tool.NotStarted)) {
				h.t.Errorf("%s: %+v", callID, r)
			}
		}
	})
}

// lateCall is a tool that has done its work when its ctx ends.
func lateCall(entered chan<- bool, output string) prop {
	return prop{name: "late", run: func(ctx context.Context, _ tool.Call) (tool.Answer, error) {
		entered <- true
		<-ctx.Done()
		return tool.Answer{Text: output}, nil
	}}
}

// proves D5, O5: a call that is done at the same moment as a stop is answered so; the one behind it did not start.
func TestCallDoneAtTheStopIsKept(t *testing.T) {
	for _, output := range []string{"did it", strings.Repeat("did it\n", 20_000)} {
		synctest.Test(t, func(t *testing.T) {
			entered := make(chan bool, 1)
			inside(t, play(call("late", "{}", "ls", `{"path":"."}`)), func(h *house) {
				id := h.spawn("x")
				<-entered
				h.must(h.stopTask(id, task.Cancel))
				h.ended(id, task.Killed, task.StoppedByClient)
				results := h.results(id)
				if r := results["c00000001"]; r.IsError || !strings.HasPrefix(r.Text, "did it") {
					t.Errorf("done: %+v", r)
				} else if r.Truncated {
					_, err := h.journal.Output(context.Background(), h.task(id).Team, id, r.CallID)
					h.must(err)
				}
				if r := results["c00000002"]; !strings.Contains(r.Text, string(tool.NotStarted)) {
					t.Errorf("behind it: %+v", r)
				}
			}, with(lateCall(entered, output)))
		})
	}
}

// proves D5, D8: when nobody knows whether an answer landed that comes at the same moment as a stop, it is answered once.
func TestUnknownCommitAtTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan bool, 1)
		var armed, slow atomic.Bool
		inside(t, play(call("late", "{}", "ls", `{"path":"."}`)), func(h *house) {
			id := h.spawn("x")
			<-entered
			armed.Store(true)
			h.must(h.stopTask(id, task.Cancel))
			h.ended(id, task.Killed, task.StoppedByClient)
			if r := h.results(id)["c00000001"]; r.Text != "did it" {
				t.Errorf("done: %+v", r)
			}
		}, with(lateCall(entered, "did it")), tapped(&tap{
			commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
				done, err := commit()
				if touches(b, "entry/") && touches(b, "usage/") && armed.CompareAndSwap(true, false) {
					slow.Store(true)
					return store.Committed{}, unknown()
				}
				return done, err
			},
			get: func(key string) { // whoever looks at the task next does so when the store has recovered
				if strings.HasPrefix(key, "task/") && slow.CompareAndSwap(true, false) {
					time.Sleep(time.Second)
				}
			},
		}))
	})
}

// proves T1, O5: text that streams without end is kept up to the bound of an answer.
func TestCancelKeepsTheStartOfALongText(t *testing.T) {
	bubble(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		for range 600 {
			sink(&model.TextDelta{Text: strings.Repeat("é", 512)})
		}
		return hang(ctx, req, sink)
	}, func(h *house) {
		id := h.spawn("x")
		synctest.Wait()
		h.must(h.stopTask(id, task.Cancel))
		r := h.ended(id, task.Killed, task.StoppedByClient)
		kept := ""
		for _, e := range h.entries(id) {
			if said, ok := e.Body.(*task.Assistant); ok {
				kept = said.Text
			}
		}
		if len(kept) != 400<<10 || strings.Trim(kept, "é") != "" {
			h.t.Errorf("%d bytes are kept", len(kept))
		}
		if summary, rest, _ := strings.Cut(r.Summary, "\n"); len(summary) != 16<<10 || !strings.Contains(rest, "agentctl output "+string(id)) {
			h.t.Errorf("the summary has %d bytes, and then %q", len(summary), rest)
		}
	})
}

// proves D3: at whatever commit of a run the daemon dies, the last message, its usage, the terminal state and the result
// are all on disk, or none is.
func TestTurnsEndIsOneCommit(t *testing.T) {
	for n, over := 1, false; !over; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bubble(t, play(call("ls", `{"path":"."}`), text("the last word")), func(h *house) {
				id := h.spawn("x", func(a *task.Assignment) { a.RequestID = "r" })
				h.cut.after(n)
				over = h.endedOrDead(id)
				synctest.Wait()
				row, err := h.journal.Task(context.Background(), id)
				h.must(err)
				used, err := h.journal.Usage(context.Background(), row.Value.Team, id)
				h.must(err)
				left, resultErr := h.journal.Result(context.Background(), row.Value.Team, id)
				said := false
				for _, e := range h.entries(id) {
					if a, ok := e.Body.(*task.Assistant); ok {
						said = said || a.Text == "the last word"
					}
				}
				got := []bool{
					said, row.Value.State == task.Completed, used.Turns == 1, used.Steps == 2,
					resultErr == nil && left.Summary == "the last word",
				}
				for _, there := range got {
					if there != got[0] {
						t.Errorf("message, state, turn, tokens, result: %v", got)
						break
					}
				}
				over = over || got[0]
				h.kill() // not in order: it can't commit that any more
			})
		})
		if t.Failed() || n > 50 {
			break
		}
	}
}
