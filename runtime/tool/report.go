package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentd-dev/agentd/runtime/task"
)

const (
	reportItems   = 100       // findings, artifacts and claims at most, each
	reportSummary = 16 << 10  // bytes of a summary
	reportText    = 4 << 10   // bytes of every other text
	reportWhole   = 128 << 10 // bytes of all texts, so that the result fits its row
)

// MaxOutput bounds the output of a result with a schema, in bytes.
const MaxOutput = 128 << 10

// reportArgs are a task.Report, with the output of a task that has a result schema.
type reportArgs struct {
	Summary   string          `json:"summary"`
	Findings  []task.Finding  `json:"findings,omitempty"`
	Artifacts []task.Artifact `json:"artifacts,omitempty"`
	Claims    []string        `json:"claims,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
}

const reportFields = `
	"summary":{"type":"string","minLength":1,"description":"the conclusion, complete in itself (at most 16 KiB)"},
	"findings":{"type":"array","maxItems":100,"description":"what you found out","items":{
		"type":"object","additionalProperties":false,"required":["title"],"properties":{
			"title":{"type":"string","minLength":1},
			"detail":{"type":"string"},
			"path":{"type":"string","description":"file that it is about"},
			"line":{"type":"integer","minimum":1}}}},
	"artifacts":{"type":"array","maxItems":100,"description":"files that you made or changed","items":{
		"type":"object","additionalProperties":false,"required":["path"],"properties":{
			"path":{"type":"string","minLength":1},
			"description":{"type":"string"}}}},
	"claims":{"type":"array","maxItems":100,"description":"what you hold to be true now, such as: all tests pass",
		"items":{"type":"string","minLength":1}}`

func reportTool() Tool {
	return builtin[reportArgs]{
		spec: Spec{
			Name: ReportName,
			Description: "Conclude your task: this is all that whoever gave it to you will see. Say what you did and found, " +
				"where, and what is still open. It ends your turn.",
			Parameters: schema(reportFields, "summary"),
			Idempotent: true,
		},
		run: report,
	}
}

// ReportParameters is the schema of the report tool's arguments for a task with a result schema: that is its output's.
func ReportParameters(output json.RawMessage) json.RawMessage {
	return schema(reportFields+`,"output":`+string(output), "summary", "output")
}

func report(_ context.Context, call Call, args reportArgs) (Answer, error) {
	r := task.Report{Summary: args.Summary, Findings: args.Findings, Artifacts: args.Artifacts, Claims: args.Claims}
	if err := checkReport(r); err != nil {
		return Answer{}, err
	}
	switch {
	case args.Output != nil && !call.Scope.HasSchema:
		return Answer{}, &Error{Reason: InvalidArguments, Subject: "output",
			Message: `there is no argument "output": your task has no result schema`}
	case len(args.Output) > MaxOutput:
		return Answer{}, invalid("output", "has %d bytes, more than %d", len(args.Output), MaxOutput)
	}
	return Answer{Text: "the report is accepted; your turn ends here", Report: &r}, nil
}

func checkReport(r task.Report) error {
	c := reportCheck{}
	c.text("summary", r.Summary, true, reportSummary)
	c.items("findings", len(r.Findings))
	for i, f := range r.Findings {
		at := fmt.Sprintf("findings[%d]", i)
		c.text(at+".title", f.Title, true, reportText)
		c.text(at+".detail", f.Detail, false, reportText)
		c.text(at+".path", f.Path, false, reportText)
		if f.Line < 0 {
			c.fail(at+".line", "must be at least 1, got %d", f.Line)
		}
	}
	c.items("artifacts", len(r.Artifacts))
	for i, a := range r.Artifacts {
		at := fmt.Sprintf("artifacts[%d]", i)
		c.text(at+".path", a.Path, true, reportText)
		c.text(at+".description", a.Description, false, reportText)
	}
	c.items("claims", len(r.Claims))
	for i, claim := range r.Claims {
		c.text(fmt.Sprintf("claims[%d]", i), claim, true, reportText)
	}
	if c.size > reportWhole {
		c.fail("summary", "and the lists are together %d bytes, more than %d: say less", c.size, reportWhole)
	}
	return c.err
}

// reportCheck keeps the first thing that is wrong with a report.
type reportCheck struct {
	size int // bytes of texts so far
	err  error
}

func (c *reportCheck) text(name, text string, required bool, limit int) {
	c.size += len(text)
	switch {
	case required && strings.TrimSpace(text) == "":
		c.fail(name, "must not be empty")
	case len(text) > limit:
		c.fail(name, "has %d bytes, more than %d", len(text), limit)
	}
}

func (c *reportCheck) items(name string, n int) {
	if n > reportItems {
		c.fail(name, "has %d items, more than %d", n, reportItems)
	}
}

func (c *reportCheck) fail(name, format string, args ...any) {
	if c.err == nil {
		c.err = invalid(name, format, args...)
	}
}
