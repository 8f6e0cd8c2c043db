package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// asks is an answer that asks for calls of these names, with ids by their order.
func asks(from int, names ...string) *task.Assistant {
	a := &task.Assistant{Text: "thinking"}
	for i, name := range names {
		a.Calls = append(a.Calls, task.ToolCall{ID: fmt.Sprintf("c%08d", from+i), Name: name, Arguments: "{}"})
	}
	return a
}

func answered(n int) *task.ToolResult {
	return &task.ToolResult{CallID: fmt.Sprintf("c%08d", n), Text: "ok"}
}

// fold makes the history of a transcript.
func fold(bodies ...task.Body) *History {
	h := NewHistory("system", team.Plain().Format)
	for _, b := range bodies {
		h.Add(b)
	}
	return h
}

// roles are a history's roles in one word.
func roles(h *History) string {
	var b strings.Builder
	for _, m := range h.Messages {
		b.WriteByte("-suat"[m.Role])
	}
	return b.String()
}

func TestHistoryKeepsTheRolesInOrder(t *testing.T) {
	input, notice := &task.Input{Text: "in"}, &task.Notice{Text: "note"}
	for _, c := range []struct {
		name   string
		bodies []task.Body
		roles  string
		last   string
	}{
		{"opening and mail are one", []task.Body{input, &task.StateChange{}, input}, "su", "in\n\nin"},
		{"a step", []task.Body{input, asks(1, "a", "b"), answered(1), answered(2), input}, "suattu", "in"},
		{"a notice waits for the answers", []task.Body{input, asks(1, "a", "b"), notice, answered(1), answered(2)}, "suattu", "note"},
		{"and joins what follows", []task.Body{input, asks(1, "a"), notice, answered(1), input}, "suatu", "note\n\nin"},
		{"mail behind the last answer", []task.Body{input, &task.Assistant{Text: "end"}, input}, "suau", "in"},
	} {
		h := fold(c.bodies...)
		if got, last := roles(h), h.Messages[len(h.Messages)-1].Text; got != c.roles || last != c.last {
			t.Errorf("%s: %s ending in %q", c.name, got, last)
		}
	}
}

// proves D5, D7: whatever the disk has lost of a step, the history is valid and no call id is given twice.
func TestHistoryWithoutWhatWasLost(t *testing.T) {
	input := &task.Input{Text: "in"}
	started := &task.CallStarted{CallIDs: []string{"c00000002"}}
	for _, c := range []struct {
		name   string
		bodies []task.Body
		roles  string
		next   string
	}{
		{"the question", []task.Body{input, answered(1), answered(2), input}, "su", "c00000003"},
		{"the question of started calls", []task.Body{input, started}, "su", "c00000003"},
		{"an answer in the middle", []task.Body{input, asks(1, "a", "b"), answered(1), asks(3, "a"), answered(3)}, "suattat", "c00000004"},
		{"an answer with mail behind it", []task.Body{input, asks(1, "a"), input, asks(2, "a"), answered(2)}, "suatuat", "c00000003"},
		{"a second answer", []task.Body{input, asks(1, "a"), answered(1), answered(1)}, "suat", "c00000002"},
	} {
		h := fold(c.bodies...)
		if got, next := roles(h), h.nextCallID(0); got != c.roles || next != c.next {
			t.Errorf("%s: %s, next %s", c.name, got, next)
		}
	}
}

// An error's sentence and a kept output are cut between runes, and say so.
func TestCutsKeepRunesWhole(t *testing.T) {
	line := oneLine(&model.Error{Message: "x" + strings.Repeat("é", maxError)})
	if len(line) != maxError-1 || !utf8.ValidString(line) {
		t.Errorf("%d bytes, valid: %v", len(line), utf8.ValidString(line))
	}
	if short := kept("é"); short != "é" {
		t.Errorf("a short output: %q", short)
	}
	long := kept("x" + strings.Repeat("é", maxKept))
	if !utf8.ValidString(long) || !strings.HasSuffix(long, fmt.Sprintf("[the output goes on: %d bytes were not kept]\n", maxKept+2)) {
		t.Errorf("a long one ends %q", long[maxKept-10:])
	}
}

// An identical call is counted over answers, and one answer alone never goes beyond the bound.
func TestHistoryCountsRepetitions(t *testing.T) {
	repeats := func(h *History) (all []int) {
		for _, c := range h.pending {
			all = append(all, c.Repeats)
		}
		return all
	}
	six := []string{"a", "a", "a", "a", "a", "a"}
	if got := repeats(fold(asks(1, six...))); fmt.Sprint(got) != "[1 2 3 4 5 5]" {
		t.Errorf("in one answer: %v", got)
	}
	var bodies []task.Body
	for n := 1; n <= 6; n++ {
		bodies = append(bodies, asks(n, "a"), answered(n))
	}
	if got := repeats(fold(bodies[:11]...)); fmt.Sprint(got) != "[6]" {
		t.Errorf("over answers: %v", got)
	}
	for name, between := range map[string]task.Body{"mail": &task.Input{Text: "go on"}, "a conclusion": &task.Assistant{Text: "done"}} {
		if got := repeats(fold(slices.Concat(bodies[:10], []task.Body{between, asks(6, "a")})...)); fmt.Sprint(got) != "[1]" {
			t.Errorf("after %s: %v", name, got)
		}
	}
	if got := repeats(fold(append(bodies[:10], asks(6, "b", "a"))...)); fmt.Sprint(got) != "[1 1]" {
		t.Errorf("after another one: %v", got)
	}
}

