package launch

import (
	"bufio"
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
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
)

// TestMain makes real programs of two functions, beside each other in one directory in PATH.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"agentd": fakeDaemon, "ensure": ensureMain})
}

// ensureMain is all that agentctl does to have a daemon; with a pid, to have one with a model instead of that one.
func ensureMain() {
	ctx, cancel := signalContext()
	defer cancel()
	err := Ensure(ctx, os.Stderr)
	if len(os.Args) > 1 && err == nil {
		pid, _ := strconv.Atoi(os.Args[1])
		err = RestartForModel(ctx, pid, os.Stderr)
	}
	if err != nil {
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
	if os.Args[1] == "config" {
		fakeConfig(flags)
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
	lock, err := os.OpenFile(filepath.Join(dir, "agentd.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil || unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		fmt.Fprintln(os.Stderr, "ALREADY_RUNNING")
		os.Exit(1)
	}
	_ = lock.Truncate(0) // of the one before
	fmt.Fprintln(lock, os.Getpid())
	if flags["--model"] == "large" { // its store: the socket comes late
		for !exists(filepath.Join(dir, "opened")) {
			time.Sleep(pollEvery)
		}
	}
	starts, _ := os.OpenFile(filepath.Join(dir, "starts"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	cwd, _ := os.Getwd()
	fmt.Fprintln(starts, os.Getpid(), cwd, strings.Join(os.Args[1:], " "))
	_ = os.WriteFile(filepath.Join(dir, "env"), []byte(strings.Join(os.Environ(), "\n")), 0o600)
	socket := strings.TrimPrefix(flags["--listen"], "unix://")
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = grpc.NewServer().Serve(listener)
}

// fakeConfig is `agentd config`: the model comes from the flag alone, and there is a file with another key's variable.
func fakeConfig(flags map[string]string) {
	_, require := flags["--require-model"]
	switch {
	case flags["--max-running"] == "many":
		fmt.Fprintln(os.Stderr, "agentd: max_running: no number")
		syscall.Exit(2)
	case require && flags["--model"] == "":
		fmt.Fprintln(os.Stderr, "agentd: no model")
		syscall.Exit(4)
	case flags["--config"] != "":
		fmt.Println("model: m # file\napi_key_env: KEY_OF_FILE # file")
	default:
		fmt.Println("api_key_env: OPENAI_API_KEY # default")
	}
	syscall.Exit(0) // os.Exit takes a second with -race
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
		"SECRET=s", "HTTPS_PROXY=p", "LANG=C.UTF-8", "GORACE=atexit_sleep_ms=0", // or a second for each process, with -race
	}, extra...)
	t.Cleanup(func() {
		for _, start := range h.starts(t) {
			_ = syscall.Kill(start.pid, syscall.SIGKILL)
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

func (h *home) ensure(args ...string) *exec.Cmd {
	cmd := exec.Command("ensure", args...)
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
	if got := strings.Join(names, " "); got != "LANG OPENAI_API_KEY OPENAI_BASE_URL PATH XDG_RUNTIME_DIR XDG_STATE_HOME" {
		t.Errorf("the daemon's environment has %s", got)
	}
	line := h.starts(t)[0].line
	for _, want := range []string{" / ", " --model=m", " --auto-started"} {
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
		_ = syscall.Kill(pid, syscall.SIGKILL)
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 5000); err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
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
		d, err := Start(t.Context(), options, t.Output())
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

// exists tells whether there is such a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestLargeStoreIsWaitedFor: a daemon that takes long is told of, is never killed, and is waited for by who comes later.
func TestLargeStoreIsWaitedFor(t *testing.T) {
	h := newHome(t, "AGENTD_MODEL=large")
	binary, err := exec.LookPath("agentd")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.dir, "agentd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	o := Options{Binary: binary, StateDir: dir, Socket: filepath.Join(dir, "agentd.sock"), Args: []string{"--model=large"}, Env: h.env}
	process, err := spawn(t.Context(), o.Binary, o.flags(), o.Env, filepath.Join(dir, "agentd.log"), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{Process: process, socket: o.Socket}
	t.Cleanup(func() { _ = d.Kill() })
	var says strings.Builder
	err = awaitReady(t.Context(), d, patience{0, 50 * time.Millisecond}, &says)
	if err == nil || !strings.Contains(err.Error(), "is still starting; its log is "+dir) || d.exited() {
		t.Fatalf("%v; ended: %v", err, d.exited())
	}
	if want := fmt.Sprintf("agentd (pid %d) opens its store", d.PID()); !strings.Contains(says.String(), want) {
		t.Errorf("told %q, want %q", says.String(), want)
	}
	for holder(dir) == 0 {
		time.Sleep(pollEvery)
	}
	later := h.ensure()
	text, err := later.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := later.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(text).ReadString('\n') // it ends when agentctl does
	if want := fmt.Sprintf("agentd (pid %d) has %s and does not answer; waiting for it\n", d.PID(), dir); line != want {
		t.Errorf("told %q, want %q", line, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "opened"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := later.Wait(); err != nil || len(h.starts(t)) != 1 {
		t.Errorf("%v; starts %v", err, h.starts(t))
	}
}

func TestBuildInADirectoryOfOthersIsRefused(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	dir := filepath.Join(temp, fmt.Sprintf("agentd-%d", os.Getuid()))
	if got, err := buildDir("/src"); err != nil || !strings.HasPrefix(got, dir) {
		t.Fatalf("%s, %v", got, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if got, err := buildDir("/src"); err == nil {
		t.Errorf("%s would be executed, though others may write there", got)
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
	defer func() { _ = server.Kill() }()
	if want := "http://127.0.0.1:1/v1?script=/x.yaml"; server.URL != want {
		t.Errorf("URL %s, want %s", server.URL, want)
	}
	if _, err := StartModelServer(t.Context(), "/bin/true", "/x", filepath.Join(t.TempDir(), "log")); err == nil {
		t.Error("a program that says nothing counts as a model server")
	}
}

func TestDaemonWithoutModelIsReplaced(t *testing.T) {
	h := newHome(t)
	says := func(pid int, ok bool) string {
		t.Helper()
		out, err := h.ensure(strconv.Itoa(pid)).CombinedOutput()
		if (err == nil) != ok {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	says(0, true) // starts it
	first := h.starts(t)[0].pid
	if got := says(first, false); got != "no model\n" || len(h.starts(t)) != 1 {
		t.Errorf("a shell without a model: %q, %v", got, h.starts(t))
	}
	h.env = append(h.env, "AGENTD_MODEL=m")
	if got := says(os.Getpid(), true); got != "" || len(h.starts(t)) != 1 {
		t.Errorf("a process that does not listen: %q, %v", got, h.starts(t))
	}
	want := fmt.Sprintf("restarting agentd (pid %d): ", first)
	if got := says(first, true); !strings.Contains(got, want) {
		t.Errorf("a shell with a model: %q, want %q", got, want)
	}
	starts := h.starts(t) // of daemons that got the lock, so the first has let go of it
	if len(starts) != 2 || !strings.Contains(starts[1].line, "--model=m") {
		t.Errorf("starts: %v", starts)
	}
}

func TestVariableOfTheKeyMayStandInTheFile(t *testing.T) {
	h := newHome(t, "AGENTD_CONFIG=/file.yaml", "KEY_OF_FILE=sk-2")
	if out, err := h.ensure().CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env, err := os.ReadFile(filepath.Join(h.dir, "agentd", "env"))
	if err != nil || !strings.Contains(string(env), "KEY_OF_FILE=sk-2") || strings.Contains(string(env), "OPENAI_API_KEY") {
		t.Errorf("the daemon's environment: %v %s", err, env)
	}
}

func TestWrongConfigurationIsToldBeforeAStart(t *testing.T) {
	h := newHome(t, "AGENTD_MAX_RUNNING=many")
	out, err := h.ensure().CombinedOutput()
	if err == nil || string(out) != "max_running: no number\n" || len(h.starts(t)) != 0 {
		t.Errorf("%v: %s", err, out)
	}
}
