package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// errInterrupted is why a model call or a tool is dropped although the loop goes on.
var errInterrupted = errors.New("a message interrupts what the agent does")

// Interrupt has the loop drop its model call and its tools for a message that does not wait, and go on with the next
// boundary, which takes it (M3). It is a hint: the message is in the mailbox, whatever becomes of this loop. One that the
// loop has taken meanwhile interrupts nothing.
func (a *Agent) Interrupt(messageID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case slices.Contains(a.taken, messageID):
	case a.drop == nil: // between two advances
		a.due = true
	default:
		a.drop(errInterrupted)
	}
}

// pressed looks for a message that interrupts and of which the loop has not been told yet: a call that waits for a task sees its
// mail by itself. Then the next advance is dropped, so that no further call starts.
func (a *Agent) pressed(ctx context.Context) (bool, error) {
	for _, box := range a.mail().Boxes() {
		mail, taken, err := a.Journal.Unread(ctx, a.Task.Team, box)
		if err != nil {
			return false, err
		}
		for _, m := range mail {
			if m.Delivery == mailbox.Interrupt && !taken.Value.Has(m.Pos) {
				a.mu.Lock()
				a.due = true
				a.mu.Unlock()
				return true, nil
			}
		}
	}
	return false, nil
}

// heard takes notice of interruptions whose messages are in the transcript.
func (a *Agent) heard(mail []mailbox.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range mail {
		if m.Delivery == mailbox.Interrupt {
			a.taken = append(a.taken, m.ID)
		}
	}
}

// loopCtx is the key under which the ctx of an advance has the loop's own, which no message ends.
type loopCtx struct{}

// droppable is the ctx of one advance: an interruption ends it. Call done when the advance is over; it tells whether that
// came.
func (a *Agent) droppable(ctx context.Context) (part context.Context, done func() bool) {
	part, drop := context.WithCancelCause(context.WithValue(ctx, loopCtx{}, ctx))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop = drop
	if a.due {
		a.due = false
		drop(errInterrupted)
	}
	return part, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		cut := part.Err() != nil
		a.drop = nil
		drop(nil)
		return cut
	}
}

// uncut is the ctx for calls that an interruption does not cut: those that wait for a task see the message themselves, and
// leave the task running in the background.
func uncut(ctx context.Context, name string) context.Context {
	switch name {
	case tool.SubagentName, tool.TaskOutputName, tool.TaskStopName:
		if whole, ok := ctx.Value(loopCtx{}).(context.Context); ok {
			return whole
		}
	}
	return ctx
}

// dropped keeps what an interruption has cut short, and answers the calls that are open, so that the turn goes on with the
// mail.
func (a *Agent) dropped(ctx context.Context) error {
	if err := a.Slots.Proceed(ctx); err != nil { // the model call may have waited for the provider
		return err
	}
	bodies, used := a.remains("a message interrupted you")
	if len(bodies) > 0 || used != (task.Usage{}) {
		if err := a.commit(ctx, used, bodies...); err != nil {
			return err
		}
	}
	a.partial, a.spent, a.ran = nil, task.Usage{}, nil
	return nil
}

// remains is what there is of a step that was cut short: the text that had come, the answers of calls that have run, and
// answers for all others.
func (a *Agent) remains(why string) (bodies []task.Body, used task.Usage) {
	used, answered := a.spent, map[string]bool{}
	if a.partial != nil && a.partial.Text != "" {
		bodies, used = append(bodies, a.partial), a.partial.Usage
	}
	for _, r := range a.ran {
		if r != nil {
			bodies, answered[r.CallID] = append(bodies, r), true
			used.ToolCalls++
		}
	}
	for _, c := range a.History.pending {
		if !answered[c.ID] {
			bodies = append(bodies, unanswered(c, a.History.started[c.ID], why))
		}
	}
	return bodies, used
}

// unanswered answers a call that a stop or a message overtook.
func unanswered(c pendingCall, started bool, why string) *task.ToolResult {
	e := tool.Error{Reason: tool.NotStarted, Subject: c.Name, Message: why + " before this call started"}
	if started {
		e = tool.Error{Reason: tool.Interrupted, Subject: c.Name, Message: why + " while this call ran"}
	}
	return &task.ToolResult{CallID: c.ID, Tool: c.Name, Text: tool.Fail(e).Text, IsError: true}
}
