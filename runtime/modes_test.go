package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// way is one way for a task to end.
type way string

// The ways.
const (
	ok      way = "ok"
	failing way = "error"
	timeout way = "timeout"
	budget  way = "budget"
	stopped way = "stop"
	panicky way = "panic"
	crash   way = "crash"
)

func ways() []way { return []way{ok, failing, timeout, budget, stopped, panicky, crash} }

// end is how a task ends.
type end struct {
	state  task.State
	reason task.Reason
}

// agentEnds are the ends of an agent, however it came into being.
func agentEnds() map[way]end {
	return map[way]end{
		ok: {task.Completed, task.Done}, failing: {task.Failed, task.ModelError}, timeout: {task.Failed, task.Timeout},
		budget: {task.Failed, task.BudgetExceeded}, stopped: {task.Killed, task.StoppedByClient},
		panicky: {task.Failed, task.Panic}, crash: {task.Completed, task.Done},
	}
}

// toolEnds are those of one that a tool call spawned: its budget is of steps alone.
func toolEnds() map[way]end {
	ends := agentEnds()
	ends[budget] = end{task.Failed, task.MaxSteps}
	return ends
}

// shellEnds are the ends of a shell. It has no budget, and nothing of a command can make the daemon panic.
func shellEnds() map[way]end {
	return map[way]end{
		ok: {task.Completed, task.Done}, failing: {task.Failed, task.ExitNonzero}, timeout: {task.Failed, task.Timeout},
		stopped: {task.Killed, task.StoppedByClient}, crash: {task.Failed, task.Interrupted},
	}
}

// mode is one way to spawn, and what it is expected to give.
type mode struct {
	name string
	ends map[way]end
	// assignment is a client's spawn; call is the tool call of an agent that spawns instead.
	assignment func(way) task.Assignment
	call       func(way) (name, arguments string)
	waits      bool // the call itself waits for the end
}

func modes() []mode {
	agent := func(w way) task.Assignment { return task.Assignment{AgentSpec: assigned(w)} }
	group := func(chain bool, before ...task.AgentSpec) func(way) task.Assignment {
		return func(w way) task.Assignment {
			a := task.Assignment{Group: &task.GroupSpec{Chain: chain}}
			item := assigned(w)
			a.Budget.WallTime, item.Budget.WallTime = item.Budget.WallTime, 0
			a.Group.Items = append(append(a.Group.Items, before...), item, assigned(ok))
			return a
		}
	}
	shell := func(w way) task.Assignment {
		a := task.Assignment{Shell: &task.ShellSpec{Command: commands()[w]}}
		a.Budget.WallTime = assigned(w).Budget.WallTime
		return a
	}
	return []mode{
		{name: "single", ends: agentEnds(), assignment: agent},
		{name: "parallel", ends: agentEnds(), assignment: group(false)},
		{name: "chain", ends: agentEnds(), assignment: group(true, assigned(ok))},
		{name: "shell", ends: shellEnds(), assignment: shell},
		{name: "foreground", ends: toolEnds(), call: subagentCall(`"task":%q`, ""), waits: true},
		{name: "background", ends: toolEnds(), call: subagentCall(`"task":%q`, `,"background":true`)},
		{name: "parallel in the background", ends: toolEnds(), call: subagentCall(`"tasks":[{"task":%q},{"task":"ok"}]`, `,"background":true`)},
		{name: "chain in the foreground", ends: toolEnds(), call: subagentCall(`"chain":[{"task":"ok"},{"task":%q}]`, ""), waits: true},
		{name: "bash in the background", ends: shellEnds(), call: func(w way) (string, string) {
			limit := ""
			if w == timeout {
				limit = `,"timeout_ms":100`
			}
			return "bash", fmt.Sprintf(`{"command":%q,"background":true%s}`, commands()[w], limit)
		}},
	}
}

// assigned is an agent that goes that way.
func assigned(w way) task.AgentSpec {
	spec := task.AgentSpec{Prompt: string(w)}
	switch w {
	case timeout:
		spec.Budget.WallTime = 100 * time.Millisecond
	case budget:
		spec.Budget.Steps = 3
	case ok, failing, stopped, panicky, crash:
	}
	return spec
}

func commands() map[way]string {
	return map[way]string{
		ok: "echo hi", failing: "echo no; exit 3", timeout: "sleep 600", stopped: "sleep 600 & sleep 600", crash: "sleep 600",
	}
}

// subagentCall is the call that spawns an agent that goes a way.
func subagentCall(what, more string) func(way) (string, string) {
	return func(w way) (string, string) {
		limit := ""
		switch w {
		case timeout:
			limit = `,"timeout_s":1`
		case budget:
			limit = `,"max_steps":3`
		case ok, failing, stopped, panicky, crash:
		}
		return "subagent", "{" + fmt.Sprintf(what, string(w)) + limit + more + "}"
	}
}

// modeRoles are the agents of the ways, and the parent that spawns by a call and is busy until it learns of the end.
func modeRoles(m mode, w way) map[string]modelFunc {
	roles := map[string]modelFunc{
		string(ok): play(call("ls", `{"path":"."}`), call("report", `{"summary":"all done"}`)), string(failing): fails(model.Auth),
		string(timeout): hang, string(stopped): hang, string(panicky): panics, string(budget): forever,
		string(crash): play(call("gate", "{}"), text("done after all")),
	}
	if m.call != nil {
		name, arguments := m.call(w)
		roles["parent"] = func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			said := answers(req)
			for _, message := range req.Messages[2:] {
				if message.Role == model.User {
					said += message.Text
				}
			}
			switch {
			case len(req.Messages) == 2:
				return call(name, arguments), nil
			case m.waits || strings.Contains(said, "<background-task-completed>"):
				return text("the parent is done"), nil
			}
			return call("hold", `{"n":`+itoa(len(req.Messages))+`}`), nil
		}
	}
	return roles
}

