package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

const doneRules = `
rules:
  - last: say (\w+)
    text: "{{index .Match 1}}"
default:
  text: done
`

// status asks the daemon how it is.
func (r *rig) status() *agentdv1.GetStatusResponse {
	r.t.Helper()
	s, err := r.about.GetStatus(context.Background(), &agentdv1.GetStatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// finish runs one task to its outcome.
func (r *rig) finish(request, prompt string) (string, *agentdv1.Outcome) {
	r.t.Helper()
	l := &load{rig: r}
	id := l.spawnPrompt(request, prompt)
	w := &watched{}
	l.follow(id, w)
	return id, w.outcome
}

// refused starts another daemon with the settings and gives what it says when it is refused.
func (r *rig) refused(s settings) string {
	r.t.Helper()
	arg, err := json.Marshal(s)
	if err != nil {
		r.t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command("/proc/self/exe", daemonName, string(arg))
	cmd.Stderr = &out
	if err := cmd.Run(); err == nil {
		r.t.Error("a second daemon was let in")
	}
	return out.String()
}

// proves D9; case SAF-8: a living holder refuses the start naming its pid, of the state directory and of the socket.
func TestSecondDaemonIsRefused(t *testing.T) {
	r := newRig(t, doneRules, 4)
	pid := strconv.Itoa(int(r.status().GetPid()))
	sameState := r.settings
	sameState.Socket += "2"
	if says := r.refused(sameState); !strings.Contains(says, "pid "+pid) {
		t.Errorf("same state directory: %s", says)
	}
	sameSocket := r.settings
	sameSocket.StateDir = t.TempDir()
	if says := r.refused(sameSocket); !strings.Contains(says, "pid "+pid) {
		t.Errorf("same socket: %s", says)
	}
	if _, outcome := r.finish("a", "say hello"); outcome.GetSummary() != "hello" {
		t.Errorf("the first one is no longer itself: %v", outcome)
	}
}

// proves D9; case SAF-8: a stale pid, a reused pid and a left-over socket never block a start.
func TestLeftoversDoNotBlockTheStart(t *testing.T) {
	r := newRig(t, doneRules, 4)
	r.kill()
	if _, err := os.Stat(r.settings.Socket); err != nil {
		t.Fatalf("kill -9 leaves the socket: %v", err)
	}
	own := strconv.Itoa(os.Getpid()) // as if the pid had been given to another process
	for _, lock := range []string{r.settings.Socket + ".lock", filepath.Join(r.settings.StateDir, "agentd.lock")} {
		if err := os.WriteFile(lock, []byte(own+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	r.end(syscall.SIGTERM)
	if _, err := os.Stat(r.settings.Socket); err == nil {
		t.Error("a daemon that stops in order leaves its socket")
	}
}

// proves D9: a displaced daemon never removes its successor's socket.
func TestDisplacedDaemonLeavesTheSocketOfAnother(t *testing.T) {
	r := newRig(t, doneRules, 4)
	if err := os.Remove(r.settings.Socket); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", r.settings.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	r.end(syscall.SIGTERM)
	if _, err := os.Stat(r.settings.Socket); err != nil {
		t.Errorf("the socket of another is gone: %v", err)
	}
}

// What is no socket is never removed.
func TestFileInPlaceOfTheSocketRefuses(t *testing.T) {
	r := newRig(t, doneRules, 4)
	r.end(syscall.SIGTERM)
	if err := os.WriteFile(r.settings.Socket, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if says := r.refused(r.settings); !strings.Contains(says, "no socket") {
		t.Errorf("says: %s", says)
	}
	if text, err := os.ReadFile(r.settings.Socket); err != nil || string(text) != "precious" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// proves D7; case OUT-8: a damaged file is set aside, what can be read lives on, and the status says so.
func TestDamagedStoreIsSalvaged(t *testing.T) {
	r := newRig(t, doneRules, 4)
	id, _ := r.finish("a", "say hello")
	r.kill()
	path := filepath.Join(r.settings.StateDir, "agentd.db")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	junk := bytes.Repeat([]byte{0xff}, 200) // over both metas
	for _, at := range []int64{16, 4096 + 16} {
		if _, err := file.WriteAt(junk, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	r.start()
	aside := r.status().GetStore().GetSalvagedFrom()
	if _, err := os.Stat(aside); err != nil {
		t.Errorf("the damaged file is not at %q: %v", aside, err)
	}
	got, err := r.tasks.GetTask(context.Background(), &agentdv1.GetTaskRequest{TaskId: id})
	if err != nil || got.GetTask().GetState() != agentdv1.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the task of before: %v, %v", got, err)
	}
	if newer, outcome := r.finish("b", "say again"); outcome.GetSummary() != "again" || newer == id {
		t.Errorf("after the salvage: %s %v", newer, outcome)
	}
}

// A start that died in the store makes the next one walk the whole file.
func TestStartThatDiedInTheStoreIsFollowedByACheck(t *testing.T) {
	r := newRig(t, doneRules, 4)
	r.kill()
	if err := os.WriteFile(filepath.Join(r.settings.StateDir, "agentd.opening"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.start()
	if log := r.logTail(); !strings.Contains(log, "the store is checked") {
		t.Errorf("log: %s", log)
	}
	if _, err := os.Stat(filepath.Join(r.settings.StateDir, "agentd.opening")); err == nil {
		t.Error("the mark stays although the start got through")
	}
}
