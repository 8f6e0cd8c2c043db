package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

func TestBash(t *testing.T) {
	a := newAgent(t)
	for _, c := range []struct {
		exit sandbox.Exit
		want string
	}{
		{sandbox.Exit{Output: []byte("hello\n")}, "hello\n[exit code 0]"},
		{sandbox.Exit{}, "[exit code 0]"},
		{sandbox.Exit{Code: 3, Output: []byte("no end")}, "no end\n[failed with exit code 3]"},
		{sandbox.Exit{Code: -1, Signal: "SIGSEGV"}, "[ended by signal SIGSEGV]"},
		{sandbox.Exit{Code: -1, Signal: "SIGKILL", TimedOut: true, Output: []byte("x\n")}, "x\n[killed: it took longer than 2m0s]"},
		{sandbox.Exit{Output: []byte("a\nb\n"), Dropped: 9}, "a\nb\n[9 bytes in the middle of this output were too many and are lost]\n[exit code 0]"},
	} {
		a.shell.exit = c.exit
		answer := a.run("bash", `{"command":"make","description":"builds"}`)
		if answer.Text != c.want || answer.IsError {
			t.Errorf("%+v, want %q", answer, c.want)
		}
	}
	want := sandbox.Command{CallID: "call00001", Line: "make", Dir: a.ws, Timeout: 2 * time.Minute}
	if !reflect.DeepEqual(a.shell.got, want) {
		t.Errorf("%+v", a.shell.got)
	}
	a.text("bash", `{"command":"make","timeout_ms":1500}`)
	if a.shell.got.Timeout != 1500*time.Millisecond {
		t.Errorf("%+v", a.shell.got)
	}
}

// TestBashCut keeps what had come when the call was ended.
func TestBashCut(t *testing.T) {
	a := newAgent(t)
	a.shell.exit, a.shell.err = sandbox.Exit{Output: []byte("partial")}, errors.New("killed")
	answer, err := a.set.Run(t.Context(), "bash", Call{ID: "c", Arguments: []byte(`{"command":"x"}`), Scope: a.scope})
	if answer.Text != "partial" || fmt.Sprint(err) != "killed" {
		t.Errorf("%+v, %v", answer, err)
	}
}

// spawns takes spawns and keeps the last one.
type spawns struct {
	Tasks
	callID string
	got    task.Assignment
	err    error
}

func (s *spawns) Spawn(_ context.Context, callID string, a task.Assignment) (task.ID, error) {
	s.callID, s.got = callID, a
	return "sh-7", s.err
}

func TestBashInBackground(t *testing.T) {
	a, tasks := newAgent(t), &spawns{}
	a.scope.Tasks = tasks
	has(t, a.text("bash", `{"command":"npm run dev","background":true,"description":"dev server"}`),
		"sh-7", "when it ends", "task_output", "task_stop")
	want := task.Assignment{Description: "dev server", Shell: &task.ShellSpec{Command: "npm run dev"}}
	if tasks.callID != "call00001" || !reflect.DeepEqual(tasks.got, want) || a.shell.got.Line != "" {
		t.Errorf("%s: %+v", tasks.callID, tasks.got)
	}
	a.text("bash", `{"command":"make","background":true,"timeout_ms":86400000}`)
	if tasks.got.Budget.WallTime != 24*time.Hour {
		t.Errorf("%+v", tasks.got.Budget)
	}
	e := a.fail(InvalidArguments, "bash", `{"command":"make","background":true,"timeout_ms":86400001}`)
	has(t, e.Message, "86400000")
	a.fail(InvalidArguments, "bash", `{"command":"make","timeout_ms":600001}`)
	a.fail(InvalidArguments, "bash", `{"command":" ","background":true}`)

	tasks.err = &Error{Reason: "TASK_STOPPING", Message: "no more"}
	a.fail("TASK_STOPPING", "bash", `{"command":"make","background":true}`)
	tasks.err = errors.New("the disk is full")
	call := Call{ID: "c", Arguments: []byte(`{"command":"x","background":true}`), Scope: a.scope}
	if answer, err := a.set.Run(t.Context(), "bash", call); !errors.Is(err, tasks.err) {
		t.Errorf("a fault became the answer %+v", answer)
	}
}

// proves D5: only a call that gives the same task again runs again.
func TestBashRunsAgain(t *testing.T) {
	for arguments, again := range map[string]bool{
		`{"command":"x","background":true}`: true, `{"command":"x"}`: false, `{"command":"x","background":false}`: false,
		`{"background":1}`: false, `{`: false,
	} {
		if bashTool().Spec().RunsAgain(json.RawMessage(arguments)) != again {
			t.Errorf("%s: want %v", arguments, again)
		}
	}
	if lsTool().Spec().RunsAgain(nil) != true || writeTool().Spec().RunsAgain(nil) != false {
		t.Error("reading may be repeated, writing not")
	}
}
