package agent

import (
	"context"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// maxSaid bounds the summary in an announcement, in bytes; the rest is asked for with task_output.
const maxSaid = mailbox.NoticeSize / 2

// announcement is the envelope that tells an agent of the end of a task that it started (R6). What comes from the task is
// escaped: it can close no envelope and forge none (M8).
func announcement(ctx context.Context, j *journal.Journal, id task.ID) (string, error) {
	row, err := j.Task(ctx, id)
	if err != nil {
		return "", err
	}
	t := row.Value
	left, err := j.Result(ctx, t.Team, id)
	if err != nil {
		return "", err
	}
	used, err := j.Usage(ctx, t.Team, id)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	line := func(tag, text string) {
		if text != "" {
			fmt.Fprintf(&b, "<%s>%s</%s>\n", tag, escape(text), tag)
		}
	}
	b.WriteString("<background-task-completed>\n")
	line("task-id", string(id))
	line("type", strings.ToLower(t.Kind.String()))
	line("agent", t.Agent)
	line("description", clip(t.Description, maxError))
	line("status", t.State.String())
	line("reason", t.Reason.String())
	line("error", clip(t.Error, maxError))
	if left.ExitCode != nil {
		line("exit-code", fmt.Sprint(*left.ExitCode))
	}
	line("summary", clip(left.Summary, maxSaid/2))
	fmt.Fprintf(&b, "<usage total-tokens=\"%d\" tool-uses=\"%d\" duration-ms=\"%d\"/>\n",
		used.Tokens(), used.ToolCalls, t.WallTime(t.Ended)/time.Millisecond)
	fmt.Fprintf(&b, "The whole result: task_output with task_id %s.\n", id)
	b.WriteString("</background-task-completed>")
	return b.String(), nil
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}
