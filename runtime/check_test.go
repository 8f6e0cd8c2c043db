package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// checkHistory is as strict as the strictest server: the system first and once, no two users in a row, every call
// answered once and directly, the last word not the assistant's.
func checkHistory(messages []model.Message) error {
	open, known := map[string]bool{}, map[string]bool{}
	var prev model.Role
	for i, m := range messages {
		switch {
		case (m.Role == model.System) != (i == 0):
			return fmt.Errorf("message %d: the first message, and no other, is the system's", i)
		case len(open) > 0 && m.Role != model.ToolAnswer:
			return fmt.Errorf("message %d: %d calls are unanswered", i, len(open))
		case m.Role == prev && m.Role != model.ToolAnswer, m.Role == model.Assistant && prev == model.System:
			return fmt.Errorf("message %d: role %d after %d", i, m.Role, prev)
		case m.Role != model.Assistant && m.Text == "":
			return fmt.Errorf("message %d is empty", i)
		case m.Role == model.ToolAnswer && !open[m.CallID]:
			return fmt.Errorf("message %d: answer to %q, which is not open", i, m.CallID)
		}
		for _, c := range m.Calls {
			if known[c.ID] || len(c.ID) != 9 || c.Name == "" {
				return fmt.Errorf("message %d: bad call %+v", i, c)
			}
			known[c.ID], open[c.ID] = true, true
		}
		delete(open, m.CallID)
		prev = m.Role
	}
	if len(open) > 0 || (prev != model.User && prev != model.ToolAnswer) {
		return errors.New("the history ends with the assistant")
	}
	return nil
}

func TestCheckHistoryRefuses(t *testing.T) {
	system, user := model.Message{Role: model.System, Text: "s"}, model.Message{Role: model.User, Text: "u"}
	asks := model.Message{Role: model.Assistant, Calls: []model.ToolCall{{ID: "c00000001", Name: "x"}}}
	answer := model.Message{Role: model.ToolAnswer, Text: "a", CallID: "c00000001"}
	if err := checkHistory([]model.Message{system, user, asks, answer}); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for _, bad := range [][]model.Message{
		{user}, {system}, {system, user, user}, {system, user, asks}, {system, user, asks, user, answer},
		{system, user, asks, answer, answer}, {system, user, asks, answer, asks, answer}, {system, asks, answer},
		{system, user, {Role: model.Assistant, Text: "end"}},
	} {
		if checkHistory(bad) == nil {
			t.Errorf("accepted: %+v", bad)
		}
	}
}

// ended waits for a task's end and checks that it is that one, once, everywhere (S1, S4).
func (h *house) ended(id task.ID, state task.State, reason task.Reason) task.Result {
	h.t.Helper()
	r := h.result(id)
	if r.State != state || r.Reason != reason {
		h.t.Errorf("%s ended %s/%s (%s), not %s/%s", id, r.State, r.Reason, r.Error, state, reason)
	}
	h.endedOnce(id)
	return r
}

// endedOnce checks that a task that has ended has one terminal entry, and that nothing follows it.
func (h *house) endedOnce(id task.ID) {
	h.t.Helper()
	ctx := context.Background()
	row, err := h.journal.Task(ctx, id)
	h.must(err)
	ends := 0
	entries := h.entries(id)
	for i, e := range entries {
		change, ok := e.Body.(*task.StateChange)
		if !ok || !change.To.Terminal() {
			continue
		}
		if ends++; i != len(entries)-1 || change.To != row.Value.State || change.Reason != row.Value.Reason {
			h.t.Errorf("%s: terminal entry %d of %d is %+v, the record says %s/%s",
				id, i, len(entries), change, row.Value.State, row.Value.Reason)
		}
	}
	if ends != 1 {
		h.t.Errorf("%s has %d terminal entries", id, ends)
	}
	if _, err := h.journal.Live(ctx, row.Value.Team, id); !errdefs.Is(err, errdefs.RecordNotFound) {
		h.t.Errorf("%s has ended and a live record: %v", id, err)
	}
}

// states are the states that a task has passed, the first one included.
func (h *house) states(id task.ID) string {
	h.t.Helper()
	states := task.Queued.String()
	for _, e := range h.entries(id) {
		if c, ok := e.Body.(*task.StateChange); ok {
			states += " " + c.To.String()
		}
	}
	return states
}

// task reads a task.
func (h *house) task(id task.ID) view.Task {
	h.t.Helper()
	t, err := h.view.Task(context.Background(), id)
	h.must(err)
	return t
}

// until waits for something that shows in a task's transcript or state.
func (h *house) until(id task.ID, what string, seen func(task.Task, []task.Entry) bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), h.patience())
	defer cancel()
	bell := h.journal.Bell()
	defer bell.Close()
	for {
		row, err := h.journal.Task(ctx, id)
		if err != nil {
			h.t.Fatal(err)
		}
		bell.Transcript(row.Value.Team, id)
		row, err = h.journal.Task(ctx, id)
		h.must(err)
		if seen(row.Value, h.entries(id)) {
			h.calm()
			return
		}
		select {
		case <-bell.Rings():
		case <-ctx.Done():
			h.t.Fatalf("%s: never saw %s; it is %s", id, what, row.Value.State)
		}
	}
}

// calm waits, in a bubble, until all has happened that needs no time: a task that was just seen to run has asked its model.
func (h *house) calm() {
	if h.processes != nil {
		time.Sleep(time.Nanosecond)
	}
}

// untilState waits for a state.
func (h *house) untilState(id task.ID, s task.State) {
	h.t.Helper()
	h.until(id, s.String(), func(t task.Task, _ []task.Entry) bool { return t.State == s })
}

// results are the answers of a task's calls, by call id. Each call must have one.
func (h *house) results(id task.ID) map[string]*task.ToolResult {
	h.t.Helper()
	asked, results := map[string]bool{}, map[string]*task.ToolResult{}
	for _, e := range h.entries(id) {
		switch b := e.Body.(type) {
		case *task.Assistant:
			for _, c := range b.Calls {
				if asked[c.ID] {
					h.t.Errorf("%s: call id %s stands for two calls", id, c.ID)
				}
				asked[c.ID] = true
			}
		case *task.ToolResult:
			if results[b.CallID] != nil || !asked[b.CallID] {
				h.t.Errorf("%s: call %s is answered twice, or was never asked", id, b.CallID)
			}
			results[b.CallID] = b
		}
	}
	for callID := range asked {
		if results[callID] == nil {
			h.t.Errorf("%s: call %s has no answer", id, callID)
		}
	}
	return results
}

// inputs are the texts that were given to a task, its assignment first.
func (h *house) inputs(id task.ID) []string {
	h.t.Helper()
	var texts []string
	for _, e := range h.entries(id) {
		if in, ok := e.Body.(*task.Input); ok {
			texts = append(texts, in.Text)
		}
	}
	return texts
}

// send gives a task mail.
func (h *house) send(id task.ID, text string) error {
	_, err := h.sup.Send(context.Background(), sendTo(id, text))
	return err
}

// stopTask stops a task and waits for its end.
func (h *house) stopTask(id task.ID, level task.StopLevel) error {
	req := runtime.StopRequest{TaskID: id, Level: level}
	return h.sup.Stop(context.Background(), req, func(runtime.StopProgress) error { return nil })
}
