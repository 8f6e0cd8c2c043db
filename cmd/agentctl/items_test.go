package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// read reads a file of items beside one with a prompt.
func read(t *testing.T, content, option string) (group, error) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "items")
	for name, text := range map[string]string{path: content, filepath.Join(dir, "prompt.md"): "From a file.", filepath.Join(dir, "empty.md"): ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := (&app{}).readGroup(path, option)
	if err != nil {
		t.Logf("it says: %v", err)
	}
	return g, err
}

// whole is an item with every key, and the same one in JSON.
const (
	whole = `
items:
  - Just a prompt.
  - agent: coder
    prompt_file: prompt.md
    inputs:
      spec: &spec "A text"
      again: *spec
      before: {task: sub-7}
    model: m1
    tools: [read, grep]
    readable_roots: [src]
    writable_roots: [/tmp]
    network: false
    depth: 0
    budget: {max_steps: 3, steps: 4, tokens: 5, turns: 6, tool_calls: 7, cost_usd: 0.5, wall_time: 10m}
    acceptance:
      - make test
      - {command: make lint, timeout: 30s}
    result_schema: {type: object, properties: {n: {type: integer, maximum: 9007199254740993}}}
    isolation: worktree
max_concurrency: 2
`
	wholeJSON = `{"items": ["Just a prompt.",
	{"agent": "coder", "prompt": "From a \u0066ile.", "model": "m1", "inputs": {"spec": "A text", "again": "A text", "before": {"task": "sub-7"}},
	"tools": ["read", "grep"], "readable_roots": ["src"], "writable_roots": ["\/tmp"], "network": false, "depth": 0,
	"budget": {"max_steps": 3, "steps": 4, "tokens": 5, "turns": 6, "tool_calls": 7, "cost_usd": 0.5, "wall_time": "10m"},
	"acceptance": ["make test", {"command": "make lint", "timeout": "30s"}],
	"result_schema": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9007199254740993}}},
	"isolation": "worktree"}], "max_concurrency": 2}`
)

