package main

import (
	"strings"
	"testing"
	"time"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// crowd is a run: a group with two agents, one of which has a shell, and a task that has nobody above it here.
func crowd() []*agentdv1.Task {
	task := func(id, parent, agent, activity string, state agentdv1.TaskState, kind agentdv1.TaskKind) *agentdv1.Task {
		t := fakeTask(state)
		t.Id, t.ParentTaskId, t.Agent, t.Activity, t.Kind = id, parent, agent, activity, kind
		if hasEnded(state) {
			t.EndedAt = at(5)
		}
		return t
	}
	const agents, groups, shells = agentdv1.TaskKind_TASK_KIND_SUBAGENT, agentdv1.TaskKind_TASK_KIND_GROUP, agentdv1.TaskKind_TASK_KIND_SHELL
	all := []*agentdv1.Task{
		task("grp-1", "", "", "", waiting, groups),
		task("sub-9", "sub-404", "lonely", "its parent is not here", running, agents),
		task("sub-2", "grp-1", "coder", "bash: echo \u6f22\u5b57 \x1b[2J\nand more", running, agents),
		task("sub-3", "grp-1", "\u8abf\u67fb\u54e1", "", queued, agents),
		task("sh-4", "sub-2", "", "make test", running, shells),
		task("sub-5", "grp-1", "coder", "", failed, agents),
		task("sub-6", "grp-1", "coder", "\u00e9tude", completed, agents),
	}
	all[0].Usage.Steps, all[0].Usage.CostUsd = 12, 1.25
	all[3].QueuePosition = 3
	all[5].Error, all[5].Reason = "no time", agentdv1.TaskReason_TASK_REASON_TIMEOUT
	return all
}

// now is a minute and 5 s after the tasks were made.
func now() time.Time { return at(0).AsTime().Add(65 * time.Second) }

func compare(t *testing.T, lines []string, want string) {
	t.Helper()
	if got := strings.Join(lines, "\n"); got != strings.Trim(want, "\n") {
		t.Errorf("got:\n%s", got)
	}
}

func TestTreeTable(t *testing.T) {
	compare(t, treeTable(tree(crowd()), 0, now()), `
ID        KIND      STATE      AGENT   ELAPSED  STEPS  TOKENS  COST   ACTIVITY
grp-1     GROUP     WAITING    -       01:05    12     1234    $1.25  Fix it
  sub-2   SUBAGENT  RUNNING    coder   01:05    0      1234    -      bash: echo 漢字 ␛[2J and more
    sh-4  SHELL     RUNNING    -       01:05    0      1234    -      make test
  sub-3   SUBAGENT  QUEUED #3  調査員  01:05    0      1234    -      Fix it
  sub-5   SUBAGENT  FAILED     coder   00:05    0      1234    -      TIMEOUT: no time
  sub-6   SUBAGENT  COMPLETED  coder   00:05    0      1234    -      étude
sub-9     SUBAGENT  RUNNING    lonely  01:05    0      1234    -      its parent is not here
`)
}

func TestNarrowTableIsCut(t *testing.T) {
	compare(t, plainTable(flat(crowd()[2:4]), 43, now()), `
ID     STATE      AGENT   ELAPSED  TOKENS …
sub-2  RUNNING    coder   01:05    1234   …
sub-3  QUEUED #3  調査員  01:05    1234   …
`)
	for width := 1; width < 90; width++ {
		for _, line := range treeTable(tree(crowd()), width, now()) {
			if columns(line) > width {
				t.Errorf("%q has %d columns, not %d", line, columns(line), width)
			}
		}
	}
}

func drawn(tasks []*agentdv1.Task, width, height int) []string {
	var all []string
	for _, l := range draw(tasks, width, height, now()) {
		all = append(all, l.text)
	}
	return all
}

func TestDrawing(t *testing.T) {
	tasks := append(crowd()[:1:1], crowd()[2:]...)
	compare(t, drawn(tasks, 100, 24), `
grp-1     -       WAITING    01:05  1.2k tok  Fix it
  sub-2   coder   RUNNING    01:05  1.2k tok  bash: echo 漢字 ␛[2J and more
    sh-4  -       RUNNING    01:05  1.2k tok  make test
  sub-3   調査員  QUEUED #3  01:05  1.2k tok  Fix it
  sub-5   coder   FAILED     00:05  1.2k tok  TIMEOUT: no time
  sub-6   coder   COMPLETED  00:05  1.2k tok  étude
6 tasks: 1 QUEUED, 2 RUNNING, 1 WAITING, 1 COMPLETED, 1 FAILED  1.2k tok  $1.25  01:05
`)
	// What has ended makes room first, then what is queued.
	compare(t, drawn(tasks, 60, 8), `
grp-1     -       WAITING    01:05  1.2k tok  Fix it
  sub-2   coder   RUNNING    01:05  1.2k tok  bash: echo …
    sh-4  -       RUNNING    01:05  1.2k tok  make test
  sub-3   調査員  QUEUED #3  01:05  1.2k tok  Fix it
  sub-5   coder   FAILED     00:05  1.2k tok  TIMEOUT: no …
6 tasks: 1 QUEUED, 2 RUNNING, 1 WAITING, 1 COMPLETED, 1 FA…
`)
	compare(t, drawn(tasks, 60, 5), `
grp-1    -      WAITING  01:05  1.2k tok  Fix it
  sub-2  coder  RUNNING  01:05  1.2k tok  bash: echo 漢字 …
6 tasks: 1 QUEUED, 2 RUNNING, 1 WAITING, 1 COMPLETED, 1 FA…
`)
}

// TestDrawingFits: no line reaches the right edge, and the block leaves room, whatever the terminal.
func TestDrawingFits(t *testing.T) {
	for width := 1; width < 100; width++ {
		for height := 1; height < 12; height++ {
			lines := drawn(crowd(), width, height)
			if len(lines) > max(0, height-2) {
				t.Errorf("%d lines on %d", len(lines), height)
			}
			for _, line := range lines {
				if columns(line) >= width {
					t.Errorf("%q reaches the edge of %d columns", line, width)
				}
			}
		}
	}
	if lines := drawn(nil, 80, 24); lines != nil {
		t.Errorf("without a task: %q", lines)
	}
}

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"漢字", 4, "漢字"}, {"漢字", 3, "漢…"}, {"漢字x", 4, "漢…"}, {"abc", 1, "…"},
		{"abc", 0, ""}, {"e\u0301e\u0301", 2, "e\u0301e\u0301"}, {"e\u0301bc", 2, "e\u0301…"},
	} {
		if got := cut(test.text, test.n); got != test.want {
			t.Errorf("%q in %d: %q, want %q", test.text, test.n, got, test.want)
		}
	}
}
