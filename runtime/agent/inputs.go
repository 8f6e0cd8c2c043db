package agent

import (
	"context"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// inputs are what the agent reads of its mail.
func (a *Agent) inputs(ctx context.Context, mail []mailbox.Message) ([]task.Body, error) {
	inputs := make([]task.Body, 0, len(mail))
	for _, m := range mail {
		in, err := a.input(ctx, m)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

// input is what the agent reads of a message.
func (a *Agent) input(ctx context.Context, m mailbox.Message) (*task.Input, error) {
	in := &task.Input{
		From: m.From, Text: m.Text, MessageID: m.ID, Summary: m.Summary, Color: m.Color, Kind: m.Kind,
		ControlID: m.ControlID, Approve: m.Approve, Hops: m.Hops,
	}
	var err error
	switch m.Kind {
	case task.Ended:
		in.Text, err = announcement(ctx, a.Journal, m.About)
	case task.WentIdle:
		in.From, in.Text, err = idleWords(ctx, a.Journal, m)
	case task.Text, task.Returned, task.ShutdownRequest, task.ShutdownResponse, task.PlanRequest, task.PlanResponse,
		task.Remark:
	}
	return in, err
}

// idleWords are who went idle, and the last text of the turn that a notice points to.
func idleWords(ctx context.Context, j *journal.Journal, m mailbox.Message) (from, text string, err error) {
	row, err := j.Task(ctx, m.About)
	if journal.IsLost(err) {
		return string(m.About), "", nil
	}
	if err != nil {
		return "", "", err
	}
	end, err := j.TurnEnd(ctx, row.Value, m.After)
	return row.Value.Name, clip(end.Text, mailbox.NoticeSize/2), err
}
