package runtime_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/task"
)

// case STP-2, proves T3, T1: at each level nothing is left of a server with children in all the ways to get away, and its
// port is free.
func TestStoppedShellLeavesNothing(t *testing.T) {
	server := `
	echo $$ >> pids
	stay='echo $$ >> pids; exec sleep 1000'
	sh -c "$stay" & nohup sh -c "$stay" >/dev/null 2>&1 & setsid sh -c "$stay" &
	( (setsid nohup sh -c "$stay" &) & )
	"$SELF" listen port &
	until [ "$(wc -l < pids)" = 5 ]; do sleep 0.01; done
	cp pids all; wait; wait`
	for _, level := range []task.StopLevel{task.WrapUp, task.Cancel, task.Kill} {
		for _, deaf := range []string{"", "trap '' TERM; "} {
			t.Run(level.String()+deaf, func(t *testing.T) {
				h := newHouse(t, play())
				id := h.shell(deaf+server, func(a *task.Assignment) { a.Shell.Env = []string{"SELF=" + self(t)} })
				h.made("all")
				address := h.made("port")
				req := runtime.StopRequest{Caller: "test", TaskID: id, Level: level, WrapUp: 300 * time.Millisecond}
				h.must(h.sup.Stop(context.Background(), req, func(runtime.StopProgress) error { return nil }))
				h.ended(id, task.Killed, task.StoppedByClient)
				h.gone("all")
				if l, err := net.Listen("tcp", address); err != nil {
					t.Errorf("the port is taken: %v", err)
				} else {
					_ = l.Close()
				}
				h.noRecord()
			})
		}
	}
}

// self is the test binary, for commands that need more than sh.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// listen listens on loopback, writes its address to a file and never ends.
func listen(file string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		err = os.WriteFile(file+".new", []byte(l.Addr().String()), 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	for err == nil {
		_, err = l.Accept()
	}
	panic(err)
}

// proves T1: what a killed shell still writes comes too late.
func TestKillOfAFlood(t *testing.T) {
	h := newHouse(t, play())
	for range 10 {
		id := h.shell("echo > up; yes")
		h.made("up")
		h.must(os.Remove(filepath.Join(h.workspace, "up")))
		h.must(h.stopTask(id, task.Kill))
		h.noRecord() // the loop has returned
		h.ended(id, task.Killed, task.StoppedByClient)
	}
}

// case STP-4, proves T1: WRAP_UP lets a command finish, and what wait says is its end.
func TestWrappedUpShellFinishes(t *testing.T) {
	for name, tt := range map[string]struct {
		command string
		state   task.State
		reason  task.Reason
		code    int
	}{
		"a build that ignores it": {"trap '' TERM; echo > up; until [ -e go ]; do sleep 0.01; done; echo built",
			task.Completed, task.Done, 0},
		"one that heeds it": {"trap 'echo built; exit 0' TERM; echo > up; : > go; while :; do sleep 0.01; done",
			task.Completed, task.Done, 0},
		"one that gives up": {"trap 'echo built; exit 7' TERM; echo > up; : > go; while :; do sleep 0.01; done",
			task.Killed, task.StoppedByClient, 7},
		"one that dies of it, and a child that finishes": {"sh -c \"trap 'echo built; exit' TERM; echo > up; : > go; " +
			"while :; do sleep 0.3; done\"; echo not reached", task.Killed, task.StoppedByClient, -1},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, play())
			id := h.shell(tt.command)
			h.made("up")
			done := make(chan error, 1)
			go func() { done <- h.stopTask(id, task.WrapUp) }()
			h.untilAny(id, task.Stopping)
			h.must(os.WriteFile(filepath.Join(h.workspace, "go"), []byte("x"), 0o600))
			r := h.ended(id, tt.state, tt.reason)
			h.must(<-done)
			if out := h.output(id, task.Stdout); out != "built\n" || *r.ExitCode != tt.code {
				t.Errorf("wrote %q, %+v", out, r)
			}
		})
	}
}

// untilAny waits until a task is in a state or has ended.
func (h *house) untilAny(id task.ID, s task.State) {
	h.t.Helper()
	h.until(id, s.String(), func(t task.Task, _ []task.Entry) bool { return t.State == s || t.State.Terminal() })
}

// case STA-4: a stop at any moment of a short shell gives one end, that either wait or the stop says.
func TestStopRacesTheEndOfAShell(t *testing.T) {
	t.Parallel()
	h := newHouse(t, play())
	for i := range 24 {
		id := h.shell("sleep 0.05; echo done")
		time.Sleep(time.Duration(i*4) * time.Millisecond)
		h.must(h.stopTask(id, []task.StopLevel{task.WrapUp, task.Cancel, task.Kill}[i%3]))
		r := h.result(id)
		h.endedOnce(id)
		done := h.output(id, task.Stdout) == "done\n"
		if r.State == task.Completed && !done || r.State != task.Completed && r.Reason != task.StoppedByClient {
			t.Errorf("stop %d: %+v, done %v", i, r, done)
		}
	}
}

// proves T2: a shell that waits for a slot is stopped without ever running.
func TestStopOfAQueuedShell(t *testing.T) {
	h := newHouse(t, play())
	var ids []task.ID
	for range 5 {
		ids = append(ids, h.shell("sleep 1000"))
	}
	for i := len(ids) - 1; i >= 0; i-- {
		h.must(h.stopTask(ids[i], task.Cancel))
		h.ended(ids[i], task.Killed, task.StoppedByClient)
	}
	if r := h.result(ids[4]); r.ExitCode != nil || h.states(ids[4]) != "QUEUED KILLED" {
		t.Errorf("%+v", r)
	}
}

// proves D8, O4: a daemon whose store can't commit stops at once, although a command that floods it waits for room.
func TestFloodAtTheStopOfADaemonThatCannotCommit(t *testing.T) {
	h := newHouse(t, play(), func(h *house) { h.quota, h.total = 1<<40, 1<<40 })
	id := h.shell("echo $$ > pids; yes")
	h.until(id, "output", func(_ task.Task, entries []task.Entry) bool {
		return slices.ContainsFunc(entries, func(e task.Entry) bool { _, ok := e.Body.(*task.Output); return ok })
	})
	h.cut.cut()
	time.Sleep(300 * time.Millisecond) // more than it takes to fill all that can wait
	begun := time.Now()
	h.kill()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	h.gone("pids")
	h.start()
	h.ended(id, task.Failed, task.Interrupted)
}
