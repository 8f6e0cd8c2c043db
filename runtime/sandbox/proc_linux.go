package sandbox

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// proc is a process as /proc shows it.
type proc struct {
	pid, parent, group, session int
	start                       uint64 // as Process.StartTime
	dead                        bool   // nothing of it runs; only its exit status is left
}

// processes are all processes that can be seen, dead ones too. An error means that some may be missing.
func processes() ([]proc, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make([]proc, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, err
		}
		if p, ok := parseStat(pid, stat); ok {
			all = append(all, p)
		}
	}
	return all, nil
}

// readProc reads one process; false when it is gone.
func readProc(pid int) (proc, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return proc{}, false
	}
	return parseStat(pid, stat)
}

// parseStat reads the content of /proc/PID/stat.
func parseStat(pid int, stat []byte) (proc, bool) {
	// The second field is the program's name in parentheses and may hold anything, parentheses too.
	name := bytes.LastIndexByte(stat, ')')
	f := bytes.Fields(stat[name+1:])
	if name < 0 || len(f) < 20 {
		return proc{}, false
	}
	number := func(field int) int { // numbered as in proc(5)
		n, _ := strconv.Atoi(string(f[field-3]))
		return n
	}
	start, err := strconv.ParseUint(string(f[22-3]), 10, 64)
	if err != nil {
		return proc{}, false
	}
	state := f[0][0]
	return proc{
		pid: pid, parent: number(4), group: number(5), session: number(6), start: start,
		// A first thread that ended before the others looks like a zombie and is none.
		dead: state == 'X' || state == 'Z' && number(20) <= 1,
	}, true
}

// markOf reads the mark in the environment that the process was started with, and whether it could be read.
func markOf(pid int) (m mark, readable bool) {
	environ, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return mark{}, false
	}
	return markIn(string(environ)), true
}

// bootID names the boot that start times count from.
func bootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// awaitExit returns when our child has ended, and leaves it to be waited for: until then its pid and the ids of its
// group and session cannot be reused.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// adoptOrphans makes this process, and what it execs, the parent of all descendants that lose theirs.
func adoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// closeOnExec lets what this process execs inherit stdin, stdout and stderr alone.
func closeOnExec() {
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
}
