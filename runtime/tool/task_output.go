package tool

import (
	"cmp"
	"context"
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
)

const (
	waitTimeout = time.Minute // by default
	waitMax     = 10 * time.Minute
)

// MaxSoFar is how much the model is shown of what a living task has given so far, in bytes.
const MaxSoFar = 16 << 10

type taskOutputArgs struct {
	TaskID    string `json:"task_id"`
	Block     bool   `json:"block,omitempty"`
	TimeoutMS int    `json:"timeout_ms,omitempty"`
}

func taskOutputTool() Tool {
	return builtin[taskOutputArgs]{
		spec: Spec{
			Name: TaskOutputName,
			Description: "Look at a task that you started, or wait for its end with block. Of a task that has ended you get the " +
				"whole result; of one that runs its state, what it does now and its latest output. You are told of each end " +
				"anyway, so block only when you have nothing else to do; do not poll. A wait ends early when mail comes for you. " +
				"As team-lead you may do this with every task of your team; of a teammate you wait for the end of its turn.",
			Parameters: schema(`
				"task_id":{"type":"string","minLength":1,"description":"the task, such as sub-17, sh-3 or grp-5; a lead may give a teammate's name"},
				"block":{"type":"boolean","description":"wait until it has ended, or a teammate rests"},
				"timeout_ms":{"type":"integer","minimum":1,"maximum":600000,"description":"milliseconds to wait with block (default 60000)"}`,
				"task_id"),
			ReadOnly: true,
		},
		run: taskOutput,
	}
}

func taskOutput(ctx context.Context, call Call, args taskOutputArgs) (Answer, error) {
	if args.TaskID == "" {
		return Answer{}, invalid("task_id", "must not be empty")
	}
	if err := within("timeout_ms", args.TimeoutMS, 1, int(waitMax.Milliseconds())); err != nil {
		return Answer{}, err
	}
	id := task.ID(args.TaskID)
	var seen Waited
	var err error
	if args.Block {
		timeout := time.Duration(cmp.Or(args.TimeoutMS, int(waitTimeout.Milliseconds()))) * time.Millisecond
		seen, err = call.Scope.Tasks.Wait(ctx, id, timeout)
	} else {
		seen, err = call.Scope.Tasks.Look(ctx, id)
	}
	if err != nil {
		return Answer{}, err
	}
	return tell(seen)
}
