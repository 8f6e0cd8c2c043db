package tool

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

func TestReport(t *testing.T) {
	a := newAgent(t)
	const arguments = `{"summary":"done","findings":[{"title":"a bug","detail":"off by one","path":"a.go","line":7}],
		"artifacts":[{"path":"a.go","description":"fixed"}],"claims":["tests pass"]}`
	want := &task.Report{
		Summary:   "done",
		Findings:  []task.Finding{{Title: "a bug", Detail: "off by one", Path: "a.go", Line: 7}},
		Artifacts: []task.Artifact{{Path: "a.go", Description: "fixed"}},
		Claims:    []string{"tests pass"},
	}
	first, again := a.run("report", arguments), a.run("report", arguments)
	if first.IsError || !reflect.DeepEqual(first.Report, want) || !reflect.DeepEqual(first, again) {
		t.Errorf("%+v", first)
	}
	if answer := a.run("report", `{"summary":"short"}`); answer.Report == nil || answer.Report.Summary != "short" {
		t.Errorf("%+v", answer)
	}
}

func TestReportBounds(t *testing.T) {
	a := newAgent(t)
	list := func(item string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	for _, c := range []struct{ arguments, subject string }{
		{`{}`, "summary"},
		{`{"summary":"  "}`, "summary"},
		{`{"summary":` + text(reportSummary+1) + `}`, "summary"},
		{`{"summary":"s","claims":` + list(`"c"`, reportItems+1) + `}`, "claims"},
		{`{"summary":"s","claims":["c",""]}`, "claims[1]"},
		{`{"summary":"s","findings":[{"title":""}]}`, "findings[0].title"},
		{`{"summary":"s","findings":[{"title":"t","line":-1}]}`, "findings[0].line"},
		{`{"summary":"s","findings":[{"title":"t","detail":` + text(reportText+1) + `}]}`, "findings[0].detail"},
		{`{"summary":"s","artifacts":[{"path":""}]}`, "artifacts[0].path"},
		{`{"summary":"s","claims":` + list(text(reportText), 40) + `}`, "summary"},
	} {
		if e := a.fail(InvalidArguments, "report", c.arguments); e.Subject != c.subject {
			t.Errorf("%.100s: %+v", c.arguments, e)
		}
	}
}

func TestBash(t *testing.T) {
	a := newAgent(t)
	for _, c := range []struct {
		exit sandbox.Exit
		want string
	}{
		{sandbox.Exit{Output: []byte("hello\n")}, "hello\n[exit code 0]"},
		{sandbox.Exit{}, "[exit code 0]"},
		{sandbox.Exit{Code: 3, Output: []byte("no end")}, "no end\n[failed with exit code 3]"},
		{sandbox.Exit{Code: -1, Signal: "SIGSEGV"}, "[ended by signal SIGSEGV]"},
		{sandbox.Exit{Code: -1, Signal: "SIGKILL", TimedOut: true, Output: []byte("x\n")}, "x\n[killed: it took longer than 2m0s]"},
		{sandbox.Exit{Output: []byte("a\nb\n"), Dropped: 9}, "a\nb\n[9 bytes in the middle of this output were too many and are lost]\n[exit code 0]"},
	} {
		a.shell.exit = c.exit
		answer := a.run("bash", `{"command":"make","description":"builds"}`)
		if answer.Text != c.want || answer.IsError {
			t.Errorf("%+v, want %q", answer, c.want)
		}
	}
	want := sandbox.Command{CallID: "call00001", Line: "make", Dir: a.ws, Timeout: 2 * time.Minute}
	if a.shell.got != want {
		t.Errorf("%+v", a.shell.got)
	}
	a.text("bash", `{"command":"make","timeout_ms":1500}`)
	if a.shell.got.Timeout != 1500*time.Millisecond {
		t.Errorf("%+v", a.shell.got)
	}
}

// TestBashCut keeps what had come when the call was ended.
func TestBashCut(t *testing.T) {
	a := newAgent(t)
	a.shell.exit, a.shell.err = sandbox.Exit{Output: []byte("partial")}, errors.New("killed")
	answer, err := a.set.Run(t.Context(), "bash", Call{ID: "c", Arguments: []byte(`{"command":"x"}`), Scope: a.scope})
	if answer.Text != "partial" || fmt.Sprint(err) != "killed" {
		t.Errorf("%+v, %v", answer, err)
	}
}
