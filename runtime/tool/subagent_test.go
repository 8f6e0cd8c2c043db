package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/task"
)

// relatives answer every call about tasks alike and keep what they were asked.
type relatives struct {
	spawned task.Assignment
	refusal error
	seen    Waited
	asked   []string
}

func (r *relatives) Spawn(_ context.Context, callID string, a task.Assignment) (task.ID, error) {
	r.asked, r.spawned = append(r.asked, "spawn "+callID), a
	return r.seen.Task.ID, r.refusal
}

func (r *relatives) Expect([]task.ID) {}

func (r *relatives) Wait(_ context.Context, id task.ID, timeout time.Duration) (Waited, error) {
	r.asked = append(r.asked, fmt.Sprintf("wait %s %v", id, timeout))
	return r.seen, r.refusal
}

func (r *relatives) Look(_ context.Context, id task.ID) (Waited, error) {
	r.asked = append(r.asked, "look "+string(id))
	seen := r.seen
	seen.End = Looked
	return seen, r.refusal
}

func (r *relatives) Stop(_ context.Context, id task.ID, level task.StopLevel) (Waited, error) {
	r.asked = append(r.asked, fmt.Sprintf("stop %s %s", id, level))
	return r.seen, r.refusal
}

// sub7 is a task that has ended.
func sub7() Waited {
	return Waited{
		End: TaskEnded, Task: task.Task{ID: "sub-7", Kind: task.Subagent, Agent: "coder", State: task.Failed},
		Usage: task.Usage{InputTokens: 10, OutputTokens: 5, ToolCalls: 2}, WallTime: 1500 * time.Millisecond,
		Result: &task.Result{
			TaskID: "sub-7", State: task.Failed, Reason: task.MaxSteps, Error: "out of steps",
			Conclusion: task.Conclusion{
				Report:   task.Report{Summary: "half <done>", Findings: []task.Finding{{Title: "a bug", Path: "x.go", Line: 3}}},
				Changes:  []string{"x.go"},
				Evidence: []task.Evidence{{Command: "go test", ExitCode: 1, Output: "FAIL"}},
			},
		},
	}
}

func newParent(t *testing.T, seen Waited) (*agent, *relatives) {
	t.Helper()
	a, r := newAgent(t), &relatives{seen: seen}
	a.scope.Tasks = r
	return a, r
}

// proves R1, O5
// case OUT-4: the end of a task that failed is an answer with its id, what it had so far and its usage.
func TestSubagentTellsTheEnd(t *testing.T) {
	a, r := newParent(t, sub7())
	answer := a.run("subagent", `{"task":"fix it"}`)
	want := `{"task_id":"sub-7","status":"failed","reason":"MAX_STEPS","agent":"coder","summary":"half <done>",` +
		`"findings":[{"title":"a bug","path":"x.go","line":3}],` +
		`"evidence":[{"command":"go test","exit_code":1,"output":"FAIL"}],"changes":["x.go"],"error":"out of steps",` +
		`"usage":{"total_tokens":15,"tool_uses":2,"duration_ms":1500}}`
	if answer.Text != want || answer.IsError || !slices.Equal(answer.Ends, []task.ID{"sub-7"}) {
		t.Errorf("%+v", answer)
	}
	if got := strings.Join(r.asked, ", "); got != "spawn call00001, wait sub-7 0s" {
		t.Errorf("asked: %s", got)
	}
}

func TestSubagentInTheBackground(t *testing.T) {
	a, r := newParent(t, sub7())
	answer := a.run("subagent", `{"task":"fix it","background":true}`)
	if answer.Text != `{"task_id":"sub-7","status":"running"}` || answer.Ends != nil || len(r.asked) != 1 {
		t.Errorf("%+v, asked %v", answer, r.asked)
	}
}

// A wait that is over before the end says so, and tells no end.
func TestWaitsThatEndEarly(t *testing.T) {
	running := sub7()
	running.Task.State, running.Result, running.Activity = task.Running, nil, "bash: go test"
	for end, want := range map[WaitEnd]string{
		MailCame: "still running as sub-7, in the background from now on: there is mail", TimeOver: "the timeout passed",
	} {
		running.End = end
		a, _ := newParent(t, running)
		for name, arguments := range map[string]string{
			"subagent": `{"task":"fix it"}`, "task_output": `{"task_id":"sub-7","block":true}`,
		} {
			answer := a.run(name, arguments)
			has(t, answer.Text, want, `"status":"running"`, `"activity":"bash: go test"`)
			if answer.Ends != nil || answer.IsError {
				t.Errorf("%+v", answer)
			}
		}
	}
	a, _ := newParent(t, Waited{End: Circle, Members: []task.ID{"sub-7", "sub-1"}})
	e := a.fail(WaitCircle, "task_output", `{"task_id":"sub-1","block":true}`)
	has(t, e.Message, "sub-7 waits for sub-1 waits for sub-7")
}

