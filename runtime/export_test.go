package runtime

import (
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/task"
)

// TakeHistory takes the history that is kept for a teammate at rest.
func (s *Supervisor) TakeHistory(id task.ID) agent.Folded { return s.histories.take(id) }

// KeepHistory gives it back.
func (s *Supervisor) KeepHistory(id task.ID, f agent.Folded) { s.histories.keep(id, f) }
