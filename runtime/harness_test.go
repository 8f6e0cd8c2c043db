package runtime_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/definition"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team/wire"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/bolt"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "latch" {
		os.Exit(sandbox.Latch(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == "listen" {
		listen(os.Args[2])
	}
	os.Exit(m.Run())
}

// house is a supervisor on a real store with real tools, and a model that the test plays.
type house struct {
	t         testing.TB
	dir       string // state
	workspace string
	model     modelFunc
	wrap      func(store.Store) store.Store
	trusts    bool // histories are not checked
	tools     []tool.Tool
	running   int
	items     int                    // of a group; 0: as by default
	facts     map[string]model.Facts // by model; "test" is the default one
	roots     []string               // --workspace
	processes runtime.Processes      // nil: a real sandbox
	quota     int64                  // of a shell's output; 0: the default
	total     int64                  // of all shells' output; 0: the default

	journal *journal.Journal
	view    *view.View
	sup     *runtime.Supervisor
	cut     *cutStore
	kill    func() // as SIGKILL does, as far as one process can: nothing more is committed
	stop    func() // in order
}

// inBubble is the option of a house inside synctest, where no process can be waited for.
func inBubble(h *house) { h.processes = noProcesses{} }

// slots is the option of how many loops may run at once.
func slots(n int) func(*house) { return func(h *house) { h.running = n } }

// with is the option of more tools.
func with(tools ...tool.Tool) func(*house) { return func(h *house) { h.tools = tools } }

type modelFunc func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error)

func (f modelFunc) Call(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
	return f(ctx, req, sink)
}

// strict is a model that refuses every history that the strictest server would.
type strict struct {
	t testing.TB
	modelFunc
}

func (s strict) Call(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
	if err := checkHistory(req.Messages); err != nil {
		s.t.Errorf("the model got a bad history: %v\n%+v", err, req.Messages)
	}
	return s.modelFunc(ctx, req, sink)
}

// newHouse makes a house and starts it. Set up what differs in the options.
func newHouse(t testing.TB, m modelFunc, options ...func(*house)) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), workspace: t.TempDir(), model: m, running: 16}
	h.workspace, _ = filepath.EvalSymlinks(h.workspace)
	for _, option := range options {
		option(h)
	}
	h.start()
	return h
}

// start opens the store and recovers.
func (h *house) start() {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log := slog.New(slog.NewTextHandler(testWriter{h.t}, nil))
	file, err := bolt.Open(ctx, bolt.Options{Path: filepath.Join(h.dir, "agentd.db"), Log: log})
	h.must(err)
	h.cut = &cutStore{Store: file, dead: make(chan struct{})}
	var st store.Store = h.cut
	if h.wrap != nil {
		st = h.wrap(st)
	}
	h.journal, err = journal.Open(ctx, st, time.Now, log)
	h.must(err)
	processes := h.processes
	if processes == nil {
		box, err := sandbox.New(sandbox.Config{
			StoreID: h.journal.StoreID(), Helper: []string{"/proc/self/exe", "latch"}, Homes: filepath.Join(h.dir, "homes"),
			Path: os.Getenv("PATH"), Log: log,
		})
		h.must(err)
		h.t.Cleanup(func() { _ = box.Close() })
		processes = box
	}
	var asked model.Model = strict{h.t, h.model}
	if h.trusts {
		asked = h.model
	}
	live := view.NewLive()
	h.view = view.New(h.journal, live, func(id task.ID) int { return h.sup.QueuePosition(id) }, time.Now)
	h.sup = runtime.New(runtime.Config{
		Journal: h.journal, Model: asked, DefaultModel: "test",
		Facts: func(name string) model.Facts { return h.facts[name] },
		Tools: tool.NewSet(append(tool.Builtin(), h.tools...)...), Processes: processes, View: h.view, Live: live,
		Workspaces: h.roots, MaxRunning: h.running, MaxShells: 4, MaxDepth: task.MaxDepth, MaxItems: cmp.Or(h.items, task.MaxItems),
		MaxAtOnce: task.DefaultAtOnce, Protocol: wire.Protocol(), ShellQuota: h.quota, ShellTotal: h.total, Definitions: definition.New(), Now: time.Now, Log: log,
	})
	var parts sync.WaitGroup
	journalCtx, stopJournal := context.WithCancel(context.Background())
	parts.Go(func() { h.must(h.sup.Serve(ctx)) })
	var journalDone sync.WaitGroup
	journalDone.Go(func() { h.must(h.journal.Run(journalCtx)) })
	<-h.sup.Reachable()
	var once sync.Once
	end := func(killed bool) {
		once.Do(func() {
			if killed {
				h.cut.cut()
			}
			cancel()
			parts.Wait()
			stopJournal()
			journalDone.Wait()
			if !killed {
				h.must(h.journal.MarkClean(context.Background()))
			}
			h.must(file.Close())
		})
	}
	h.kill = func() { end(true) }
	h.stop = func() { end(false) }
	h.t.Cleanup(func() { h.stop() })
}

