package main

import (
	"fmt"
	"strings"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// maxLine is how many columns a remark takes that is told on one line.
const maxLine = 160

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
		fmt.Fprintf(t.out, "\n%s\n", endLine(o))
		if t.task.GetKind() == agentdv1.TaskKind_TASK_KIND_GROUP {
			writeError(t.out, o, clean) // what its children achieved is told one by one
		} else {
			writeOutcome(t.out, o, clean)
		}
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
		t.line(e, "from "+e.GetInput().GetFrom(), said(e.GetInput()))
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
	case e.GetNotice().GetTaskId() != "":
		t.line(e, e.GetNotice().GetTaskId(), childLine(e.GetNotice()))
	case e.GetNotice() != nil:
		t.line(e, "notice", oneLine(e.GetNotice().GetText(), maxLine))
	case e.GetCompaction() != nil:
		t.line(e, "compacted", oneLine(e.GetCompaction().GetSummary(), maxLine))
	}
}

func (t *transcript) line(e *agentdv1.Entry, what, text string) {
	writeIndented(t.out, fmt.Sprintf("%4d  %s  %-14s  ", e.GetSeq(), since(t.task, e.GetTime()), oneLine(what, 40)), text)
}

// said is what an input says, in a control message under what it is.
func said(in *agentdv1.Input) string {
	text := clean(in.GetText())
	if in.GetControlId() == "" {
		return text
	}
	return strings.TrimSpace(mailWord(in.GetKind()) + handshake(in) + "\n" + text)
}

// mailWord is a kind of mail in words, such as `plan response`.
func mailWord(k agentdv1.MessageKind) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(k.String(), "MESSAGE_KIND_"), "_", " "))
}

// handshake tells which request a control message is or answers, and how, such as ` (c-12): approved`.
func handshake(in *agentdv1.Input) (text string) {
	if in.GetControlId() != "" {
		text = " (" + in.GetControlId() + ")"
	}
	kind := in.GetKind()
	answers := kind == agentdv1.MessageKind_MESSAGE_KIND_PLAN_RESPONSE || kind == agentdv1.MessageKind_MESSAGE_KIND_SHUTDOWN_RESPONSE
	switch {
	case answers && in.GetApprove():
		return text + ": approved"
	case answers:
		return text + ": rejected"
	}
	return text
}
