package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// maxActivity is how many columns the activity of a task takes in a pipe.
const maxActivity = 60

func (a *app) psCommand() *cobra.Command {
	req := &agentdv1.ListTasksRequest{}
	var all, asTree bool
	c := &cobra.Command{
		Use:   "ps",
		Short: "List tasks",
		Long: `ps lists living tasks, oldest first; with --all or --state also ended ones. A queued task shows its place in
the queue, a teammate its name and how many messages it has not taken. Steps, tokens and cost of a task are those of the
tasks below it too.`,
		Example: "  agentctl ps --tree",
		Args:    cobra.NoArgs,
	}
	flags := c.Flags()
	flags.BoolVar(&all, "all", false, "also ended tasks")
	flags.BoolVar(&asTree, "tree", false, "each task under its parent, teammates under the lead that spawned them; with kinds and steps")
	flags.Var(choose(&req.State,
		option[agentdv1.TaskState]{"queued", agentdv1.TaskState_TASK_STATE_QUEUED},
		option[agentdv1.TaskState]{"running", agentdv1.TaskState_TASK_STATE_RUNNING},
		option[agentdv1.TaskState]{"waiting", agentdv1.TaskState_TASK_STATE_WAITING},
		option[agentdv1.TaskState]{"idle", agentdv1.TaskState_TASK_STATE_IDLE},
		option[agentdv1.TaskState]{"stopping", agentdv1.TaskState_TASK_STATE_STOPPING},
		option[agentdv1.TaskState]{"completed", agentdv1.TaskState_TASK_STATE_COMPLETED},
		option[agentdv1.TaskState]{"failed", agentdv1.TaskState_TASK_STATE_FAILED},
		option[agentdv1.TaskState]{"killed", agentdv1.TaskState_TASK_STATE_KILLED}), "state", "only tasks in this state")
	flags.StringVar(&req.ParentTaskId, "parent", "", "only children of this `TASK`")
	return a.command(c, func(ctx context.Context, _ []string) error {
		req.Team = a.team
		req.Living = !all && req.GetState() == agentdv1.TaskState_TASK_STATE_UNSPECIFIED
		var err error
		if req.ParentTaskId, err = a.taskID(ctx, req.GetParentTaskId()); err != nil {
			return err
		}
		tasks, err := a.listTasks(ctx, req)
		switch {
		case err != nil:
			return err
		case a.json:
			for _, task := range tasks {
				if err := a.emit(task); err != nil {
					return err
				}
			}
			return nil
		}
		width := screenWidth(a.out.w)
		lines := plainTable(flat(tasks), width, time.Now())
		if asTree {
			lines = treeTable(tree(tasks), width, time.Now())
		}
		for _, line := range lines {
			fmt.Fprintln(a.out, line)
		}
		return a.out.err
	})
}

// listTasks reads all pages.
func (a *app) listTasks(ctx context.Context, req *agentdv1.ListTasksRequest) ([]*agentdv1.Task, error) {
	var tasks []*agentdv1.Task
	for {
		var page *agentdv1.ListTasksResponse
		err := a.persist(ctx, func(c *client) (err error) {
			page, err = c.tasks.ListTasks(ctx, req)
			return err
		})
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, page.GetTasks()...)
		if page.GetNextPageToken() == "" {
			return tasks, nil
		}
		req.PageToken = page.GetNextPageToken()
	}
}

// plainTable lists tasks for a screen of that width; 0 is a pipe.
func plainTable(tasks []branch, width int, now time.Time) []string {
	t := &table{}
	t.add("ID", "STATE", "AGENT", "ELAPSED", "TOKENS", "COST", "ACTIVITY")
	for _, task := range tasks {
		t.add(task.name(), stateCell(task.Task), agentCell(task.Task), elapsed(task.Task, now),
			strconv.FormatInt(spent(task.GetUsage()), 10), dollars(task.GetUsage()), activityCell(task.Task, width))
	}
	return t.lines(width)
}

// treeTable lists tasks with their kinds and steps too.
func treeTable(tasks []branch, width int, now time.Time) []string {
	t := &table{}
	t.add("ID", "KIND", "STATE", "AGENT", "ELAPSED", "STEPS", "TOKENS", "COST", "ACTIVITY")
	for _, task := range tasks {
		t.add(task.name(), kindWord(task.GetKind()), stateCell(task.Task), agentCell(task.Task), elapsed(task.Task, now),
			strconv.FormatInt(task.GetUsage().GetSteps(), 10), strconv.FormatInt(spent(task.GetUsage()), 10),
			dollars(task.GetUsage()), activityCell(task.Task, width))
	}
	return t.lines(width)
}

// activityCell is what a task does, on one line that is bounded in a pipe too.
func activityCell(task *agentdv1.Task, width int) string {
	if width == 0 {
		width = maxActivity
	}
	return oneLine(activity(task), width)
}
