package tool

import (
	"context"
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
)

// Names of the tools that the runtime knows.
const (
	BashName       = "bash"
	ReportName     = "report"
	SubagentName   = "subagent"
	TaskOutputName = "task_output"
	TaskStopName   = "task_stop"

	SendMessageName = "send_message"
	SubmitPlanName  = "submit_plan"
	TeamCreateName  = "team_create"
)

// Tasks is how one agent's tools reach the tasks that it starts; those of the lead reach all of its team, and name a teammate
// by its id or its name. What the model can correct is an *Error.
type Tasks interface {
	// Spawn starts a task below the agent, or a teammate. Under a call id that was used before it gives the task of then. The
	// assignment says what to run, and may name the team of a teammate; who asks, and where, is filled in.
	Spawn(ctx context.Context, callID string, a task.Assignment) (task.ID, error)
	// Expect says which tasks the calls that start now ask about, and no earlier ones any more: that one of these ends is
	// no mail to the others.
	Expect(ids []task.ID)
	// Wait waits until a task of the agent's has ended, or the turn of a teammate has, mail comes for the agent, or the timeout
	// passes (0: none). It returns at once when it would close a circle of waits (R9). Meanwhile the agent is WAITING and
	// holds no slot.
	Wait(ctx context.Context, id task.ID, timeout time.Duration) (Waited, error)
	// Look shows a task of the agent's as it is now.
	Look(ctx context.Context, id task.ID) (Waited, error)
	// Stop stops a task of the agent's and waits for its end, which it shows.
	Stop(ctx context.Context, id task.ID, level task.StopLevel) (Waited, error)
}

// WaitEnd is why a wait is over.
type WaitEnd uint8

// The ends of a wait.
const (
	TaskEnded WaitEnd = iota + 1 // Result is set
	MailCame                     // there is mail for the agent
	TimeOver
	Circle   // Members wait for each other
	Looked   // it was no wait
	TurnOver // a teammate has come to rest
)

// Waited is a task as a wait or a look found it.
type Waited struct {
	End      WaitEnd
	Task     task.Task
	AgentID  string // of a teammate: name@team
	Usage    task.Usage
	WallTime time.Duration
	Activity string       // what it does now, one line
	Result   *task.Result // when it has ended
	Children []Waited     // of a group, in the order of its items, as far as they came into being
	Output   string       // so far: the end of a shell's output, or an agent's last text
	Members  []task.ID    // of a circle: each waits for the next one, the last one for the first
}
