package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

const (
	bashTimeout   = 2 * time.Minute // by default, when it is waited for
	bashMax       = 10 * time.Minute
	backgroundMax = 24 * time.Hour
)

type bashArgs struct {
	Command     string `json:"command"`
	TimeoutMS   int    `json:"timeout_ms,omitempty"`
	Description string `json:"description,omitempty"`
	Background  bool   `json:"background,omitempty"`
}

func bashTool() Tool {
	return builtin[bashArgs]{
		spec: Spec{
			Name: BashName,
			Description: "Run a command line in the workspace with sh and wait for its end. Gives its output and, as the last " +
				"line, how it ended. Every call starts a new shell, without input; what it leaves running is killed. With " +
				"background it runs on as a task of its own, for servers and long builds: the call gives the task id at once, " +
				"task_output shows it, and you are told when it ends.",
			Parameters: schema(`
				"command":{"type":"string","minLength":1,"description":"command line"},
				"timeout_ms":{"type":"integer","minimum":1,"maximum":86400000,"description":"milliseconds until it is killed (default 120000, at most 600000; in the background none, at most 86400000)"},
				"description":{"type":"string","description":"what it does, in a few words"},
				"background":{"type":"boolean","description":"do not wait for its end"}`, "command"),
			Again: inBackground,
		},
		run: bash,
	}
}

func bash(ctx context.Context, call Call, args bashArgs) (Answer, error) {
	if strings.TrimSpace(args.Command) == "" {
		return Answer{}, invalid("command", "must not be empty")
	}
	if strings.ContainsRune(args.Command, 0) {
		return Answer{}, invalid("command", "must not hold a NUL byte")
	}
	if args.Background {
		return background(ctx, call, args)
	}
	if err := within("timeout_ms", args.TimeoutMS, 1, int(bashMax.Milliseconds())); err != nil {
		return Answer{}, err
	}
	timeout := time.Duration(cmp.Or(args.TimeoutMS, int(bashTimeout.Milliseconds()))) * time.Millisecond
	exit, err := call.Scope.Shell.Run(ctx, sandbox.Command{
		CallID: call.ID, Line: args.Command, Dir: call.Scope.Workspace, Timeout: timeout,
	})
	if err != nil {
		return Answer{Text: string(exit.Output)}, err
	}
	return Answer{Text: transcriptOf(exit, timeout)}, nil
}

// inBackground tells whether the arguments ask for a task: run again, the call gives the same one.
func inBackground(arguments json.RawMessage) bool {
	args, err := decode[bashArgs](arguments)
	return err == nil && args.Background
}

// background starts the command as a task.
func background(ctx context.Context, call Call, args bashArgs) (Answer, error) {
	if err := within("timeout_ms", args.TimeoutMS, 1, int(backgroundMax.Milliseconds())); err != nil {
		return Answer{}, err
	}
	timeout := time.Duration(args.TimeoutMS) * time.Millisecond
	id, err := call.Scope.Tasks.Spawn(ctx, call.ID, task.Assignment{
		Description: args.Description, Shell: &task.ShellSpec{Command: args.Command},
		AgentSpec: task.AgentSpec{Budget: task.Budget{WallTime: timeout}},
	})
	if err != nil {
		return Answer{}, err
	}
	return Answer{Text: fmt.Sprintf("The command runs in the background as task %s. You will be told when it ends; "+
		"%s shows its output so far or waits for it, %s stops it.", id, TaskOutputName, TaskStopName)}, nil
}

// transcriptOf is the output with a last line that tells the end.
func transcriptOf(exit sandbox.Exit, timeout time.Duration) string {
	out := string(exit.Output)
	if out != "" && !strings.HasSuffix(out, "\n") {
		out += "\n"
	}
	if exit.Dropped > 0 {
		out += fmt.Sprintf("[%d bytes in the middle of this output were too many and are lost]\n", exit.Dropped)
	}
	switch {
	case exit.TimedOut:
		return out + fmt.Sprintf("[killed: it took longer than %v]", timeout)
	case exit.Signal != "":
		return out + fmt.Sprintf("[ended by signal %s]", exit.Signal)
	case exit.Code != 0:
		return out + fmt.Sprintf("[failed with exit code %d]", exit.Code)
	}
	return out + "[exit code 0]"
}
