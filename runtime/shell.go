package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// startShell makes the loop of a shell.
func (s *Supervisor) startShell(context.Context, *loop, task.Task, task.Spec, bool) (work, error) {
	return work{}, errdefs.New(errdefs.Internal, errdefs.Fault, "", "shells: to be written")
}

// shellLost ends a shell that died with the daemon.
func (s *Supervisor) shellLost(ctx context.Context, t task.Task) error {
	return s.fail(ctx, t.ID, task.Interrupted, "the daemon went down while it ran")
}

// concludeShell gives what a shell left so far.
func (s *Supervisor) concludeShell(context.Context, task.Task) (task.Conclusion, error) {
	return task.Conclusion{}, nil
}
