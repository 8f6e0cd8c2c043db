package runtime_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// proves R9: mail ends a wait; the child goes on in the background, and its end is announced then.
func TestMailEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leads, childs := newGate(), newGate()
		inside(t, cast(map[string]modelFunc{
			"lead":  play(call("subagent", `{"task":"child"}`), call("leads", "{}"), text("bye")),
			"child": play(call("childs", "{}"), text("done")),
		}), func(h *house) {
			lead := h.spawn("lead")
			<-childs.entered
			synctest.Wait()
			if a := h.task(lead); a.State != task.Waiting || a.Activity != "waits: subagent: child" {
				h.t.Errorf("%s, %q", a.State, a.Activity)
			}
			h.must(h.send(lead, "hurry"))
			<-leads.entered
			close(childs.open)
			h.ended("sub-2", task.Completed, task.Done)
			close(leads.open)
			h.ended(lead, task.Completed, task.Done)
			if got := h.told(lead, 1); got.Status != "running" || !strings.Contains(got.Message, "still running as sub-2") {
				h.t.Errorf("told: %+v", got)
			}
			if got := h.inputs(lead); len(got) != 3 || got[1] != "hurry" || len(h.envelopes(lead)) != 1 {
				h.t.Errorf("inputs: %q", got)
			}
		}, with(leads.tool("leads"), childs.tool("childs")))
	})
}

// proves R9: several waits of one step pause the agent once; each is told its own end, and no end is mail to the other.
func TestWaitsSideBySide(t *testing.T) {
	quick := play(text("quick"))
	slow := func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
		time.Sleep(time.Minute)
		return text("slow"), nil
	}
	bubble(t, cast(map[string]modelFunc{
		"lead": play(
			call("subagent", `{"task":"quick","background":true}`, "subagent", `{"task":"slow","background":true}`,
				"task_output", `{"task_id":"sub-2","block":true}`, "task_output", `{"task_id":"sub-3","block":true,"timeout_ms":600000}`),
			text("both")),
		"quick": quick, "slow": slow,
	}), func(h *house) {
		lead := h.spawn("lead")
		time.Sleep(time.Second)
		if a := h.task(lead); a.State != task.Waiting || a.Activity != "waits: task_output: sub-2, task_output: sub-3" {
			h.t.Errorf("%s, %q", a.State, a.Activity)
		}
		h.ended(lead, task.Completed, task.Done)
		if a, b := h.told(lead, 3), h.told(lead, 4); a.Summary != "quick" || b.Summary != "slow" {
			h.t.Errorf("told %+v and %+v", a, b)
		}
		if got := h.inputs(lead); len(got) != 1 {
			h.t.Errorf("inputs: %q", got)
		}
		if got := h.states(lead); got != "QUEUED RUNNING WAITING RUNNING COMPLETED" {
			h.t.Errorf("states: %s", got)
		}
	}, slots(2))
}

// proves T1, T2, S3: a stop of an agent that waits for a child ends both within its bound, at each level.
func TestStopOfAWaitingAgent(t *testing.T) {
	for level, summary := range map[task.StopLevel]string{
		task.WrapUp: "wrapped up: child reports", task.Cancel: task.NoSummary, task.Kill: task.NoSummary,
	} {
		bubble(t, cast(map[string]modelFunc{
			"lead": func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
				if len(req.Tools) > 0 {
					return call("subagent", `{"task":"child"}`), nil
				}
				var got told
				_ = json.Unmarshal([]byte(req.Messages[len(req.Messages)-2].Text), &got)
				return text("wrapped up: " + got.Summary), nil
			},
			"child": func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
				if len(req.Tools) == 0 {
					return text("child reports"), nil
				}
				return call("nap", `{"n":`+itoa(len(req.Messages))+`}`), nil
			},
		}), func(h *house) {
			lead := h.spawn("lead")
			synctest.Wait() // until the child naps
			began := time.Now()
			h.must(h.stopTask(lead, level))
			if took := time.Since(began); took > 2*time.Second {
				h.t.Errorf("%s: it took %v", level, took)
			}
			h.ended("sub-2", task.Killed, task.ParentEnded)
			if r := h.ended(lead, task.Killed, task.StoppedByClient); r.Summary != summary {
				h.t.Errorf("%s: %q", level, r.Summary)
			}
			if level < task.Kill { // which waits for no loop to answer its calls
				h.results(lead)
			}
		}, slots(1), with(nap()))
	}
}

