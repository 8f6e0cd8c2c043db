package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// Bounds of a result, so that it fits its row.
const (
	maxSummary = 16 << 10 // bytes of a last text that stands for a summary
	maxChanges = 64 << 10 // bytes of the changed paths together
)

// Conclude gives what a task concluded so far, for ends that its loop can't write itself: a KILL, a panic, the daemon's
// own. Its changes are those of the file tools alone, and it has no evidence.
func Conclude(ctx context.Context, j *journal.Journal, t task.Task) (task.Conclusion, error) {
	none := task.Conclusion{Report: task.Report{Summary: task.NoSummary}}
	h, err := Load(ctx, j, t, Folded{}, "", team.Plain().Format)
	if err != nil {
		return none, err
	}
	spec, err := j.Spec(ctx, t.Team, t.ID)
	if err != nil {
		return none, err
	}
	return h.conclude(t.ID, spec, nil, nil), nil
}

// conclusion is what the task leaves at an end that its loop writes.
func (a *Agent) conclusion(ctx context.Context, e ending) (task.Conclusion, error) {
	seen, err := a.changedSince(ctx)
	if err != nil {
		return task.Conclusion{}, err
	}
	left := a.History.conclude(a.Task.ID, a.Spec, e.last, seen)
	if e.verdict != nil {
		left.Evidence = e.verdict.evidence
	}
	return left, nil
}

// conclude gives what the agent of a task concluded with the entries that are about to be committed: its report, or else
// its last text, its output, and the paths that its tools changed or that were seen to change.
func (h *History) conclude(id task.ID, spec task.Spec, last []task.Body, seen []string) task.Conclusion {
	text, output := h.text, h.output
	for _, body := range last {
		if a, ok := body.(*task.Assistant); ok {
			text, output = h.said(a.Text), h.given(a)
		}
	}
	var left task.Conclusion
	if h.report != nil {
		left.Report = *h.report
	}
	if left.Summary == "" {
		left.Summary = bounded(text, maxSummary, id)
	}
	if left.Summary == "" {
		left.Summary = task.NoSummary
	}
	if spec.Schema != "" {
		left.Output = bounded(output, tool.MaxOutput, id)
	}
	var more int
	if left.Changes, more = h.changed(seen); more > 0 {
		left.Summary += fmt.Sprintf("\n\n[agentd] %d more paths were changed than are listed.", more)
	}
	return left
}

// bounded is a text, or as much of its start as there is room for and where to find it whole.
func bounded(text string, limit int, id task.ID) string {
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s\n\n[agentd] This was cut; it has %d bytes. The whole: agentctl output %s", clip(text, limit),
		len(text), id)
}

// changed lists the paths that changed, sorted, and counts those that are too many.
func (h *History) changed(seen []string) (paths []string, more int) {
	for path := range h.changes {
		seen = append(seen, strings.ToValidUTF8(path, "\uFFFD"))
	}
	slices.Sort(seen)
	size := 0
	for _, path := range slices.Compact(seen) {
		if size += len(path); size > maxChanges {
			more++
			continue
		}
		paths = append(paths, path)
	}
	return paths, more
}
