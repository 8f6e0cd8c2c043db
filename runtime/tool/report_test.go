package tool

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

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

// proves R3: only the report of a task with a result schema has an output.
func TestReportOutput(t *testing.T) {
	a := newAgent(t)
	const arguments = `{"summary":"done","output":{"a":[1]}}`
	if e := a.fail(InvalidArguments, "report", arguments); e.Subject != "output" {
		t.Errorf("without a schema: %+v", e)
	}
	a.scope.HasSchema = true
	if answer := a.run("report", arguments); answer.Report == nil || answer.Report.Summary != "done" {
		t.Errorf("with one: %+v", answer)
	}
	large := `{"summary":"done","output":"` + strings.Repeat("x", MaxOutput) + `"}`
	if e := a.fail(InvalidArguments, "report", large); e.Subject != "output" {
		t.Errorf("too large: %+v", e)
	}
	var shown struct {
		Required   []string
		Properties struct{ Output struct{ Type string } }
	}
	if err := json.Unmarshal(ReportParameters(json.RawMessage(`{"type":"array"}`)), &shown); err != nil {
		t.Fatal(err)
	}
	if strings.Join(shown.Required, ",") != "summary,output" || shown.Properties.Output.Type != "array" {
		t.Errorf("the model sees %+v", shown)
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
