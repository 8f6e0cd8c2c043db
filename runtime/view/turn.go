package view

import (
	"context"
	"slices"

	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// lastTurn is how the last turn ended after which a teammate was idle. It reads from the end, as far as it must.
func (v *View) lastTurn(ctx context.Context, t task.Task) (journal.Ending, error) {
	for n := lookBack; ; n *= 2 {
		last, err := v.journal.LastEntries(ctx, t.Team, t.ID, n)
		if err != nil {
			return journal.Ending{}, err
		}
		if turn, whole := lastTurnOf(last); whole || len(last) < n {
			return turn, nil
		}
	}
}

// lastTurnOf finds the end of the last turn in the newest entries of a transcript, and tells whether they hold all that is
// to be known of it.
func lastTurnOf(entries []task.Entry) (turn journal.Ending, whole bool) {
	for _, e := range slices.Backward(entries) {
		switch body := e.Body.(type) {
		case *task.StateChange:
			switch {
			case turn.Seq != 0 && (body.To == task.Idle || body.To.Terminal()):
				return turn, true // a turn before, and this one said nothing
			case turn.Seq == 0 && body.To == task.Idle:
				turn.Seq, turn.State = e.Seq, body.To
			}
		case *task.Assistant:
			if turn.Seq != 0 && body.Text != "" {
				turn.Text = body.Text
				return turn, true
			}
		}
	}
	return turn, false
}
