package bolt_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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
