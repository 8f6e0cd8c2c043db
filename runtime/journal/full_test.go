package journal

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store/bolt"
)

const fullEnv = "AGENTD_TEST_DISK_FULL"

// proves D8: on a full disk, where small commits still find a place within the file, the stall of a large one lasts until
// there is room for it. A limit on the size of files makes the disk full; it holds for a whole process, so the test runs
// in a child.
// case OUT-9
func TestDiskFull(t *testing.T) {
	if os.Getenv(fullEnv) != "" {
		diskFull(t)
		return
	}
	self, err := os.Executable()
	must(t, err)
	child := exec.Command(self, "-test.run=^TestDiskFull$", "-test.v")
	child.Env = append(os.Environ(), fullEnv+"=1")
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestDiskFull") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func diskFull(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	st := newStore(t)
	j := newJournal(t, st)
	team := newTeam(t, j, "main").ID
	for range 20 {
		must(t, note(j, team, "before"))
	}
	free := limit(t, uint64(st.(*bolt.Store).Size()))
	must(t, note(j, team, "small ones fit"))
	large := strings.Repeat("v", 200<<10)
	want(t, note(j, team, large), errdefs.StoreStalled)

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- j.Run(ctx) }()
	defer func() {
		cancel()
		must(t, <-ended)
	}()
	short, cancelShort := context.WithTimeout(ctx, time.Second)
	defer cancelShort()
	if j.Recovered(short) == nil {
		t.Error("the stall ended on a full disk")
	}
	limit(t, free)
	must(t, j.Recovered(ctx))
	must(t, note(j, team, large))
}

// limit sets the size that files may grow to and gives the one before.
func limit(t *testing.T, size uint64) uint64 {
	t.Helper()
	var l syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l))
	before := l.Cur
	l.Cur = size
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l))
	return before
}
