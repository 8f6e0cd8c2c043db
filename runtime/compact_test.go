package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// window is the option of what is known of the default model: its context window, and a price.
func window(tokens int64) func(*house) {
	return func(h *house) {
		h.facts = map[string]model.Facts{"test": {
			ContextWindow: tokens, Price: &model.Price{Input: task.Dollar, Output: 2 * task.Dollar, Cached: task.Dollar / 2},
		}}
	}
}

// reads is an answer to a request of so many tokens.
func reads(tokens int64, r model.Response) model.Response {
	r.Usage.InputTokens = tokens
	return r
}

// asksForSummary tells whether a request is for a summary.
func asksForSummary(req model.Request) bool {
	return len(req.Tools) == 0 && strings.Contains(req.Messages[len(req.Messages)-1].Text, "Write a\nsummary for yourself")
}

// tooLong is how a provider refuses a history.
func tooLong() error { return &model.Error{Class: model.ContextOverflow, Message: "too long"} }

// recorder is a model that keeps what it was asked.
type recorder struct {
	mu   sync.Mutex
	asks []model.Request
}

// model plays m and keeps its requests.
func (r *recorder) model(m modelFunc) modelFunc {
	return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		r.mu.Lock()
		kept := req
		kept.Messages = slices.Clone(req.Messages)
		r.asks = append(r.asks, kept)
		r.mu.Unlock()
		return m(ctx, req, sink)
	}
}

// kinds are the requests in one word: s for a step, w for one without tools, and S for a summary.
func (r *recorder) kinds() string {
	var b strings.Builder
	for _, req := range r.asks {
		switch {
		case asksForSummary(req):
			b.WriteByte('S')
		case len(req.Tools) == 0:
			b.WriteByte('w')
		default:
			b.WriteByte('s')
		}
	}
	return b.String()
}

// summaries are those in a task's transcript.
func (h *house) summaries(id task.ID) []*task.Compaction {
	h.t.Helper()
	var all []*task.Compaction
	for _, e := range h.entries(id) {
		if c, ok := e.Body.(*task.Compaction); ok {
			all = append(all, c)
		}
	}
	return all
}

// growing reads a file of 1,000 tokens a step until it has a summary, and then concludes.
func growing(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	switch {
	case asksForSummary(req):
		return reads(9000, text("what was done")), nil
	case strings.Contains(req.Messages[1].Text, "what was done"):
		return reads(2000, text("done")), nil
	}
	return reads(int64(1900*len(req.Messages)), call("ls", `{"path":".","_":`+itoa(len(req.Messages))+`}`)), nil
}

// case OUT-5: beyond four fifths of its model's window an agent goes on from a summary of its own, which is a step with
// its usage and cost.
// proves R5
func TestSummaryBeforeTheWindowIsFull(t *testing.T) {
	var seen recorder
	bubble(t, seen.model(growing), func(h *house) {
		id := h.spawn("the assignment")
		r := h.ended(id, task.Completed, task.Done)
		if seen.kinds() != "sssSs" || r.Summary != "done" {
			h.t.Errorf("it was asked %s, and concluded %q", seen.kinds(), r.Summary)
		}
		last := seen.asks[len(seen.asks)-1].Messages
		if len(last) != 2 || !strings.HasPrefix(last[1].Text, "the assignment\n\n") || !strings.HasSuffix(last[1].Text, "\n\nwhat was done") {
			h.t.Errorf("it goes on from %+v", last[1:])
		}
		all := h.summaries(id)
		if len(all) != 1 || all[0].Summary != "what was done" || all[0].Usage.InputTokens != 9000 || all[0].Usage.Cost != 9_010_000 {
			h.t.Errorf("summaries: %+v", all)
		}
		const in = 3800 + 7600 + 11400 + 9000 + 2000
		if r.Usage.Steps != 5 || r.Usage.InputTokens != in || r.Usage.Cost != in*1000+5*5*2000 {
			h.t.Errorf("usage: %+v", r.Usage)
		}
	}, window(10_000))
}

