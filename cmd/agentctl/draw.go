package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// line is a line of the live view, with the SGR code of its colour; none: as it is.
type line struct{ text, colour string }

// draw lays out a run's tasks for a terminal: a line for each, under its parent, and one about all. No line reaches the
// right edge, and two rows are left free. Where that is too small for all, those that have ended go first, then the
// queued and the idle ones.
func draw(tasks []*agentdv1.Task, width, height int, now time.Time) []line {
	if len(tasks) == 0 || height < 4 || width < 10 {
		return nil
	}
	shown := fitting(tree(tasks), height-3)
	t := &table{}
	for _, task := range shown {
		t.add(task.name(), agentCell(task.Task), stateCell(task.Task), elapsed(task.Task, now), tokens(spent(task.GetUsage())),
			oneLine(activity(task.Task), width))
	}
	var lines []line
	for i, text := range t.lines(width - 1) {
		lines = append(lines, line{text, colourOf(shown[i].GetState())})
	}
	return append(lines, line{text: cut(tally(tasks, len(tasks)-len(shown), now), width-1)})
}

// fitting leaves as many branches as there is room for, in their order.
func fitting(branches []branch, room int) []branch {
	if len(branches) <= room {
		return branches
	}
	byNeed := slices.Clone(branches)
	slices.SortStableFunc(byNeed, func(a, b branch) int { return cmp.Compare(need(a.Task), need(b.Task)) })
	last := need(byNeed[room-1].Task)
	left := room // of those that are needed as little as the last one
	for _, b := range byNeed[:room] {
		if need(b.Task) < last {
			left--
		}
	}
	return slices.DeleteFunc(slices.Clone(branches), func(b branch) bool {
		if need(b.Task) == last {
			left--
			return left < 0
		}
		return need(b.Task) > last
	})
}

// need tells how much people want to see a task: 0 most.
func need(task *agentdv1.Task) int {
	switch {
	case hasEnded(task.GetState()):
		return 2
	case task.GetState() == agentdv1.TaskState_TASK_STATE_QUEUED, task.GetState() == agentdv1.TaskState_TASK_STATE_IDLE:
		return 1
	}
	return 0
}

// hasEnded tells whether a state is terminal.
func hasEnded(s agentdv1.TaskState) bool {
	switch s {
	case agentdv1.TaskState_TASK_STATE_COMPLETED, agentdv1.TaskState_TASK_STATE_FAILED, agentdv1.TaskState_TASK_STATE_KILLED:
		return true
	default:
		return false
	}
}

// tally sums a run up, such as `3 tasks: 2 RUNNING, 1 QUEUED  12.3k tok  $0.0100  00:12`. What a task consumed holds that of
// its children, but not of the teammates that it leads.
func tally(tasks []*agentdv1.Task, hidden int, now time.Time) string {
	var states []string
	for state := agentdv1.TaskState_TASK_STATE_QUEUED; state <= agentdv1.TaskState_TASK_STATE_IDLE; state++ {
		n := 0
		for _, task := range tasks {
			if task.GetState() == state {
				n++
			}
		}
		if n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, stateWord(state)))
		}
	}
	text := count(len(tasks), "task", "tasks") + ": " + strings.Join(states, ", ")
	if hidden > 0 {
		text += fmt.Sprintf(" (%d not shown)", hidden)
	}
	all := &agentdv1.Usage{}
	for i, task := range tasks {
		if i == 0 || task.GetKind() == agentdv1.TaskKind_TASK_KIND_TEAMMATE {
			all.InputTokens += spent(task.GetUsage())
			all.CostUsd += task.GetUsage().GetCostUsd()
		}
	}
	text += "  " + tokens(spent(all))
	if all.GetCostUsd() > 0 {
		text += "  " + dollars(all)
	}
	return text + "  " + elapsed(tasks[0], now)
}

// colourOf is the colour of a state: what has ended is dim, what failed red, what waits yellow, what is idle cyan.
func colourOf(s agentdv1.TaskState) string {
	switch s {
	case agentdv1.TaskState_TASK_STATE_FAILED:
		return "31"
	case agentdv1.TaskState_TASK_STATE_QUEUED, agentdv1.TaskState_TASK_STATE_WAITING, agentdv1.TaskState_TASK_STATE_STOPPING:
		return "33"
	case agentdv1.TaskState_TASK_STATE_COMPLETED, agentdv1.TaskState_TASK_STATE_KILLED:
		return "2"
	case agentdv1.TaskState_TASK_STATE_IDLE:
		return "36"
	default:
		return ""
	}
}