// restart is kill -9 and a new start.
func (h *house) restart() {
	h.t.Helper()
	h.kill()
	h.start()
}

func (h *house) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Error(err)
	}
}

// spawn starts a task in the workspace.
func (h *house) spawn(prompt string, more ...func(*task.Assignment)) task.ID {
	h.t.Helper()
	return h.spawnBy(h.sup.Spawn, prompt, more)
}

// follow is spawn for a client that stays attached.
func (h *house) follow(prompt string, more ...func(*task.Assignment)) task.ID {
	h.t.Helper()
	return h.spawnBy(h.sup.SpawnAttached, prompt, more)
}

func (h *house) spawnBy(
	spawn func(context.Context, task.Assignment) (task.ID, error), prompt string, more []func(*task.Assignment),
) task.ID {
	h.t.Helper()
	a := task.Assignment{From: "user", Caller: "test", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: prompt}}
	for _, m := range more {
		m(&a)
	}
	id, err := spawn(context.Background(), a)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

func sendTo(id task.ID, text string) runtime.SendRequest {
	return runtime.SendRequest{Caller: "test", To: string(id), Text: text}
}

// patience is how long a test waits for what must happen. In a bubble it costs no time and must outlast every deadline.
func (h *house) patience() time.Duration {
	if h.processes != nil {
		return 24 * time.Hour
	}
	return 30 * time.Second
}

// result waits for the end of a task.
func (h *house) result(id task.ID) task.Result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), h.patience())
	defer cancel()
	var result task.Result
	err := h.view.Output(ctx, view.OutputRequest{TaskID: id, Terminal: true}, func(i view.Item) error {
		if i.Outcome != nil {
			result = *i.Outcome
		}
		return nil
	})
	if err != nil {
		t, _ := h.view.Task(context.Background(), id)
		h.t.Fatalf("%s did not end: %v; it is %s, %s", id, err, t.State, t.Activity)
	}
	return result
}

// entries is the whole transcript so far, hidden entries too.
func (h *house) entries(id task.ID) []task.Entry {
	h.t.Helper()
	row, err := h.journal.Task(context.Background(), id)
	h.must(err)
	var all []task.Entry
	for e, err := range h.journal.Entries(context.Background(), row.Value.Team, id, 0) {
		h.must(err)
		all = append(all, e)
	}
	return all
}

// cutStore is a store that a killed daemon can no longer write.
type cutStore struct {
	store.Store
	mu    sync.Mutex
	dead  chan struct{} // closed when it is cut
	armed bool
	left  int // commits until it is cut, when armed
}

func (c *cutStore) isDead() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// cut refuses all further commits.
func (c *cutStore) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isDead() {
		close(c.dead)
	}
}

// after cuts the store right after the next n commits.
func (c *cutStore) after(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.left = true, n
}

func (c *cutStore) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isDead() {
		return store.Committed{}, errdefs.New(errdefs.Unavailable, errdefs.StoreStalled, "", "the daemon is dead")
	}
	done, err := c.Store.Commit(ctx, b)
	if c.left--; c.armed && c.left == 0 {
		close(c.dead)
	}
	return done, err
}

// noProcesses is for tests in a bubble, whose tools start none.
type noProcesses struct{}

func (noProcesses) Shell(sandbox.Owner, sandbox.Events) sandbox.Shell { return sandbox.Shell{} }
func (noProcesses) Launch(sandbox.Owner, sandbox.Command, io.Writer, io.Writer) (*sandbox.Running, error) {
	return nil, errors.ErrUnsupported
}
func (noProcesses) Kill(context.Context, string) ([]sandbox.Process, error) { return nil, nil }
func (noProcesses) Sweep(context.Context, []sandbox.Process) (int, error)   { return 0, nil }

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}