// case OUT-5: killed after any commit around the summary, an agent goes on with the same messages.
func TestKilledAroundTheSummary(t *testing.T) {
	final := func(t *testing.T, n int) (string, bool) {
		var seen recorder
		h := newHouse(t, seen.model(growing), inBubble, window(10_000))
		id := h.spawn("the assignment")
		over := false
		if n > 0 {
			h.cut.after(n)
			over = h.endedOrDead(id)
			h.restart()
		}
		h.ended(id, task.Completed, task.Done)
		if got := len(h.summaries(id)); got != 1 {
			t.Errorf("killed after %d commits there are %d summaries", n, got)
		}
		return fmt.Sprint(seen.asks[len(seen.asks)-1].Messages[1:]), over
	}
	want, _ := final(t, 0)
	walk(t, 8, func(t *testing.T, n int) bool {
		got, over := final(t, n)
		if got != want {
			t.Errorf("it goes on from\n%s\nnot\n%s", got, want)
		}
		return over
	})
}

// case OUT-5: whatever the summary says, the living children stand in it, and mail that came meanwhile is kept whole.
func TestSummaryListsTheLivingChildren(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, mailed := newGate(), newGate()
		spawn := prop{name: "spawn", run: func(ctx context.Context, c tool.Call) (tool.Answer, error) {
			id, err := c.Scope.Tasks.Spawn(ctx, c.ID, task.Assignment{AgentSpec: task.AgentSpec{Prompt: "child\nmore"}})
			return tool.Answer{Text: string(id)}, err
		}}
		var seen recorder
		parent := func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			switch n := len(req.Messages); {
			case asksForSummary(req):
				return text("I forgot them"), nil
			case strings.Contains(req.Messages[1].Text, "I forgot them"):
			case n == 2:
				return call("spawn", "{}"), nil
			case n == 4:
				return reads(9000, call("mailed", "{}")), nil
			}
			return text("done"), nil
		}
		m := cast(map[string]modelFunc{"parent": seen.model(parent), "child": play(call("gate", "{}"), text("never"))})
		inside(t, m, func(h *house) {
			id := h.spawn("parent")
			<-g.entered
			<-mailed.entered
			h.must(h.send(id, "look at this"))
			close(mailed.open)
			h.ended(id, task.Completed, task.Done)
			all := h.summaries(id)
			if len(all) != 1 || !strings.HasSuffix(all[0].Summary, "- sub-2 (SUBAGENT, RUNNING): child") {
				h.t.Fatalf("summaries: %+v", all)
			}
			if after := seen.asks[3].Messages; len(after) != 2 || !strings.HasSuffix(after[1].Text, "look at this\n</teammate-message>") {
				h.t.Errorf("it goes on from %+v", after[1:])
			}
		}, window(10_000), with(spawn, g.tool("gate"), mailed.tool("mailed")))
	})
}

// case OUT-2: a refused history is repaired once, by a summary; a history that has nothing to fold fails at once.
func TestOverflowIsRepairedOnce(t *testing.T) {
	after := func(answers int, then modelFunc) modelFunc {
		return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			summarised := strings.Contains(req.Messages[1].Text, "sum of it")
			switch {
			case asksForSummary(req):
				return text("sum of it"), nil
			case summarised:
				return then(ctx, req, sink)
			case len(req.Messages) > 2*answers:
				return model.Response{}, tooLong()
			}
			return forever(ctx, req, sink)
		}
	}
	refuse := func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
		return model.Response{}, tooLong()
	}
	for _, c := range []struct {
		name   string
		m      modelFunc
		state  task.State
		reason task.Reason
		kinds  string
	}{
		{"repaired", after(3, play(text("done"))), task.Completed, task.Done, "ssssSs"},
		{"not repaired", after(3, refuse), task.Failed, task.ContextOverflow, "ssssSs"},
		{"nothing to fold", after(0, refuse), task.Failed, task.ContextOverflow, "s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var seen recorder
			bubble(t, seen.model(c.m), func(h *house) {
				r := h.ended(h.spawn("x"), c.state, c.reason)
				if seen.kinds() != c.kinds {
					h.t.Errorf("it was asked %s, want %s", seen.kinds(), c.kinds)
				}
				if c.state == task.Failed && r.Error != "too long" {
					h.t.Errorf("error: %q", r.Error)
				}
			})
		})
	}
}

