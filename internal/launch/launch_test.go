package launch

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// TestMain makes real programs of two functions, beside each other in one directory in PATH.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"agentd": fakeDaemon, "ensure": ensureMain})
}

// ensureMain is all that agentctl does to have a daemon.
func ensureMain() {
	ctx, cancel := signalContext()
	defer cancel()
	if err := Ensure(ctx, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fakeDaemon does what launch relies on: one lock per state directory, a gRPC server on the socket, errors on stderr.
func fakeDaemon() {
	flags := map[string]string{}
	for _, arg := range os.Args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		flags[name] = value
	}
	if os.Args[1] == "model-server" {
		fmt.Printf("listening on http://127.0.0.1:1/v1?script=%s\n", flags["--script"])
		select {}
	}
	if flags["--model"] == "broken" {
		fmt.Fprintln(os.Stderr, "the store was written by a newer agentd (SCHEMA_TOO_NEW)")
		os.Exit(1)
	}
	dir := flags["--state-dir"]
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		fmt.Fprintln(os.Stderr, "ALREADY_RUNNING")
		os.Exit(1)
	}
	starts, _ := os.OpenFile(filepath.Join(dir, "starts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	cwd, _ := os.Getwd()
	fmt.Fprintln(starts, os.Getpid(), cwd, strings.Join(os.Args[1:], " "))
	os.WriteFile(filepath.Join(dir, "env"), []byte(strings.Join(os.Environ(), "\n")), 0o600)
	socket := strings.TrimPrefix(flags["--listen"], "unix://")
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	grpc.NewServer().Serve(listener)
}

// home is a user's environment in a directory of the test; its daemons are killed at the end.
type home struct {
	dir string
	env []string
}

func newHome(t *testing.T, extra ...string) *home {
	t.Helper()
	h := &home{dir: t.TempDir()}
	h.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + h.dir, "XDG_STATE_HOME=" + h.dir, "OPENAI_API_KEY=sk-1",
		"SECRET=s", "HTTPS_PROXY=p", "LANG=C.UTF-8",
	}, extra...)
	t.Cleanup(func() {
		for _, start := range h.starts(t) {
			syscall.Kill(start.pid, syscall.SIGKILL)
		}
	})
	return h
}

type start struct {
	pid  int
	line string
}

// starts lists the daemons that got the lock.
func (h *home) starts(t *testing.T) []start {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "agentd", "starts"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var all []start
	for line := range strings.Lines(string(text)) {
		pid, err := strconv.Atoi(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, start{pid, line})
	}
	return all
}

func (h *home) ensure() *exec.Cmd {
	cmd := exec.Command("ensure")
	cmd.Env = h.env
	return cmd
}

func TestManyStartsAtOnceGiveOneDaemon(t *testing.T) {
	h := newHome(t)
	var all []*exec.Cmd
	for range 8 {
		cmd := h.ensure()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for _, cmd := range all {
		if err := cmd.Wait(); err != nil {
			t.Errorf("a start failed: %v", err)
		}
	}
	if starts := h.starts(t); len(starts) != 1 {
		t.Errorf("%d daemons were started: %v", len(starts), starts)
	}
}

// case SAF-7
func TestAutoStartedDaemonGetsLittleOfTheShell(t *testing.T) {
	h := newHome(t, "OPENAI_BASE_URL=http://127.0.0.1:9/v1", "AGENTD_MODEL=m")
	if out, err := h.ensure().CombinedOutput(); err != nil || !strings.Contains(string(out), "started agentd (pid ") {
		t.Fatalf("%v: %s", err, out)
	}
	env, err := os.ReadFile(filepath.Join(h.dir, "agentd", "env"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for kv := range strings.SplitSeq(string(env), "\n") {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "LANG OPENAI_API_KEY PATH XDG_RUNTIME_DIR XDG_STATE_HOME" {
		t.Errorf("the daemon's environment has %s", got)
	}
	line := h.starts(t)[0].line
	for _, want := range []string{" / ", " --base-url=http://127.0.0.1:9/v1", " --model=m", " --auto-started"} {
		if !strings.Contains(line, want) {
			t.Errorf("the daemon was started without %q: %s", want, line)
		}
	}
}

// case SAF-8
func TestSocketOfAKilledDaemonDoesNotHinderTheNext(t *testing.T) {
	h := newHome(t)
	for i := range 2 {
		if out, err := h.ensure().CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		starts := h.starts(t)
		if len(starts) != i+1 {
			t.Fatalf("%d starts, want %d", len(starts), i+1)
		}
		pid := starts[i].pid
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		syscall.Kill(pid, syscall.SIGKILL)
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
}

func TestDaemonThatExitsShowsItsLog(t *testing.T) {
	h := newHome(t, "AGENTD_MODEL=broken")
	out, err := h.ensure().CombinedOutput()
	if err == nil || !strings.Contains(string(out), "did not start (exit status 1):\nthe store was written") || !strings.Contains(string(out), "agentd.log") {
		t.Errorf("%v, and the output lacks the log: %s", err, out)
	}
}

func TestStartAndKill(t *testing.T) {
	dir := t.TempDir()
	binary, err := exec.LookPath("agentd")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	options := Options{Binary: binary, StateDir: filepath.Join(dir, "state"), Socket: socket, Env: []string{"A=1"}}
	for range 2 {
		d, err := Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if d.Addr() != "unix://"+socket || !Answers(t.Context(), socket) {
			t.Errorf("%s does not answer", d.Addr())
		}
		if err := d.Kill(); err != nil {
			t.Error(err)
		}
		if Answers(t.Context(), socket) {
			t.Error("a killed daemon answers")
		}
		if err := d.Kill(); err != nil {
			t.Errorf("the second kill: %v", err)
		}
	}
}

func TestStartModelServer(t *testing.T) {
	binary, err := exec.LookPath("agentd")
	if err != nil {
		t.Fatal(err)
	}
	server, err := StartModelServer(t.Context(), binary, "/x.yaml", filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	if want := "http://127.0.0.1:1/v1?script=/x.yaml"; server.URL != want {
		t.Errorf("URL %s, want %s", server.URL, want)
	}
	if _, err := StartModelServer(t.Context(), "/bin/true", "/x", filepath.Join(t.TempDir(), "log")); err == nil {
		t.Error("a program that says nothing counts as a model server")
	}
}
