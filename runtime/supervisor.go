// Package runtime is the Supervisor: it owns every task's loop from the queue to the terminal state. A spawn is
// acknowledged when it is on disk; work belongs to the supervisor, never to the call that asked for it; and a restart
// finds in the store all there is to go on with.
package runtime

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/definition"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/runtime/view"
)

// DefaultAgent is the definition of a spawn that names none.
const DefaultAgent = "general"

// How long running steps get when the daemon stops, and then, cut off, to return.
const (
	drainTime = 20 * time.Second
	cutTime   = 5 * time.Second
)

// returnTime is how long a loop may take to return when its task is terminal, before it counts as stuck.
const returnTime = 5 * time.Second

// pruneEvery is how often rows that have served their time are dropped.
const pruneEvery = time.Hour

// Processes is what the supervisor needs of a sandbox.
type Processes interface {
	// Shell gives one start of a task its shell.
	Shell(o sandbox.Owner, on sandbox.Events) sandbox.Shell
	// Launch starts a command that waits for its release.
	Launch(o sandbox.Owner, c sandbox.Command, stdout, stderr io.Writer) (*sandbox.Running, error)
	// Kill ends all processes of a task and tells which.
	Kill(ctx context.Context, taskID string) ([]sandbox.Process, error)
	// Sweep ends what an earlier daemon left and counts it.
	Sweep(ctx context.Context, recorded []sandbox.Process) (int, error)
}

// Config is what a Supervisor works with.
type Config struct {
	Journal      *journal.Journal
	Model        model.Model
	DefaultModel string // of spawns that name none; empty: no model is configured
	Facts        func(name string) model.Facts
	Tools        tool.Set
	Processes    Processes
	View         *view.View
	Live         *view.Live // takes live text
	Workspaces   []string   // canonical roots that workspaces must lie beneath; empty: anywhere
	MaxRunning   int        // agents at once
	MaxShells    int        // shells at once
	ShellQuota   int64      // bytes that are kept of a shell's output; 0: DefaultShellQuota
	ShellTotal   int64      // bytes that are kept of all living shells' output; 0: DefaultShellTotal
	MaxDepth     int        // levels of tasks below a client's spawn
	MaxItems     int        // agents of a group
	MaxAtOnce    int        // of them side by side, when the spawn does not say; 1 to MaxItems
	Definitions  *definition.Registry
	Protocol     team.Protocol // words between agents; what it lacks is plain
	MaxHops      int           // how often what agents send may go from one to the next; 0: DefaultMaxHops
	Now          func() time.Time
	Log          *slog.Logger
}

// Supervisor runs tasks. Its methods are safe for concurrent use.
type Supervisor struct {
	cfg       Config
	due       *deadlines
	draining  chan struct{} // closed when no new step may begin
	reachable chan struct{} // closed when clients may come
	suspects  chan task.ID  // to be resumed alone
	shells    *allowance    // of what shells write
	waits     *waits
	histories *histories
	post      *team.Post
	errand    chan struct{} // some outbox may hold something
	work      sync.WaitGroup

	mu       sync.Mutex
	launch   func(l *loop, alone bool) // gives a loop its goroutine; nil until the recovery is done
	pools    map[task.Kind]*pool
	held     bool // a suspect is alone: no other task starts
	loops    map[task.ID]*loop
	stuck    map[*loop]bool  // of tasks that have ended, which have not returned in time
	attached map[task.ID]int // clients whose streams follow a spawn
	takes    bool            // a takeUp waits for the store
	errands  map[string]bool // teams whose outbox may hold something
	stopped  bool
}

// New makes a supervisor; Serve starts it.
func New(cfg Config) *Supervisor {
	cfg.ShellQuota = cmp.Or(cfg.ShellQuota, DefaultShellQuota)
	cfg.Protocol = cfg.Protocol.Whole()
	cfg.MaxHops = cmp.Or(cfg.MaxHops, DefaultMaxHops)
	s := &Supervisor{
		post: team.NewPost(cfg.Journal), errand: make(chan struct{}, 1),
		cfg: cfg, due: newDeadlines(), draining: make(chan struct{}), reachable: make(chan struct{}),
		suspects: make(chan task.ID, 1), waits: newWaits(), histories: newHistories(), loops: map[task.ID]*loop{}, stuck: map[*loop]bool{}, attached: map[task.ID]int{}, errands: map[string]bool{},
		pools: newPools(cfg.MaxRunning, cfg.MaxShells), shells: &allowance{left: cmp.Or(cfg.ShellTotal, DefaultShellTotal)},
	}
	cfg.Journal.OnWork(s.onWork)
	return s
}

