package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// branch is a task with how far it stands below the first one above it that is shown too.
type branch struct {
	*agentdv1.Task
	level int
}

// name is the task's id, set in under its parent.
func (b branch) name() string { return strings.Repeat("  ", b.level) + b.GetId() }

// leadName is the name of every team's lead.
const leadName = "team-lead"

// overOf is the task that one stands under: its parent, or the lead that spawned a teammate; empty: none.
func overOf(task *agentdv1.Task) string { return cmp.Or(task.GetParentTaskId(), task.GetSpawnedBy()) }

// tree puts each task under the one above it, else in the order given. Those with none above among them stand at the left.
func tree(tasks []*agentdv1.Task) []branch {
	present, below := map[string]bool{}, map[string][]*agentdv1.Task{}
	for _, task := range tasks {
		present[task.GetId()] = true
	}
	for _, task := range tasks {
		parent := overOf(task)
		if !present[parent] {
			parent = ""
		}
		below[parent] = append(below[parent], task)
	}
	var branches []branch
	var grow func(parent string, level int)
	grow = func(parent string, level int) {
		for _, task := range below[parent] {
			branches = append(branches, branch{task, level})
			grow(task.GetId(), level+1)
		}
	}
	grow("", 0)
	return branches
}

// flat leaves the tasks in their order, none under another.
func flat(tasks []*agentdv1.Task) []branch {
	var branches []branch
	for _, task := range tasks {
		branches = append(branches, branch{task, 0})
	}
	return branches
}

// stateCell is the state of a task, with its place in the queue while it waits there, and its unread mail, such as `QUEUED #3`
// or `RUNNING, 2 unread`.
func stateCell(task *agentdv1.Task) string {
	cell := stateWord(task.GetState())
	if place := task.GetQueuePosition(); place > 0 {
		cell += fmt.Sprintf(" #%d", place)
	}
	if unread := task.GetUnread(); unread > 0 {
		cell += fmt.Sprintf(", %d unread", unread)
	}
	return cell
}

// agentCell is the agent of a task, of a teammate such as `lisa (coder)`; a shell or a group has none.
func agentCell(task *agentdv1.Task) string {
	switch {
	case task.GetAgent() == "":
		return "-"
	case task.GetName() != "":
		return oneLine(task.GetName(), 30) + " (" + oneLine(task.GetAgent(), 30) + ")"
	}
	return oneLine(task.GetAgent(), 30)
}

// kindWord is a kind without its prefix, such as GROUP.
func kindWord(k agentdv1.TaskKind) string { return strings.TrimPrefix(k.String(), "TASK_KIND_") }

// elapsed is the time since the task's creation, up to its end.
func elapsed(task *agentdv1.Task, now time.Time) string {
	if task.GetEndedAt() != nil {
		now = task.GetEndedAt().AsTime()
	}
	return clock(now.Sub(task.GetCreatedAt().AsTime()))
}

// activity is what a task does, or how it ended, or what it is for.
func activity(task *agentdv1.Task) string {
	switch {
	case task.GetError() != "":
		return reasonWord(task.GetReason()) + ": " + task.GetError()
	case task.GetActivity() != "":
		return task.GetActivity()
	}
	return task.GetDescription()
}