// TestModesAndOutcomes walks mode x outcome: the state and the reason, one terminal event, one announcement where there
// is somebody to tell, the usage, and nothing left behind.
//
// proves S1, S3, N4, O5, R5, R6
// case STA-2, STA-5, OUT-4
func TestModesAndOutcomes(t *testing.T) {
	for _, m := range modes() {
		for _, w := range ways() {
			if _, possible := m.ends[w]; possible {
				t.Run(m.name+"/"+string(w), func(t *testing.T) {
					t.Parallel()
					walkOutcome(t, m, w)
				})
			}
		}
	}
}

func walkOutcome(t *testing.T, m mode, w way) {
	work := newGate()
	var hold atomic.Pointer[gate] // of this life of the daemon
	hold.Store(newGate())
	held := prop{name: "hold", run: func(ctx context.Context, c tool.Call) (tool.Answer, error) {
		return hold.Load().tool("hold").run(ctx, c)
	}}
	h := newHouse(t, cast(modeRoles(m, w)), with(work.tool("gate"), held))
	var parent, id task.ID
	if m.call != nil {
		parent = h.spawn("parent")
		id = h.firstChild(parent)
	} else {
		a := m.assignment(w)
		id = h.spawn("", func(s *task.Assignment) { s.AgentSpec, s.Group, s.Shell = a.AgentSpec, a.Group, a.Shell })
	}
	switch w {
	case stopped:
		h.untilBusy(id)
		h.must(h.stopTask(id, task.Cancel))
	case crash:
		if id.Kind() == task.Shell {
			h.untilState(id, task.Running)
		} else {
			<-work.entered
		}
		h.cut.cut()
		close(work.open)
		close(hold.Swap(newGate()).open)
		h.restart()
	case ok, failing, timeout, budget, panicky:
	}
	want := m.ends[w]
	r := h.ended(id, want.state, want.reason)
	close(hold.Load().open)
	if parent != "" {
		h.ended(parent, task.Completed, task.Done)
		h.results(parent)
		if n := h.announcements(parent, id); n != 1 {
			t.Errorf("the parent was told %d times of the end", n)
		}
	}
	if r.Summary == "" {
		t.Errorf("result: %+v", r)
	}
	late := w == timeout // then it may be that none was answered in time
	if spent := r.Usage.Steps > 0; spent != m.spends(w) && (spent || !late) {
		t.Errorf("usage: %+v", r.Usage)
	}
	h.nothingLeft(id)
}

// spends tells whether some model call is answered on that way.
func (m mode) spends(w way) bool {
	switch {
	case strings.Contains(m.name, "shell") || strings.Contains(m.name, "bash"):
		return false
	case w == ok, w == budget, w == crash:
		return true
	}
	return strings.Contains(m.name, "parallel") || strings.Contains(m.name, "chain") // the others spend
}

// firstChild waits for the first task below another one.
func (h *house) firstChild(parent task.ID) (child task.ID) {
	h.t.Helper()
	h.until(parent, "a child", func(t task.Task, _ []task.Entry) bool {
		for id, err := range h.journal.Children(context.Background(), t.Team, parent) {
			h.must(err)
			if child == "" || id.Number() < child.Number() {
				child = id
			}
		}
		return child != ""
	})
	return child
}

// untilBusy waits until a task and one below it, if it runs others, are at work, and of these others one has had a step.
func (h *house) untilBusy(id task.ID) {
	h.t.Helper()
	h.untilState(id, task.Running)
	if id.Kind() != task.Group {
		return
	}
	h.eventually(func() bool {
		hangs, spent := false, false
		for child, err := range h.journal.Children(context.Background(), h.task(id).Team, id) {
			h.must(err)
			t := h.task(child)
			hangs = hangs || t.State == task.Running && h.inputs(child)[0] == string(stopped)
			spent = spent || t.Usage.Steps > 0
		}
		return hangs && spent
	})
}

// announcements counts how often a task was told of the end of another one.
func (h *house) announcements(parent, child task.ID) int {
	n := 0
	for _, e := range h.entries(parent) {
		switch b := e.Body.(type) {
		case *task.Input:
			n += strings.Count(b.Text, fmt.Sprintf("<task-id>%s</task-id>", child))
		case *task.ToolResult:
			for _, id := range b.Ends {
				if id == child {
					n++
				}
			}
		}
	}
	return n
}

// nothingLeft checks that no task of the team lives, and that neither deadlines, processes, mail nor slots are left.
func (h *house) nothingLeft(id task.ID) {
	h.t.Helper()
	ctx := context.Background()
	row, err := h.journal.Task(ctx, id)
	h.must(err)
	team := row.Value.Team
	for living, err := range h.journal.Living(ctx, team) {
		h.t.Errorf("%s still lives (%v)", living, err)
	}
	for due, err := range h.journal.Dues(ctx, team) {
		h.t.Errorf("a deadline is left: %+v (%v)", due, err)
	}
	for p, err := range h.journal.Processes(ctx, team) {
		h.t.Errorf("a process is left: %+v (%v)", p, err)
	}
	for created, err := range h.journal.Created(ctx, team, 0) {
		h.must(err)
		h.endedOnce(created.Value)
	}
	for range 1000 { // a loop returns after the commit of its end
		if queued, running, stuck := h.sup.Counts(); queued+running+stuck == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.t.Error("slots are still in use")
}
