package gateway

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/test/bufconn"

	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/definition"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/server"
	"github.com/agentd-dev/agentd/server/auth"
	"github.com/agentd-dev/agentd/store/bolt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "abcdefghijklmnopqrstuvwxyz"

// front is a gateway on a loopback port, over a real server, supervisor and store. The model answers when it may.
type front struct {
	t         *testing.T
	address   string
	workspace string
	more      chan struct{} // closed when the model may answer
	stalled   bool          // the store can't commit, as the status says
	stop      func()        // the gRPC server alone, and waits for it
}

// Call is the model.
func (f *front) Call(ctx context.Context, _ model.Request, _ func(model.Event)) (model.Response, error) {
	select {
	case <-f.more:
		return model.Response{
			Text: "it is done", Finish: model.FinishStop, Usage: model.Usage{InputTokens: 10, OutputTokens: 5},
		}, nil
	case <-ctx.Done():
		return model.Response{}, ctx.Err()
	}
}

func newFront(t *testing.T, options ...func(*front)) *front {
	t.Helper()
	f := &front{t: t, more: make(chan struct{})}
	for _, option := range options {
		option(f)
	}
	log := slog.New(slog.DiscardHandler)
	var err error
	f.workspace, err = filepath.EvalSymlinks(t.TempDir())
	must(t, err)
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
		Journal: j, Model: f, DefaultModel: "test", Facts: noFacts, Tools: tool.NewSet(tool.Builtin()...).Filter([]string{"ls", "read"}),
		Processes: box, View: v, Live: live, MaxRunning: 4, MaxShells: 4, MaxDepth: task.MaxDepth,
		MaxItems: task.MaxItems, MaxAtOnce: task.DefaultAtOnce, Definitions: definition.New(), Now: time.Now, Log: log,
	})
	run(t, supervisor.Serve)
	<-supervisor.Reachable()
	inner := bufconn.Listen(1 << 20)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f.address = listener.Addr().String()
	g, err := New(t.Context(), Config{Listener: listener, Dial: inner.DialContext, Token: token, Log: log})
	must(t, err)
	run(t, g.Run)
	api := server.New(server.Config{
		Supervisor: supervisor, View: v, Log: log, Listeners: []net.Listener{inner},
		Policy: auth.NewPolicy(token, func(int) bool { return false }),
		Store:  func() server.StoreState { return server.StoreState{Stalled: f.stalled} },
		About:  server.About{Version: "1.2.3", PID: 42, Started: time.Unix(1, 0), StateDir: "/state", StoreID: "abc"},
	})
	f.stop = run(t, api.Run)
	return f
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// request makes a request with the token; the body is JSON, "" for none.
func (f *front) request(method, path, body string) *http.Request {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	f.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://"+f.address+path, strings.NewReader(body))
	must(f.t, err)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// do makes a request and reads the whole answer.
func (f *front) do(r *http.Request) (*http.Response, string) {
	f.t.Helper()
	resp := f.open(r)
	body, err := io.ReadAll(resp.Body)
	must(f.t, err)
	return resp, string(body)
}

// open makes a request and leaves the body open until the test's end.
func (f *front) open(r *http.Request) *http.Response {
	f.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	must(f.t, err)
	f.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// spawn is the body of a spawn in the workspace.
func (f *front) spawn(more string) string {
	f.t.Helper()
	workspace, err := json.Marshal(f.workspace)
	must(f.t, err)
	return `{"workspace":` + string(workspace) + `,"single":{"prompt":"do it"}` + more + `}`
}

// failure is an error as clients get it.
type failure struct {
	Code    int
	Message string
	Details []struct {
		Type            string `json:"@type"`
		Reason          string
		Domain          string
		FieldViolations []struct{ Field string } `json:"field_violations"`
	}
}

// refused checks an answer that is a google.rpc.Status, and gives it.
func (f *front) refused(resp *http.Response, body string, code int) failure {
	f.t.Helper()
	if resp.StatusCode != code || resp.Header.Get("Content-Type") != "application/json" {
		f.t.Errorf("%s %q, want %d: %s", resp.Status, resp.Header.Get("Content-Type"), code, body)
	}
	var failed failure
	if err := json.Unmarshal([]byte(body), &failed); err != nil || failed.Code == 0 || failed.Message == "" {
		f.t.Errorf("no google.rpc.Status: %s", body)
	}
	return failed
}

// noFacts knows nothing of any model.
func noFacts(string) model.Facts { return model.Facts{} }
