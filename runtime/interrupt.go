package runtime

import (
	"context"
	"slices"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/task"
)

// interrupt tells the loop of a recipient that a message is there which does not wait (M3). It is a hint: without it the next
// boundary takes the message. What was taken already interrupts nothing.
func (s *Supervisor) interrupt(ctx context.Context, in string, key task.ID, messageID string) {
	mail, taken, err := s.cfg.Journal.Unread(ctx, in, key)
	waits := func(m mailbox.Message) bool { return m.ID == messageID && !taken.Value.Has(m.Pos) }
	if err != nil || !slices.ContainsFunc(mail, waits) {
		return
	}
	to, err := s.hearer(ctx, in, key)
	if err != nil {
		return
	}
	s.mu.Lock()
	var now func(messageID string)
	if l := s.loops[to.Task.Value.ID]; l != nil {
		now = l.interrupt
	}
	s.mu.Unlock()
	if now != nil {
		now(messageID)
	}
}

// interruptAll is interrupt for all recipients of a message.
func (s *Supervisor) interruptAll(ctx context.Context, in, messageID string) error {
	sent, err := s.cfg.Journal.Sent(ctx, in, messageID)
	for _, row := range sent {
		s.interrupt(ctx, in, row.Value.Recipient, messageID)
	}
	return err
}

// hears lets messages that do not wait reach an agent's loop from its start on.
func (s *Supervisor) hears(l *loop, a *agent.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.interrupt = a.Interrupt
}
