package runtime

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// summaryTail is how much of the end of its output a shell's conclusion quotes, in bytes.
const summaryTail = 4 << 10

// lookBack is how many entries of a shell are read from its end: the newest output is among them.
const lookBack = 16

// shellLost ends a shell that died with the daemon. Conflict when the task changed meanwhile.
func (s *Supervisor) shellLost(ctx context.Context, t task.Task) error {
	row, err := s.cfg.Journal.Task(ctx, t.ID)
	if err != nil || row.Value.State.Terminal() {
		return err
	}
	kept, err := s.outputEnd(ctx, row.Value)
	if err != nil {
		return err
	}
	left, err := s.concludeShell(ctx, row.Value)
	if err != nil {
		return err
	}
	finish := task.Finish{State: task.Failed, Reason: task.Interrupted, Error: "the daemon went down while it ran"}
	if row.Value.Stop != nil {
		finish = row.Value.Stop.Finish()
	}
	b := s.cfg.Journal.Batch(t.Team)
	after, err := task.Apply(row.Value, finish, b.Now())
	if err != nil {
		return err
	}
	b.Append(t.ID, &task.Notice{Text: fmt.Sprintf("The daemon went down while the command ran, and the command was "+
		"killed. What it wrote after the first %d bytes may be lost.", kept)})
	if err := s.post.End(ctx, b, row, after, left); err != nil {
		return err
	}
	return s.commit(ctx, b)
}

// concludeShell gives what a shell left so far that does not end in order.
func (s *Supervisor) concludeShell(ctx context.Context, t task.Task) (task.Conclusion, error) {
	if t.Started.IsZero() {
		return task.Conclusion{Report: task.Report{Summary: "it never ran"}}, nil
	}
	entries, err := s.cfg.Journal.LastEntries(ctx, t.Team, t.ID, lookBack)
	var end []byte
	for _, e := range entries {
		if out, ok := e.Body.(*task.Output); ok {
			end = lastBytes(append(end, out.Data...), summaryTail)
		}
	}
	return shellConclusion(t.ID, "it was killed", -1, end), err
}

// shellConclusion is what a shell leaves: how it ended, and the end of what it wrote.
func shellConclusion(id task.ID, how string, code int, end []byte) task.Conclusion {
	summary := how + "; it wrote nothing"
	if len(end) > 0 {
		text := []byte(strings.ToValidUTF8(string(sandbox.WholeStart(lastBytes(end, summaryTail))), string(utf8.RuneError)))
		summary = fmt.Sprintf("%s; all its output: agentctl output %s, or task_output. It ends with:\n%s",
			how, id, sandbox.WholeStart(lastBytes(text, summaryTail)))
	}
	return task.Conclusion{Report: task.Report{Summary: summary}, ExitCode: &code}
}

// outputEnd is how many bytes a shell had written before the end of its newest committed output.
func (s *Supervisor) outputEnd(ctx context.Context, t task.Task) (int64, error) {
	entries, err := s.cfg.Journal.LastEntries(ctx, t.Team, t.ID, lookBack)
	var end int64
	for _, e := range entries {
		if out, ok := e.Body.(*task.Output); ok {
			end = out.Offset + int64(len(out.Data))
		}
	}
	return end, err
}

// lastBytes are the last n bytes of b, or all.
func lastBytes(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
