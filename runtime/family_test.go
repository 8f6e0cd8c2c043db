package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// told is what an agent reads in the answer of a call about a task.
type told struct {
	TaskID  string `json:"task_id"`
	Status  string
	Reason  string
	Message string
	Summary string
	Output  string
	Error   string
	Subject string
	Allowed []string
	Usage   struct {
		TotalTokens int64 `json:"total_tokens"`
		ToolUses    int64 `json:"tool_uses"`
	}
	Results []told
}

// told is the answer of a task's n-th call, from 1.
func (h *house) told(id task.ID, n int) told {
	h.t.Helper()
	var answer told
	r := h.results(id)[fmt.Sprintf("c%08d", n)]
	if r == nil {
		h.t.Fatalf("%s has no answer of call %d", id, n)
	}
	if err := json.Unmarshal([]byte(r.Text), &answer); err != nil {
		h.t.Errorf("%s: the answer of call %d is no JSON: %q", id, n, r.Text)
	}
	return answer
}

// envelopes are the announcements that a task was given.
func (h *house) envelopes(id task.ID) []string {
	h.t.Helper()
	var texts []string
	for _, text := range h.inputs(id) {
		if strings.HasPrefix(text, "<background-task-completed>") {
			texts = append(texts, text)
		}
	}
	return texts
}

// proves R1, R6, R7, P2: a call that waits gets the end as its result, and nothing tells of it again. Meanwhile the agent
// holds no slot. What it spawns never gets `subagent`.
func TestSubagentInTheForeground(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{
		"lead":  play(call("subagent", `{"task":"child look","description":"a look"}`), text("it said so")),
		"child": play(call("ls", `{"path":"."}`), text("nothing there")),
	}), func(h *house) {
		lead := h.spawn("lead")
		r := h.ended(lead, task.Completed, task.Done)
		child := h.children(lead)[0]
		h.ended(child, task.Completed, task.Done)
		got := h.told(lead, 1)
		if got.TaskID != string(child) || got.Status != "completed" || got.Reason != "DONE" || got.Summary != "nothing there" ||
			got.Usage.TotalTokens != 30 || got.Usage.ToolUses != 1 {
			h.t.Errorf("told: %+v", got)
		}
		if got := h.inputs(lead); len(got) != 1 {
			h.t.Errorf("inputs: %q", got)
		}
		if got := h.states(lead); got != "QUEUED RUNNING WAITING RUNNING COMPLETED" {
			h.t.Errorf("states: %s", got)
		}
		if r.Usage.Steps != 4 || r.Usage.Tokens() != 60 {
			h.t.Errorf("the child's usage is not the lead's too: %+v", r.Usage)
		}
		c := h.task(child)
		if c.Grant.AllowsTool(tool.SubagentName) || !h.task(lead).Grant.AllowsTool(tool.SubagentName) ||
			c.Description != "a look" || c.Workspace != h.workspace || h.inputs(child)[0] != "child look" {
			h.t.Errorf("child: %+v", c)
		}
	}, slots(1))
}

// proves R6: the end of a background task is announced once and keeps its parent going, whose turn would be over.
// case STA-7: nobody is attached.
func TestBackgroundEndWakesTheParent(t *testing.T) {
	childEnds := make(chan bool)
	synctest.Test(t, func(t *testing.T) {
		childEnds = make(chan bool)
		var h *house
		h = newHouse(t, cast(map[string]modelFunc{
			"lead": func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
				switch n := len(req.Messages); n {
				case 2:
					return call("subagent", `{"task":"child","background":true}`), nil
				case 4:
					close(childEnds)
					h.result("sub-2")
					return text("the end?"), nil
				default:
					return text("after " + req.Messages[n-1].Text), nil
				}
			},
			"child": func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
				<-childEnds
				return text("found it"), nil
			},
		}), inBubble)
		lead := h.spawn("lead")
		r := h.ended(lead, task.Completed, task.Done)
		if got := h.told(lead, 1); got.TaskID != "sub-2" || got.Status != "running" {
			t.Errorf("told: %+v", got)
		}
		got := h.envelopes(lead)
		if len(got) != 1 || !strings.HasPrefix(r.Summary, "after <background-task-completed>\n<task-id>sub-2</task-id>") ||
			!strings.Contains(got[0], "<summary>found it</summary>") || !strings.Contains(got[0], "<status>completed</status>") {
			t.Errorf("announced: %q; concluded %q", got, r.Summary)
		}
	})
}

