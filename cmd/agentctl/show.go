package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// emit prints a message as one line of JSON: proto field names, zero values written out. What steers a terminal is
// escaped: JSON itself leaves the control characters above ASCII as they are.
func (a *app) emit(m proto.Message) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return err
	}
	var line, escaped bytes.Buffer
	if err := json.Compact(&line, text); err != nil { // protojson varies its spaces on purpose
		return err
	}
	for _, r := range line.String() {
		if r >= 0x7f && r <= 0x9f {
			fmt.Fprintf(&escaped, `\u%04x`, r)
		} else {
			escaped.WriteRune(r)
		}
	}
	_, err = fmt.Fprintln(a.out, escaped.String())
	return err
}

// emitItem prints an item of a stream as JSON, but for heartbeats.
func (a *app) emitItem(it item) error {
	if it.GetTask() == nil && it.GetEntry() == nil && it.GetDelta() == nil && it.GetOutcome() == nil {
		return nil
	}
	return a.emit(it.(proto.Message))
}

// progress tells in plain lines who does what, how long it has taken, and what it has cost.
type progress struct {
	w      io.Writer
	task   *agentdv1.Task
	tokens int64
}

// show is a line for whatever in an item people wait for.
func (p *progress) show(it item) {
	if task := it.GetTask(); task != nil {
		p.task, p.tokens = task, spent(task.GetUsage())
	}
	entry := it.GetEntry()
	switch {
	case entry.GetInput() != nil && entry.GetInput().GetMessageId() != "":
		p.line(entry, "message from "+entry.GetInput().GetFrom()+": "+entry.GetInput().GetText())
	case entry.GetAssistant() != nil:
		p.tokens += spent(entry.GetAssistant().GetUsage())
		if text := entry.GetAssistant().GetText(); text != "" && len(entry.GetAssistant().GetToolCalls()) > 0 {
			p.line(entry, text)
		}
		for _, call := range entry.GetAssistant().GetToolCalls() {
			p.line(entry, callLine(call))
		}
	case entry.GetToolResult().GetIsError():
		p.line(entry, entry.GetToolResult().GetTool()+" failed: "+errorLine(entry.GetToolResult().GetText()))
	case entry.GetState() != nil:
		p.line(entry, stateLine(entry.GetState()))
	case entry.GetNotice() != nil:
		p.line(entry, entry.GetNotice().GetText())
	}
}

func (p *progress) line(entry *agentdv1.Entry, what string) {
	fmt.Fprintf(p.w, "%s %s  %s  %s  %s\n", p.task.GetId(), p.task.GetAgent(),
		since(p.task, entry.GetTime()), tokens(p.tokens), oneLine(what, 100))
}

// stateLine is a change of state, such as `RUNNING` or `FAILED (TIMEOUT)`.
func stateLine(s *agentdv1.StateChange) string {
	if r := reasonWord(s.GetReason()); r != "" {
		return stateWord(s.GetTo()) + " (" + r + ")"
	}
	return stateWord(s.GetTo())
}

// transcript shows a task's entries for people: seq, time since its creation, what it is, the text.
type transcript struct {
	out  *stdout
	task *agentdv1.Task
	live strings.Builder // deltas of the step under way, as printed
}

func (t *transcript) show(it item) error {
	switch {
	case it.GetTask() != nil:
		t.task = it.GetTask()
	case it.GetDelta() != nil:
		t.delta(it.GetDelta())
	case it.GetEntry() != nil:
		t.entry(it.GetEntry())
	case it.GetOutcome() != nil:
		o := it.GetOutcome()
		fmt.Fprintf(t.out, "\n%s %s (%s)  %s\n", o.GetTaskId(), stateWord(o.GetState()), reasonWord(o.GetReason()),
			usageLine(o.GetUsage()))
		writeOutcome(t.out, o, clean)
	}
	return t.out.err
}

// delta prints live text as it comes.
func (t *transcript) delta(d *agentdv1.Delta) {
	if d.GetReset_() && t.live.Len() > 0 {
		fmt.Fprintln(t.out, "\n(the model call failed; again)")
		t.live.Reset()
	}
	fmt.Fprint(t.out, clean(d.GetText()))
	t.live.WriteString(d.GetText())
}

func (t *transcript) entry(e *agentdv1.Entry) {
	shown := t.live.String()
	t.live.Reset()
	if shown != "" {
		fmt.Fprintln(t.out)
	}
	switch {
	case e.GetInput() != nil:
		t.line(e, "from "+e.GetInput().GetFrom(), clean(e.GetInput().GetText()))
	case e.GetAssistant() != nil:
		text := e.GetAssistant().GetText()
		if text != "" && text != shown {
			t.line(e, "agent", clean(text))
		}
		for _, call := range e.GetAssistant().GetToolCalls() {
			t.line(e, "call", callLine(call))
		}
	case e.GetToolResult() != nil && e.GetToolResult().GetIsError():
		t.line(e, "error", e.GetToolResult().GetTool()+": "+errorLine(e.GetToolResult().GetText()))
	case e.GetToolResult() != nil:
		t.line(e, "result", head(e.GetToolResult().GetText(), 8))
	case e.GetState() != nil:
		t.line(e, "state", stateLine(e.GetState()))
	case e.GetNotice() != nil:
		t.line(e, "notice", clean(e.GetNotice().GetText()))
	}
}

func (t *transcript) line(e *agentdv1.Entry, what, text string) {
	writeIndented(t.out, fmt.Sprintf("%4d  %s  %-10s  ", e.GetSeq(), since(t.task, e.GetTime()), oneLine(what, 40)), text)
}

// writeOutcome prints what a task achieved; escape makes its text fit for where it goes.
func writeOutcome(w io.Writer, o *agentdv1.Outcome, escape func(string) string) {
	if o.GetSummary() != "" {
		fmt.Fprintln(w, escape(o.GetSummary()))
	}
	if o.GetError() != "" {
		fmt.Fprintln(w, escape("error: "+o.GetError()))
	}
	section := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s:\n", title)
		for _, line := range lines {
			writeIndented(w, "- ", escape(line))
		}
	}
	var findings, artifacts []string
	for _, f := range o.GetFindings() {
		findings = append(findings, findingText(f))
	}
	for _, f := range o.GetArtifacts() {
		artifacts = append(artifacts, f.GetPath()+": "+f.GetDescription())
	}
	section("Findings", findings)
	section("Artifacts", artifacts)
	section("Claims (not proven)", o.GetClaims())
	section("Changed files", o.GetChanges())
}

// findingText is a finding with its place.
func findingText(f *agentdv1.Finding) string {
	text := f.GetTitle()
	switch {
	case f.GetPath() != "" && f.GetLine() > 0:
		text += fmt.Sprintf(" (%s:%d)", f.GetPath(), f.GetLine())
	case f.GetPath() != "":
		text += " (" + f.GetPath() + ")"
	}
	if f.GetDetail() != "" {
		text += "\n" + f.GetDetail()
	}
	return text
}

// usageLine is what a task consumed, such as `00:12  3.4k tok  5 steps  4 tool calls`.
func usageLine(u *agentdv1.Usage) string {
	return fmt.Sprintf("%s  %s  %s  %s", clock(u.GetWallTime().AsDuration()), tokens(spent(u)),
		count(u.GetSteps(), "step", "steps"), count(u.GetToolCalls(), "tool call", "tool calls"))
}
