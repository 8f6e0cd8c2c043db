package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// groupActivity counts how far those that a group runs have come. It reads their records: the group's own says nothing of
// them.
func (v *View) groupActivity(ctx context.Context, t task.Task, formation task.Formation) (string, error) {
	all := slices.Concat(formation.Kept, formation.Children)
	var done, failed, running, queued int
	for _, id := range all {
		row, err := v.journal.Task(ctx, id)
		switch {
		case errdefs.Is(err, errdefs.TaskNotFound) && formation.Chain:
			continue // a step whose turn has not come
		case errdefs.Is(err, errdefs.TaskNotFound), errdefs.Is(err, errdefs.RecordCorrupt):
			failed++ // its record is lost
			continue
		case err != nil:
			return "", err
		}
		switch state := row.Value.State; {
		case state == task.Completed:
			done++
		case state.Terminal():
			failed++
		case state == task.Queued:
			queued++
		default:
			running++
		}
	}
	counts := []string{fmt.Sprintf("%d of %d done", done, len(all))}
	if t.State == task.Stopping {
		counts = append([]string{"is stopping"}, counts...)
	}
	for _, c := range []struct {
		n    int
		what string
	}{{failed, "failed"}, {running, "running"}, {queued, "queued"}} {
		if c.n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	return strings.Join(counts, ", "), nil
}
