package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/definition"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/server/auth"
	"github.com/agentd-dev/agentd/store/bolt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a server on a unix socket over a real supervisor and store, with a model that the test plays.
type house struct {
	t         *testing.T
	workspace string
	socket    string
	log       *buffer
	view      *view.View
	stalled   atomic.Bool
	stop      func() // the server alone, and waits for it

	agents agentdv1.AgentServiceClient
	tasks  agentdv1.TaskServiceClient
	daemon agentdv1.DaemonServiceClient
}

// play is a model.
type play func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error)

// Call plays.
func (p play) Call(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
	return p(ctx, req, sink)
}

// says answers always the same.
func says(text string) play {
	return func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
		return model.Response{Text: text, Finish: model.FinishStop, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}}, nil
	}
}

// held is a model that keeps its callers waiting.
type held struct {
	begun chan struct{} // gets one value for each call
	more  chan struct{} // closed when it may answer
}

func hold() held { return held{make(chan struct{}, 16), make(chan struct{})} }

// Call answers when it may.
func (m held) Call(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
	m.begun <- struct{}{}
	select {
	case <-m.more:
		return says("done")(ctx, req, sink)
	case <-ctx.Done():
		return model.Response{}, ctx.Err()
	}
}

func newHouse(t *testing.T, m model.Model, options ...func(*Config)) *house {
	t.Helper()
	workspace, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	socketDir, err := os.MkdirTemp("", "agentd") // shorter than TempDir: a socket's path has a limit
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(socketDir) })
	h := &house{t: t, workspace: workspace, socket: filepath.Join(socketDir, "s"), log: &buffer{grown: make(chan struct{})}}
	log := slog.New(slog.NewTextHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	supervisor, v := startSupervisor(t, m, log)
	h.view = v
	listener, err := net.Listen("unix", h.socket)
	must(t, err)
	cfg := Config{
		Supervisor: supervisor, View: v, Log: log, Listeners: []net.Listener{listener}, Store: h.store,
		Policy: auth.NewPolicy("", func(int) bool { return false }), About: about(),
	}
	for _, option := range options {
		option(&cfg)
	}
	h.stop = run(t, New(cfg).Run)
	conn := h.dial()
	h.agents, h.tasks, h.daemon = agentdv1.NewAgentServiceClient(conn), agentdv1.NewTaskServiceClient(conn),
		agentdv1.NewDaemonServiceClient(conn)
	return h
}

// about is full.
func about() About {
	return About{
		Version: "1.2.3", PID: 42, Started: time.Unix(1, 0), StateDir: "/state", Listen: []string{"unix:///s"},
		REST: "127.0.0.1:1", StoreID: "abc", AutoStarted: true,
		Model:     ModelState{Configured: true, Model: "test", BaseURL: "http://m", APIKeyEnv: "KEY", Hint: "h"},
		Providers: []ProviderState{{Name: "local", BaseURL: "http://l", APIKeyEnv: "L", Models: []string{"small"}}},
	}
}

// startSupervisor starts all that is below the server.
func startSupervisor(t *testing.T, m model.Model, log *slog.Logger) (*runtime.Supervisor, *view.View) {
	t.Helper()
	dir := t.TempDir()
	file, err := bolt.Open(t.Context(), bolt.Options{Path: filepath.Join(dir, "agentd.db"), Log: log})
	must(t, err)
	t.Cleanup(func() { must(t, file.Close()) })
	j, err := journal.Open(t.Context(), file, time.Now, log)
	must(t, err)
	// No test starts a command, so what its helper would do does not matter.
	box, err := sandbox.New(sandbox.Config{StoreID: j.StoreID(), Helper: []string{"false"}, Homes: dir, Log: log})
	must(t, err)
	t.Cleanup(func() { must(t, box.Close()) })
	live := view.NewLive()
	v := view.New(j, live, func(task.ID) int { return 0 }, time.Now)
	supervisor := runtime.New(runtime.Config{
		Journal: j, Model: m, DefaultModel: "test", Facts: noFacts, Tools: tool.NewSet(tool.Builtin()...),
		Processes: box, View: v, Live: live, MaxRunning: 4, MaxShells: 4, MaxDepth: task.MaxDepth,
		MaxItems: task.MaxItems, MaxAtOnce: task.DefaultAtOnce, Definitions: definition.New(), Now: time.Now, Log: log,
	})
	run(t, supervisor.Serve)
	<-supervisor.Reachable()
	return supervisor, v
}