// case OUT-2, OUT-5: a history that is too long even for its summary is asked about in shorter form, the oldest answers
// left out.
func TestSummaryThatOverflowsItself(t *testing.T) {
	big := prop{name: "big", readOnly: true, run: func(context.Context, tool.Call) (tool.Answer, error) {
		return tool.Answer{Text: strings.Repeat("x", 10_000)}, nil
	}}
	bytes := func(req model.Request) int {
		n := 0
		for _, m := range req.Messages {
			n += len(m.Text)
		}
		return n
	}
	var seen recorder
	bubble(t, seen.model(func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		switch {
		case bytes(req) > 30_000 || asksForSummary(req) && bytes(req) > 10_000:
			return model.Response{}, tooLong()
		case asksForSummary(req):
			return text("sum of it"), nil
		case strings.Contains(req.Messages[1].Text, "sum of it"):
			return text("done"), nil
		}
		return call("big", `{"n":`+itoa(len(req.Messages))+`}`), nil
	}), func(h *house) {
		h.ended(h.spawn("x"), task.Completed, task.Done)
		if seen.kinds() != "ssssSSs" {
			h.t.Errorf("it was asked %s", seen.kinds())
		}
		first, second := seen.asks[4].Messages, seen.asks[5].Messages
		if len(first) != 9 || strings.HasPrefix(first[5].Text, "xxx") || !strings.HasPrefix(first[7].Text, "xxx") ||
			len(second) != 9 || strings.HasPrefix(second[7].Text, "xxx") {
			h.t.Errorf("it was asked for summaries of %+v and %+v", first[2:], second[2:])
		}
	}, with(big))
}

// case OUT-2: an assignment that alone is larger than the window fails clearly, without a call.
func TestAssignmentThatFitsNoWindow(t *testing.T) {
	var seen recorder
	bubble(t, seen.model(forever), func(h *house) {
		r := h.ended(h.spawn(strings.Repeat("x", 100_000)), task.Failed, task.ContextOverflow)
		if len(seen.asks) != 0 || !strings.Contains(r.Error, "the context window of test has 10000") {
			h.t.Errorf("%d calls, error %q", len(seen.asks), r.Error)
		}
	}, window(10_000))
}

// The wrap-up is one call: what does not fit is left out of it.
// proves R5
// case OUT-5
func TestWrapUpOfACrowdedHistory(t *testing.T) {
	big := prop{name: "big", readOnly: true, run: func(context.Context, tool.Call) (tool.Answer, error) {
		return tool.Answer{Text: strings.Repeat("x", 30_000)}, nil
	}}
	for _, refuses := range []bool{false, true} {
		var seen recorder
		bubble(t, seen.model(func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			if len(req.Tools) > 0 {
				return reads(9500, call("big", "{}")), nil
			}
			if refuses && len(seen.asks) == 2 {
				return model.Response{}, tooLong()
			}
			return text("wrapped up"), nil
		}), func(h *house) {
			id := h.spawn("x", steps(2))
			r := h.ended(id, task.Failed, task.MaxSteps)
			want := "sw"
			if refuses {
				want = "sww"
			}
			if seen.kinds() != want || r.Summary != "wrapped up" || r.Usage.Steps != 2 || len(h.summaries(id)) != 0 {
				h.t.Errorf("asked %s, %+v", seen.kinds(), r)
			}
			if got := seen.asks[len(seen.asks)-1].Messages[3].Text; len(got) > 1000 {
				h.t.Errorf("the wrap-up got an answer of %d bytes", len(got))
			}
		}, window(10_000), with(big))
	}
}

// A stop in the middle of a summary ends the task; what the call has used by then is counted, and its text is no answer.
func TestStopInTheMiddleOfASummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := make(chan struct{})
		inside(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			if asksForSummary(req) {
				sink(&model.TextDelta{Text: "half of a summary"})
				close(begun)
				return hang(ctx, req, sink)
			}
			return growing(ctx, req, sink)
		}, func(h *house) {
			id := h.spawn("x")
			<-begun
			h.must(h.stopTask(id, task.Cancel))
			r := h.ended(id, task.Killed, task.StoppedByClient)
			if strings.Contains(r.Summary, "half") || r.Usage.InputTokens <= 22_800 || r.Usage.Cost <= 22_800_000+30_000 {
				h.t.Errorf("result: %+v", r)
			}
		}, window(10_000))
	})
}

// A model that gives no summary ends the task with a clear error: without one nothing can go on.
func TestNoSummary(t *testing.T) {
	bubble(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if asksForSummary(req) {
			return text(" \n"), nil
		}
		return growing(ctx, req, sink)
	}, func(h *house) {
		r := h.ended(h.spawn("x"), task.Failed, task.ContextOverflow)
		if !strings.Contains(r.Error, "gave no summary") || r.Usage.Steps != 4 {
			h.t.Errorf("result: %+v", r)
		}
	}, window(10_000))
}
