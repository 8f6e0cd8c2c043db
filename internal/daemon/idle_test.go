package daemon_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// idleRules end each turn at once, but for messages that ask for patience.
const idleRules = `
rules:
  - last: patience
    delay: 10m
    text: done
default:
  text: done
`

// idleCount is how many teammates are made idle: AGENTD_IDLE, or 2,000, or 500 with the race detector.
func idleCount(t *testing.T) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("AGENTD_IDLE"), strconv.Itoa(sized(2000, 500))))
	if err != nil || n < 500 {
		t.Fatal("AGENTD_IDLE must be a number from 500")
	}
	return n
}

// Gates of what idle teammates cost.
const (
	maxIdleBytes   = 1 << 10     // of memory each; not with the race detector
	maxIdleRestart = time.Second // until the last one with unread mail runs; only when AGENTD_IDLE is set, for a machine with nothing else to do
	withUnreadMail = 100
	jitter         = 3 << 20 // of memory, however few there are
)

// TestIdleTeammates: many teammates that rest take next to no memory, and a restart looks only at those with work.
//
// proves W4
func TestIdleTeammates(t *testing.T) {
	count := idleCount(t)
	r := newRig(t, idleRules, 64)
	l := newLoad(r, 0)
	const warm = 100
	r.team(l, 0, warm)
	if raceDetector { // whose own memory hides what teammates take
		r.team(l, warm, warm+count)
	} else {
		r.weigh(l, warm, warm+count)
	}
	r.restartWithMail(l, warm+count)
}

// weigh spawns the teammates of these numbers and sees what they take at rest.
func (r *rig) weigh(l *load, from, to int) {
	before, count := r.atRest(), to-from
	begun := time.Now()
	r.team(l, from, to)
	took := time.Since(begun)
	grown := (r.atRest() - before) << 10
	for again := 0; grown > count*maxIdleBytes+jitter && again < 5; again++ { // a busy machine is late
		grown = (r.atRest() - before) << 10
	}
	r.t.Logf("%d teammates had their first turn in %v; at rest they take %d KiB beside %d KiB: %d bytes each",
		count, took, grown>>10, before, grown/count)
	if grown > count*maxIdleBytes+jitter {
		r.t.Errorf("an idle teammate takes %d bytes of memory; the bound is %d", grown/count, maxIdleBytes)
	}
}

// restartWithMail kills the daemon when many of so many teammates have unread mail, and sees that all of these run soon after
// the next start.
func (r *rig) restartWithMail(l *load, count int) {
	r.kill()
	r.settings.MaxRunning = 1
	r.start()
	for i := range withUnreadMail { // the first one runs, and holds the others up
		l.send(fmt.Sprintf("mate-%d", i*count/withUnreadMail), fmt.Sprint("patience-", i))
	}
	r.kill()
	r.settings.MaxRunning = 2 * withUnreadMail
	asked, begun := r.model.Requests(), time.Now()
	r.start()
	answered := time.Since(begun)
	for r.model.Requests() < asked+withUnreadMail {
		if time.Since(begun) > time.Minute {
			r.t.Fatalf("a minute after the start %d of %d run", r.model.Requests()-asked, withUnreadMail)
		}
		time.Sleep(time.Millisecond)
	}
	running := time.Since(begun)
	r.t.Logf("with %d teammates it answered %v after its start, and %v after it the last of %d with mail asked its model",
		count, answered, running, withUnreadMail)
	if running > maxIdleRestart && os.Getenv("AGENTD_IDLE") != "" {
		r.t.Errorf("that took %v; the bound is %v", running, maxIdleRestart)
	}
}

// team spawns the teammates of these numbers and waits until they rest.
func (r *rig) team(l *load, from, to int) {
	const callers = 64
	numbers := make(chan int)
	var spawns sync.WaitGroup
	for range callers {
		spawns.Go(func() {
			for n := range numbers {
				l.spawnMate(fmt.Sprintf("mate-%d", n), "hello")
			}
		})
	}
	for n := from; n < to; n++ {
		numbers <- n
	}
	close(numbers)
	spawns.Wait()
	r.quiet()
}

// quiet waits until no task runs or waits for its start.
func (r *rig) quiet() {
	for {
		about, err := r.about.GetStatus(context.Background(), &agentdv1.GetStatusRequest{})
		if err != nil {
			r.t.Fatal(err)
		}
		if about.GetTasksQueued()+about.GetTasksRunning() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// spawnMate spawns a teammate and gives its task.
func (l *load) spawnMate(name, prompt string) string {
	return l.spawnAs(&agentdv1.SpawnRequest{
		RequestId: "spawn-" + name, Workspace: l.rig.workspace, Detach: true,
		Mode: &agentdv1.SpawnRequest_Teammate{Teammate: &agentdv1.Teammate{
			Name: name, Agent: &agentdv1.AgentSpec{Prompt: prompt},
		}},
	})
}

// atRest is the memory of the daemon, in KiB, when it has had nothing to do for some seconds: what is private to it, without
// the store's file, which is mapped.
func (r *rig) atRest() int {
	const rest = 6 * time.Second // more than a lively teammate's history is kept for
	time.Sleep(rest)
	r.mu.Lock()
	process := r.process.Process
	r.mu.Unlock()
	if err := process.Signal(syscall.SIGUSR1); err != nil { // collect the garbage
		r.t.Fatal(err)
	}
	time.Sleep(time.Second)
	return r.memory("RssAnon:")
}

// memory is a number of KiB that the kernel tells of the daemon's process.
func (r *rig) memory(what string) int {
	r.mu.Lock()
	pid := r.process.Process.Pid
	r.mu.Unlock()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, what); ok {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				r.t.Fatal(err)
			}
			return n
		}
	}
	r.t.Fatalf("%s is missing", what)
	return 0
}
