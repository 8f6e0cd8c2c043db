package runtime_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/storetest"
)

// proves S2, T3, O4: when the daemon stops in order, a shell gets a moment to end and is INTERRUPTED; a queued one starts
// with the next daemon.
func TestShellsAtTheStopOfTheDaemon(t *testing.T) {
	t.Parallel()
	h := newHouse(t, play())
	heeds := h.shell("trap 'echo bye; exit 5' TERM; echo > a; while :; do sleep 0.01; done")
	dies := h.shell("echo $$ > pids; echo > b; sleep 1000")
	deaf := h.shell("trap '' TERM; echo $$ > deaf; echo > c; while :; do sleep 0.01; done")
	done := h.shell("trap 'echo saved; exit 0' TERM; echo > d; while :; do sleep 0.01; done")
	queued := h.shell("echo later")
	for _, name := range []string{"a", "b", "c", "d"} {
		h.made(name)
	}
	begun := time.Now()
	h.stop()
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	h.gone("pids")
	h.gone("deaf")
	h.start()
	for id, code := range map[task.ID]int{heeds: 5, dies: -1, deaf: -1} {
		r := h.ended(id, task.Failed, task.Interrupted)
		if r.Error != "the daemon stopped" || *r.ExitCode != code || h.notices(id) != "" {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if out := h.output(heeds, task.Stdout); out != "bye\n" {
		t.Errorf("wrote %q", out)
	}
	h.ended(done, task.Completed, task.Done)
	h.ended(queued, task.Completed, task.Done)
	if out := h.output(queued, 0); out != "later\n" {
		t.Errorf("wrote %q", out)
	}
	h.noRecord()
}

// proves D4, T3, O4, S1: a daemon that dies after any commit of a shell leaves nothing running; the next one ends the
// shell, marks what may be missing, and does not run it twice.
func TestShellWhenTheDaemonDies(t *testing.T) {
	walk(t, 6, shellKilledAfter)
}

// shellKilledAfter tells whether the run was over before its n-th commit.
func shellKilledAfter(t *testing.T, n int) (over bool) {
	h := newHouse(t, play())
	h.cut.after(n)
	id, err := h.sup.Spawn(context.Background(), task.Assignment{
		RequestID: "once", Caller: "test", From: "user", Workspace: h.workspace,
		Shell: &task.ShellSpec{Command: "echo $$ >> pids; for i in 1 2 3; do echo $i; sleep 0.25; done; exit 4"},
	})
	if err == nil {
		over = h.endedOrDead(id)
	}
	h.restart()
	if err != nil {
		return false // it is not there
	}
	if row, err := h.journal.Task(context.Background(), id); errdefs.Is(err, errdefs.TaskNotFound) {
		return false
	} else if h.must(err); row.Value.State == task.Running {
		t.Error("it claims to run")
	}
	r := h.result(id)
	h.endedOnce(id)
	out := h.output(id, 0)
	switch r.Reason {
	case task.ExitNonzero:
		if out != "1\n2\n3\n" || *r.ExitCode != 4 {
			t.Errorf("%+v, wrote %q", r, out)
		}
	case task.Interrupted:
		if note := h.notices(id); !strings.HasPrefix("1\n2\n3\n", out) || !strings.Contains(note, fmt.Sprintf("first %d bytes", len(out))) {
			t.Errorf("%q after %q", note, out)
		}
	default:
		t.Errorf("%+v", r)
	}
	if pids, err := os.ReadFile(filepath.Join(h.workspace, "pids")); err == nil && len(pids) > 0 {
		h.gone("pids")
		if strings.Count(string(pids), "\n") != 1 {
			t.Errorf("it ran more than once: %q", pids)
		}
	}
	h.noRecord()
	return over
}

// proves D8: with the n-th commit failing in each way, for all n, the command runs once, its output is there once, and
// its end is told once.
func TestEveryCommitOfAShellFails(t *testing.T) {
	walkFaults(t, 8, shellWithFault)
}

// shellWithFault tells whether a commit failed.
func shellWithFault(t *testing.T, plan storetest.Plan) bool {
	var faulty *storetest.Faulty
	plan.Count = 1
	h := newHouse(t, play(), failsBy(plan, &faulty))
	var id task.ID
	for {
		var err error
		id, err = h.sup.Spawn(context.Background(), task.Assignment{
			RequestID: "once", Caller: "test", From: "user", Workspace: h.workspace,
			Shell: &task.ShellSpec{Command: "echo x >> ran; for i in 1 2 3; do echo $i; sleep 0.25; done; exit 4"},
		})
		if err == nil {
			break
		}
		if errdefs.KindOf(err) != errdefs.Unavailable {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	r := h.ended(id, task.Failed, task.ExitNonzero)
	if out := h.output(id, 0); out != "1\n2\n3\n" || *r.ExitCode != 4 {
		t.Errorf("%+v, wrote %q", r, out)
	}
	if ran := h.made("ran"); ran != "x" {
		t.Errorf("it ran more than once: %q", ran)
	}
	failed := h.healed(faulty)
	h.noRecord()
	return failed
}

// proves D8, O4: while the store is stalled a command goes on until the pipe is full, and then waits; nothing is lost.
func TestShellWhileTheStoreIsStalled(t *testing.T) {
	t.Parallel()
	var faulty *storetest.Faulty
	h := newHouse(t, play(), func(h *house) {
		h.wrap = func(st store.Store) store.Store {
			faulty = storetest.Wrap(st, storetest.Plan{})
			return faulty
		}
	})
	chatty := h.shell("echo > up; until [ -e go ]; do sleep 0.01; done; seq 500000; echo > all")
	quiet := h.shell("echo > up2; until [ -e go ]; do sleep 0.01; done; echo said; echo > ended")
	// What it writes last is still in the pipe, or on its way, when it ends: 256 KiB are taken, and a pipe holds 64.
	fits := h.shell("echo > up3; until [ -e go ]; do sleep 0.01; done; echo; sleep 0.5; head -c 320000 /dev/zero; echo > fits")
	for _, begun := range []string{"up", "up2", "up3"} {
		h.made(begun)
	}
	faulty.Stall()
	h.must(os.WriteFile(filepath.Join(h.workspace, "go"), nil, 0o600))
	h.made("ended")
	h.made("fits")
	time.Sleep(1500 * time.Millisecond) // they could have written all, and the rest of a pipe is not waited for that long
	if _, err := os.Stat(filepath.Join(h.workspace, "all")); err == nil {
		t.Error("nothing held the writer back")
	}
	if s := h.states(quiet); s != "QUEUED RUNNING" {
		t.Errorf("it claims %s", s)
	}
	faulty.Heal()
	h.ended(chatty, task.Completed, task.Done)
	h.ended(quiet, task.Completed, task.Done)
	h.ended(fits, task.Completed, task.Done)
	var want strings.Builder
	for i := range 500_000 {
		want.WriteString(strconv.Itoa(i+1) + "\n")
	}
	if h.output(chatty, 0) != want.String() || h.output(quiet, 0) != "said\n" || len(h.output(fits, 0)) != 320_001 {
		t.Error("output was lost")
	}
}

// untilOutput waits until a shell's output of that many bytes is on disk and its process on record.
func (h *house) untilOutput(id task.ID, n int) {
	h.t.Helper()
	h.until(id, "output", func(t task.Task, entries []task.Entry) bool {
		size := 0
		for _, e := range entries {
			if out, ok := e.Body.(*task.Output); ok {
				size += len(out.Data)
			}
		}
		for p, err := range h.journal.Processes(context.Background(), t.Team) {
			h.must(err)
			if p.TaskID == id {
				return size >= n
			}
		}
		return false
	})
}

// proves D8, T1: a stop that is on disk when the store stalls kills the command at once, and is written when it can be; a
// daemon that stops meanwhile hangs for nobody.
func TestStopOfAShellDuringAStall(t *testing.T) {
	t.Parallel()
	var faulty *storetest.Faulty
	h := newHouse(t, play(), func(h *house) {
		h.wrap = func(st store.Store) store.Store {
			faulty = storetest.Wrap(st, storetest.Plan{})
			return faulty
		}
	})
	const deaf = "trap '' TERM; echo $$ >> pids; echo up; while :; do echo more; sleep 0.01; done"
	stopped, left := h.shell(deaf), h.shell(deaf)
	h.untilOutput(stopped, 3)
	h.untilOutput(left, 3)
	ended := make(chan error, 1)
	go func() {
		req := runtime.StopRequest{Caller: "test", TaskID: stopped, Level: task.WrapUp, WrapUp: 500 * time.Millisecond}
		ended <- h.sup.Stop(context.Background(), req, func(runtime.StopProgress) error { return nil })
	}()
	h.untilAny(stopped, task.Stopping)
	faulty.Stall()
	time.Sleep(time.Second) // the stop's deadline passes, and can't be written
	faulty.Heal()
	h.ended(stopped, task.Killed, task.StoppedByClient)
	h.must(<-ended)
	faulty.Stall()
	time.Sleep(300 * time.Millisecond)
	h.stop = h.kill // it can't be marked clean
	h.restart()
	h.gone("pids")
	h.ended(left, task.Failed, task.Interrupted)
	if h.notices(left) == "" {
		t.Error("nothing says that output may be missing")
	}
}

// buggy panics at the first commit of output.
type buggy struct{ store.Store }

func (b buggy) Commit(ctx context.Context, batch store.Batch) (store.Committed, error) {
	other := func(op store.Op) bool { return op.Kind != store.Append || !strings.HasPrefix(op.Name, "entry/sh-") }
	if len(batch.Ops) > 0 && !slices.ContainsFunc(batch.Ops, other) { // as many pieces as have come
		panic("a bug")
	}
	return b.Store.Commit(ctx, batch)
}

// proves S3: a bug at work on one shell's output ends that shell.
func TestPanicInAShell(t *testing.T) {
	h := newHouse(t, play(), func(h *house) { h.wrap = func(st store.Store) store.Store { return buggy{st} } })
	quiet := h.shell("until [ -e go ]; do sleep 0.01; done")
	id := h.shell("echo $$ > pids; echo said; while :; do seq 10000; done")
	h.ended(id, task.Failed, task.Panic)
	h.gone("pids")
	h.must(os.WriteFile(filepath.Join(h.workspace, "go"), nil, 0o600))
	h.ended(quiet, task.Completed, task.Done)
	h.noRecord()
}

// proves R6, D5: an agent's background command is a task below it, whose end it is told once; asked again with the same
// call it is the same task.
func TestBackgroundCommandOfAnAgent(t *testing.T) {
	var heard string
	h := newHouse(t, func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		last := req.Messages[len(req.Messages)-1].Text
		switch {
		case len(req.Messages) == 2:
			return call("bash", `{"command":"echo built; exit 3","background":true,"description":"the build"}`), nil
		case strings.Contains(last, "sh-2"):
			heard += last + "\n"
			if !strings.Contains(last, "exit") {
				return call("bash", `{"command":"sleep 0.2"}`), nil
			}
		}
		return text("done"), nil
	})
	id := h.spawn("x")
	h.ended(id, task.Completed, task.Done)
	r := h.ended("sh-2", task.Failed, task.ExitNonzero)
	sh := h.task("sh-2")
	if sh.Parent != id || sh.Description != "the build" || *r.ExitCode != 3 || h.output("sh-2", 0) != "built\n" {
		t.Errorf("%+v, %+v", sh.Task, r)
	}
	if !strings.Contains(heard, "runs in the background as task sh-2") || !strings.Contains(heard, "exit code 3") {
		t.Errorf("the agent heard %q", heard)
	}
}

// proves D5: a daemon that dies after any commit of a background call starts the command once, and the call is answered
// with its task.
func TestBackgroundCommandIsStartedOnce(t *testing.T) {
	walk(t, 4, func(t *testing.T, n int) (over bool) {
		h := newHouse(t, play(call("bash", `{"command":"echo x >> ran","background":true}`), text("1"), text("2"), text("3")))
		id := h.spawn("x")
		h.cut.after(n)
		over = h.endedOrDead(id)
		h.restart()
		h.ended(id, task.Completed, task.Done)
		for _, r := range h.results(id) {
			if r.IsError || !strings.Contains(r.Text, "task sh-") {
				t.Errorf("answer: %s", r.Text)
			}
		}
		shells := 0
		for child, err := range h.journal.Children(context.Background(), h.task(id).Team, id) {
			h.must(err)
			shells++
			h.result(child)
			h.endedOnce(child)
		}
		ran, _ := os.ReadFile(filepath.Join(h.workspace, "ran")) // it may be killed before it has written, but runs once
		if shells != 1 || len(ran) > len("x\n") {
			t.Errorf("%d tasks, ran %q", shells, ran)
		}
		return over
	})
}

// proves N4: a command that an agent started does not outlive it.
func TestBackgroundCommandEndsWithItsAgent(t *testing.T) {
	h := newHouse(t, play(
		call("bash", `{"command":"echo $$ > pids; sleep 1000","background":true}`), text("done"), text("done all the same")))
	id := h.spawn("x")
	h.ended(id, task.Completed, task.Done)
	h.ended("sh-2", task.Killed, task.ParentEnded)
}
