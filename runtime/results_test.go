package runtime_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

const numberSchema = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer","minimum":1}}}`

// schema asks for an output.
func schema(text string) func(*task.Assignment) {
	return func(a *task.Assignment) { a.Schema = text }
}

// accept asks for checks.
func accept(commands ...string) func(*task.Assignment) {
	return func(a *task.Assignment) {
		for _, c := range commands {
			a.Acceptance = append(a.Acceptance, task.Check{Command: c})
		}
	}
}

// repairs are the notices that asked an agent to repair its result.
func (h *house) repairs(id task.ID) (texts []string) {
	h.t.Helper()
	for _, e := range h.entries(id) {
		if n, ok := e.Body.(*task.Notice); ok && n.Repair {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

// exits are the exit codes of a result's evidence, in its order.
func exits(r task.Result) string {
	var codes []string
	for _, e := range r.Evidence {
		codes = append(codes, itoa(e.ExitCode))
	}
	return strings.Join(codes, " ")
}

// has tells whether a file is in the workspace.
func (h *house) has(name string) bool {
	h.t.Helper()
	_, err := os.Lstat(filepath.Join(h.workspace, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.t.Error(err)
	}
	return err == nil
}

// awaitFile waits for what a command does, which nothing tells of.
func (h *house) awaitFile(name string) {
	h.t.Helper()
	for begun := time.Now(); !h.has(name); time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > h.patience() {
			h.t.Fatalf("%s never came", name)
		}
	}
}

func (h *house) put(name, content string) {
	h.t.Helper()
	path := filepath.Join(h.workspace, name)
	h.must(os.MkdirAll(filepath.Dir(path), 0o700))
	h.must(os.WriteFile(path, []byte(content), 0o600))
}

// proves R3: an output may be given with the report or as the text; a violation goes back, three times.
func TestResultSchema(t *testing.T) {
	report := func(arguments string) model.Response { return call("report", `{"summary":"s"`+arguments+`}`) }
	bad := report(`,"output":{"n":0}`)
	for _, c := range []struct {
		name    string
		answers []model.Response
		state   task.State
		reason  task.Reason
		output  string
		repairs int
		says    string // the last repair
	}{
		{"reported", []model.Response{report(`,"output":{"n":1}`)}, task.Completed, task.Done, `{"n":1}`, 0, ""},
		{"bare text", []model.Response{text(`{"n":2}`)}, task.Completed, task.Done, `{"n":2}`, 0, ""},
		{"fenced text", []model.Response{text("It is:\n```json\n{\"n\":3}\n```")}, task.Completed, task.Done, `{"n":3}`, 0, ""},
		{"none, then one", []model.Response{text("done"), report(`,"output":{"n":1}`)}, task.Completed, task.Done, `{"n":1}`, 1, "no output"},
		{"report without", []model.Response{report(""), text(`{"n":1}`)}, task.Completed, task.Done, `{"n":1}`, 1, "no output"},
		{"repaired", []model.Response{bad, text(`{"n":"x"}`), bad, text(`{"n":4}`)}, task.Completed, task.Done, `{"n":4}`, 3, "minimum"},
		{"violated", []model.Response{bad, bad, bad, text(`{"n":-1}`)}, task.Failed, task.ContractViolation, `{"n":-1}`, 3, "/properties/n"},
		{"never any", []model.Response{text("1."), text("2."), text("3."), text("4.")}, task.Failed, task.ContractViolation, "", 3, "no output"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, play(c.answers...), func(h *house) {
				id := h.spawn("x", schema(numberSchema))
				r := h.ended(id, c.state, c.reason)
				repairs := h.repairs(id)
				if r.Output != c.output || len(repairs) != c.repairs || r.Usage.Steps != int64(len(c.answers)) {
					h.t.Errorf("output %q, %d steps, repairs: %q", r.Output, r.Usage.Steps, repairs)
				}
				if len(repairs) > 0 && !strings.Contains(repairs[len(repairs)-1], c.says) {
					h.t.Errorf("%q does not say %q", repairs, c.says)
				}
				if r.Summary == task.NoSummary || r.Usage.Turns != 1 {
					h.t.Errorf("result: %+v", r)
				}
			})
		})
	}
}

// A limit ends a task whose result could not be repaired any more, without another call; what it gave is kept.
func TestResultSchemaNearALimit(t *testing.T) {
	for _, c := range []struct {
		name    string
		budget  task.Budget
		answers []model.Response
		state   task.State
		reason  task.Reason
		output  string
	}{
		{"a single step", task.Budget{MaxSteps: 1}, []model.Response{text(`{"n":1}`)}, task.Completed, task.Done, `{"n":1}`},
		{"a single step in vain", task.Budget{MaxSteps: 1}, []model.Response{text(`{"n":0}`)}, task.Failed, task.MaxSteps, `{"n":0}`},
		{"the last but one", task.Budget{MaxSteps: 2}, []model.Response{text(`{"n":0}`)}, task.Failed, task.MaxSteps, `{"n":0}`},
		{"the budget", task.Budget{Steps: 2}, []model.Response{text(`{"n":0}`)}, task.Failed, task.BudgetExceeded, `{"n":0}`},
		{
			"wrapped up", task.Budget{MaxSteps: 2}, []model.Response{call("ls", `{"path":"."}`), text(`{"n":1}`)},
			task.Failed, task.MaxSteps, `{"n":1}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, play(c.answers...), func(h *house) {
				id := h.spawn("x", schema(numberSchema), func(a *task.Assignment) { a.Budget = c.budget })
				r := h.ended(id, c.state, c.reason)
				if r.Output != c.output || r.Usage.Steps != int64(len(c.answers)) {
					h.t.Errorf("output %q, %d steps", r.Output, r.Usage.Steps)
				}
				for _, e := range h.entries(id) {
					if n, ok := e.Body.(*task.Notice); ok && n.WrapUp != 0 && !strings.Contains(n.Text, "must be JSON") {
						h.t.Errorf("the wrap-up does not ask for the output: %q", n.Text)
					}
				}
			})
		})
	}
}

// What no agent could meet is refused at the spawn (N8).
func TestSpawnRefusesConditions(t *testing.T) {
	bubble(t, play(), func(h *house) {
		item := func(a *task.Assignment) { // the same for an item of a group
			a.Group = &task.GroupSpec{Items: []task.AgentSpec{a.AgentSpec}}
			a.AgentSpec = task.AgentSpec{}
		}
		for field, more := range map[string][]func(*task.Assignment){
			"result_schema":          {schema(`{"$ref":"http://127.0.0.1:1/schema"}`)},
			"acceptance":             {accept(strings.Repeat("x", 40<<10), strings.Repeat("y", 40<<10))},
			"items[0].result_schema": {schema(`{"type":`), item},
		} {
			a := task.Assignment{From: "user", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}}
			for _, m := range more {
				m(&a)
			}
			_, err := h.sup.Spawn(context.Background(), a)
			if e := errdefs.As(err); err == nil || e.Kind != errdefs.InvalidArgument || e.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
	})
}

// proves R2: all commands run, in their order, in the workspace; what fails goes back with its exit code and the end of
// its output, and the last round's evidence is kept.
func TestAcceptance(t *testing.T) {
	fix := call("write", `{"path":"fixed","content":"yes"}`)
	for _, c := range []struct {
		name    string
		answers []model.Response
		state   task.State
		reason  task.Reason
		exits   string
		repairs int
		runs    string // of the first command
	}{
		{"ok", []model.Response{fix, text("done")}, task.Completed, task.Done, "0 0", 0, "x\n"},
		{"reported", []model.Response{fix, call("report", `{"summary":"s"}`)}, task.Completed, task.Done, "0 0", 0, "x\n"},
		{"repaired", []model.Response{text("done"), fix, text("now it is")}, task.Completed, task.Done, "0 0", 1, "x\nx\n"},
		{
			"failed", []model.Response{text("1."), call("report", `{"summary":"s"}`), text("3."), text("4.")},
			task.Failed, task.AcceptanceFailed, "0 3", 3, "x\nx\nx\nx\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t, play(c.answers...))
			id := h.spawn("x", accept("echo x >> runs", "echo looking; test -e fixed || { echo 'not fixed'; exit 3; }"))
			r := h.ended(id, c.state, c.reason)
			if got := exits(r); got != c.exits || r.Evidence[1].Command[:4] != "echo" || r.Usage.Steps != int64(len(c.answers)) {
				t.Errorf("evidence: %+v, %d steps", r.Evidence, r.Usage.Steps)
			}
			runs, err := os.ReadFile(filepath.Join(h.workspace, "runs"))
			h.must(err)
			if string(runs) != c.runs {
				t.Errorf("it ran %q", runs)
			}
			repairs := h.repairs(id)
			if len(repairs) != c.repairs {
				t.Fatalf("repairs: %q", repairs)
			}
			for _, text := range repairs {
				for _, want := range []string{"test -e fixed", "exit code 3", "looking\nnot fixed"} {
					if !strings.Contains(text, want) || strings.Contains(text, "echo x") {
						t.Errorf("%q does not say %q", text, want)
					}
				}
			}
			if c.state == task.Failed && !strings.HasPrefix(r.Error, "acceptance command 2 of 2 failed: exit code 3: echo looking; test") {
				t.Errorf("error: %q", r.Error)
			}
		})
	}
}

// A check that says nothing is told without an output.
func TestSilentAcceptance(t *testing.T) {
	h := newHouse(t, play(text("1."), text("2."), text("3."), text("4.")))
	id := h.spawn("x", accept("true", "exit 7"))
	if r := h.ended(id, task.Failed, task.AcceptanceFailed); r.Error != "acceptance command 2 of 2 failed: exit code 7: exit 7" {
		t.Errorf("error: %q", r.Error)
	}
	if text := h.repairs(id)[0]; !strings.Contains(text, "`exit 7` failed: exit code 7.\n\nRepair") {
		t.Errorf("repair: %q", text)
	}
}

// proves R2: what takes too long is killed and has failed; of an output its end is kept, without half a rune.
func TestAcceptanceTimeoutAndTail(t *testing.T) {
	h := newHouse(t, play(text("done")))
	id := h.spawn("x", func(a *task.Assignment) {
		a.Acceptance = []task.Check{
			{Command: `yes "$(printf '\303\251')" | head -c 10000; printf 'the end'`},
			{Command: "echo begun; sleep 1000", Timeout: 300 * time.Millisecond},
		}
		a.Budget.MaxSteps = 1
	})
	r := h.ended(id, task.Failed, task.MaxSteps)
	if len(r.Evidence) != 2 {
		t.Fatalf("evidence: %+v", r.Evidence)
	}
	long, late := r.Evidence[0], r.Evidence[1]
	if !long.Passed() || !strings.HasSuffix(long.Output, "the end") || len(long.Output) > 4096 || len(long.Output) < 4090 ||
		!utf8.ValidString(long.Output) {
		t.Errorf("%d bytes, %q...", len(long.Output), long.Output[:20])
	}
	if late.Passed() || !late.TimedOut || late.ExitCode != -1 || late.Output != "begun\n" {
		t.Errorf("timeout: %+v", late)
	}
}

// proves R2: checks run under the grant of who asked, so also for an agent that may run no commands.
func TestAcceptanceOfAnAgentWithoutBash(t *testing.T) {
	h := newHouse(t, play(text("done")))
	id := h.spawn("x", accept("true"), func(a *task.Assignment) { a.Grant.Tools = []string{"read"} })
	if r := h.ended(id, task.Completed, task.Done); exits(r) != "0" {
		t.Errorf("evidence: %+v", r.Evidence)
	}
}

// proves R2: who may not run commands has none run by the daemon either.
func TestAcceptanceThatAnAgentAsksFor(t *testing.T) {
	g := newGate()
	h := newHouse(t, cast(map[string]modelFunc{
		"parent": play(call("gate", "{}"), text("done")), "child": play(text("done")),
	}), with(g.tool("gate")))
	for tools, refused := range map[string]bool{"gate": true, "gate bash": false} {
		parent := h.spawn("parent", func(a *task.Assignment) { a.Grant.Tools = strings.Fields(tools) })
		<-g.entered
		child, err := h.sup.Spawn(context.Background(), task.Assignment{
			Parent: parent, CallID: "c00000001", From: string(parent),
			AgentSpec: task.AgentSpec{Prompt: "child", Acceptance: []task.Check{{Command: "true"}}},
		})
		if errdefs.Is(err, errdefs.GrantExceeded) != refused || (err != nil) != refused {
			t.Errorf("parent with %s: %v", tools, err)
		}
		if err == nil {
			if r := h.ended(child, task.Completed, task.Done); exits(r) != "0" {
				t.Errorf("evidence: %+v", r.Evidence)
			}
		}
	}
	close(g.open)
}

// proves R2, R3: commands run only for an output that meets the schema, and both share the rounds.
func TestSchemaAndAcceptance(t *testing.T) {
	h := newHouse(t, play(
		text("no json"), call("report", `{"summary":"s","output":{"n":5}}`), call("write", `{"path":"fixed","content":""}`),
		text("fixed"),
	))
	id := h.spawn("x", schema(numberSchema), accept("echo x >> runs; test -e fixed"))
	r := h.ended(id, task.Completed, task.Done)
	if exits(r) != "0" || r.Output != `{"n":5}` || r.Summary != "s" || len(h.repairs(id)) != 2 {
		t.Errorf("result: %+v, repairs: %q", r, h.repairs(id))
	}
	if runs, err := os.ReadFile(filepath.Join(h.workspace, "runs")); err != nil || string(runs) != "x\nx\n" {
		t.Errorf("it ran %q, %v", runs, err)
	}
}

// checking is a check that tells that it runs, and ends when it may.
const checking = "touch running; until test -e go; do sleep 0.02; done"

// proves T1: a stop ends the check that runs, or at least lets no other begin.
func TestStopDuringChecks(t *testing.T) {
	for _, level := range []task.StopLevel{task.WrapUp, task.Cancel, task.Kill} {
		t.Run(level.String(), func(t *testing.T) {
			h := newHouse(t, play(text("done")))
			id := h.spawn("x", accept(checking, "touch second"))
			h.awaitFile("running")
			if got := h.task(id).Activity; got != "acceptance: "+checking+", touch second" {
				t.Errorf("activity: %q", got)
			}
			stopped := make(chan error)
			go func() { stopped <- h.stopTask(id, level) }()
			if level == task.WrapUp {
				h.untilState(id, task.Stopping)
				h.put("go", "")
			}
			h.must(<-stopped)
			r := h.ended(id, task.Killed, task.StoppedByClient)
			if h.has("second") || r.Summary != "done" || r.Usage.Steps != 1 || len(h.repairs(id)) > 0 {
				t.Errorf("the second ran: %v; result: %+v", h.has("second"), r)
			}
		})
	}
}

// proves D3: after a kill in the middle of a check the checks run again, and nobody is asked again.
func TestKilledDuringChecks(t *testing.T) {
	var asked tally
	h := newHouse(t, func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
		asked.add("model")
		return text("done"), nil
	})
	id := h.spawn("x", accept("echo x >> runs", checking))
	h.awaitFile("running")
	h.cut.cut()
	h.put("go", "")
	h.restart()
	r := h.ended(id, task.Completed, task.Done)
	if exits(r) != "0 0" || r.Summary != "done" || asked.get("model") != 1 || r.Usage.Steps != 1 {
		t.Errorf("asked %d times, result: %+v", asked.get("model"), r)
	}
	if runs, err := os.ReadFile(filepath.Join(h.workspace, "runs")); err != nil || string(runs) != "x\nx\n" {
		t.Errorf("it ran %q, %v", runs, err)
	}
}

// Mail that comes while the checks run keeps the task going: they are of no use any more.
func TestMailDuringChecks(t *testing.T) {
	h := newHouse(t, play(text("done"), text("once more")))
	id := h.spawn("x", accept(checking))
	h.awaitFile("running")
	h.must(h.send(id, "more"))
	h.put("go", "")
	r := h.ended(id, task.Completed, task.Done)
	if r.Summary != "once more" || exits(r) != "0" || strings.Join(h.inputs(id), ",") != "x,more" {
		t.Errorf("result: %+v", r)
	}
}
