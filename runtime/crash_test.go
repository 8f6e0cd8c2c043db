package runtime_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/runtime/view"
)

// proves D2, D4, D5
// case OUT-1: killed right after its n-th commit, for all n of a run with calls of all kinds, mail and a shell, and
// started again, the task ends as it would have; no call is answered twice or has its effect twice, mail is given
// once, every history is valid, and every cursor reads what it read before.
func TestKilledAfterEachCommit(t *testing.T) {
	walk(t, 10, killAfter)
}

// killAfter tells whether the run was over before its n-th commit.
func killAfter(t *testing.T, n int) (over bool) {
	var effects tally
	var h *house
	steer := func(context.Context, tool.Call) (tool.Answer, error) {
		req := sendTo("sub-1", "steered") // itself
		req.RequestID = "steering"        // a retry, when the call runs anew
		_, _ = h.sup.Send(context.Background(), req)
		return tool.Answer{Text: "sent"}, nil
	}
	h = newHouse(t, play(
		call("ls", `{"path":"."}`, "read", `{"path":"a.txt"}`, "effect", "{}", "effect", `{"n":2}`),
		call("bash", `{"command":"echo x >> log; echo written"}`, "effect", `{"n":3}`, "ls", `{"path":"."}`),
		call("steer", "{}"),
		call("edit", `{"path":"a.txt","old_string":"one","new_string":"two"}`),
		text("almost"),
		call("report", `{"summary":"all done"}`),
	), with(effect("effect", &effects), prop{name: "steer", readOnly: true, run: steer}))
	h.must(os.WriteFile(filepath.Join(h.workspace, "a.txt"), []byte("one\n"), 0o600))

	id := h.spawn("walk", func(a *task.Assignment) { a.RequestID = "walk" })
	h.cut.after(n)
	over = h.endedOrDead(id)
	before := h.entries(id)
	h.restart()

	after := h.entries(id)
	if len(after) < len(before) || !slices.EqualFunc(before, after[:len(before)], sameEntry) {
		t.Errorf("the transcript reads differently after the restart:\n%v\n%v", before, after)
	}
	if r := h.ended(id, task.Completed, task.Done); r.Summary == "" {
		t.Errorf("result: %+v", r)
	}
	h.results(id)
	for key, times := range effects.n {
		if times > 1 {
			t.Errorf("call %s had its effect %d times", key, times)
		}
	}
	log, err := os.ReadFile(filepath.Join(h.workspace, "log"))
	if err == nil && string(log) != "x\n" {
		t.Errorf("the shell ran more than once: %q", log)
	}
	if got := h.inputs(id); strings.Join(got, ",") != "walk,steered" {
		t.Errorf("inputs: %q", got)
	}
	return over
}

// endedOrDead waits until a task has ended, true, or the store is cut.
func (h *house) endedOrDead(id task.ID) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan bool, 1)
	go func() {
		ended <- h.view.Output(ctx, view.OutputRequest{TaskID: id, Terminal: true}, func(view.Item) error { return nil }) == nil
	}()
	select {
	case <-h.cut.dead:
		cancel()
		<-ended
		return false
	case <-ended:
		return true
	}
}

func sameEntry(a, b task.Entry) bool {
	return a.Seq == b.Seq && a.Time.Equal(b.Time) && fmt.Sprintf("%T%+v", a.Body, a.Body) == fmt.Sprintf("%T%+v", b.Body, b.Body)
}

// proves D4: what was queued stays so, with the mail that it got, and what ran goes on.
func TestQueuedAndRunningGoOnAfterTheKill(t *testing.T) {
	g := newGate()
	h := newHouse(t, cast(map[string]modelFunc{
		"first":  play(call("gate", "{}"), text("first done")),
		"second": echoInputs,
	}), slots(1), with(g.tool("gate")))
	first := h.spawn("first")
	<-g.entered
	second := h.spawn("second")
	h.must(h.send(second, "mail"))
	h.cut.cut()
	close(g.open)
	h.restart()
	h.ended(first, task.Completed, task.Done)
	if r := h.results(first); !strings.Contains(r["c00000001"].Text, "OUTCOME_UNKNOWN") {
		t.Errorf("the call that was cut off: %+v", r["c00000001"])
	}
	if r := h.ended(second, task.Completed, task.Done); !strings.HasPrefix(r.Summary, "second\n\n<teammate-message ") || !strings.Contains(r.Summary, ">\nmail\n<") {
		t.Errorf("the queued task was told %q", r.Summary)
	}
}

// echoInputs ends with what the user has said first.
func echoInputs(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	return text(req.Messages[1].Text), nil
}
