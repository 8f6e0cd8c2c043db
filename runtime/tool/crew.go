package tool

import (
	"context"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Crew is how a teammate's tools reach its team. What the model can correct is an *Error. Under a call id that was used
// before each gives the first outcome.
type Crew interface {
	// Send gives a message, or the answer of a control message, to somebody.
	Send(ctx context.Context, call Call, l Letter) (Posted, error)
	// SubmitPlan asks the leader for the approval of a plan and gives the control id that the answer will have.
	SubmitPlan(ctx context.Context, call Call, plan string) (controlID string, err error)
	// NameTeam gives the agent's team a name and a description.
	NameTeam(ctx context.Context, call Call, name, description string) error
}

// noCrew refuses a tool that an agent without a team about it was given.
func noCrew(tool string) error {
	return &Error{Reason: NotGranted, Subject: tool, Message: "only teammates and the lead have " + tool}
}

// Letter is what an agent sends.
type Letter struct {
	To        string
	Text      string // of a control message the reason or the feedback
	Summary   string
	Delivery  mailbox.Delivery
	Kind      task.MessageKind // zero: task.Text
	ControlID string           // of an answer
	Approve   bool             // of an answer
}

// Posted is what became of a letter.
type Posted struct {
	MessageID string
	ControlID string // of a control message
	Woken     bool   // the recipient was idle or had ended
}
