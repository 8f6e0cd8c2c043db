package tool

import (
	"slices"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/task"
)

func TestTaskOutputLooksOrWaits(t *testing.T) {
	a, r := newParent(t, sub7())
	for _, arguments := range []string{
		`{"task_id":"sub-7"}`, `{"task_id":"sub-7","timeout_ms":5}`, `{"task_id":"sub-7","block":true}`,
		`{"task_id":"sub-7","block":true,"timeout_ms":1500}`,
	} {
		answer := a.run("task_output", arguments)
		has(t, answer.Text, `"status":"failed"`, `"summary":"half <done>"`)
		if !slices.Equal(answer.Ends, []task.ID{"sub-7"}) {
			t.Errorf("%s tells the ends %v", arguments, answer.Ends)
		}
	}
	if got := strings.Join(r.asked, ", "); got != "look sub-7, look sub-7, wait sub-7 1m0s, wait sub-7 1.5s" {
		t.Errorf("asked: %s", got)
	}
}

// case OUT-6: what is shown of a living task's output begins at a character.
func TestTaskOutputShowsTheEndSoFar(t *testing.T) {
	a, _ := newParent(t, Waited{
		Task: task.Task{ID: "sh-3", Kind: task.Shell, State: task.Running}, Activity: "runs its command",
		Output: strings.Repeat("\u65e5", MaxSoFar) + "the end",
	})
	answer := a.run("task_output", `{"task_id":"sh-3"}`)
	has(t, answer.Text, `"status":"running"`, `the end"`, `"activity":"runs its command"`, `"output":"`+"\u65e5")
	hasNot(t, answer.Text, "\ufffd")
	if len(answer.Text) > MaxSoFar+500 || answer.Ends != nil {
		t.Errorf("%d bytes, ends %v", len(answer.Text), answer.Ends)
	}
}

// proves T4 as far as the tool goes
func TestTaskStop(t *testing.T) {
	a, r := newParent(t, sub7())
	for _, level := range []string{"", `,"level":"wrap_up"`, `,"level":"kill"`} {
		answer := a.run("task_stop", `{"task_id":"sub-7"`+level+`}`)
		has(t, answer.Text, `"status":"failed"`)
		if !slices.Equal(answer.Ends, []task.ID{"sub-7"}) {
			t.Errorf("ends %v", answer.Ends)
		}
	}
	if got := strings.Join(r.asked, ", "); got != "stop sub-7 CANCEL, stop sub-7 WRAP_UP, stop sub-7 KILL" {
		t.Errorf("asked: %s", got)
	}
	r.refusal = &Error{Reason: NotGranted, Message: "task sub-9 is not yours", Allowed: []string{"sub-7"}}
	a.fail(NotGranted, "task_stop", `{"task_id":"sub-9"}`)
}
