package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the test binary play the other processes that a sandbox has to do with.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "latch":
			os.Exit(Latch(os.Args[2:]))
		case "server":
			serve(os.Args[2])
		case "daemon":
			playDaemon(os.Args[2], os.Args[3], os.Args[4])
		}
	}
	goleak.VerifyTestMain(m)
}

// serve listens, writes its address to a file, and never ends.
func serve(file string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(file+".new", []byte(l.Addr().String()), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		_ = c.Close()
	}
}

// playDaemon runs a command for task sub-1 as a daemon with that store id would, and prints its Process. With hold it
// never gets past the recording of the process.
func playDaemon(store, hold, line string) {
	box, err := New(testConfig(store, os.Getenv("HOME")))
	if err != nil {
		panic(err)
	}
	if os.Getenv("CGROUPS") == "no" {
		_ = box.Close()
		box.cgroups = nil
	}
	started := func(_ context.Context, _ string, p Process) error {
		if err := json.NewEncoder(os.Stdout).Encode(p); err != nil {
			panic(err)
		}
		for hold == "hold" {
			time.Sleep(time.Hour)
		}
		return nil
	}
	_, _ = box.Shell(Owner{TaskID: "sub-1", TeamID: "t-1", Start: 1}, Events{started, nothing, ignored}).
		Run(context.Background(), Command{Line: line, Dir: "/"})
	os.Exit(1)
}

// startDaemon starts playDaemon as a process and waits for its record. kill is its SIGKILL.
func startDaemon(t *testing.T, box *Sandbox, hold, line string) (p Process, kill func()) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "daemon", box.cfg.StoreID, hold, line)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	if box.cgroups == nil {
		cmd.Env = append(cmd.Env, "CGROUPS=no")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(kill)
	if err := json.NewDecoder(out).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p, kill
}

func testConfig(store, homes string) Config {
	return Config{
		StoreID: store, Helper: []string{"/proc/self/exe", "latch"}, Homes: homes,
		Path: os.Getenv("PATH"), Lang: "C.UTF-8", TZ: "UTC", Log: slog.New(slog.DiscardHandler),
	}
}

// withAndWithoutCgroups runs a test in both worlds, the first where this machine has it.
func withAndWithoutCgroups(t *testing.T, test func(t *testing.T, box *Sandbox)) {
	t.Run("cgroups", func(t *testing.T) {
		box := newBox(t)
		if box.cgroups == nil {
			t.Skip("no cgroup can be made here")
		}
		test(t, box)
		if box.cgroups.off.Load() {
			t.Skip("no process can be started in a cgroup here")
		}
	})
	t.Run("marks", func(t *testing.T) {
		box := newBox(t)
		_ = box.Close()
		box.cgroups = nil
		test(t, box)
	})
}

func newBox(t *testing.T) *Sandbox {
	t.Helper()
	box, err := New(testConfig(rand.Text(), t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Errorf("the store's cgroup is still in use: %v", err)
		}
	})
	return box
}

func nothing(context.Context, string) error { return nil }

func ignored([]Process) {}

func recorded(context.Context, string, Process) error { return nil }

func shellOf(box *Sandbox) Shell {
	return box.Shell(Owner{TaskID: "sub-1", TeamID: "t-1", Start: 1}, Events{recorded, nothing, ignored})
}

// await polls for what another process does.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for range 2000 {
		if done() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("waited 10 s for: %s", what)
}

// runs tells whether the process is alive.
func runs(pid int) bool {
	p, ok := readProc(pid)
	return ok && !p.dead
}
