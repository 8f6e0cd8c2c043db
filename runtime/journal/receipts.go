package journal

import (
	"context"
	"iter"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Ending is how a turn ended.
type Ending struct {
	Seq   task.Seq // of the change of state that ended it; 0: it has not ended
	State task.State
	Text  string // its last text; empty: it said nothing
	cut   bool   // the next answer goes on with the text
}

// See takes the next entry of the turn, and tells whether it has ended with that.
func (e *Ending) See(entry task.Entry) bool {
	switch body := entry.Body.(type) {
	case *task.Assistant:
		switch {
		case body.Text == "":
		case e.cut:
			e.Text += body.Text
		default:
			e.Text = body.Text
		}
		e.cut = body.Cut
	case *task.StateChange:
		if body.To == task.Idle || body.To.Terminal() {
			e.Seq, e.State = entry.Seq, body.To
			return true
		}
	}
	return false
}

// TurnEnd finds how the turn ended that was under way at a position of a transcript, or that began after it.
func (j *Journal) TurnEnd(ctx context.Context, t task.Task, after task.Seq) (Ending, error) {
	var end Ending
	for e, err := range j.Entries(ctx, t.Team, t.ID, after) {
		if err != nil || end.See(e) {
			return end, err
		}
	}
	return end, nil
}

// Awaiting gives those to whom an accepted message has yet to be handed on.
func (j *Journal) Awaiting(ctx context.Context, team, messageID string) ([]task.ID, error) {
	row := &storev1.OutboxRow{}
	_, err := j.get(ctx, part(team), outboxKey(messageID), row)
	if isGone(err) {
		return nil, nil
	}
	return idsOf(row.GetRecipients()), err
}

// Leads yields the leads that a team has had, living and ended, in the order of their creation.
func (j *Journal) Leads(ctx context.Context, team string) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for created, err := range j.Created(ctx, team, 0) {
			if err == nil && created.Value.Kind() != task.Teammate {
				continue
			}
			var row Row[task.Task]
			if err == nil {
				row, err = j.Task(ctx, created.Value)
			}
			if IsLost(err) || err == nil && !row.Value.IsLead() {
				continue
			}
			if !yield(row.Value, err) {
				return
			}
		}
	}
}
