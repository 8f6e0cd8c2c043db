package sandbox

import (
	"fmt"
	"os"
	"syscall"
)

const (
	// latchFD is the descriptor on which the helper waits for the go.
	latchFD = 3
	// unreleased is the exit code of a helper that was never told to go.
	unreleased = 125
	// notExecuted is the exit code of a helper that could not become the shell, as shells have it.
	notExecuted = 126
	// shellPath is what runs command lines.
	shellPath = "/bin/sh"
)

// Latch is the body of the hidden sub-command that every command starts as: `-- LINE`. It waits for a byte on
// the inherited pipe and becomes `sh -c LINE` in place. When the pipe closes instead, because the daemon died before
// it had recorded the process, nothing runs (T3). It returns only then, with the exit code for main.
func Latch(args []string) int {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "latch: one command line is needed; this command is the daemon's own")
		return notExecuted
	}
	latch := os.NewFile(latchFD, "latch")
	if n, _ := latch.Read(make([]byte, 1)); n == 0 {
		return unreleased
	}
	// The command inherits neither the latch nor what else the daemon may have been started with. Before Linux 5.11 it
	// is at least not the latch.
	_ = latch.Close()
	closeOnExec()
	if err := adoptOrphans(); err != nil {
		fmt.Fprintln(os.Stderr, "latch:", err)
		return notExecuted
	}
	err := syscall.Exec(shellPath, []string{"sh", "-c", "--", args[0]}, os.Environ())
	fmt.Fprintln(os.Stderr, "latch: "+shellPath+":", err)
	return notExecuted
}