// The arguments become what is spawned: what an item leaves open is as for all.
func TestSubagentArguments(t *testing.T) {
	a, r := newParent(t, sub7())
	a.scope.Grant.Writable = []string{a.ws + "/src"}
	no := false
	a.run("subagent", `{"tasks":[{"task":"one","agent":"explorer","tools":[],"paths":["src/a","docs"]},
		{"task":"two","max_steps":3,"timeout_s":60,"acceptance":["go vet"],"result_schema":{"type":"object"}}],
		"agent":"coder","model":"m","tools":["read"],"network":false,"max_steps":9,"isolation":"worktree",
		"acceptance":["go test"],"description":"both"}`)
	want := task.Assignment{Description: "both", Group: &task.GroupSpec{Items: []task.AgentSpec{
		{
			Agent: "explorer", Prompt: "one", Model: "m", Worktree: true, Budget: task.Budget{MaxSteps: 9},
			Grant: grant.Request{
				Tools: []string{}, Network: &no, Readable: []string{a.ws + "/src/a", a.ws + "/docs"},
				Writable: []string{a.ws + "/src/a"},
			},
			Acceptance: []task.Check{{Command: "go test"}},
		},
		{
			Agent: "coder", Prompt: "two", Model: "m", Worktree: true,
			Budget: task.Budget{MaxSteps: 3, WallTime: time.Minute}, Grant: grant.Request{Tools: []string{"read"}, Network: &no},
			Acceptance: []task.Check{{Command: "go vet"}}, Schema: `{"type":"object"}`,
		},
	}}}
	if !reflect.DeepEqual(r.spawned, want) {
		t.Errorf("spawned\n%+v, %+v\nwant\n%+v, %+v", r.spawned, r.spawned.Group, want, want.Group)
	}
	a.run("subagent", `{"chain":[{"task":"one"},{"task":"{previous}"}]}`)
	if g := r.spawned.Group; g == nil || !g.Chain || len(g.Items) != 2 || g.Items[1].Prompt != "{previous}" {
		t.Errorf("%+v", r.spawned.Group)
	}
	a.run("subagent", `{"task":"one","agent":"coder","paths":["/elsewhere/x/.."]}`)
	if s := r.spawned.AgentSpec; r.spawned.Group != nil || s.Prompt != "one" || s.Agent != "coder" ||
		!slices.Equal(s.Grant.Readable, []string{"/elsewhere"}) || s.Grant.Writable != nil {
		t.Errorf("%+v", r.spawned)
	}
}

// A refusal names the argument as the model wrote it. // proves P4
func TestSubagentRefusals(t *testing.T) {
	for _, c := range []struct{ arguments, field, subject string }{
		{`{"task":"x"}`, "prompt", "task"},
		{`{"task":"x"}`, "budget.max_steps", "max_steps"},
		{`{"task":"x"}`, "budget.wall_time", "timeout_s"},
		{`{"task":"x"}`, "grant.tools", "tools"},
		{`{"task":"x"}`, "grant.readable_roots", "paths"},
		{`{"tasks":[]}`, "items", "tasks"},
		{`{"tasks":[{"task":"x"}]}`, "items[0].prompt", "tasks[0].task"},
		{`{"chain":[{"task":"x"}]}`, "items[0].acceptance[2].command", "chain[0].acceptance[2]"},
	} {
		a, r := newParent(t, Waited{})
		r.refusal = &Error{Reason: InvalidArguments, Subject: c.field, Message: c.field + ": is wrong"}
		if e := a.fail(InvalidArguments, "subagent", c.arguments); e.Subject != c.subject || e.Message != c.subject+": is wrong" {
			t.Errorf("%s: %+v", c.field, e)
		}
	}
	a, r := newParent(t, Waited{})
	r.refusal = &Error{Reason: NotGranted, Subject: "bash", Message: "not granted", Allowed: []string{"read"}}
	if e := a.fail(NotGranted, "subagent", `{"task":"x"}`); e.Subject != "bash" || !slices.Equal(e.Allowed, []string{"read"}) {
		t.Errorf("%+v", e)
	}
}

// Of a group each child has its part of the answer, in the order of the items, however long one of them is.
func TestGroupIsToldWhole(t *testing.T) {
	group := Waited{
		End: TaskEnded, Task: task.Task{ID: "grp-3", Kind: task.Group, State: task.Completed},
		Result: &task.Result{Conclusion: task.Conclusion{Report: task.Report{Summary: "what they say once more"}}},
	}
	for n := range 4 {
		child := sub7()
		child.Task.ID = task.NewID(task.Subagent, uint64(n))
		if n == 1 {
			long := *child.Result
			long.Summary, long.Output = strings.Repeat("\u65e5", 9000), strings.Repeat("x", 100<<10)
			child.Result = &long
		}
		group.Children = append(group.Children, child)
	}
	a, _ := newParent(t, group)
	answer := a.run("subagent", `{"tasks":[{"task":"x"}]}`)
	var told struct {
		Summary string
		Results []struct {
			TaskID  string `json:"task_id"`
			Summary string
			Message string
		}
	}
	if err := json.Unmarshal([]byte(answer.Text), &told); err != nil || len(answer.Text) > MaxAnswer {
		t.Fatalf("%v; %d bytes", err, len(answer.Text))
	}
	if !slices.Equal(answer.Ends, []task.ID{"grp-3"}) || told.Summary != "" || len(told.Results) != 4 {
		t.Fatalf("%v: %.500s", answer.Ends, answer.Text)
	}
	for n, r := range told.Results {
		if want := fmt.Sprintf("sub-%d", n); r.TaskID != want || (r.Message != "") != (n == 1) || r.Summary == "" {
			t.Errorf("result %d: %.300v", n, r)
		}
	}
	has(t, told.Results[1].Message, "task_output with task_id sub-1")
	hasNot(t, told.Results[1].Summary, "\ufffd")
}
