package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime/model/script"
)

// rig is a daemon in a process of its own that a test kills and starts, with a scripted model that lives on in the test.
type rig struct {
	t         testing.TB
	workspace string
	settings  settings
	model     *script.Server
	agents    agentdv1.AgentServiceClient
	tasks     agentdv1.TaskServiceClient
	about     agentdv1.DaemonServiceClient
	conn      *grpc.ClientConn

	mu      sync.Mutex
	process *exec.Cmd
	log     strings.Builder
}

// newRig starts a daemon with a model that plays the rules.
func newRig(t testing.TB, rules string, maxRunning int, options ...func(*settings)) *rig {
	t.Helper()
	s, err := script.Parse([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, model: script.NewServer(s)}
	provider := httptest.NewServer(r.model)
	t.Cleanup(provider.Close)
	if r.workspace, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("", "agentd-test") // short: a socket's path has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(sockets) })
	r.settings = settings{
		StateDir: t.TempDir(), Socket: filepath.Join(sockets, "s"), BaseURL: provider.URL + "/v1", MaxRunning: maxRunning,
	}
	for _, option := range options {
		option(&r.settings)
	}
	conn, err := r.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.agents, r.tasks = agentdv1.NewAgentServiceClient(conn), agentdv1.NewTaskServiceClient(conn)
	r.about, r.conn = agentdv1.NewDaemonServiceClient(conn), conn
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", r.logTail())
		}
	})
	r.start()
	return r
}

// dial connects to the daemon, and again after each restart.
func (r *rig) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+r.settings.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{
			BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond,
		}, MinConnectTimeout: time.Second}))
}

// awaitFile waits until a command of an agent has made a file.
func (r *rig) awaitFile(path string) {
	r.t.Helper()
	for range 3000 {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatalf("%s was not made", path)
}

// start starts the daemon and waits until it answers.
func (r *rig) start() {
	r.t.Helper()
	arg, err := json.Marshal(r.settings)
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", daemonName, string(arg))
	cmd.Stderr = r
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	r.process = cmd
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		_, err := r.about.GetStatus(ctx, &agentdv1.GetStatusRequest{}, grpc.WaitForReady(true))
		if err == nil {
			return
		}
		if !again(err) || ctx.Err() != nil { // the connection to the killed one may fail first
			r.t.Fatalf("the daemon does not answer: %v\n%s", err, r.logTail())
		}
	}
}

// kill is kill -9.
func (r *rig) kill() { r.end(os.Kill) }

// end sends a signal, waits for the end of the process and gives its exit code.
func (r *rig) end(sig os.Signal) int {
	r.mu.Lock()
	cmd := r.process
	r.process = nil
	r.mu.Unlock()
	if cmd == nil {
		return 0
	}
	_ = cmd.Process.Signal(sig) // it may have ended by itself
	_ = cmd.Wait()              // its exit code tells
	return cmd.ProcessState.ExitCode()
}

// Write takes the daemon's log.
func (r *rig) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *rig) logTail() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 20_000
	text := r.log.String()
	return text[max(0, len(text)-most):]
}

// leftovers lists the processes of this store's tasks.
func (r *rig) leftovers(storeID string) []string {
	var left []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(env), "AGENTD_TASK="+storeID+"/") {
			left = append(left, fmt.Sprintf("%s: %s", file, strings.ReplaceAll(string(env), "\x00", " ")))
		}
	}
	return left
}
