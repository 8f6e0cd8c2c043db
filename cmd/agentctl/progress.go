package main

import (
	"fmt"
	"io"
	"strings"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// progress tells in plain lines who does what, how long it has taken, and what it has cost.
type progress struct {
	w      io.Writer
	task   *agentdv1.Task
	tokens int64
}

// show is a line for whatever in an item people wait for.
func (p *progress) show(it item) {
	if task := it.GetTask(); task != nil {
		p.task, p.tokens = task, 0 // the entries that follow have all that it spent itself, also when it was begun before
	}
	entry := it.GetEntry()
	switch {
	case entry.GetInput() != nil && entry.GetInput().GetMessageId() != "":
		p.line(entry, "message from "+entry.GetInput().GetFrom()+": "+said(entry.GetInput()))
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
	case entry.GetCompaction() != nil:
		p.tokens += spent(entry.GetCompaction().GetUsage())
		p.line(entry, "compacted: "+entry.GetCompaction().GetSummary())
	}
}

func (p *progress) line(entry *agentdv1.Entry, what string) {
	fmt.Fprintf(p.w, "%s %s  %s  %s  %s\n", p.task.GetId(), oneLine(p.task.GetAgent(), 30),
		since(p.task, entry.GetTime()), tokens(p.tokens), oneLine(what, 100))
}

// stateLine is a change of state, such as `RUNNING` or `FAILED (TIMEOUT)`.
func stateLine(s *agentdv1.StateChange) string {
	if r := reasonWord(s.GetReason()); r != "" {
		return stateWord(s.GetTo()) + " (" + r + ")"
	}
	return stateWord(s.GetTo())
}

// childLine is what a group tells of one of its children, whose id stands before it.
func childLine(n *agentdv1.Notice) string {
	return oneLine(strings.TrimPrefix(n.GetText(), n.GetTaskId()+" "), maxLine)
}

// endOf is how a task ended.
func endOf(o *agentdv1.Outcome) string {
	return fmt.Sprintf("%s %s (%s)", o.GetTaskId(), stateWord(o.GetState()), reasonWord(o.GetReason()))
}

// endLine is how a task ended and what it consumed.
func endLine(o *agentdv1.Outcome) string {
	return endOf(o) + "  " + usageLine(o.GetUsage())
}
