package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// demoProcess is the demo in a shell that has nothing but PATH, and a directory for temporary files.
func demoProcess(t *testing.T) (cmd *exec.Cmd, temp string) {
	t.Helper()
	temp = t.TempDir()
	cmd = exec.Command("agentctl", "demo")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp}
	return cmd, temp
}

// nothingLeft checks that no file and no process of the demo is left.
func nothingLeft(t *testing.T, temp string) {
	t.Helper()
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("the demo left %v, %v", left, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		line, _ := os.ReadFile(name) // it may have ended meanwhile
		if bytes.Contains(line, []byte(temp)) {
			t.Errorf("a process is left: %s", bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
}

// TestDemo runs the demo with the real daemon, which it builds beside the agentctl of the tests.
func TestDemo(t *testing.T) {
	agentctl, err := exec.LookPath("agentctl")
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(filepath.Dir(agentctl), "agentd"), "../agentd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Run("built by itself", demoBuiltByItself)
	t.Run("to its end", demoToItsEnd)
	t.Run("interrupted", demoInterrupted)
}

// demoBuiltByItself is `go run ./cmd/agentctl demo`, where agentd does not exist yet: what is built is not left either.
func demoBuiltByItself(t *testing.T) {
	t.Parallel()
	cmd, temp := demoProcess(t)
	program, err := os.ReadFile(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	cmd.Path = filepath.Join(home, "agentctl") // alone in its directory
	if err := os.WriteFile(cmd.Path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(home, "cache")
	cmd.Env = append(cmd.Env, "HOME="+home, "XDG_CACHE_HOME="+cache)
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(string(value)))
	}
	demoShows(t, cmd, "building agentd from ")
	nothingLeft(t, temp)
	if left, err := filepath.Glob(filepath.Join(cache, "*")); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v, %v", left, err)
	}
}

func demoToItsEnd(t *testing.T) {
	t.Parallel()
	cmd, temp := demoProcess(t)
	demoShows(t, cmd)
	nothingLeft(t, temp)
}

// demoShows runs the demo to its end, and looks for what it says.
func demoShows(t *testing.T, cmd *exec.Cmd, further ...string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range append(further,
		"exit code 1\n", "kill -9 ", "nobody answers on its socket", "Another daemon starts", "exit code 0\n", "exactly one answer",
	) {
		if !strings.Contains(string(out), want) {
			t.Errorf("the demo does not say %q:\n%s", want, out)
		}
	}
}

func demoInterrupted(t *testing.T) {
	t.Parallel()
	cmd, temp := demoProcess(t)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	story := bufio.NewReader(stdout)
	readUntil(t, story, "Another daemon starts")
	_ = cmd.Process.Signal(os.Interrupt)
	_, _ = io.Copy(io.Discard, story)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
	nothingLeft(t, temp)
}
