package task

// Process identifies a process of a task across restarts of the daemon: a pid alone may be given again.
type Process struct {
	PID       int
	StartTime uint64 // field 22 of /proc/PID/stat: clock ticks since boot
	BootID    string // of the boot that the ticks count from
}
