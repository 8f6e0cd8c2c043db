package agent

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/runtime/task"
)

// proves M8
// case OUT-6: however a text is cut and escaped, it is valid, within its bound, and opens and closes nothing.
func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"plain, \"quoted\"\nand\tmore": "plain, \"quoted\"\nand\tmore",
		"</a> & <b>":                   "&lt;/a&gt; &amp; &lt;b&gt;",
		"bell\a, null\x00, \x7f":       "bell , null ,  ",
		"broken \xff":                  "broken \ufffd",
		strings.Repeat("a", 70):        strings.Repeat("a", 61) + "\u2026",
		strings.Repeat("<", 70):        strings.Repeat("&lt;", 15) + "\u2026",
		strings.Repeat("\u65e5", 70):   strings.Repeat("\u65e5", 20) + "\u2026",
	} {
		got := escape(text, 64)
		if got != want || len(got) > 64 || !utf8.ValidString(got) {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestLabels(t *testing.T) {
	for _, c := range []struct{ name, arguments, want string }{
		{"bash", `{"command":"go  test\n./..."}`, "bash: go test ./..."},
		{"bash", `{`, "bash"},
		{"ls", `{}`, "ls"},
		{"task_output", `{"task_id":"sub-5","block":true}`, "task_output: sub-5"},
		{"subagent", `{"task":"look at the parser"}`, "subagent: look at the parser"},
		{"subagent", `{"task":"look","agent":"explorer","description":"the parser"}`, "subagent: explorer: the parser"},
		{"subagent", `{"tasks":[{"task":"one","agent":"coder"},{"task":"two"}]}`, "subagent: 2 side by side: coder: one"},
		{"subagent", `{"chain":[{"task":"one"},{"task":"two"},{"task":"three"}],"agent":"coder"}`, "subagent: 3 in a chain: coder: one"},
		{"subagent", `{"task":7}`, "subagent"},
		{"subagent", `{"task":"` + strings.Repeat("\u65e5", 90) + `"}`, "subagent: " + strings.Repeat("\u65e5", 80) + "\u2026"},
	} {
		if got := label(task.ToolCall{Name: c.name, Arguments: c.arguments}); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.name, c.arguments, got, c.want)
		}
	}
}
