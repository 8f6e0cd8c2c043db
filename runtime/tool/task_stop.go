package tool

import (
	"context"

	"github.com/agentd-dev/agentd/runtime/task"
)

type taskStopArgs struct {
	TaskID string `json:"task_id"`
	Level  string `json:"level,omitempty"`
}

func taskStopTool() Tool {
	return builtin[taskStopArgs]{
		spec: Spec{
			Name: TaskStopName,
			Description: "Stop a task that you started, with all below it, and get its end with what it had so far. One that " +
				"has ended already stays as it is. As team-lead you may stop every task of your team; to end a teammate in its own " +
				"time, send it a shutdown_request instead.",
			Parameters: schema(`
				"task_id":{"type":"string","minLength":1,"description":"the task, such as sub-17, sh-3 or grp-5; a lead may give a teammate's name"},
				"level":{"type":"string","enum":["wrap_up","cancel","kill"],"description":"wrap_up lets it finish its step and report, `+
				`cancel (default) ends its step now, kill ends it at once; each becomes the next one after a while"}`, "task_id"),
			Idempotent: true,
		},
		run: taskStop,
	}
}

func taskStop(ctx context.Context, call Call, args taskStopArgs) (Answer, error) {
	if args.TaskID == "" {
		return Answer{}, invalid("task_id", "must not be empty")
	}
	level, ok := map[string]task.StopLevel{
		"": task.Cancel, "wrap_up": task.WrapUp, "cancel": task.Cancel, "kill": task.Kill,
	}[args.Level]
	if !ok {
		return Answer{}, invalid("level", "must be wrap_up, cancel or kill, got %q", args.Level)
	}
	seen, err := call.Scope.Tasks.Stop(ctx, task.ID(args.TaskID), level)
	if err != nil {
		return Answer{}, err
	}
	return tell(seen)
}
