package bolt_test

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

const fullEnv = "AGENTD_TEST_DISK_FULL"

// proves D8: a limit on the size of files makes writes fail as a full disk does. It holds for a whole process, so the
// test runs in a child.
func TestDiskFull(t *testing.T) {
	if os.Getenv(fullEnv) != "" {
		diskFull(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self, "-test.run=^TestDiskFull$", "-test.v")
	child.Env = append(os.Environ(), fullEnv+"=1")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestDiskFull") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func diskFull(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	path, ctx := filepath.Join(t.TempDir(), "store.db"), context.Background()
	s, w := reopen(t, path), make(written)
	for _, key := range []string{"a", "b", "c"} {
		w.commit(t, s, key, "log", "before")
	}
	big := store.Batch{Part: part, Ops: []store.Op{{Kind: store.Put, Name: "a", Value: []byte("half")}}}
	for range 4 {
		big.Ops = append(big.Ops, store.Op{Kind: store.Append, Name: "big", Value: make([]byte, store.MaxValue)})
	}
	free := limit(t, uint64(s.Size()))
	for range 3 {
		if _, err := s.Commit(ctx, big); !errdefs.Is(err, errdefs.StoreStalled) {
			t.Fatalf("Commit on a full disk = %v, want StoreStalled", err)
		}
		if n := w.survivors(t, s); n != 6 {
			t.Fatalf("%d values can be read on a full disk, want 6", n)
		}
	}
	limit(t, free)
	w.commit(t, s, "a", "log", "after")
	if _, err := s.Commit(ctx, big); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Last(ctx, part, "big", 9); err != nil || len(got) != 4 {
		t.Errorf("%d entries, %v; want 4", len(got), err)
	}
	closeSound(t, s, path)
}

// limit sets the size that files may grow to and gives the one before.
func limit(t *testing.T, size uint64) uint64 {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		t.Fatal(err)
	}
	before := l.Cur
	l.Cur = size
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
		t.Fatal(err)
	}
	return before
}
