package sandbox

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// TaskVariable is the environment variable that marks every process of a task: STORE/TASK/START.
const TaskVariable = "AGENTD_TASK"

// defaultQuota is the head of an output that is kept, in bytes (O4).
const defaultQuota = 1 << 20

// Config is what a Sandbox needs to know.
type Config struct {
	StoreID string   // of the daemon's store: marks its processes
	Helper  []string // argv that ends up in Latch with the arguments after it, such as /proc/self/exe latch
	Homes   string   // absolute directory that holds the private home of each team
	Path    string   // PATH of the commands; empty: none
	Lang    string   // LANG; empty: none
	TZ      string   // TZ; empty: none
	EnvPass []string // names of the daemon's own variables that the commands get too
	Quota   int      // head of an output that is kept, in bytes; 0: 1 MiB
	Log     *slog.Logger
}

// Owner is the start of a task that processes belong to.
type Owner struct {
	TaskID string
	TeamID string // whose home the processes get
	Start  int    // the task's start number
}

// Sandbox starts and ends the process trees of one daemon. It is safe for concurrent use.
type Sandbox struct {
	cfg     Config
	env     []string // what every command gets
	bootID  string
	cgroups *cgroups // nil: none can be made here

	mu    sync.Mutex
	roots map[Process]Owner // main processes that Run has not reaped
}

// New makes the sandbox of a daemon. Where no cgroup can be made, trees are found by their marks in /proc alone.
func New(cfg Config) (*Sandbox, error) {
	if cfg.StoreID == "" || strings.ContainsAny(cfg.StoreID, "/.") {
		return nil, errdefs.BadField("store_id", "must be a name without slashes and dots")
	}
	if len(cfg.Helper) == 0 {
		return nil, errdefs.BadField("helper", "the command that waits at the latch is missing")
	}
	if cfg.Quota == 0 {
		cfg.Quota = defaultQuota
	}
	boot, err := bootID()
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.Internal, errdefs.Fault, "boot id", "cannot tell this boot from others")
	}
	s := &Sandbox{cfg: cfg, env: baseEnv(cfg), bootID: boot, roots: make(map[Process]Owner)}
	if s.cgroups, err = findCgroups(cfg.StoreID); err != nil {
		cfg.Log.Info("no cgroups: process trees are found by their marks alone", "cause", err)
	}
	return s, nil
}

// Close removes what the sandbox made for itself. Every Run must have returned.
func (s *Sandbox) Close() error { return s.cgroups.close() }

// Kill ends all processes of a task, whichever start they belong to, and tells which. What resists for some seconds
// is named in the error.
func (s *Sandbox) Kill(ctx context.Context, taskID string) (killed []Process, err error) {
	is := func(task string) bool { return task == taskID }
	t := s.treeOf(func(m mark) bool { return is(m.task) })
	t.roots = s.rootsOf(is)
	t.cgroups = s.cgroups.of(is)
	return t.kill(ctx)
}

// Sweep ends what earlier lives of the daemon left running, and says how many processes. It finds them by this store's
// mark or cgroup wherever they are, and by the recorded processes that still are what was recorded: a reused
// pid is left alone.
func (s *Sandbox) Sweep(ctx context.Context, recorded []Process) (reaped int, err error) {
	t := s.treeOf(func(mark) bool { return true })
	for _, p := range recorded {
		if p.BootID == s.bootID {
			t.roots = append(t.roots, p)
		}
	}
	leftovers := s.cgroups.everywhere()
	for _, dir := range leftovers {
		t.cgroups = append(t.cgroups, callDirs(dir, t.wanted)...)
	}
	killed, err := t.kill(ctx)
	for _, dir := range leftovers {
		if s.cgroups == nil || dir != s.cgroups.dir {
			removeCgroup(dir)
		}
	}
	return len(killed), err
}

// OwnsProcess tells whether the process belongs to a task of this store: by cgroup, or by the mark in its own or an
// ancestor's environment (P8). A process that cannot be looked at counts as owned.
func (s *Sandbox) OwnsProcess(pid int) bool {
	if inCgroupOf(pid, cgroupName(s.cfg.StoreID)) {
		return true
	}
	mark, readable := markOf(pid)
	if !readable || mark.store == s.cfg.StoreID {
		return true
	}
	for p, ok := readProc(pid); ok && p.parent > 0; p, ok = readProc(p.parent) {
		// An ancestor may well be unreadable: the session of an ssh login is.
		if mark, _ := markOf(p.parent); mark.store == s.cfg.StoreID {
			return true
		}
	}
	return false
}

// treeOf is the tree of all processes that bear a mark of this store that is wanted.
func (s *Sandbox) treeOf(wanted func(mark) bool) *tree {
	return &tree{store: s.cfg.StoreID, wanted: wanted, bootID: s.bootID}
}

// rootsOf are the main processes of the tasks that are wanted.
func (s *Sandbox) rootsOf(wanted func(taskID string) bool) []Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	var roots []Process
	for p, o := range s.roots {
		if wanted(o.TaskID) {
			roots = append(roots, p)
		}
	}
	return roots
}

// enroll remembers a main process until it is reaped.
func (s *Sandbox) enroll(p Process, o Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roots[p] = o
}

// dismiss forgets a main process.
func (s *Sandbox) dismiss(p Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.roots, p)
}

// baseEnv is the part of a command's environment that is the same for all (P7): built, never inherited.
func baseEnv(cfg Config) []string {
	var env []string
	for _, name := range cfg.EnvPass {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, v := range [][2]string{{"PATH", cfg.Path}, {"LANG", cfg.Lang}, {"TZ", cfg.TZ}} {
		if v[1] != "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// environ is the whole environment of an owner's command. It makes the team's home.
func (s *Sandbox) environ(o Owner, own []string) ([]string, error) {
	home := filepath.Join(s.cfg.Homes, o.TeamID)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, home, "cannot make the team's home directory")
	}
	env := slices.Concat([]string{"HOME=" + home}, s.env, own)
	// The last one of a name counts.
	return append(env, TaskVariable+"="+s.mark(o).String()), nil
}

// mark is the mark of an owner's processes.
func (s *Sandbox) mark(o Owner) mark { return mark{s.cfg.StoreID, o.TaskID, strconv.Itoa(o.Start)} }