// nap is a tool that takes a second.
func nap() prop {
	return prop{name: "nap", run: func(ctx context.Context, _ tool.Call) (tool.Answer, error) {
		select {
		case <-time.After(time.Second):
			return tool.Answer{Text: "rested"}, nil
		case <-ctx.Done():
			return tool.Answer{}, context.Cause(ctx)
		}
	}}
}

// proves D4, R6
// case STA-2: after a stop of the daemon, in order or not, an agent that waited waits again for the same child, and is
// told of its end once. An orderly stop does not wait for the wait.
func TestRestartWithChildren(t *testing.T) {
	for name, again := range map[string]func(*house){
		"in order": func(h *house) {
			began := time.Now()
			h.stop()
			if took := time.Since(began); took >= time.Second {
				h.t.Errorf("the stop took %v", took)
			}
			h.start()
		},
		"killed": (*house).restart,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lives := 0
				h := newHouse(t, cast(map[string]modelFunc{
					"lead": play(call("subagent", `{"task":"child"}`), text("told")),
					"child": func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
						if lives++; lives == 1 && name == "killed" {
							return hang(ctx, req, sink)
						}
						return play(call("nap", "{}"), text("done"))(ctx, req, sink)
					},
				}), inBubble, with(prop{name: "nap", run: func(ctx context.Context, _ tool.Call) (tool.Answer, error) {
					time.Sleep(100 * time.Millisecond)
					return tool.Answer{Text: "rested"}, nil
				}}))
				lead := h.spawn("lead")
				synctest.Wait()
				again(h)
				h.ended(lead, task.Completed, task.Done)
				children := h.children(lead)
				if len(children) != 1 {
					t.Fatalf("children: %v", children)
				}
				h.ended(children[0], task.Completed, task.Done)
				if got := h.told(lead, 1); got.Summary != "done" || len(h.inputs(lead)) != 1 {
					t.Errorf("told %+v, inputs %q", got, h.inputs(lead))
				}
			})
		})
	}
}

// proves D6: an agent that waits for a child which takes the daemon down is innocent, the child is resumed alone although
// the agent makes no step, and parked; then the agent is told and goes on.
func TestWaitingForASuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		h := newHouse(t, cast(map[string]modelFunc{
			"lead": play(call("subagent", `{"task":"bad"}`), text("it is over")), "bad": poison(&calls),
		}), inBubble)
		lead := h.spawn("lead")
		for life := 1; life <= 4; life++ {
			time.Sleep(2 * time.Second) // its backoff, in the last one
			synctest.Wait()
			if n := calls.get("calls"); n != life {
				t.Fatalf("in life %d it was called %d times", life, n)
			}
			row, err := h.journal.Task(t.Context(), lead)
			h.must(err)
			live, err := h.journal.Live(t.Context(), row.Value.Team, lead)
			h.must(err)
			if row.Value.State != task.Waiting || live.Value.Restarts != 0 {
				t.Errorf("the lead is %s; %d restarts count against it", row.Value.State, live.Value.Restarts)
			}
			h.restart()
		}
		r := h.ended(lead, task.Completed, task.Done)
		h.ended("sub-2", task.Failed, task.CrashLoop)
		if got := h.told(lead, 1); got.Reason != "CRASH_LOOP" || r.Summary != "it is over" {
			t.Errorf("told %+v, concluded %q", got, r.Summary)
		}
	})
}
