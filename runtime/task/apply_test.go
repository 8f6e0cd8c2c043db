package task_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

var update = flag.Bool("update", false, "write testdata/apply.golden and docs/states.md anew")

// change is a row of the matrix.
type change struct {
	name string
	task.Change
}

// changes lists every variant of every change, the wrong ones last.
func changes() []change {
	list := []change{
		{"start", task.Start{}}, {"resume", task.Resume{}}, {"wait", task.Wait{}}, {"proceed", task.Proceed{}},
		{"rest", task.Rest{}}, {"wake", task.Wake{}}, {"reopen", task.Reopen{}},
	}
	for _, level := range levels() {
		list = append(list, change{"stop " + level.String(), stop(level)})
	}
	for _, state := range task.States() {
		list = append(list, change{"finish " + state.String(), task.Finish{State: state, Reason: task.Done}})
	}
	return append(list,
		change{"finish without a reason", task.Finish{State: task.Failed}},
		change{"stop without a level", stop(0)},
		change{"stop without a reason", task.Stop{Order: task.StopOrder{Level: task.Kill, State: task.Killed}}},
		change{"stop without an end", task.Stop{
			Order: task.StopOrder{Level: task.Kill, State: task.Running, Reason: task.StoppedByClient},
		}},
		change{"a foreign change", foreign{}},
	)
}

// foreign is a change that Apply does not know.
type foreign struct{}

func (foreign) Arrow() string { return "foreign" }

func levels() []task.StopLevel { return []task.StopLevel{task.WrapUp, task.Cancel, task.Kill} }

func stop(level task.StopLevel) task.Stop {
	return task.Stop{Order: task.StopOrder{Level: level, State: task.Killed, Reason: task.StoppedByClient}}
}

// standing is a column: a state, and for STOPPING how hard the stop is by now.
type standing struct {
	state task.State
	level task.StopLevel
}

func standings() []standing {
	var list []standing
	for _, state := range task.States() {
		if state != task.Stopping {
			list = append(list, standing{state: state})
			continue
		}
		for _, level := range levels() {
			list = append(list, standing{state, level})
		}
	}
	return list
}

func (s standing) String() string { return name(s.state, s.level) }

func name(state task.State, level task.StopLevel) string {
	if state == task.Stopping {
		return state.String() + "/" + level.String()
	}
	return state.String()
}

// task is a teammate, which has all the arrows.
func (s standing) task() task.Task {
	t := task.Task{ID: "tm-1", Kind: task.Teammate, State: s.state, Start: 1, Incarnation: 1}
	if s.state == task.Stopping {
		order := stop(s.level).Order
		t.Stop = &order
	}
	if s.state.Terminal() {
		t.Reason = task.Done
	}
	return t
}

// outcome is a cell: where the change leads, or why it can't happen.
func outcome(s standing, c task.Change) string {
	before := s.task()
	after, err := task.Apply(before, c, time.Unix(1, 0))
	if err != nil {
		return errdefs.As(err).Reason.String()
	}
	cell := name(after.State, stopLevel(after))
	if after.Start != before.Start {
		cell += " start+1"
	}
	if after.Incarnation != before.Incarnation {
		cell += " incarnation+1"
	}
	return cell
}

func stopLevel(t task.Task) task.StopLevel {
	if t.Stop == nil {
		return 0
	}
	return t.Stop.Level
}

// TestMatrix compares what Apply does to every state by every change with the golden file. proves S1
func TestMatrix(t *testing.T) {
	var b strings.Builder
	for _, s := range standings() {
		for _, c := range changes() {
			fmt.Fprintf(&b, "%-18s %-24s %s\n", s, c.name, outcome(s, c.Change))
		}
		b.WriteString("\n")
	}
	compare(t, filepath.Join("testdata", "apply.golden"), b.String())
}

// TestDocs compares docs/states.md with the same matrix.
func TestDocs(t *testing.T) {
	compare(t, filepath.Join("..", "..", "docs", "states.md"), page())
}

func compare(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what Apply does (%v): go test ./runtime/task -update, and look at the difference", path, err)
	}
}

// page is docs/states.md.
func page() string {
	var b strings.Builder
	b.WriteString(`# The states of a task

<!-- Written from what task.Apply does: go test ./runtime/task -update -->

A task changes its state only along these arrows; what has no arrow is refused. The first change to a terminal state
wins and is final. A teammate alone can be reopened: that is its next incarnation. Only a teammate rests and wakes, too.

` + "```mermaid\nstateDiagram-v2\n    [*] --> QUEUED: spawn\n")
	for _, a := range arrows() {
		fmt.Fprintf(&b, "    %s --> %s: %s\n", a.from, a.to, a.name)
	}
	b.WriteString("    COMPLETED --> [*]\n    FAILED --> [*]\n    KILLED --> [*]\n```\n")
	b.WriteString(`
| arrow | when |
| --- | --- |
| spawn | the task is on disk, and acknowledged |
| start | its loop really exists, in its first slot |
| wait | the provider's rate limit holds it, or it waits for a child; it gives its slot back |
| proceed | it has a slot again |
| resume | it has a new loop, after the daemon was gone or the store had stalled; what had been waiting runs |
| rest | a teammate's turn has ended: it lives on as its rows in the store, without a slot |
| wake | mail begins the next turn of an idle teammate; it has a slot |
| stop | its end was asked for, or a harder end: WRAP_UP, then CANCEL, then KILL. A queued or idle task is not stopped, it ends |
| finish | it has ended; the reason says why |
| reopen | a message revives a teammate that has ended: it is queued in its next incarnation |

What each change makes of each state; ` + "`-`" + ` is no arrow:

| change |`)
	for _, s := range standings() {
		fmt.Fprintf(&b, " %s |", s)
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(standings())+1) + "\n")
	for _, c := range arrowChanges() {
		fmt.Fprintf(&b, "| %s |", c.name)
		for _, s := range standings() {
			cell, _, _ := strings.Cut(outcome(s, c.Change), " ")
			if cell == errdefs.Conflict.String() || cell == errdefs.TaskEnded.String() {
				cell = "-"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// arrowChanges are the changes that lead somewhere from some state.
func arrowChanges() []change {
	var list []change
	for _, c := range changes() {
		for _, s := range standings() {
			if _, err := task.Apply(s.task(), c.Change, time.Unix(1, 0)); err == nil {
				list = append(list, c)
				break
			}
		}
	}
	return list
}

// arrow is an arrow of the diagram.
type arrow struct {
	from, to task.State
	name     string
}

// arrows lists the arrows of the matrix between states, each once.
func arrows() []arrow {
	var list []arrow
	seen := map[arrow]bool{}
	for _, s := range standings() {
		for _, c := range changes() {
			after, err := task.Apply(s.task(), c.Change, time.Unix(1, 0))
			if err != nil {
				continue
			}
			a := arrow{s.state, after.State, c.Arrow()}
			if !seen[a] {
				seen[a] = true
				list = append(list, a)
			}
		}
	}
	return list
}
