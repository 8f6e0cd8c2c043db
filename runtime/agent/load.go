package agent

import (
	"context"

	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Load folds a task's transcript from the store.
func Load(ctx context.Context, j *journal.Journal, t task.Task, system string) (*History, error) {
	h := NewHistory(system)
	for entry, err := range j.Entries(ctx, t.Team, t.ID, 0) {
		if err != nil {
			return nil, err
		}
		h.Add(entry.Body)
	}
	h.adopt()
	return h, nil
}
