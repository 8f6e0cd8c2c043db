package agent

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Bounds of what an announcement says of a task, in bytes with their escapes: together with the rest within
// mailbox.NoticeSize. The whole is asked for with task_output.
const (
	maxSaid   = 4 << 10
	maxOutput = 1 << 10
	maxRemark = 512 // of the description, the command and the error
)

// announcement is the envelope that tells an agent of the end of a task that it started (R6). What comes from the task is
// escaped: it can close no envelope and forge none (M8). Of a task whose rows are damaged it tells what is left (D7).
func announcement(ctx context.Context, j *journal.Journal, id task.ID) (string, error) {
	var b envelope
	b.WriteString("<background-task-completed>\n")
	b.line("task-id", string(id), maxRemark)
	row, err := j.Task(ctx, id)
	switch {
	case journal.IsLost(err):
		b.line("status", "unknown", maxRemark)
		b.line("error", "its record is damaged on disk", maxRemark)
	case err != nil:
		return "", err
	default:
		if err := b.end(ctx, j, row.Value); err != nil {
			return "", err
		}
	}
	b.WriteString("</background-task-completed>")
	return b.String(), nil
}

// envelope is an announcement that is being written.
type envelope struct{ strings.Builder }

// end tells how a task ended.
func (b *envelope) end(ctx context.Context, j *journal.Journal, t task.Task) error {
	left, err := j.Result(ctx, t.Team, t.ID)
	if err != nil && !journal.IsLost(err) && !errdefs.Is(err, errdefs.RecordNotFound) {
		return err
	}
	spec, err := j.Spec(ctx, t.Team, t.ID)
	if err != nil && !journal.IsLost(err) {
		return err
	}
	used, err := j.Usage(ctx, t.Team, t.ID)
	if err != nil {
		return err
	}
	b.line("type", strings.ToLower(t.Kind.String()), maxRemark)
	b.line("agent", t.Agent, maxRemark)
	if spec.Shell != nil {
		b.line("command", spec.Shell.Command, maxRemark)
	}
	b.line("description", t.Description, maxRemark)
	b.line("status", strings.ToLower(t.State.String()), maxRemark)
	b.line("reason", t.Reason.String(), maxRemark)
	b.line("error", t.Error, maxRemark)
	if left.ExitCode != nil {
		b.line("exit-code", fmt.Sprint(*left.ExitCode), maxRemark)
	}
	b.line("summary", left.Summary, maxSaid)
	b.line("output", left.Output, maxOutput)
	fmt.Fprintf(b, "<usage total-tokens=\"%d\" tool-uses=\"%d\" duration-ms=\"%d\"/>\n",
		used.Tokens(), used.ToolCalls, t.WallTime(t.Ended)/time.Millisecond)
	fmt.Fprintf(b, "The whole result: task_output with task_id %s.\n", t.ID)
	return nil
}

// line writes one element, unless it is empty, with at most so many bytes in it.
func (b *envelope) line(tag, text string, limit int) {
	if text != "" {
		fmt.Fprintf(b, "<%s>%s</%s>\n", tag, escape(text, limit), tag)
	}
}

// escape is the start of a text in which nothing can be taken for a tag, at most limit bytes long with a mark where it
// goes on.
func escape(text string, limit int) string {
	const goesOn = "…"
	var b strings.Builder
	for _, r := range valid(clip(text, limit)) {
		piece := string(r)
		switch {
		case r == '&':
			piece = "&amp;"
		case r == '<':
			piece = "&lt;"
		case r == '>':
			piece = "&gt;"
		case r < ' ' && r != '\n' && r != '\t', r == '\x7f':
			piece = " "
		}
		if b.Len()+len(piece) > limit-len(goesOn) {
			return b.String() + goesOn
		}
		b.WriteString(piece)
	}
	if len(text) > limit {
		return b.String() + goesOn
	}
	return b.String()
}
