package main

import (
	"cmp"
	"fmt"
	"strings"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// What a transcript in Markdown shows of a tool's call and of its result, in lines.
const (
	maxCallLines   = 20
	maxResultLines = 40
)

// markdown writes a transcript for people: a heading for each speaker, what others said as quotations, so that no text of an
// agent passes for another's, and tools as blocks of code.
type markdown struct {
	out  *stdout
	task *agentdv1.Task
	life int32 // incarnation that the entries belong to
}

func (m *markdown) show(r *agentdv1.ExportTranscriptResponse) error {
	switch {
	case r.GetTask() != nil:
		m.task, m.life = r.GetTask(), 1
		m.title()
	case r.GetEntry() != nil:
		m.entry(r.GetEntry())
	case r.GetOutcome() != nil:
		m.outcome(r.GetOutcome())
	}
	return m.out.err
}

// title is who the transcript is of, and how the task is now.
func (m *markdown) title() {
	t := m.task
	who := t.GetId()
	if t.GetAgentId() != "" {
		who = t.GetAgentId() + " (" + t.GetId() + ")"
	}
	fmt.Fprintf(m.out, "# %s\n\n", oneLine(who, 200))
	facts := []string{"- state: " + stateCell(t)}
	for _, fact := range []struct{ name, value string }{
		{"agent", t.GetAgent()}, {"model", t.GetModel()}, {"team", t.GetTeam()}, {"workspace", t.GetWorkspace()},
		{"for", t.GetDescription()}, {"below", overOf(t)}, {"began", localTime(t.GetCreatedAt())}, {"used", teamUsage(t.GetUsage())},
	} {
		if fact.value != "" {
			facts = append(facts, "- "+fact.name+": "+oneLine(fact.value, 500))
		}
	}
	fmt.Fprintln(m.out, strings.Join(facts, "\n"))
}

// heading begins what somebody says or does.
func (m *markdown) heading(e *agentdv1.Entry, who string) {
	fmt.Fprintf(m.out, "\n### %s\n\n*%d, %s*\n\n", oneLine(who, 200), e.GetSeq(), localTime(e.GetTime()))
}

func (m *markdown) entry(e *agentdv1.Entry) {
	switch {
	case e.GetInput() != nil:
		m.input(e, e.GetInput())
	case e.GetAssistant() != nil:
		m.assistant(e, e.GetAssistant())
	case e.GetToolResult() != nil:
		what := "gives"
		if e.GetToolResult().GetIsError() {
			what = "fails"
		}
		fmt.Fprintf(m.out, "\n`%s` %s:\n\n", code(e.GetToolResult().GetTool()), what)
		m.block(head(e.GetToolResult().GetText(), maxResultLines))
	case e.GetOutput() != nil:
		m.block(head(string(e.GetOutput().GetData()), maxResultLines))
	case e.GetState() != nil:
		m.state(e)
	case e.GetNotice() != nil:
		m.heading(e, "daemon")
		m.quote(e.GetNotice().GetText())
	case e.GetCompaction() != nil:
		m.heading(e, "compacted")
		m.quote(e.GetCompaction().GetSummary())
	}
}

// input is the assignment, or mail with its sender.
func (m *markdown) input(e *agentdv1.Entry, in *agentdv1.Input) {
	from := " from " + cmp.Or(in.GetFrom(), "user")
	who := mailWord(in.GetKind()) + from
	switch {
	case in.GetMessageId() == "":
		who = "assignment" + from
	case in.GetKind() <= agentdv1.MessageKind_MESSAGE_KIND_TEXT:
		who = "message" + from
	}
	who += handshake(in)
	if in.GetSummary() != "" {
		who += ": " + in.GetSummary()
	}
	m.heading(e, who)
	m.quote(in.GetText())
}

// assistant is what the model said, and the calls that it asked for.
func (m *markdown) assistant(e *agentdv1.Entry, say *agentdv1.Assistant) {
	m.heading(e, cmp.Or(m.task.GetName(), m.task.GetId())+fmt.Sprintf(", step %d", say.GetStep()))
	if text := strings.TrimSpace(clean(say.GetText())); text != "" {
		m.quote(text)
	}
	if say.GetPartial() {
		fmt.Fprintln(m.out, "\n(cut short)")
	}
	for _, call := range say.GetToolCalls() {
		fmt.Fprintf(m.out, "\ncalls `%s`:\n\n", code(call.GetName()))
		m.block(head(call.GetArguments(), maxCallLines))
	}
}

// state is a change of state; a new life is a chapter.
func (m *markdown) state(e *agentdv1.Entry) {
	s := e.GetState()
	if hasEnded(s.GetFrom()) {
		m.life++
		fmt.Fprintf(m.out, "\n## Life %d\n", m.life)
	}
	fmt.Fprintf(m.out, "\n*%d, %s: %s*\n", e.GetSeq(), localTime(e.GetTime()), stateLine(s))
}

// outcome is how the task has ended.
func (m *markdown) outcome(o *agentdv1.Outcome) {
	fmt.Fprintf(m.out, "\n## %s\n\n%s\n\n", endOf(o), usageLine(o.GetUsage()))
	var text strings.Builder
	writeOutcome(&text, o, clean)
	m.quote(text.String())
}

// quote writes text of others as a quotation.
func (m *markdown) quote(text string) {
	for line := range strings.SplitSeq(strings.TrimSpace(clean(text)), "\n") {
		fmt.Fprintln(m.out, strings.TrimRight("> "+line, " "))
	}
}

// block writes text as a block of code, within a fence that does not stand in it.
func (m *markdown) block(text string) {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(m.out, "%s\n%s\n%s\n", fence, text, fence)
}

// code is a short text within backticks.
func code(text string) string { return strings.ReplaceAll(oneLine(text, 100), "`", "'") }
