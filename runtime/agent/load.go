package agent

import (
	"context"

	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Folded is a history with the position of the transcript up to which it was folded. The zero one is of nothing.
type Folded struct {
	History *History
	Last    task.Seq
}

// Load folds a task's transcript from the store: what stands behind the part that was folded before, which nobody else may
// use any more.
func Load(
	ctx context.Context, j *journal.Journal, t task.Task, before Folded, system string, format func(task.Input) string,
) (*History, error) {
	h := before.History
	if h == nil {
		h = NewHistory(system, format)
	}
	h.Messages[0] = model.Message{Role: model.System, Text: system}
	for entry, err := range j.Entries(ctx, t.Team, t.ID, before.Last) {
		if err != nil {
			return nil, err
		}
		h.place(entry.Body, entry.Seq-1)
		h.Add(entry.Body)
	}
	h.adopt()
	return h, nil
}

// Size is about how much memory the history takes, in bytes.
func (h *History) Size() int {
	const perMessage, fixed = 128, 4 << 10 // about what the records themselves take
	return sizeOf(h.Messages) + perMessage*len(h.Messages) + fixed
}

// AtRest gives the history of a loop that has ended with a teammate's rest; false of any other.
func (a *Agent) AtRest() (Folded, bool) {
	return Folded{History: a.History, Last: a.last}, a.rested
}
