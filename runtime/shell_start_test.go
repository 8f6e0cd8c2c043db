package runtime_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// before is the option of what to do, once, before the first shell starts.
func before(do func(h *house)) func(*house) {
	return func(h *house) {
		var once sync.Once // also over restarts
		tapped(&tap{get: func(key string) {
			if strings.HasPrefix(key, "spec/"+task.Shell.Prefix()) {
				once.Do(func() { do(h) })
			}
		}})(h)
	}
}

// noProcess checks that no process of this store lives, not even at its latch.
func (h *house) noProcess() {
	h.t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	h.must(err)
	for _, path := range environs {
		if environ, err := os.ReadFile(path); err == nil && bytes.Contains(environ, []byte(sandbox.TaskVariable+"="+h.journal.StoreID())) {
			h.t.Errorf("left is %s", filepath.Dir(path))
		}
	}
}

// A shell was allowed to run in a directory, not in what somebody put in its place meanwhile.
func TestShellInADirectoryThatIsReplaced(t *testing.T) {
	for _, c := range []struct {
		name    string
		replace func(dir, other string) error
	}{
		{"by a link", func(dir, other string) error { return os.Symlink(other, dir) }},
		{"by nothing", func(string, string) error { return nil }},
		{"by a file", func(dir, _ string) error { return os.WriteFile(dir, nil, 0o600) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := t.TempDir()
			h := newHouse(t, play(), before(func(h *house) {
				dir := filepath.Join(h.workspace, "sub")
				h.must(os.Remove(dir))
				h.must(c.replace(dir, other))
			}))
			h.must(os.Mkdir(filepath.Join(h.workspace, "sub"), 0o700))
			id := h.shell("touch ran", func(a *task.Assignment) { a.Shell.Dir = "sub" })
			if r := h.ended(id, task.Failed, task.SpawnFailed); !strings.Contains(r.Error, "sub") {
				t.Errorf("%+v", r)
			}
			if _, err := os.Stat(filepath.Join(other, "ran")); err == nil {
				t.Error("it ran elsewhere")
			}
			h.noRecord()
			h.noProcess()
		})
	}
}

// A shell that comes too late to run before the daemon stops has not run: it starts with the next daemon. proves D4
func TestShellThatStartsWhenTheDaemonStops(t *testing.T) {
	stopped := make(chan struct{})
	h := newHouse(t, play(), before(func(h *house) {
		go func() {
			defer close(stopped)
			h.stop()
		}()
		for {
			_, err := h.sup.Spawn(context.Background(), task.Assignment{})
			if errdefs.Is(err, errdefs.ShuttingDown) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}))
	id := h.shell("echo once")
	<-stopped
	h.start()
	h.ended(id, task.Completed, task.Done)
	if out := h.output(id, 0); out != "once\n" {
		t.Errorf("wrote %q", out)
	}
}
