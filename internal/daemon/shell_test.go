package daemon_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// spawnShell starts a command as a task.
func (l *load) spawnShell(command string) string {
	return l.spawnAs(&agentdv1.SpawnRequest{
		RequestId: command, Workspace: l.rig.workspace, Detach: true,
		Mode: &agentdv1.SpawnRequest_Shell{Shell: &agentdv1.Shell{Command: command}},
	})
}

// read follows a task to its end and gives what was written and what the daemon remarked.
func (l *load) read(id string) (outcome *agentdv1.Outcome, output, notices string) {
	w := &watched{}
	l.follow(id, w)
	for _, e := range w.entries {
		output += string(e.GetOutput().GetData())
		notices += e.GetNotice().GetText()
	}
	return w.outcome, output, notices
}

// nothingLeft waits until no process of the store's tasks is to be seen.
func (r *rig) nothingLeft() {
	r.t.Helper()
	storeID := r.status().GetStoreId()
	for range 200 {
		if len(r.leftovers(storeID)) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Errorf("left: %s", r.leftovers(storeID))
}

// brood starts processes in ways to get away.
const brood = `(setsid sleep 1000 &) ; nohup sleep 1000 >/dev/null 2>&1 & sleep 1000 & `

// proves D4, T3, O4; case STA-2: the daemon dies under a running shell.
func TestShellEndsWithADeadDaemon(t *testing.T) {
	r := newRig(t, doneRules, 4)
	l := &load{rig: r}
	id := l.spawnShell(brood + `echo written; sleep 0.5; echo > up; while :; do echo more; sleep 0.001; done`)
	r.awaitFile(filepath.Join(r.workspace, "up"))
	r.kill()
	r.start()
	r.nothingLeft()
	outcome, output, notices := l.read(id)
	if outcome.GetReason() != agentdv1.TaskReason_TASK_REASON_INTERRUPTED || !strings.HasPrefix(output, "written\n") ||
		!strings.Contains(notices, fmt.Sprintf("first %d bytes", len(output))) {
		t.Errorf("%v, notices %q, %d bytes", outcome, notices, len(output))
	}
}

// proves T3: the daemon stops in order under running shells.
func TestShellEndsWithTheDaemon(t *testing.T) {
	r := newRig(t, doneRules, 4)
	l := &load{rig: r}
	id := l.spawnShell(brood + `echo written; echo > up; wait`)
	deaf := l.spawnShell(`trap '' TERM; ` + brood + `echo > deaf; wait`)
	r.awaitFile(filepath.Join(r.workspace, "up"))
	r.awaitFile(filepath.Join(r.workspace, "deaf"))
	if code := r.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the daemon ended with %d", code)
	}
	r.start()
	r.nothingLeft()
	for _, id := range []string{id, deaf} {
		outcome, _, notices := l.read(id)
		if outcome.GetReason() != agentdv1.TaskReason_TASK_REASON_INTERRUPTED || notices != "" ||
			!strings.Contains(outcome.GetError(), "stopped") {
			t.Errorf("%v, notices %q", outcome, notices)
		}
	}
}

// floodSize is how many bytes a flood has: AGENTD_FLOOD, or 100 MB.
func floodSize(t *testing.T) string {
	size := cmp.Or(os.Getenv("AGENTD_FLOOD"), "100000000")
	if n, err := strconv.Atoi(size); err != nil || n < 20<<20 {
		t.Fatal("AGENTD_FLOOD must be a number above the quota")
	}
	return size
}

// case STP-6, proves O4: a flood leaves the daemon's memory flat.
func TestFloodIsFlat(t *testing.T) {
	r := newRig(t, doneRules, 4)
	l := &load{rig: r}
	l.read(l.spawnShell("echo warm"))
	before, size := r.peakResident(), floodSize(t)
	begun := time.Now()
	outcome, output, notices := l.read(l.spawnShell("yes | head -c " + size))
	grown := (r.peakResident() - before) >> 10
	t.Logf("%s bytes in %v: %d MiB more at the peak, %d bytes kept",
		size, time.Since(begun).Round(time.Millisecond), grown, len(output))
	if outcome.GetState() != agentdv1.TaskState_TASK_STATE_COMPLETED || !strings.Contains(notices, "dropped") {
		t.Errorf("%v %q", outcome, notices)
	}
	if len(output) != 16<<20+64<<10 || grown > 64 {
		t.Errorf("kept %d bytes, grown by %d MiB", len(output), grown)
	}
}
