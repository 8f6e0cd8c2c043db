package team

import (
	"context"
	"fmt"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Waker gives teammates that have ended their next incarnation. One at a time, however many messages ask for it: the batch
// that loses the race fails with Conflict, and finds a living teammate when it tries again (W2).
type Waker struct{ Journal *journal.Journal }

// Asleep says why no message of the leader, or else of a peer, revives a teammate that has ended; empty: one does (W3).
func Asleep(t task.Task, dismissed, leader bool) string {
	if dismissed {
		return "it was dismissed"
	}
	switch t.Reason {
	case task.Done, task.ModelError, task.Timeout, task.Panic, task.Interrupted, task.MaxSteps, task.ContextOverflow:
		return ""
	case task.Shutdown, task.StoppedByClient, task.NoProgress, task.ContractViolation, task.AcceptanceFailed,
		task.BudgetExceeded:
		if leader {
			return ""
		}
		return fmt.Sprintf("it ended with %s, after which only the leader or a client revives it", t.Reason)
	case task.SpawnFailed:
		if t.Started.IsZero() {
			return "it could not be started, and its name is free"
		}
		return ""
	case task.CrashLoop:
		return "it was parked, for the daemon went down, or it could not be started, each time it ran"
	case task.ParentEnded, task.ExitNonzero:
	}
	return fmt.Sprintf("it ended with %s", t.Reason)
}

// Final tells whether nobody can revive a teammate that has ended any more.
func Final(t task.Task, dismissed bool) bool { return Asleep(t, dismissed, true) != "" }

// Reopen adds the next incarnation of a teammate that has ended to a batch (W1). NotRevivable says why a message of this
// sender does not do that.
func (w Waker) Reopen(ctx context.Context, b *journal.Batch, r Recipient, leader bool) error {
	t := r.Task.Value
	if why := Asleep(t, r.Member.Value.Dismissed, leader); why != "" {
		return errdefs.New(errdefs.FailedPrecondition, errdefs.NotRevivable, r.Name, "teammate %s has ended: %s", r.Name, why)
	}
	change := task.Reopen{Forgiven: t.Forgiven}
	if t.Reason == task.BudgetExceeded { // the next incarnation has the budget anew
		used, err := w.Journal.Usage(ctx, t.Team, t.ID)
		if err != nil {
			return err
		}
		change.Forgiven = used
	}
	after, err := task.Apply(t, change, b.Now())
	if err != nil {
		return err
	}
	b.GuardMember(r.Member)
	b.ReopenTask(r.Task, after)
	return nil
}
