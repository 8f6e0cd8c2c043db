// Package sandbox runs process trees for agents and ends them, and resolves paths beneath granted roots. It is the one
// place that starts and kills an agent's processes (T3).
package sandbox

import (
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
)

// Command is one command line.
type Command struct {
	CallID  string
	Line    string        // for `sh -c`
	Dir     string        // absolute working directory
	Env     []string      // NAME=VALUE, beside what every command gets
	Timeout time.Duration // then the process tree is killed
}

// Exit is how a command ended, as wait reported it.
type Exit struct {
	Code     int    // exit code; -1 when a signal ended it
	Signal   string // name of the signal that ended it; empty: none
	TimedOut bool
	Output   []byte // of Run: stdout and stderr interleaved, the head up to the quota, then the tail
	Dropped  int64  // of Run: bytes between head and tail that were drained and counted only
}

// Process identifies a started process, as the journal keeps it.
type Process = task.Process