// A look and a wait whose time is over show what there is so far.
func TestTaskOutputOfALivingTask(t *testing.T) {
	child := func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if len(req.Messages) > 2 {
			return hang(ctx, req, sink)
		}
		r := call("ls", `{"path":"."}`)
		r.Text = "I look around"
		return r, nil
	}
	bubble(t, cast(map[string]modelFunc{
		"lead": play(call("subagent", `{"task":"child","background":true}`),
			call("task_output", `{"task_id":"sub-2","block":true,"timeout_ms":5000}`), call("task_output", `{"task_id":"sub-2"}`),
			call("task_stop", `{"task_id":"sub-2"}`), call("task_stop", `{"task_id":"sub-2","level":"kill"}`), text("bye")),
		"child": child,
	}), func(h *house) {
		began := time.Now()
		lead := h.spawn("lead")
		h.ended(lead, task.Completed, task.Done)
		if waited := time.Since(began); waited != 5*time.Second {
			h.t.Errorf("it took %v", waited)
		}
		for n := 2; n <= 3; n++ {
			if got := h.told(lead, n); got.Status != "running" || got.Output != "I look around" {
				h.t.Errorf("call %d: %+v", n, got)
			}
		}
		// proves T4, O5
		// case OUT-4: what was stopped tells its id, what it had, and its usage.
		for n := 4; n <= 5; n++ {
			got := h.told(lead, n)
			if got.Status != "killed" || got.Reason != "STOPPED_BY_CLIENT" || got.Summary != "I look around" ||
				got.Error != "stopped by "+string(lead)+", which started it" || got.Usage.ToolUses != 1 {
				h.t.Errorf("call %d: %+v", n, got)
			}
		}
		h.ended("sub-2", task.Killed, task.StoppedByClient)
		if got := h.inputs(lead); len(got) != 1 {
			h.t.Errorf("inputs: %q", got)
		}
	})
}

// A shell in the background shows what it wrote so far.
func TestTaskOutputOfAShell(t *testing.T) {
	t.Parallel()
	h := newHouse(t, play(
		call("bash", `{"command":"seq 10000; sleep 600","background":true}`),
		call("task_output", `{"task_id":"sh-2","block":true,"timeout_ms":2000}`), call("task_stop", `{"task_id":"sh-2"}`),
		text("bye"),
	))
	lead := h.spawn("lead")
	h.ended(lead, task.Completed, task.Done)
	looked, stopped := h.results(lead)["c00000002"].Text, h.told(lead, 3)
	if out := h.told(lead, 2).Output; !strings.HasSuffix(out, "9999\n10000\n") || len(out) != tool.MaxSoFar ||
		!strings.Contains(looked, `"activity":"runs seq 10000`) {
		t.Errorf("shown: %.200q", looked)
	}
	if stopped.Status != "killed" || stopped.Reason != "STOPPED_BY_CLIENT" || len(h.inputs(lead)) != 1 {
		t.Errorf("told: %+v, inputs %q", stopped, h.inputs(lead))
	}
}

// Who stops a task gives its slot back meanwhile: the task may need it to report.
func TestStopNeedsNoSlot(t *testing.T) {
	child := func(_ context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if len(req.Tools) == 0 {
			return text("wrapped up"), nil
		}
		sink(&model.Pausing{Until: time.Now().Add(10 * time.Second)})
		time.Sleep(10 * time.Second)
		sink(&model.Resuming{})
		return call("ls", `{"path":"."}`), nil
	}
	bubble(t, cast(map[string]modelFunc{
		"lead": play(call("subagent", `{"task":"child","background":true}`),
			call("task_output", `{"task_id":"sub-2","block":true,"timeout_ms":5000}`),
			call("task_stop", `{"task_id":"sub-2","level":"wrap_up"}`), text("bye")),
		"child": child,
	}), func(h *house) {
		began := time.Now()
		lead := h.spawn("lead")
		h.ended(lead, task.Completed, task.Done)
		if got := h.told(lead, 3); got.Status != "killed" || got.Summary != "wrapped up" {
			h.t.Errorf("told: %+v", got)
		}
		if took := time.Since(began); took != 10*time.Second {
			h.t.Errorf("it took %v", took)
		}
	}, slots(1))
}

// An agent looks after what it started, and after nothing else; a wait for itself or what is above it is a circle.
// proves R9, P4
// case STA-11
func TestOthersTasksAreNotGranted(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{
		"other": hang,
		"lead": play(call("subagent", `{"task":"child","background":true}`), call("task_output", `{"task_id":"sub-1"}`),
			call("task_output", `{"task_id":"sub-1","block":true}`), call("task_stop", `{"task_id":"sub-1"}`),
			call("task_output", `{"task_id":"sub-99"}`), call("task_output", `{"task_id":"sub-2","block":true}`), text("bye")),
		"child": hang,
	}), func(h *house) {
		other := h.spawn("other")
		lead := h.spawn("lead")
		h.ended(lead, task.Completed, task.Done)
		for n, reason := range map[int]tool.Reason{
			2: tool.NotGranted, 3: tool.NotGranted, 4: tool.NotGranted, 5: tool.NotFound, 6: tool.WaitCircle,
		} {
			got := h.told(lead, n)
			if got.Reason != string(reason) || n < 6 && !slices.Equal(got.Allowed, []string{"sub-3"}) {
				h.t.Errorf("call %d: %+v", n, got)
			}
		}
		if s := h.task(other).State; s != task.Running {
			h.t.Errorf("the other task is %s", s)
		}
	})
}

