package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// text is what a stream wrote.
type text struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *text) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *text) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// launch starts a command as the shell of a task.
func launch(t *testing.T, box *Sandbox, c Command) (r *Running, out, errs *text) {
	t.Helper()
	out, errs = &text{}, &text{}
	r, err := box.Launch(Owner{TaskID: "sh-1", TeamID: "t-1", Start: 1}, c, out, errs)
	if err != nil {
		t.Fatal(err)
	}
	return r, out, errs
}

func TestLaunch(t *testing.T) {
	box := newBox(t)
	r, out, errs := launch(t, box, Command{
		Line: "echo $A $HOME; echo $AGENTD_TASK >&2; exit 3", Dir: "/", Env: []string{"A=1", "HOME=/h", TaskVariable + "=x/y/z"},
	})
	r.Release()
	<-r.Exited()
	exit, err := r.End(t.Context())
	if err != nil || exit.Code != 3 || exit.Signal != "" || r.Resisted() {
		t.Errorf("%+v, %v", exit, err)
	}
	if out.String() != "1 /h\n" || errs.String() != box.cfg.StoreID+"/sh-1/1\n" {
		t.Errorf("wrote %q and %q", out, errs)
	}
	if len(box.roots) > 0 {
		t.Error("the ended process is still enrolled")
	}
}

// proves T3: what is not released never runs.
func TestLaunchedButNotReleased(t *testing.T) {
	dir := t.TempDir()
	r, _, _ := launch(t, newBox(t), Command{Line: "touch ran", Dir: dir})
	if !runs(r.Process().PID) {
		t.Error("nothing waits at the latch")
	}
	if exit, err := r.End(t.Context()); err != nil || exit.Signal != "SIGKILL" {
		t.Errorf("%+v, %v", exit, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("it ran")
	}
}

func TestLaunchWithoutADirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, file + "-gone"} {
		_, err := newBox(t).Launch(Owner{TaskID: "sh-1"}, Command{Line: "true", Dir: dir}, &text{}, &text{})
		if !errdefs.Is(err, errdefs.NoWorkspace) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// proves T3: nothing is left of a tree whose writer nobody lets go on.
func TestEndOfAFlood(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		dir := t.TempDir()
		r, out, _ := launch(t, box, Command{Line: "(setsid yes &); nohup yes & echo $! > pids; until [ -e go ]; do sleep 0.01; done", Dir: dir})
		r.Release()
		await(t, "output", func() bool { return out.String() != "" })
		if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		<-r.Exited()
		if exit, err := r.End(t.Context()); err != nil || exit.Code != 0 || exit.Signal != "" {
			t.Errorf("%+v, %v", exit, err)
		}
		for _, pid := range pidsIn(t, dir) {
			if runs(pid) {
				t.Errorf("%d lives", pid)
			}
		}
	})
}

// A group that is asked to end gets the time that its members need.
func TestTerminate(t *testing.T) {
	box := newBox(t)
	child := `trap "sleep 0.2; echo saved; exit" TERM; echo up; while :; do sleep 0.01; done`
	r, out, _ := launch(t, box, Command{Line: "sh -c '" + child + "'; echo not reached", Dir: "/"})
	r.Release()
	await(t, "the child", func() bool { return out.String() != "" })
	r.Terminate()
	<-r.Exited()
	r.Settle(t.Context())
	if exit, err := r.End(t.Context()); err != nil || exit.Signal != "SIGTERM" {
		t.Errorf("%+v, %v", exit, err)
	}
	if out.String() != "up\nsaved\n" {
		t.Errorf("wrote %q", out)
	}
}

// A group that does not end is not waited for any longer than ctx says.
func TestSettleEndsWithItsContext(t *testing.T) {
	r, out, _ := launch(t, newBox(t), Command{Line: "trap '' TERM; echo up; sleep 1000", Dir: "/"})
	r.Release()
	await(t, "the command", func() bool { return out.String() != "" })
	r.Terminate()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	r.Settle(ctx)
	if ctx.Err() == nil {
		t.Error("it settled")
	}
	if exit, err := r.End(t.Context()); err != nil || exit.Signal != "SIGKILL" {
		t.Errorf("%+v, %v", exit, err)
	}
}

// Commands leave no descriptor and no cgroup behind, however they end.
func TestLaunchesLeaveNothing(t *testing.T) {
	box := newBox(t)
	round := func() {
		for _, line := range []string{"exit 1", "echo out; echo err >&2; sleep 1000", "setsid sleep 1000 & exit"} {
			r, _, _ := launch(t, box, Command{Line: line, Dir: "/"})
			r.Release()
			if !strings.Contains(line, "sleep") {
				<-r.Exited()
			}
			if _, err := r.End(t.Context()); err != nil {
				t.Error(err)
			}
		}
		r, _, _ := launch(t, box, Command{Line: "true", Dir: "/"})
		if _, err := r.End(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := box.Launch(Owner{TaskID: "sh-1"}, Command{Line: "true", Dir: "/dev/null"}, &text{}, &text{}); err == nil {
			t.Error("it was started in a file")
		}
	}
	open := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would close what nobody else does
	round()                                          // the first one makes what stays
	before := open()
	for range 10 {
		round()
	}
	if after := open(); after > before {
		t.Errorf("%d descriptors are open, %d before", after, before)
	}
	if dirs := box.cgroups.of(func(string) bool { return true }); len(dirs) > 0 {
		t.Errorf("left are %v", dirs)
	}
}
