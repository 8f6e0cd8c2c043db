package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroups makes one cgroup (v2) for each command, beneath one for the store in the daemon's own cgroup:
// agentd-STORE/TASK.START.N. The nil value makes none.
type cgroups struct {
	mount string // of the hierarchy
	name  string // agentd-STORE
	dir   string // absolute path of the store's own
	next  atomic.Int64
	off   atomic.Bool // the kernel refused to start a process in one
}

// cgroupName is the name of a store's cgroup.
func cgroupName(storeID string) string { return "agentd-" + storeID }

// findCgroups makes the store's cgroup, or says why there is none.
func findCgroups(storeID string) (*cgroups, error) {
	mount, root, err := cgroupMount()
	if err != nil {
		return nil, err
	}
	own, ok := cgroupOf(os.Getpid())
	if !ok {
		return nil, errors.New("this process is in no cgroup of version 2")
	}
	rel, err := filepath.Rel(root, own)
	if err != nil {
		return nil, err
	}
	c := &cgroups{mount: mount, name: cgroupName(storeID)}
	c.dir = filepath.Join(mount, rel, c.name)
	if err := os.Mkdir(c.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return c, nil
}

// cgroupMount finds where cgroup v2 is mounted, and which cgroup is mounted there.
func cgroupMount() (mount, root string, err error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(table)) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && len(fields) > 4 {
			return fields[4], fields[3], nil
		}
	}
	return "", "", errors.New("cgroup v2 is not mounted")
}

// cgroupOf is the path of the process's cgroup in the v2 hierarchy.
func cgroupOf(pid int) (string, bool) {
	table, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(table)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n"), true
		}
	}
	return "", false
}

// inCgroupOf tells whether the process is in a cgroup of that name or beneath one.
func inCgroupOf(pid int, name string) bool {
	path, _ := cgroupOf(pid)
	return strings.Contains(path+"/", "/"+name+"/")
}

// make makes the cgroup of one command and lets attr start a process in it. The caller closes the file after the
// start. Without cgroups dir is empty.
func (c *cgroups) make(o Owner, attr *syscall.SysProcAttr) (dir string, file *os.File) {
	if c == nil || c.off.Load() {
		return "", nil
	}
	name := o.TaskID + "." + strconv.Itoa(o.Start) + "." + strconv.FormatInt(c.next.Add(1), 10)
	dir = filepath.Join(c.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", nil
	}
	file, err := os.Open(dir)
	if err != nil {
		removeCgroup(dir)
		return "", nil
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(file.Fd())
	return dir, file
}

// of are the cgroups of the tasks that are wanted.
func (c *cgroups) of(wanted func(taskID string) bool) []string {
	if c == nil {
		return nil
	}
	return callDirs(c.dir, func(m mark) bool { return wanted(m.task) })
}

// everywhere finds the store's cgroups in the whole hierarchy: an earlier daemon may have run in another one.
func (c *cgroups) everywhere() []string {
	if c == nil {
		return nil
	}
	var dirs []string
	_ = filepath.WalkDir(c.mount, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && d.Name() == c.name:
			dirs = append(dirs, path)
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir // not ours to see, or just gone
		}
		return nil
	})
	return dirs
}

// close removes the store's cgroup.
func (c *cgroups) close() error {
	if c == nil {
		return nil
	}
	if err := os.Remove(c.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// callDirs are the cgroups of commands in a store's cgroup whose mark is wanted.
func callDirs(storeDir string, wanted func(mark) bool) []string {
	entries, err := os.ReadDir(storeDir)
	if err != nil {
		return nil
	}
	store := strings.TrimPrefix(filepath.Base(storeDir), cgroupName(""))
	var dirs []string
	for _, e := range entries {
		task, rest, _ := strings.Cut(e.Name(), ".")
		start, _, _ := strings.Cut(rest, ".")
		if e.IsDir() && wanted(mark{store, task, start}) {
			dirs = append(dirs, filepath.Join(storeDir, e.Name()))
		}
	}
	return dirs
}

// subtree is a cgroup with all beneath it, the deepest last.
func subtree(dir string) []string {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// membersOf are the pids in the cgroups and beneath them.
func membersOf(cgroups []string) map[int]bool {
	pids := make(map[int]bool)
	for _, top := range cgroups {
		for _, dir := range subtree(top) {
			list, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for line := range strings.Lines(string(list)) {
				if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
					pids[pid] = true
				}
			}
		}
	}
	return pids
}

// killCgroups kills all members at once, forks under way included. Where the kernel cannot (before 5.14), or the daemon
// itself is inside, the members are left to single signals.
func killCgroups(cgroups []string) {
	for _, dir := range cgroups {
		if !membersOf([]string{dir})[os.Getpid()] {
			_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0)
		}
	}
}

// removeCgroups removes cgroups whose members have ended, and tells whether none is left.
func removeCgroups(cgroups []string) bool {
	gone := true
	for _, dir := range cgroups {
		gone = removeCgroup(dir) && gone
	}
	return gone
}

// removeCgroup removes a cgroup and what was made in it, and tells whether it is gone.
func removeCgroup(dir string) bool {
	dirs := subtree(dir)
	for i := len(dirs) - 1; i >= 0; i-- {
		_ = unix.Rmdir(dirs[i])
	}
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}