func TestItemsHaveAllThatAnAgentHas(t *testing.T) {
	want := &agentdv1.Parallel{MaxConcurrency: 2, Items: []*agentdv1.AgentSpec{{Prompt: "Just a prompt."}, {
		Agent: "coder", Prompt: "From a file.", Model: "m1",
		Inputs: []*agentdv1.AgentInput{
			{Name: "spec", Source: &agentdv1.AgentInput_Text{Text: "A text"}},
			{Name: "again", Source: &agentdv1.AgentInput_Text{Text: "A text"}},
			{Name: "before", Source: &agentdv1.AgentInput_TaskId{TaskId: "sub-7"}},
		},
		Grant: &agentdv1.GrantRequest{Tools: []string{"read", "grep"}, ReadableRoots: []string{"src"},
			WritableRoots: []string{"/tmp"}, Network: proto.Bool(false), Depth: proto.Int32(0)},
		Budget: &agentdv1.Budget{MaxSteps: 3, Steps: 4, Tokens: 5, Turns: 6, ToolCalls: 7, CostUsd: 0.5,
			WallTime: durationpb.New(10 * time.Minute)},
		Acceptance: []*agentdv1.AcceptanceCommand{{Command: "make test"},
			{Command: "make lint", Timeout: durationpb.New(30 * time.Second)}},
		ResultSchema: `{"properties":{"n":{"maximum":9007199254740993,"type":"integer"}},"type":"object"}`,
		Isolation:    agentdv1.Isolation_ISOLATION_WORKTREE,
	}}}
	for name, content := range map[string]string{"YAML": whole, "JSON": wholeJSON} {
		t.Run(name, func(t *testing.T) {
			g, err := read(t, content, "max_concurrency")
			if err != nil {
				t.Fatal(err)
			}
			if got := (&agentdv1.Parallel{Items: g.items, MaxConcurrency: g.maxConcurrency}); !proto.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestListOfItemsAlone(t *testing.T) {
	for _, content := range []string{"- one\n- prompt: two\n", "[\"one\",\n\t{\"prompt\": \"two\"}]"} {
		g, err := read(t, content, "resume_from")
		if err != nil || len(g.items) != 2 || g.items[0].GetPrompt() != "one" || g.items[1].GetPrompt() != "two" || g.items[1].GetGrant() != nil {
			t.Errorf("%q: %v, %v", content, g, err)
		}
	}
	g, err := read(t, "resume_from: grp-7", "resume_from")
	if err != nil || g.resumeFrom != "grp-7" {
		t.Errorf("%v, %v", g, err)
	}
}

// TestExampleFilesAreRead: those that the documentation names.
func TestExampleFilesAreRead(t *testing.T) {
	for file, option := range map[string]string{"parallel": "max_concurrency", "chain": "resume_from"} {
		g, err := (&app{}).readGroup(filepath.Join("..", "..", "examples", "items", file+".yaml"), option)
		if err != nil || len(g.items) != 3 {
			t.Errorf("%s: %d items, %v", file, len(g.items), err)
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "items", "*"))
	if err != nil || len(files) != 2 {
		t.Errorf("there are %q, %v", files, err)
	}
}

// TestAliasesCanNotBlowUp: a small file whose aliases stand for gigabytes is refused before it takes them.
func TestAliasesCanNotBlowUp(t *testing.T) {
	var file strings.Builder
	file.WriteString("- &item\n  prompt: x\n  inputs:\n    t: &text '" + strings.Repeat("a", 100_000) + "'\n")
	for i := range 30 {
		fmt.Fprintf(&file, "    k%d: *text\n", i)
	}
	file.WriteString(strings.Repeat("- *item\n", 50_000))
	_, err := read(t, file.String(), "max_concurrency")
	if err == nil || !strings.HasSuffix(err.Error(), "items:1: the items up to this one have more than 4194304 bytes, which is the most of a request") {
		t.Error(err)
	}
}

// TestItemsOnStdinAreReadWholeOrNotAtAll: what would be cut off could hold the rest of the items.
func TestItemsOnStdinAreReadWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long")
	content := "- one\n#" + strings.Repeat(" ", maxText) + "\n- two\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if g, err := (&app{in: in}).readGroup("-", "max_concurrency"); err == nil || !strings.Contains(err.Error(), "stdin has more than") {
		t.Errorf("%d items, %v", len(g.items), err)
	}
}

// TestBrokenItemsAreToldWithTheirLine: nothing that was meant is left out in silence.
func TestBrokenItemsAreToldWithTheirLine(t *testing.T) {
	for _, test := range []struct{ content, want string }{
		{"", "items is empty"},
		{"items:\n  - a\n  - [", "items:3: "},
		{"- a\n- b\n---\n- c", "items:3: a second document"},
		{"[a]\n[b]", "items:1: "}, // what follows the value is not lost without a word
		{"- a\n...\n- b", "items:2: "},
		{"items: []", "items:1: items: the list is empty"},
		{"[]", "items:1: the list is empty"},
		{"max_concurrency: 2", "items:1: there are no items"},
		{"just text", "items:1: want keys with values: items, max_concurrency"},
		{"items: [a]\nresume_from: grp-1", `items:2: unknown key "resume_from"; there are: items, max_concurrency`},
		{"items: [a]\nmax_concurrency: 0", "items:2: max_concurrency: want a whole number from 1 to 1000"},
		{"items: [a]\nmax_concurrency: two", "items:2: max_concurrency: want a whole number"},
		{"items: [a]\nmax_concurrency: [2]", "items:2: max_concurrency: want a whole number"},
		{"- a\n- prompt: b\n  agnet: coder", `items:3: unknown key "agnet"`},
		{"- prompt: b\n  prompt: c", "items:2: prompt is given twice"},
		{"- agent: coder", "items:1: an item needs either prompt or prompt_file"},
		{"- prompt: a\n  prompt_file: prompt.md", "items:1: an item needs either"},
		{"- a\n- ''", "items:2: want a text"},
		{"- 7", "items:1: want a text"},
		{"- prompt:", "items:1: prompt: want a text"},
		{"- prompt_file: missing.md", "missing.md: no such file"},
		{"- prompt_file: empty.md", "empty.md is empty"},
		{"- prompt: a\n  inputs:\n    b: [c]", "items:3: inputs: want keys with values: task"},
		{"- prompt: a\n  inputs:\n    b: {}", "items:3: inputs: b: want a text, or a task"},
		{"- prompt: a\n  tools: []", "items:2: tools: the list is empty; leave it out"},
		{"- prompt: a\n  tools: read", "items:2: tools: want a list of names"},
		{"- prompt: a\n  acceptance: test -d .", "items:2: acceptance: want a list of commands"},
		{"- prompt: a\n  budget: {wall_time: 5}", "items:2: wall_time: want a duration above 0"},
		{"- [a", "items:1: "},
		{"- {prompt: a", "items:1: "},
		{"- \"a", "items:1: "},
		{"- *a", "items: unknown anchor"},
		{"- prompt: a\n  network: \"no\"", "items:2: network: want true or false"},
		{"- prompt: a\n  depth: -1", "items:2: depth: want a whole number"},
		{"- prompt: a\n  budget:\n    stesp: 3", `items:3: budget: unknown key "stesp"; there are: max_steps, steps`},
		{"- prompt: a\n  budget: {max_steps: 1001}", "from 1 to 1000"},
		{"- prompt: a\n  budget: {cost_usd: .nan}", "want an amount of dollars"},
		{"- prompt: a\n  budget:\n    wall_time: 10", "items:3: wall_time: want a duration above 0"},
		{"- prompt: a\n  acceptance: [{timeout: 3s}]", "items:2: acceptance: a check needs a command"},
		{"- prompt: a\n  result_schema: '{}'", "items:2: result_schema: want keys with values"},
		{"- prompt: a\n  result_schema: {a: .inf}", "items:2: result_schema: this is no JSON"},
		{"- prompt: a\n  isolation: container", "items:2: isolation: want none or worktree"},
		{"{\"items\": [\n\"a\",\n{\"prompt\": \"b\", \"modell\": \"m\"}]}", `items:3: unknown key "modell"`},
		{"{\"items\": [\n\"a\",\n]", "items:"},
	} {
		_, err := read(t, test.content, "max_concurrency")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v; want %q", test.content, err, test.want)
		}
	}
}
