package definition

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// names are the tools of agentd.
func names() []string {
	return []string{
		"bash", "edit", "glob", "grep", "ls", "read", "report", "subagent", "task_output", "task_stop", "write",
	}
}

// md is a file with a name, a description and some more lines of front matter.
func md(lines ...string) string {
	return "---\nname: a\ndescription: d\n" + strings.Join(append(lines, "---", "Do it."), "\n")
}

func TestParse(t *testing.T) {
	all := "---\nname: My_Agent-1\ndescription: |\n  two\n\n  lines\ntools: [read, grep]\ndisallowed_tools:\n  - bash\nmodel: m/x-1\n" +
		"max_steps: 7\nbudget: {steps: 1, tokens: 2, turns: 3, tool_calls: 4, wall_time: 1h30m, cost_usd: 0.29}\nisolation: worktree\n" +
		"---\n\n# Who\n\n---\nrest\n"
	want := Definition{
		Name: "My_Agent-1", Description: "two lines", Instructions: "# Who\n\n---\nrest", Tools: []string{"read", "grep"},
		Disallowed: []string{"bash"}, Model: "m/x-1", Worktree: true, line: 2,
		Budget: task.Budget{MaxSteps: 7, Steps: 1, Tokens: 2, Turns: 3, ToolCalls: 4, WallTime: 90 * time.Minute, Cost: 290_000_000},
	}
	small := Definition{Name: "a", Description: "d", Instructions: "Do it.", line: 2}
	tools := func(tools ...string) Definition {
		d := small
		d.Tools = tools
		return d
	}
	for name, tt := range map[string]struct {
		text string
		want Definition
	}{
		"every key":         {all, want},
		"lines end in CRLF": {strings.ReplaceAll(all, "\n", "\r\n"), want},
		"a byte order mark": {"\uFEFF" + all, want},
		"little":            {md(), small},
		"its file's name":   {"---\ndescription: d\n---\nDo it.", Definition{Name: "base", Description: "d", Instructions: "Do it."}},
		"a text of tools":   {md("tools: read, grep ,ls,"), tools("read", "grep", "ls")},
		"tools twice":       {md("tools: [read, read]"), tools("read")},
		"no tools":          {md("tools: []"), tools("report")},
		"all tools":         {md(`tools: "*"`), small},
		"no worktree":       {md("isolation: none"), small},
		"a comment":         {md("# tools: x"), small},
		"Claude's spelling": {md("maxTurns: 3", "disallowedTools: bash"), Definition{
			Name: "a", Description: "d", Instructions: "Do it.", Disallowed: []string{"bash"}, Budget: task.Budget{MaxSteps: 3}, line: 2,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := parse(tt.text, "base", dialect{known: names()})
			if len(problems) > 0 {
				t.Errorf("problems: %v", problems)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

// TestProblems holds what is told of files that are wrong, with the line. A message that begins with "warning" leaves the
// definition in use.
func TestProblems(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want []string // LINE: MESSAGE, as far as it is given
	}{
		"nothing":             {"", []string{"1: has no front matter"}},
		"no front matter":     {"# Hello\n", []string{"1: has no front matter"}},
		"no end":              {"---\nname: a\n", []string{"1: has no front matter"}},
		"no keys":             {"---\n---\nDo it.", []string{"1: warning: has no description"}},
		"no instructions":     {"---\nname: a\ndescription: d\n---\n \n", []string{"5: has no instructions"}},
		"long instructions":   {md() + strings.Repeat("x", maxInstructions), []string{"5: the instructions have 65542 bytes; the limit is 65536"}},
		"NUL":                 {md() + "\n\x00", []string{"6: is not UTF-8"}},
		"no UTF-8":            {md("model: \xff"), []string{"4: is not UTF-8"}},
		"a list":              {"---\n- a\n---\nDo it.", []string{"2: the front matter is not a list of"}},
		"two documents":       {md("...", "tools: [bash]"), []string{"1: the front matter is more than one YAML document"}},
		"a colon":             {"---\nname: a\ndescription: use it: always\n---\nDo it.", []string{"3: the front matter is not YAML: mapping values"}},
		"a tab":               {"---\n\tname: a\n---\nDo it.", []string{"2: the front matter is not YAML: found character"}},
		"an unknown anchor":   {md("model: *x"), []string{"0: the front matter is not YAML: unknown anchor"}},
		"an alias":            {"---\nname: &x a\ndescription: *x\n---\nDo it.", []string{"1: warning: has no desc", "3: description must be a text"}},
		"a merge":             {md("<<: {tools: [bash]}"), []string{`4: there is no key "<<"`}},
		"an unknown key":      {md("disalowed_tools: bash"), []string{`4: there is no key "disalowed_tools"; the nearest is "disallowed_tools"`}},
		"a key twice":         {md("model: m", "model: n"), []string{`5: the key "model" is given twice`}},
		"both spellings":      {md("max_steps: 2", "maxTurns: 3"), []string{`5: the key "max_steps" is given twice`}},
		"a name with a space": {"---\nname: a b\ndescription: d\n---\nDo it.", []string{`2: name: "a b" is not a name`}},
		"a reserved name":     {"---\nname: Lead\ndescription: d\n---\nDo it.", []string{`2: name: "Lead" is reserved`}},
		"a name like an id":   {"---\nname: sub-1\ndescription: d\n---\nDo it.", []string{`2: name: "sub-1" looks like an id`}},
		"a name of two":       {"---\nname: [a]\ndescription: d\n---\nDo it.", []string{"2: name must be a text", `2: name: "" is not a name`}},
		"a long description":  {"---\ndescription: " + strings.Repeat("\u00e4", 600) + "\n---\nDo it.", []string{"2: warning: description has 1200 bytes; only the first 1024"}},
		"an empty value":      {md("tools:"), []string{"4: tools must be a list of tools"}},
		"an empty text":       {md("model: ''"), []string{"4: model is empty"}},
		"a long model":        {md("model: " + strings.Repeat("m", 201)), []string{"4: model has 201 bytes"}},
		"an unknown tool":     {md("tools: [read,", "  bsh]"), []string{`5: warning: tools: there is no tool "bsh"; the nearest is "bash"; it is left out`}},
		"a tool's wrong case": {md("tools: Read"), []string{`4: warning: tools: there is no tool "Read"; the nearest is "read"`}},
		"a pattern":           {md("tools: ['bash(git:*, ls)', read]"), []string{`4: warning: tools: patterns such as "bash(git:*, ls)" are not supported yet; the tool is left out`}},
		"tools of maps":       {md("tools: [{read: x}]"), []string{"4: tools: each must be the name of a tool"}},
		"tools as a map":      {md("tools: {read: x}"), []string{"4: tools must be a list of tools"}},
		"many tools":          {md("tools: [" + strings.Repeat("read,", 65) + "]"), []string{"4: tools has 65 names; the limit is 64"}},
		"unknown disallowed":  {md("disallowed_tools: bsh"), []string{`4: disallowed_tools: there is no tool "bsh"; the nearest is "bash"`}},
		"what can't be taken": {md("disallowed_tools: [report, task_output, task_stop]"), []string{
			`4: warning: disallowed_tools: "report" can't be taken away`, `4: warning: disallowed_tools: "task_output" can't`,
			`4: warning: disallowed_tools: "task_stop" can't`}},
		"a disallowed pattern": {md("disallowed_tools: bash(rm:*)"), []string{`4: warning: disallowed_tools: patterns such as "bash(rm:*)" are not supported yet; the whole`}},
		"no number":            {md("max_steps: many"), []string{"4: max_steps must be a whole number from 1 to 1000"}},
		"a quoted number":      {md("max_steps: '3'"), []string{"4: max_steps must be a whole"}},
		"a fraction":           {md("max_steps: 1.5"), []string{"4: max_steps must be a whole"}},
		"too many steps":       {md("max_steps: 1001"), []string{"4: max_steps must be a whole"}},
		"no steps":             {md("max_steps: 0"), []string{"4: max_steps must be a whole"}},
		"a budget of one":      {md("budget: 3"), []string{"4: budget must be a list of"}},
		"a budget's key":       {md("budget:", "  step: 3"), []string{`5: there is no key "step"; the nearest is "steps"`}},
		"a negative":           {md("budget:", "  tokens: -3"), []string{"5: budget.tokens must be a whole number from 1"}},
		"a huge count":         {md("budget:", "  turns: 99999999999999999999"), []string{"5: budget.turns must be a whole"}},
		"seconds":              {md("budget:", "  wall_time: 30"), []string{"5: budget.wall_time must be a time span such as"}},
		"years":                {md("budget:", "  wall_time: 9000h"), []string{"5: budget.wall_time must be a time span such as"}},
		"not a number":         {md("budget:", "  cost_usd: .nan"), []string{"5: budget.cost_usd must be an amount"}},
		"infinite":             {md("budget:", "  cost_usd: .inf"), []string{"5: budget.cost_usd must be an amount"}},
		"free":                 {md("budget:", "  cost_usd: 0"), []string{"5: budget.cost_usd must be an amount"}},
		"another isolation":    {md("isolation: container"), []string{"4: isolation must be none or worktree"}},
		"isolation as a list":  {md("isolation: [none]"), []string{"4: isolation must be none or worktree"}},
		"a long word":          {md(strings.Repeat("\u00e4", 400) + ": x"), []string{`4: there is no key "`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := parse(tt.text, "base", dialect{known: names()})
			checkProblems(t, problems, tt.want)
		})
	}
}

func checkProblems(t *testing.T, problems []Problem, want []string) {
	t.Helper()
	var got []string
	for _, p := range problems {
		if p.Warning {
			p.Message = "warning: " + p.Message
		}
		if len(p.Message) > 2*maxMessage || !utf8.ValidString(p.Message) {
			t.Errorf("the message has %d bytes: %q", len(p.Message), p.Message)
		}
		got = append(got, fmt.Sprintf("%d: %s", p.Line, p.Message))
	}
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestClaude holds how files for Claude Code are read.
func TestClaude(t *testing.T) {
	for name, tt := range map[string]struct {
		text       string
		tools, not []string
		want       []string
	}{
		"its tools": {
			text:  md("tools: Read, Write, Edit, MultiEdit, Bash, Glob, Grep, LS, Task, TaskOutput, KillShell"),
			tools: []string{"read", "write", "edit", "bash", "glob", "grep", "ls", "subagent", "task_output", "task_stop"},
		},
		"tools that agentd lacks": {
			text: md("tools: [Read, mcp__db__query, WebFetch, TodoWrite]"), tools: []string{"read"},
			want: []string{
				`4: warning: tools: agentd has no tool "mcp__db__query"; it is left out`, `4: warning: tools: agentd has no tool "WebFetch"`,
				`4: warning: tools: agentd has no tool "TodoWrite"`,
			},
		},
		"nothing is left": {
			text: md("tools: Bash(git diff:*, git log:*)"), tools: []string{"report"},
			want: []string{`4: warning: tools: patterns such as "Bash(git diff:*, git log:*)"`},
		},
		"disallowed": {
			text: md("disallowedTools: Bash(rm:*), Write, NotebookEdit"), not: []string{"bash", "write"},
			want: []string{`4: warning: disallowedTools: patterns such as`, `4: warning: disallowedTools: agentd has no tool "NotebookEdit"`},
		},
		"its models": {text: md("model: sonnet"), want: []string{`4: warning: the model "sonnet" is Claude Code's word`}},
		"its keys":   {text: md("color: red"), want: []string{`4: warning: the key "color" has no meaning in agentd`}},
		"plan":       {text: md("permissionMode: plan"), not: []string{"bash", "edit", "write"}, want: []string{"4: warning: permissionMode plan is read as"}},
		"plan and more": {
			text: md("disallowedTools: [Bash, Bash, Grep]", "permissionMode: plan"), not: []string{"bash", "grep", "edit", "write"},
			want: []string{"5: warning: permissionMode plan is read as"},
		},
		"what can't be taken": {
			text: md("disallowedTools: Bash, KillShell"), not: []string{"bash"},
			want: []string{`4: warning: disallowedTools: "task_stop" can't be taken away`},
		},
		"other modes": {text: md("permissionMode: default"), want: []string{`4: warning: the key "permissionMode" has no`}},
		"no YAML": {
			text:  "---\nname: a\ndescription: d\nwhen: Context: x <example>user: \"y\"</example>\ntools: Read\n---\nDo it.",
			tools: []string{"read"},
			want:  []string{"4: warning: the front matter is not YAML (mapping values", `4: warning: the key "when"`},
		},
		"no YAML, with a list": {
			text: md("color: a: b", "disallowedTools: [Bash, 'Write']", "tools:", "maxTurns: 3"), not: []string{"bash", "write"},
			tools: []string{"report"},
			want: []string{
				"4: warning: the front matter is not YAML", `4: warning: the key "color"`, "6: tools must be a list of tools",
			},
		},
		"no YAML at all": {
			text: "---\nname: a\n  b: c\n---\nDo it.", want: []string{"3: the front matter is not YAML"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := parse(tt.text, "a", dialect{claude: true, known: names()})
			checkProblems(t, problems, tt.want)
			if !slices.Equal(got.Tools, tt.tools) || !slices.Equal(got.Disallowed, tt.not) {
				t.Errorf("tools %q, disallowed %q; want %q and %q", got.Tools, got.Disallowed, tt.tools, tt.not)
			}
			if got.Model != "" {
				t.Errorf("the model %q", got.Model)
			}
		})
	}
}

// TestClaudeDescriptions: what people write there is no YAML, but all of it is the description.
func TestClaudeDescriptions(t *testing.T) {
	const text = `Use it always. Examples: <example>Context: x. user: "y"</example>`
	got, problems := parse("---\nname: a\ndescription: "+text+"\n---\nDo it.", "a", dialect{claude: true, known: names()})
	if got.Description != text || !works(problems) {
		t.Errorf("got %q, %v", got.Description, problems)
	}
}

// TestOwnFilesAreRight: the built-in definitions and the examples follow the rules, without a warning.
func TestOwnFilesAreRight(t *testing.T) {
	examples, err := filepath.Glob("../../examples/agents/*.md")
	if err != nil || len(examples) < 2 {
		t.Fatalf("examples: %q, %v", examples, err)
	}
	own, err := filepath.Glob("builtin/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(own, examples...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(filepath.Base(path), ".md")
		d, problems := parse(string(text), base, dialect{known: names()})
		if len(problems) > 0 || d.Name != base {
			t.Errorf("%s: the name is %q; problems: %v", path, d.Name, problems)
		}
	}
}

func TestBuiltins(t *testing.T) {
	look := []string{"read", "ls", "glob", "grep"}
	want := map[string][]string{
		"coder": append(slices.Clone(look), "write", "edit", "bash"), "explorer": look, "general": nil,
		"reviewer": append(slices.Clone(look), "bash"), "verifier": append(slices.Clone(look), "bash"),
	}
	definitions, problems := New().List("")
	if len(problems) > 0 || len(definitions) != len(want) {
		t.Errorf("there are %d, with %v", len(definitions), problems)
	}
	for _, d := range definitions {
		if tools, ok := want[d.Name]; !ok || !slices.Equal(d.Tools, tools) || d.Source != Builtin || d.Path != "" || d.Instructions == "" {
			t.Errorf("%s: %+v", d.Name, d)
		}
	}
}

// FuzzParse: whatever a file holds, it gives a definition that keeps the rules, or says why not.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "---", md(), md("tools: [read, bash(x, y)]", "budget: {cost_usd: 1.5, wall_time: 1m}"), md("model: *x", "? a"),
		md("tools: &t [*t]"), md("<<: [a]"), "---\r\nname: a: b\r\ntools: \"*\"\r\n---\r\nx", md("permissionMode: plan", "max_steps: 0x10"),
		md("name: " + strings.Repeat("[", 3000)), md("a: |2-\n   x", "b: >+", "%YAML 1.2"), "---\n\"\\xff\": !!binary aa\n---\n\uFFFD", md("tools: '(('"),
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, claude bool) {
		d, problems := parse(text, "base", dialect{claude: claude, known: names()})
		lines := strings.Count(text, "\n") + 2
		for _, p := range problems {
			if p.Message == "" || p.Line < 0 || p.Line > lines || !utf8.ValidString(p.Message) {
				t.Errorf("a problem of %d lines: %+v", lines, p)
			}
		}
		if !works(problems) {
			return
		}
		if err := rules(d); err != nil {
			t.Errorf("%v: %+v", err, d)
		}
	})
}

// rules tells which rule a definition breaks.
func rules(d Definition) error {
	if err := roster.CheckName("name", d.Name); err != nil {
		return err
	}
	for _, tool := range append(slices.Clone(d.Tools), d.Disallowed...) {
		if !slices.Contains(names(), tool) {
			return fmt.Errorf("there is no tool %q", tool)
		}
	}
	b := d.Budget
	switch {
	case d.Instructions == "" || len(d.Instructions) > maxInstructions || !utf8.ValidString(d.Instructions):
		return errors.New("the instructions are none, long or no UTF-8")
	case strings.Contains(d.Description, "\n") || len(d.Description) > maxDescription || !utf8.ValidString(d.Description):
		return errors.New("the description has lines, is long or no UTF-8")
	case len(d.Model) > maxModel:
		return errors.New("the model is long")
	case min(int64(b.MaxSteps), b.Steps, b.Tokens, b.Turns, b.ToolCalls, b.Cost, int64(b.WallTime)) < 0:
		return errors.New("the budget is negative")
	}
	return nil
}
