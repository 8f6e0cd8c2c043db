package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// TestLiveView: on a terminal a run shows its tasks at the bottom, lines scroll above, and Ctrl-C takes it away.
func TestLiveView(t *testing.T) {
	const child, mate = "  sub-2  general              QUEUED #3", "  tm-2   lisa (coder)         IDLE, 2 unread"
	const alone, led = "2 tasks: 1 QUEUED, 1 RUNNING  1.2k tok  $0.50", "3 tasks: 1 QUEUED, 1 RUNNING, 1 IDLE  2.5k tok  $0.50"
	for _, test := range []struct{ args, noColor, want, then, tally, erase string }{
		{"run hang", "", "\x1b[33m" + child, "\x1b[36m" + mate, led, "\x1b[4A\r\x1b[J"},
		{"spawn hang", "", "\x1b[33m  sub-2  general  QUEUED #3", "", alone, "\x1b[3A\r\x1b[J"},
		{"run hang", "1", "\n" + child, "\n" + mate, led, "\x1b[4A\r\x1b[J"},
	} {
		t.Run(test.args+test.noColor, func(t *testing.T) {
			t.Setenv("NO_COLOR", test.noColor)
			master, slave := terminal(t)
			if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 20, Col: 60}); err != nil {
				t.Fatal(err)
			}
			screen := bufio.NewReader(master)
			cmd := started(t, slave, slave, screen, test.want, strings.Fields(test.args)...)
			readUntil(t, screen, test.then)
			readUntil(t, screen, test.tally)
			_ = cmd.Process.Signal(os.Interrupt)
			told := readUntil(t, screen, "[s/D] ")
			if last := told[strings.LastIndex(told, test.erase)+1:]; strings.Contains(last, " tasks: ") {
				t.Errorf("the block is still there when it asks: %q", told)
			}
			_, _ = io.WriteString(master, "\n")
			_ = cmd.Wait()
		})
	}
}

// screenOf is all that agentctl writes to a terminal in a run that ends.
func screenOf(t *testing.T, env []string, args ...string) string {
	t.Helper()
	runtimeDir := t.TempDir()
	(&daemon{}).serve(t, runtimeDir)
	master, slave := terminal(t)
	cmd := exec.Command("agentctl", args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + runtimeDir}, env...)
	cmd.Stdout, cmd.Stderr = slave, slave
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(slave, "THE END")
	return readUntil(t, bufio.NewReader(master), "THE END")
}

func TestLiveViewLeavesTheResult(t *testing.T) {
	shown := screenOf(t, nil, "run", "hello")
	_, after, ok := strings.Cut(shown, "COMPLETED (DONE)")
	if !ok || strings.Contains(after, "\x1b") || !strings.Contains(after, "The bug is fixed.") {
		t.Errorf("after the end: %q", shown)
	}
	for _, off := range [][]string{{"run", "hello", "--plain"}, {"run", "hello", "-o", "json"}, {"spawn", "hello", "--detach"},
		{"spawn", "--shell", "ls"}} {
		if shown := screenOf(t, nil, off...); strings.Contains(shown, "\x1b") {
			t.Errorf("%v moves the cursor: %q", off, shown)
		}
	}
	if shown := screenOf(t, []string{"TERM=dumb"}, "run", "hello"); strings.Contains(shown, "\x1b") {
		t.Errorf("a dumb terminal got %q", shown)
	}
}

// TestGlance: what is below a task is found, what has left the list is looked at, what is ended is left alone.
func TestGlance(t *testing.T) {
	conn, err := grpc.NewClient("unix://"+(&daemon{}).serve(t, t.TempDir()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	root, gone, ended := fakeTask(queued), fakeTask(running), fakeTask(failed)
	gone.Id, ended.Id, ended.EndedAt = "sub-7", "sub-8", at(1)
	got, err := glance(t.Context(), &client{tasks: agentdv1.NewTaskServiceClient(conn)}, []*agentdv1.Task{root, gone, ended})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, task := range got {
		told = append(told, task.GetId()+" "+stateWord(task.GetState()))
	}
	if want := "sub-1 RUNNING, sub-7 COMPLETED, sub-8 FAILED, sub-2 QUEUED"; strings.Join(told, ", ") != want {
		t.Errorf("got %v, want %s", told, want)
	}
}

// TestTeamTree: teammates stand under the lead that spawned them, and others of the team at the left.
func TestTeamTree(t *testing.T) {
	all := fakeRoster()
	lead, led, other := all[0].GetTask(), all[1].GetTask(), all[2].GetTask()
	child := fakeTask(waiting)
	child.Id, child.ParentTaskId = "sub-8", "tm-2"
	lead.Usage.CostUsd, led.Usage.CostUsd, child.Usage.CostUsd = 1, 0.5, 0.25 // the child's is in its parent's
	compare(t, treeTable(tree([]*agentdv1.Task{lead, led, other, child}), 0, now()), `
ID         KIND      STATE           AGENT                ELAPSED  STEPS  TOKENS  COST   ACTIVITY
tm-1       TEAMMATE  RUNNING         team-lead (general)  01:05    0      1234    $1.00  bash: printf '␛[2J'
  tm-2     TEAMMATE  IDLE, 2 unread  lisa (coder)         01:05    0      1234    $0.50  Fix it
    sub-8  SUBAGENT  WAITING         general              01:05    0      1234    $0.25  bash: sh test.sh
tm-3       TEAMMATE  COMPLETED       max (general)        01:05    0      1234    -      bash: sh test.sh
`)
	if got := tally([]*agentdv1.Task{lead, led, child}, 0, now()); got != "3 tasks: 1 RUNNING, 1 WAITING, 1 IDLE  2.5k tok  $1.50  01:05" {
		t.Error(got)
	}
}

// TestStreamTellsOfTasks: a group's children are known although they were over before anybody asked.
func TestStreamTellsOfTasks(t *testing.T) {
	v := &live{met: make(chan struct{}), screen: newScreen(io.Discard, false, nil)}
	p := groupPlay()
	v.meet(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Task{Task: p.task}})
	for _, entry := range p.entries[:3] {
		v.meet(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Entry{Entry: entry}})
	}
	looked := fakeTask(running)
	looked.Id = "sub-9"
	v.learn([]*agentdv1.Task{looked})
	for _, entry := range p.entries[3:] {
		v.meet(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Entry{Entry: entry}})
	}
	tasks, ask := v.seen()
	var told []string
	for _, task := range tasks {
		told = append(told, task.GetId()+" "+stateWord(task.GetState()))
	}
	if want := "grp-1 FAILED, sub-2 COMPLETED, sub-9 RUNNING, sub-3 FAILED"; strings.Join(told, ", ") != want || !ask {
		t.Errorf("got %v, want %s", told, want)
	}
	v.meet(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Outcome{Outcome: p.outcome}})
	if _, ask := v.seen(); ask {
		t.Error("it asks for what has ended")
	}
}