// What a spawn may not have is an answer that says what there is. proves P1, P2, P4, R7, N8
func TestSubagentRefusals(t *testing.T) {
	none := 0
	for name, c := range map[string]struct {
		arguments string
		grant     func(*task.Assignment)
		reason    tool.Reason
		subject   string
		allowed   string
		says      string
	}{
		"subagent":   {`{"task":"x","tools":["ls","subagent"]}`, nil, tool.NotGranted, "subagent", "ls", ""},
		"not its":    {`{"task":"x","tools":["write"]}`, only("ls", "subagent"), tool.NotGranted, "write", "ls", ""},
		"outside":    {`{"task":"x","paths":["/"]}`, nil, tool.NotGranted, "/", "", "not granted: paths: /"},
		"nowhere":    {`{"tasks":[{"task":"x","paths":["nope"]}]}`, nil, tool.InvalidArguments, "tasks[0].paths", "", ""},
		"definition": {`{"task":"x","agent":"nobody"}`, nil, tool.NotFound, "nobody", "general", ""},
		"empty":      {`{"chain":[{"task":"x"},{"task":" "}]}`, nil, tool.InvalidArguments, "chain[1].task", "", ""},
		"too many":   {`{"tasks":[` + strings.Repeat(`{"task":"x"},`, 8) + `{"task":"x"}]}`, nil, tool.InvalidArguments, "tasks", "", "at most 8"},
		"two lines":  {`{"task":"x","description":"a\nb"}`, nil, tool.InvalidArguments, "description", "", "one line"},
		"steps":      {`{"task":"x","max_steps":5000}`, nil, tool.InvalidArguments, "max_steps", "", ""},
		"isolation":  {`{"task":"x","isolation":"worktree"}`, nil, "NOT_OFFERED", "worktree", "", ""},
		"depth": {
			`{"task":"x"}`, func(a *task.Assignment) { a.Grant.Depth = &none }, "DEPTH_EXCEEDED", "sub-1", "", "",
		},
	} {
		bubble(t, play(call("subagent", c.arguments), text("bye")), func(h *house) {
			if c.grant == nil {
				c.grant = func(*task.Assignment) {}
			}
			lead := h.spawn("lead", c.grant)
			h.ended(lead, task.Completed, task.Done)
			got := h.told(lead, 1)
			if got.Reason != string(c.reason) || got.Subject != c.subject || got.Message == "" ||
				c.allowed != "" && !slices.Contains(got.Allowed, c.allowed) {
				h.t.Errorf("%s: %+v", name, got)
			}
			if !strings.Contains(got.Message, c.says) || strings.Contains(got.Message, "_roots") {
				h.t.Errorf("%s: %q", name, got.Message)
			}
			if children := h.children(lead); len(children) != 0 {
				h.t.Errorf("%s: spawned %v", name, children)
			}
		})
	}
}

// only narrows the tools that a spawn asks for.
func only(tools ...string) func(*task.Assignment) {
	return func(a *task.Assignment) { a.Grant.Tools = tools }
}

// proves P1, P3: a child that may touch less of the disk than its parent has no shell, nor has what is below it.
func TestConfinedChildHasNoShell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, cast(map[string]modelFunc{
			"lead":  play(call("subagent", `{"task":"child","paths":["sub"]}`), text("bye")),
			"child": play(text("done")),
		}), inBubble, subdirectory("sub"))
		lead := h.spawn("lead")
		h.ended(lead, task.Completed, task.Done)
		child := h.task(h.children(lead)[0])
		if g := child.Grant; g.AllowsTool("bash") || g.AllowsTool("task_output") || !g.AllowsTool("write") ||
			!slices.Equal(g.Readable, []string{h.workspace + "/sub"}) || !slices.Equal(g.Writable, g.Readable) {
			t.Errorf("granted: %+v", g)
		}
		if !slices.Contains(child.Dropped, "bash") {
			t.Errorf("dropped: %v", child.Dropped)
		}
	})
}

// case STA-6: an agent that has completed does nothing more, whatever is sent.
func TestCompletedChildDoesNothingMore(t *testing.T) {
	var asked tally
	bubble(t, cast(map[string]modelFunc{
		"lead": play(call("subagent", `{"task":"child"}`), call("nap", "{}"), text("bye")),
		"child": func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
			asked.add("child")
			return text("done"), nil
		},
	}), func(h *house) {
		lead := h.spawn("lead")
		synctest.Wait() // until the lead naps
		h.ended("sub-2", task.Completed, task.Done)
		if err := h.send("sub-2", "more?"); !errdefs.Is(err, errdefs.TaskEnded) {
			h.t.Errorf("mail to what has completed: %v", err)
		}
		h.ended(lead, task.Completed, task.Done)
		if n := asked.get("child"); n != 1 {
			h.t.Errorf("it was asked %d times", n)
		}
	}, with(nap()))
}
