// Package sandbox runs process trees for agents and ends them, and resolves paths beneath granted roots. It is the one
// place that starts and kills an agent's processes (T3).
package sandbox

import "time"

// Command is one command line.
type Command struct {
	CallID  string
	Line    string        // for `sh -c`
	Dir     string        // absolute working directory
	Timeout time.Duration // then the process tree is killed
}

// Exit is how a command ended, as wait reported it.
type Exit struct {
	Code     int    // exit code; -1 when a signal ended it
	Signal   string // name of the signal that ended it; empty: none
	TimedOut bool
	Output   []byte // stdout and stderr interleaved: the head up to the quota, then the tail
	Dropped  int64  // bytes between head and tail that were drained and counted only
}

// Process identifies a started process across restarts of the daemon: a pid alone may be reused.
type Process struct {
	PID       int
	StartTime uint64 // field 22 of /proc/PID/stat: clock ticks since boot
	BootID    string // of the boot that the ticks count from
}
