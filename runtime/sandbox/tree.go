package sandbox

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

const (
	// killPatience is how long a killed process may take to vanish; one that waits for a dead disk never does.
	killPatience = 5 * time.Second
	// topPatience is how long the topmost processes are kept, stopped, to adopt what their descendants leave.
	topPatience = time.Second
	// maxPause bounds the time between two looks at /proc.
	maxPause = 50 * time.Millisecond
)

// tree says which processes belong together, by everything that can be known of them. Killing it is the one way in
// which processes end (T3).
//
// What is found: members of the cgroups; the roots, their groups and sessions; bearers of the mark; and the
// descendants of all these. Without a cgroup one kind escapes: a process with a cleared environment, in a session of
// its own, whose ancestors had all ended by themselves.
type tree struct {
	roots   []Process       // main processes; those that are no longer what they were are passed over
	exited  int             // pid of the root that has ended but is not reaped; 0: none
	cgroups []string        // directories
	store   string          // of the marks, never empty: what bears no mark is nobody's
	wanted  func(mark) bool // which of the store's marks
	bootID  string

	strikes func([]Process) // is told of new members before they are killed; nil: nobody is

	seen map[proc]bool // identities of all members so far: one that is dying loses its mark before its sockets
}

// kill ends the tree and returns when nothing of it runs: which processes it killed. An error names those that could
// not be killed, or is ctx's own.
func (t *tree) kill(ctx context.Context) ([]Process, error) {
	begun, overdue := time.Now(), false
	t.seen = make(map[proc]bool)
	for pause := time.Millisecond; ; pause = min(2*pause, maxPause) {
		if t.exited > 1 {
			// The zombie keeps the group's id from being reused. Unlike single signals this cannot be outrun by forks.
			_ = syscall.Kill(-t.exited, syscall.SIGKILL)
		}
		members, err := t.members()
		if err != nil {
			return t.killed(nil), errdefs.Wrap(err, errdefs.Internal, errdefs.Fault, "/proc", "cannot see which processes are left")
		}
		t.take(members)
		waited := time.Since(begun)
		if len(members) == 0 {
			// The last member leaves its cgroup a moment after it has ended. A cgroup that stays is for the next sweep.
			if removeCgroups(t.cgroups) || waited > topPatience {
				return t.killed(nil), nil
			}
		} else {
			killCgroups(t.cgroups)
			if strike(members, waited > topPatience) == 0 || overdue {
				return t.killed(members), resisting(members)
			}
			overdue = waited > killPatience // then one more look: this one may have taken that long
		}
		select {
		case <-ctx.Done():
			return t.killed(members), context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// take takes notice of members that are about to be killed.
func (t *tree) take(members []proc) {
	var fresh []Process
	for _, p := range members {
		if !t.seen[p.identity()] {
			t.seen[p.identity()] = true
			fresh = append(fresh, t.process(p))
		}
	}
	if t.strikes != nil && len(fresh) > 0 {
		t.strikes(fresh)
	}
}

// killed are all members so far but those that are left.
func (t *tree) killed(left []proc) []Process {
	for _, p := range left {
		delete(t.seen, p.identity())
	}
	killed := make([]Process, 0, len(t.seen))
	for p := range t.seen {
		killed = append(killed, t.process(p))
	}
	return killed
}

func (t *tree) process(p proc) Process {
	return Process{PID: p.pid, StartTime: p.start, BootID: t.bootID}
}

// resisting is the error about processes that could not be killed.
func resisting(left []proc) error {
	pids := make([]string, len(left))
	for i, p := range left {
		pids[i] = strconv.Itoa(p.pid)
	}
	list := strings.Join(pids, " ")
	return errdefs.New(errdefs.Internal, errdefs.Fault, list, "processes that cannot be killed: %s", list)
}

// members are the living processes of the tree as they are now: never the daemon itself or what it started otherwise,
// and never init, whose pid as a group means every process to kill(2).
func (t *tree) members() ([]proc, error) {
	all, err := processes()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p proc) bool { return p.pid <= 1 || p.pid == os.Getpid() })
	children := make(map[int][]proc)
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	seen := make(map[int]bool)
	var living []proc
	for queue := t.known(all); len(queue) > 0; {
		p := queue[0]
		queue = queue[1:]
		if seen[p.pid] {
			continue
		}
		seen[p.pid] = true
		queue = append(queue, children[p.pid]...)
		if !p.dead {
			living = append(living, p)
		}
	}
	return living, nil
}

// known are the processes that belong to the tree by something of their own.
func (t *tree) known(all []proc) []proc {
	roots := t.verified(all)
	confined := membersOf(t.cgroups)
	var known []proc
	for _, p := range all {
		in := t.seen[p.identity()] || confined[p.pid] || roots[p.pid] || roots[p.group] || roots[p.session]
		if !in && !p.dead {
			m, _ := markOf(p.pid)
			in = t.bears(m)
		}
		if in {
			known = append(known, p)
		}
	}
	return known
}

// bears tells whether a process with the mark belongs to the tree.
func (t *tree) bears(m mark) bool { return m.store != "" && m.store == t.store && t.wanted(m) }

// verified are the pids of the roots that still are what they were when they started.
func (t *tree) verified(all []proc) map[int]bool {
	starts := make(map[int]uint64, len(t.roots))
	for _, r := range t.roots {
		starts[r.PID] = r.StartTime
	}
	roots := make(map[int]bool)
	for _, p := range all {
		if start, ok := starts[p.pid]; ok && start == p.start {
			roots[p.pid] = true
		}
	}
	return roots
}

// strike kills members and returns how many it could. The topmost are only stopped while there are others: a main
// process adopts orphans (see Latch), so what forks away meanwhile stays in sight beneath it.
func strike(members []proc, all bool) int {
	in := make(map[int]bool, len(members))
	for _, p := range members {
		in[p.pid] = true
	}
	var tops, others []proc
	for _, p := range members {
		if in[p.parent] {
			others = append(others, p)
		} else {
			tops = append(tops, p)
		}
	}
	for _, p := range tops {
		p.stop()
	}
	struck := killEach(others)
	if all || struck == 0 {
		struck += killEach(tops)
	}
	return struck
}

// killEach kills processes and returns how many it was allowed to.
func killEach(ps []proc) int {
	struck := 0
	for _, p := range ps {
		if err := p.signal(syscall.SIGKILL); err == nil || errors.Is(err, os.ErrProcessDone) {
			struck++
		}
	}
	return struck
}

// identity is what stays the same of a process while it lives.
func (p proc) identity() proc { return proc{pid: p.pid, start: p.start} }

// stop halts a process, with its group when it leads one.
func (p proc) stop() {
	if now, ok := readProc(p.pid); ok && now.start == p.start && p.group == p.pid {
		_ = syscall.Kill(-p.pid, syscall.SIGSTOP)
		return
	}
	_ = p.signal(syscall.SIGSTOP)
}

// signal sends a signal to this process, never to another one that got its pid.
func (p proc) signal(sig syscall.Signal) error {
	process, err := os.FindProcess(p.pid) // holds a pidfd, so that the check below stays true
	if err != nil {
		return err
	}
	defer func() { _ = process.Release() }()
	if now, ok := readProc(p.pid); !ok || now.start != p.start {
		return os.ErrProcessDone
	}
	return process.Signal(sig)
}