func TestAdoptOrphansWhatWasStarted(t *testing.T) {
	h := fold(asks(1, "a", "b", "c"), &task.CallStarted{CallIDs: []string{"c00000001"}}, answered(1),
		&task.CallStarted{CallIDs: []string{"c00000002"}})
	h.adopt()
	if len(h.pending) != 2 || !h.pending[0].Orphan || h.pending[1].Orphan {
		t.Errorf("pending: %+v", h.pending)
	}
	if id := h.nextCallID(0); id != "c00000004" {
		t.Errorf("next id: %s", id)
	}
}

// concluded is what an agent with that transcript concluded.
func concluded(bodies ...task.Body) task.Conclusion {
	return fold(bodies...).conclude("sub-7", task.Spec{Schema: "{}"}, nil, nil)
}

func TestConclude(t *testing.T) {
	report := &task.ToolResult{CallID: "c00000001", Report: &task.Report{Summary: "reported"}}
	for want, bodies := range map[string][]task.Body{
		task.NoSummary: {&task.Assistant{}},
		"last":         {&task.Assistant{Text: "first"}, &task.Assistant{Text: "last"}, &task.Assistant{}},
		"reported":     {asks(1, "report"), report, &task.Assistant{Text: "more"}},
	} {
		if got := concluded(bodies...); got.Summary != want {
			t.Errorf("%q, not %q", got.Summary, want)
		}
	}
}

// proves R1: a last text that is too long for a summary is cut at a rune, and says where the whole is.
func TestLongTextPointsToTheWhole(t *testing.T) {
	got := concluded(&task.Assistant{Text: "a" + strings.Repeat("\u00e9", maxSummary)}).Summary
	if len(got) > maxSummary+200 || !utf8.ValidString(got) || !strings.Contains(got, "agentctl output sub-7") {
		t.Errorf("%d bytes: ...%s", len(got), got[len(got)-200:])
	}
	fits := strings.Repeat("x", maxSummary)
	if got := concluded(&task.Assistant{Text: fits}).Summary; got != fits {
		t.Errorf("%d bytes, ...%s", len(got), got[len(got)-200:])
	}
}

// proves R3: the output is the last JSON that the agent gave, with a report or as the text that ends a turn.
func TestOutput(t *testing.T) {
	reports := func(n int, arguments string) *task.Assistant {
		a := asks(n, tool.ReportName)
		a.Calls[0].Arguments = arguments
		return a
	}
	taken := func(n int) *task.ToolResult {
		return &task.ToolResult{CallID: answered(n).CallID, Report: &task.Report{Summary: "s"}}
	}
	says := func(text string) *task.Assistant { return &task.Assistant{Text: text} }
	for _, c := range []struct {
		name, want string
		bodies     []task.Body
	}{
		{"bare", `{"a":1}`, []task.Body{says(" {\"a\":1}\n")}},
		{"fenced", `{"a":1}`, []task.Body{says("Here:\n```json\n{\"a\":1}\n```\nThat is all.")}},
		{"fenced alone", "[1]", []task.Body{says("```\n[1]\n```")}},
		{"two blocks", "", []task.Body{says("```\n1\n```\n```\n2\n```")}},
		{"a block that is open", "", []task.Body{says("```\n1")}},
		{"prose", "", []task.Body{says("done")}},
		{"a text between calls", "", []task.Body{&task.Assistant{Text: "1", Calls: asks(1, "ls").Calls}}},
		{"cut by a stop", "", []task.Body{&task.Assistant{Text: "1", Partial: true}}},
		{"in two pieces", "[1,2]", []task.Body{&task.Assistant{Text: "[1,", Cut: true}, &task.Notice{Text: cutNotice}, says("2]")}},
		{"reported", `{"b": 2}`, []task.Body{reports(1, `{"summary":"s","output":{"b": 2}}`), taken(1)}},
		{"refused", "", []task.Body{reports(1, `{"output":{"b": 2}}`), answered(1)}},
		{"null", "", []task.Body{reports(1, `{"summary":"s","output":null}`), taken(1)}},
		{"repaired without", "1", []task.Body{
			reports(1, `{"summary":"s","output":1}`), taken(1), &task.Notice{Repair: true}, reports(2, `{"summary":"s"}`), taken(2),
		}},
		{"repaired by text", "2", []task.Body{
			reports(1, `{"summary":"s","output":1}`), taken(1), &task.Notice{Repair: true}, says("2"),
		}},
	} {
		if got := concluded(c.bodies...).Output; got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
		last := len(c.bodies) - 1
		if _, ok := c.bodies[last].(*task.Assistant); !ok {
			continue
		}
		got := fold(c.bodies[:last]...).conclude("sub-7", task.Spec{Schema: "{}"}, c.bodies[last:], nil)
		if got.Output != c.want {
			t.Errorf("%s, about to be committed: %q, not %q", c.name, got.Output, c.want)
		}
	}
	if got := fold(says("1")).conclude("sub-7", task.Spec{}, nil, nil); got.Output != "" {
		t.Errorf("an output without a schema: %q", got.Output)
	}
}

