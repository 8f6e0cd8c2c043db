package bolt_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store/bolt"
)

// proves D9: a living holder refuses, naming its pid.
func TestLockHeld(t *testing.T) {
	dir := t.TempDir()
	l, err := bolt.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = bolt.Lock(dir)
	if !errdefs.Is(err, errdefs.AlreadyRunning) || !strings.Contains(err.Error(), "pid "+strconv.Itoa(os.Getpid())) {
		t.Fatalf("Lock = %v", err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	l, err = bolt.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// proves D9: a file that was left behind blocks nobody, also when its pid is that of a living process.
func TestLockStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agentd.sock.lock")
	for _, text := range []string{"", "999999999\n", strconv.Itoa(os.Getppid()) + "\n and more", "no number"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := bolt.LockFile(path)
		if err != nil {
			t.Fatalf("LockFile over %q = %v", text, err)
		}
		if got, _ := os.ReadFile(path); string(got) != strconv.Itoa(os.Getpid())+"\n" {
			t.Errorf("the lock says %q", got)
		}
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
}

// proves D9: a child that a killed daemon was just forking holds a copy of the lock until it execs; the next daemon
// waits for that instead of taking the dead one for alive.
func TestLockOfADeadHoldersChild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agentd.lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Skipf("true is missing: %v", err)
	}
	if _, err := fmt.Fprintln(f, dead.ProcessState.Pid()); err != nil {
		t.Fatal(err)
	}
	child := exec.Command("cat") // holds the lock until its input ends
	child.ExtraFiles = []*os.File{f}
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	locked := make(chan error, 1)
	go func() {
		l, err := bolt.LockFile(path)
		if err == nil {
			err = l.Unlock()
		}
		locked <- err
	}()
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
}