// onWork takes up what a commit has left to do.
func (s *Supervisor) onWork(team string, id task.ID) {
	if id == "" {
		s.runErrandsSoon(team)
		return
	}
	s.wake(team, id)
}

// Serve recovers what the store says is unfinished and works until ctx ends. Then no new step begins, running steps get
// 20 s, and what still runs is cut off at its last commit. A loop that does not return within 5 s more is left behind.
func (s *Supervisor) Serve(ctx context.Context) error {
	reach := sync.OnceFunc(func() { close(s.reachable) })
	err := s.persist(ctx, func() error {
		err := s.recover(ctx)
		if journal.IsFault(err) {
			s.cfg.Log.Warn("the recovery waits for the store; until then only reads are served", "error", err)
			reach() // it may take until somebody makes room on the disk, and has to be seen
		}
		return err
	})
	if err != nil {
		return err
	}
	work, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(context.Canceled)
	s.mu.Lock()
	s.launch = s.launcher(work)
	s.dispatchAll()
	s.mu.Unlock()
	reach()
	s.background(func() { s.resumeSuspects(work) })
	s.background(func() { s.runErrands(work) })
	s.background(func() { s.finishDeletions(work) })
	s.loopDeadlines(ctx)
	s.drain(cut)
	return nil
}

// loopDeadlines fires what is due and prunes, until ctx ends.
func (s *Supervisor) loopDeadlines(ctx context.Context) {
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	for {
		timer := s.due.timer(s.cfg.Now())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-prune.C:
			s.background(func() { s.prune(ctx) })
		case <-s.due.changed:
		case <-timer.C:
			for _, d := range s.due.take(s.cfg.Now()) {
				s.background(func() { s.fire(ctx, d) })
			}
		}
		timer.Stop()
	}
}

func (s *Supervisor) prune(ctx context.Context) {
	teams, err := s.cfg.Journal.AllTeams(ctx)
	err = errors.Join(err, s.cfg.Journal.Prune(ctx, journal.Daemon))
	for _, team := range teams {
		err = errors.Join(err, s.cfg.Journal.Prune(ctx, team.ID))
	}
	if err != nil {
		s.cfg.Log.Warn("old rows were not dropped; the next hour tries again", "error", err)
	}
}

func (s *Supervisor) drain(cut context.CancelCauseFunc) {
	s.mu.Lock()
	s.stopped = true
	close(s.draining) // under mu: who is refused for the one sees the other
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-time.After(drainTime):
		s.cfg.Log.Warn("running steps are cut off at their last commit")
	}
	cut(errShutdown)
	select {
	case <-done:
	case <-time.After(cutTime):
		s.cfg.Log.Error("loops do not return and are left behind", "tasks", len(s.running()))
	}
}

// background runs f as work of the supervisor, unless it has stopped.
func (s *Supervisor) background(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.work.Go(f)
	}
}

// Reachable is closed when clients may come: what an earlier daemon left is on its way again, or its recovery waits for
// a store that can't commit. Then calls that change something are Unavailable until the recovery is done.
func (s *Supervisor) Reachable() <-chan struct{} { return s.reachable }

// Counts tells how many tasks wait for their start, how many loops of agents and shells hold a slot, and how many loops
// did not return after a KILL.
func (s *Supervisor) Counts() (queued, running, stuck int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stuck = len(s.stuck)
	for _, l := range s.loops {
		if !l.ended.IsZero() && s.cfg.Now().Sub(l.ended) >= returnTime {
			stuck++
		}
	}
	for kind, p := range s.pools {
		if kind == task.Teammate {
			continue // they share the pool of subagents
		}
		queued += p.queue.len() + p.woken.len()
		if kind != task.Group {
			running += p.used
		}
	}
	return queued, running, stuck
}

// isDraining tells whether the daemon stops.
func (s *Supervisor) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// ready refuses calls that come too early or too late.
func (s *Supervisor) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.launch == nil {
		return notServing()
	}
	return nil
}

func notServing() error {
	return errdefs.New(errdefs.Unavailable, errdefs.ShuttingDown, "", "the daemon is not ready or is stopping; try again soon")
}
