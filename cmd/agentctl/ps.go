package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) psCommand() *cobra.Command {
	req := &agentdv1.ListTasksRequest{}
	var all bool
	c := &cobra.Command{
		Use:   "ps",
		Short: "List tasks",
		Long:  "ps lists living tasks, oldest first; with --all or --state also ended ones.",
		Args:  cobra.NoArgs,
	}
	flags := c.Flags()
	flags.BoolVar(&all, "all", false, "also ended tasks")
	flags.Var(choose(&req.State,
		option[agentdv1.TaskState]{"queued", agentdv1.TaskState_TASK_STATE_QUEUED},
		option[agentdv1.TaskState]{"running", agentdv1.TaskState_TASK_STATE_RUNNING},
		option[agentdv1.TaskState]{"waiting", agentdv1.TaskState_TASK_STATE_WAITING},
		option[agentdv1.TaskState]{"stopping", agentdv1.TaskState_TASK_STATE_STOPPING},
		option[agentdv1.TaskState]{"completed", agentdv1.TaskState_TASK_STATE_COMPLETED},
		option[agentdv1.TaskState]{"failed", agentdv1.TaskState_TASK_STATE_FAILED},
		option[agentdv1.TaskState]{"killed", agentdv1.TaskState_TASK_STATE_KILLED}), "state", "only tasks in this state")
	flags.StringVar(&req.ParentTaskId, "parent", "", "only children of this `TASK`")
	return a.command(c, func(ctx context.Context, _ []string) error {
		req.Team = a.team
		req.Living = !all && req.GetState() == agentdv1.TaskState_TASK_STATE_UNSPECIFIED
		tasks, err := a.listTasks(ctx, req)
		if err != nil {
			return err
		}
		if a.json {
			for _, task := range tasks {
				if err := a.emit(task); err != nil {
					return err
				}
			}
			return nil
		}
		return a.tableOf(tasks)
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

func (a *app) tableOf(tasks []*agentdv1.Task) error {
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tAGENT\tELAPSED\tTOKENS\tACTIVITY")
	for _, task := range tasks {
		end := time.Now()
		if task.GetEndedAt() != nil {
			end = task.GetEndedAt().AsTime()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", task.GetId(), stateWord(task.GetState()), clean(task.GetAgent()),
			clock(end.Sub(task.GetCreatedAt().AsTime())), spent(task.GetUsage()), oneLine(activity(task), 60))
	}
	return table.Flush()
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