// run runs a part until the test's end, or until stop.
func run(t *testing.T, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		must(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

// store is what the status tells of the store.
func (h *house) store() StoreState {
	return StoreState{Stalled: h.stalled.Load(), Error: "e", SizeBytes: 1, Quarantined: 2, SalvagedFrom: "/old"}
}

// dial makes a connection of its own.
func (h *house) dial() *grpc.ClientConn {
	h.t.Helper()
	conn, err := grpc.NewClient("unix://"+h.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ctx bounds a test that hangs.
func (h *house) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	h.t.Cleanup(cancel)
	return ctx
}

// request is a spawn in the workspace.
func (h *house) request(prompt string) *agentdv1.SpawnRequest {
	return &agentdv1.SpawnRequest{
		Workspace: h.workspace,
		Mode:      &agentdv1.SpawnRequest_Single{Single: &agentdv1.AgentSpec{Prompt: prompt}},
	}
}

// follow begins a spawn and gives its stream after the first item, which is the task.
func (h *house) follow(ctx context.Context, req *agentdv1.SpawnRequest) (string, grpc.ServerStreamingClient[agentdv1.SpawnResponse]) {
	h.t.Helper()
	stream, err := h.agents.Spawn(ctx, req)
	must(h.t, err)
	first, err := stream.Recv()
	if err != nil || first.GetTask() == nil {
		h.t.Fatalf("first item: %v, %v", first, err)
	}
	return first.GetTask().GetId(), stream
}

// detached begins a spawn that nobody follows.
func (h *house) detached(prompt string) string {
	h.t.Helper()
	req := h.request(prompt)
	req.Detach = true
	id, stream := h.follow(h.ctx(), req)
	if item, err := stream.Recv(); !errors.Is(err, io.EOF) {
		h.t.Fatalf("after the task: %v, %v", item, err)
	}
	return id
}

// end waits for the end of a task.
func (h *house) end(id string) *agentdv1.Outcome {
	h.t.Helper()
	items, err := all(h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{
		TaskId: id, WaitFor: agentdv1.WaitFor_WAIT_FOR_TERMINAL, Tail: 1,
	}))
	must(h.t, err)
	return items[len(items)-1].GetOutcome()
}

// all reads a stream to its end.
func all[M any](stream grpc.ServerStreamingClient[M], err error) ([]*M, error) {
	var items []*M
	for err == nil {
		var item *M
		if item, err = stream.Recv(); err == nil {
			items = append(items, item)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return items, err
}

// refused checks code and reason of an error, and gives the field that it names.
func refused(t *testing.T, err error, code codes.Code, reason string) (field string) {
	t.Helper()
	st := status.Convert(err)
	if got := detail[*errdetails.ErrorInfo](st).GetReason(); st.Code() != code || got != reason {
		t.Errorf("got %s/%s (%s), want %s/%s", st.Code(), got, st.Message(), code, reason)
	}
	for _, v := range detail[*errdetails.BadRequest](st).GetFieldViolations() {
		field = v.GetField()
	}
	return field
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// buffer is a log that can be read meanwhile.
type buffer struct {
	mu    sync.Mutex
	text  bytes.Buffer
	grown chan struct{} // closed at the next write
}

// Write adds a line.
func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.grown)
	b.grown = make(chan struct{})
	return b.text.Write(p)
}

// has tells whether the text is in the log, and gives what is closed when there is more.
func (b *buffer) has(text string) (bool, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.text.String(), text), b.grown
}

// await waits for the text.
func (h *house) await(text string) {
	h.t.Helper()
	ctx := h.ctx()
	for {
		found, more := h.log.has(text)
		if found {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			h.t.Fatalf("the log never says %q", text)
		}
	}
}

// noFacts knows nothing of any model.
func noFacts(string) model.Facts { return model.Facts{} }
