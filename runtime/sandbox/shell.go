package sandbox

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// Events is what a shell tells of its processes.
type Events struct {
	// Started makes a process durable before its command runs. When it fails, the command does not run.
	Started func(ctx context.Context, callID string, p Process) error
	// Ended makes it durable that nothing is left of a call's process.
	Ended func(ctx context.Context, callID string) error
	// Killed tells of processes right before they are killed at the end of a call, so that whoever finds them gone knows
	// already. A Kill of the task at the same time may tell of them too. It must not block.
	Killed func(killed []Process)
}

// Shell runs the commands of one start of a task, one at a time.
type Shell struct {
	box   *Sandbox
	owner Owner
	on    Events
	roots *Roots        // nil: not looked at
	turn  chan struct{} // holds one token while a command runs: its end sweeps away all that bears the owner's mark
}

// Shell makes the shell of an owner, of which there should be one.
func (s *Sandbox) Shell(o Owner, on Events) Shell {
	return Shell{box: s, owner: o, on: on, turn: make(chan struct{}, 1)}
}

// Beside gives the shell that refuses a command when the root that it would run in is no longer the one that roots hold
// open: commands and file tools work in the same directory or not at all.
func (s Shell) Beside(roots *Roots) Shell {
	s.roots = roots
	return s
}

// Run runs the command line to its end, the end of ctx or the timeout (0: none), whichever comes first, and leaves
// nothing of it running. The Exit is what wait reported, also when time ran out meanwhile. When ctx ended the command,
// the error is ctx's cause and the Exit has the partial output.
func (s Shell) Run(ctx context.Context, c Command) (Exit, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return Exit{}, context.Cause(ctx)
	}
	if s.roots != nil && s.roots.replaced(c.Dir) {
		return Exit{}, errdefs.New(errdefs.FailedPrecondition, errdefs.NoWorkspace, c.Dir,
			"the workspace %s was moved, removed or replaced while the task ran; no command runs there", c.Dir)
	}
	out := &output{quota: s.box.cfg.Quota}
	r, err := s.box.Launch(s.owner, c, out, out)
	if err != nil {
		return Exit{}, err
	}
	r.OnKill(s.on.Killed)
	after := context.WithoutCancel(ctx)
	if err := s.on.Started(ctx, c.CallID, r.process); err != nil {
		_, stuck := r.End(after)
		return Exit{}, errors.Join(err, stuck)
	}
	why := r.run(ctx, c.Timeout)
	exit, err := r.End(after)
	exit.Output, exit.Dropped = out.result()
	if err != nil {
		return exit, err
	}
	if !r.Resisted() { // else the record stays, for the sweep at the next start
		if err := s.on.Ended(after, c.CallID); err != nil {
			return exit, err
		}
	}
	if exit.Signal == "" {
		return exit, nil // it finished before it could be killed
	}
	exit.TimedOut = why == timedOut
	if why == canceled {
		return exit, context.Cause(ctx)
	}
	return exit, nil
}

// maxLine is the size that a single argument cannot reach, in bytes: the kernel's MAX_ARG_STRLEN.
const maxLine = 128 << 10

// cause is why a running command is brought to its end.
type cause uint8

const (
	finished cause = iota // by itself
	timedOut              // its timeout passed
	canceled              // its context ended
)

// run opens the latch and waits.
func (r *Running) run(ctx context.Context, timeout time.Duration) cause {
	if ctx.Err() != nil {
		return canceled
	}
	r.Release()
	var limit <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-r.exited:
		return finished
	case <-limit:
		return timedOut
	case <-ctx.Done():
		return canceled
	}
}

// check refuses a command that no shell could run.
func (c Command) check() error {
	switch {
	case len(c.Line) >= maxLine:
		return errdefs.New(errdefs.InvalidArgument, errdefs.TooLarge, "command",
			"the command line has %d bytes, the limit is %d: write a script and run that", len(c.Line), maxLine-1)
	case strings.Contains(c.Line, "\x00"):
		return errdefs.BadField("command", "must not contain NUL bytes")
	}
	return nil
}