// A turn is over with a report or with a text without calls, until something follows.
func TestConcluded(t *testing.T) {
	end := &task.Assistant{Text: "end"}
	for _, c := range []struct {
		name   string
		fresh  bool
		bodies []task.Body
	}{
		{"a text", true, []task.Body{end}},
		{"a report", true, []task.Body{asks(1, "report"), &task.ToolResult{CallID: "c00000001", Report: &task.Report{}}}},
		{"calls", false, []task.Body{asks(1, "ls"), answered(1)}},
		{"a text that a stop cut", false, []task.Body{&task.Assistant{Text: "en", Partial: true}}},
		{"mail behind it", false, []task.Body{end, &task.Input{Text: "more"}}},
		{"a repair behind it", false, []task.Body{end, &task.Notice{Text: "no", Repair: true}}},
		{"a warning behind it", false, []task.Body{end, &task.Notice{Text: childrenNotice}}},
	} {
		if h := fold(c.bodies...); h.fresh != c.fresh {
			t.Errorf("%s: %v", c.name, h.fresh)
		}
	}
}

// What changed is bounded, so that a result fits its row; what is left out is said.
func TestChangesAreBounded(t *testing.T) {
	var files []task.FileMark
	for i := range 2000 {
		files = append(files, task.FileMark{Path: fmt.Sprintf("/%0100d", i), Changed: true})
	}
	files = append(files, task.FileMark{Path: "/only read"})
	got := concluded(&task.ToolResult{Files: files})
	left := 2000 - len(got.Changes)
	if len(got.Changes) == 0 || left <= 0 || !strings.Contains(got.Summary, fmt.Sprintf("%d more paths", left)) {
		t.Errorf("%d changes, summary %q", len(got.Changes), got.Summary)
	}
}

func TestCallName(t *testing.T) {
	for name, want := range map[string]string{
		"read": "read", "": "_", "no.such tool": "no_such_tool", "ü": "_", strings.Repeat("n", 70): strings.Repeat("n", 64),
	} {
		if got := callName(name); got != want {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

func TestLabel(t *testing.T) {
	for args, want := range map[string]string{
		`{"command":"go  test\n./..."}`: "bash: go test ./...", `{"pattern":"p","path":"d"}`: "bash: p", `{`: "bash", `{}`: "bash",
		`{"command":"` + strings.Repeat("é", 100) + `"}`: "bash: " + strings.Repeat("é", maxLabel) + "…",
	} {
		if got := label(task.ToolCall{Name: "bash", Arguments: args}); got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
}

// The prompt is a function of the task, and says what binds the agent.
func TestSystemPrompt(t *testing.T) {
	tk := task.Task{ID: "sub-7", Agent: "general", Workspace: "/w", Budget: task.Budget{MaxSteps: 30, Tokens: 5000}}
	tk.Grant.Tools = tool.NewSet(tool.Builtin()...).Names()
	tk.Grant.Writable = []string{"/w"}
	spec := task.Spec{
		Acceptance: []task.Check{{Command: "make test"}, {Command: "make lint", Timeout: time.Minute}}, Schema: `{"type":"object"}`,
	}
	full := SystemPrompt(tk, spec, "team-x", team.Plain()) // proves R2
	for _, want := range []string{"- make test (at most 10m0s)", "- make lint (at most 1m0s)", `{"type":"object"}`} {
		if !strings.Contains(full, want) {
			t.Errorf("the prompt does not say %q", want)
		}
	}
	prompt := SystemPrompt(tk, task.Spec{}, "team-x", team.Plain())
	if strings.Contains(prompt, "daemon runs") || strings.Contains(prompt, "Schema") {
		t.Error("it tells of conditions that there are none of")
	}
	for _, want := range []string{"sub-7", "general", "team-x", "/w", "30 model calls", "5000 tokens", "bash, edit", "report"} {
		if !strings.Contains(prompt, want) {
			t.Errorf("the prompt does not say %q", want)
		}
	}
	if prompt != SystemPrompt(tk, task.Spec{}, "team-x", team.Plain()) {
		t.Error("it is another one each time")
	}
	if got := roles(NewHistory(prompt, nil)); got != "s" || NewHistory(prompt, nil).Messages[0].Role != model.System {
		t.Errorf("roles: %s", got)
	}
}
