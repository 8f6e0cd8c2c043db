package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nobody is who the daemon runs as when the tests run as root, from whom nothing can be hidden.
const nobody = 65534

// ordinary makes processes of a user who is not root, in a home of its own with both commands in it.
type ordinary struct{ home string }

func newOrdinary(t *testing.T) ordinary {
	t.Helper()
	home, err := os.MkdirTemp("", "agentd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	if os.Getuid() == 0 {
		if err := os.Chown(home, nobody, nobody); err != nil {
			t.Skip("no other user can be taken on here: ", err)
		}
	}
	build := exec.Command("go", slices.Concat([]string{"build"}, raceFlags, []string{"-o", home + "/bin/", ".", "../agentctl"})...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return ordinary{home}
}

func (o ordinary) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	if own := filepath.Join(o.home, "bin", name); exists(own) {
		cmd = exec.Command(own, args...)
	}
	cmd.Dir = o.home
	cmd.Env = []string{
		"PATH=" + o.home + "/bin:" + os.Getenv("PATH"), "HOME=" + o.home, "XDG_RUNTIME_DIR=" + o.home, "OPENAI_API_KEY=sk-of-the-provider",
		"GORACE=atexit_sleep_ms=0",
	}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return cmd
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// start runs a program until the end of the test, and gives the group of the expression in its output once it is there.
func (o ordinary) start(t *testing.T, want, name string, args ...string) string {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := o.command(name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var text []byte
	for range looks {
		text, _ = os.ReadFile(log.Name())
		if found := regexp.MustCompile(want).FindSubmatch(text); found != nil {
			return string(found[1])
		}
		time.Sleep(lookEvery)
	}
	t.Fatalf("%s never said %s: %s", name, want, text)
	return ""
}

// TestCommandCannotReadTheDaemonsKey: the command of an agent runs, and finds its parent's environment closed.
//
// proves P7
func TestCommandCannotReadTheDaemonsKey(t *testing.T) {
	o := newOrdinary(t)
	rules := filepath.Join(o.home, "model.yaml")
	err := os.WriteFile(rules, []byte(`
rules:
  - step: 1
    tool_calls:
      - {name: bash, arguments: {command: "echo parent $PPID; cat /proc/$PPID/environ | tr '\\0' ' '; echo over"}}
default:
  text: Done.
`), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	url := o.start(t, `listening on (\S+)`, "agentd", "model-server", "--script", rules)
	pid := o.start(t, `agentd serves.* pid=(\d+)`, "agentd", "--model=m", "--base-url="+url)
	if out, err := o.command("agentctl", "run", "--no-start", "read the key").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	told, err := o.command("agentctl", "output", "--no-start", "-o", "json", "team-lead").Output()
	if err != nil || !strings.Contains(string(told), "parent "+pid) || !strings.Contains(string(told), "Permission denied") {
		t.Errorf("%v: the command did not try: %s", err, told)
	}
	if bytes.Contains(told, []byte("sk-of-the-provider")) {
		t.Errorf("the command got the key: %s", told)
	}
	for _, file := range []string{"environ", "mem"} {
		if out, err := o.command("head", "-c1", filepath.Join("/proc", pid, file)).CombinedOutput(); err == nil {
			t.Errorf("%s of the daemon can be read: %q", file, out)
		}
	}
}
