package runtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/bolt"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "latch" {
		os.Exit(sandbox.Latch(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// house is a supervisor on a real store with real tools, and a model that the test plays.
type house struct {
	t         *testing.T
	dir       string // state
	workspace string
	model     modelFunc
	wrap      func(store.Store) store.Store
	tools     []tool.Tool
	running   int
	bubble    bool // inside synctest: no processes

	journal *journal.Journal
	view    *view.View
	sup     *runtime.Supervisor
	kill    func() // as SIGKILL does, as far as one process can: nothing more is committed
	stop    func() // in order
}

type modelFunc func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error)

func (f modelFunc) Call(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
	return f(ctx, req, sink)
}

// newHouse makes a house and starts it. Set up what differs in the options.
func newHouse(t *testing.T, m modelFunc, options ...func(*house)) *house {
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
	cut := &cutStore{Store: file}
	var st store.Store = cut
	if h.wrap != nil {
		st = h.wrap(cut)
	}
	h.journal, err = journal.Open(ctx, st, time.Now, log)
	h.must(err)
	var processes runtime.Processes = noProcesses{}
	if !h.bubble {
		box, err := sandbox.New(sandbox.Config{
			StoreID: h.journal.StoreID(), Helper: []string{"/proc/self/exe", "latch"}, Homes: filepath.Join(h.dir, "homes"),
			Path: os.Getenv("PATH"), Log: log,
		})
		h.must(err)
		h.t.Cleanup(func() { _ = box.Close() })
		processes = box
	}
	live := view.NewLive()
	h.view = view.New(h.journal, live, time.Now)
	h.sup = runtime.New(runtime.Config{
		Journal: h.journal, Model: h.model, DefaultModel: "test", ModelHint: "set --model",
		Tools: tool.NewSet(append(tool.Builtin(), h.tools...)...), Processes: processes, View: h.view, Live: live,
		MaxRunning: h.running, Now: time.Now, Log: log,
	})
	var parts sync.WaitGroup
	journalCtx, stopJournal := context.WithCancel(context.Background())
	parts.Go(func() { h.must(h.sup.Serve(ctx)) })
	var journalDone sync.WaitGroup
	journalDone.Go(func() { h.must(h.journal.Run(journalCtx)) })
	<-h.sup.Recovered()
	var once sync.Once
	end := func(before func()) {
		once.Do(func() {
			before()
			cancel()
			parts.Wait()
			stopJournal()
			journalDone.Wait()
			h.must(file.Close())
		})
	}
	h.kill = func() { end(cut.cut) }
	h.stop = func() { end(func() {}) }
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
	a := task.Assignment{From: "user", Caller: "test", Workspace: h.workspace, Prompt: prompt}
	for _, m := range more {
		m(&a)
	}
	id, err := h.sup.Spawn(context.Background(), a)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// result waits for the end of a task.
func (h *house) result(id task.ID) task.Result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
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

// text makes an answer that ends the turn.
func text(s string) model.Response {
	return model.Response{Text: s, Finish: model.FinishStop, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}}
}

// call makes an answer that asks for tools: name and arguments in turn.
func call(nameArgs ...string) model.Response {
	r := model.Response{Finish: model.FinishCalls, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}}
	for i := 0; i < len(nameArgs); i += 2 {
		r.Calls = append(r.Calls, model.ToolCall{ID: fmt.Sprint("p", i), Name: nameArgs[i], Arguments: nameArgs[i+1]})
	}
	return r
}

// play answers by the number of answers in the history.
func play(answers ...model.Response) modelFunc {
	return func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		n := 0
		for _, m := range req.Messages {
			if m.Role == model.Assistant {
				n++
			}
		}
		if n >= len(answers) {
			return text("the play is over"), nil
		}
		return answers[n], nil
	}
}

// cutStore is a store that a killed daemon can no longer write.
type cutStore struct {
	store.Store
	mu   sync.Mutex
	dead bool
}

func (c *cutStore) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
}

func (c *cutStore) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	c.mu.Lock()
	dead := c.dead
	c.mu.Unlock()
	if dead {
		return store.Committed{}, fmt.Errorf("the daemon is dead")
	}
	return c.Store.Commit(ctx, b)
}

// noProcesses is for tests in a bubble, whose tools start none.
type noProcesses struct{}

func (noProcesses) Shell(sandbox.Owner, []string, sandbox.Started, sandbox.Ended) sandbox.Shell {
	return sandbox.Shell{}
}
func (noProcesses) Kill(context.Context, string) (int, error) { return 0, nil }
func (noProcesses) Sweep(context.Context, []sandbox.Process, func(string) bool) (int, error) {
	return 0, nil
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p)
	return len(p), nil
}
