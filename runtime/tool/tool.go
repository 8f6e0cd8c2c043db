// Package tool is what an agent can do: the Tool interface and the built-in tools. Tools are stateless and shared by all
// agents; what one agent's tools may touch is its Scope. Every failure that the model can correct is an answer to it,
// never a Go error.
package tool

import (
	"context"
	"encoding/json"
	"io"

	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Tool is one thing that an agent can do.
type Tool interface {
	// Spec describes the tool; it is the same at every call.
	Spec() Spec
	// Run does it. An answer for the model, also a failed one, is an Answer; an error is a fault of the daemon or ctx's own.
	Run(ctx context.Context, call Call) (Answer, error)
}

// Spec describes a tool to the model and to the loop.
type Spec struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of the arguments object
	ReadOnly    bool            // has no effect: runs in parallel with its like, and again after a crash (D5)
	Idempotent  bool            // the daemon's own: run again under its call id it gives the first outcome (D5)
	// Again tells of arguments with which a call is Idempotent although not every one is; nil: of none.
	Again func(arguments json.RawMessage) bool
}

// RunsAgain tells whether a call with the arguments may run again when its outcome is unknown (D5).
func (s Spec) RunsAgain(arguments json.RawMessage) bool {
	return s.ReadOnly || s.Idempotent || s.Again != nil && s.Again(arguments)
}

// Call is one call of a tool.
type Call struct {
	ID        string
	Arguments json.RawMessage // a JSON object
	Hops      int             // highest of the messages that the turn took (M7)
	Scope     *Scope
}

// Scope is what one agent's tools may touch. It is made once for each start of a task.
type Scope struct {
	Workspace string // absolute, canonical; relative paths are relative to it
	Grant     grant.Grant
	Files     *sandbox.Roots // the way to the disk, opened from Workspace and Grant
	Known     *Known         // files the agent knows, from its own transcript
	Outputs   OutputSource
	Shell     Shell
	Tasks     Tasks
	Crew      Crew // of a teammate
	HasSchema bool // the task has a result schema: its report has an output
}

// OutputSource reads whole outputs of the agent's earlier calls (`@output/CALL_ID`).
type OutputSource interface {
	// Output opens what a call kept; RecordNotFound when it kept nothing.
	Output(ctx context.Context, callID string) (io.ReadCloser, error)
}

// Shell runs commands for one agent, as a process tree that it also ends.
type Shell interface {
	// Run runs the command line to its end, the end of ctx or the timeout, whichever comes first.
	Run(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error)
}

// Answer is what a call gave.
type Answer struct {
	Text    string          // whole output for the model; the loop bounds it and keeps the rest as @output/CALL_ID
	IsError bool            // Text is an Error as JSON
	Files   []task.FileMark // files whose content the agent knows now
	Report  *task.Report    // of the report tool: the agent's conclusion, which ends its turn
	Ends    []task.ID       // tasks whose end the answer tells: the agent is not told of it again (R6)
}

// Error is an answer that says what went wrong, so that the model need not guess.
type Error struct {
	Reason  Reason   `json:"reason"`
	Message string   `json:"message"`
	Subject string   `json:"subject,omitempty"`
	Allowed []string `json:"allowed,omitempty"`
}

// Error is the sentence for the model. Built-in tools return their failures as errors of this type.
func (e *Error) Error() string { return e.Message }

// Reason is the stable name of a failed call's cause, as the model sees it.
type Reason string

// The reasons of the built-in tools. What the runtime refuses for another reason, such as DEPTH_EXCEEDED, keeps its name.
const (
	InvalidArguments Reason = "INVALID_ARGUMENTS" // not the schema's JSON
	UnknownTool      Reason = "UNKNOWN_TOOL"      // no such tool; Allowed lists them
	NotGranted       Reason = "NOT_GRANTED"       // outside the grant; Allowed lists what is inside (P4)
	NotFound         Reason = "NOT_FOUND"
	NotText          Reason = "NOT_TEXT"        // binary content
	TooLarge         Reason = "TOO_LARGE"       // over a guard; the message says what to do
	NotUnique        Reason = "NOT_UNIQUE"      // old_string occurs more than once
	NoMatch          Reason = "NO_MATCH"        // old_string does not occur
	NotRead          Reason = "NOT_READ"        // the file must be read before it is changed
	Stale            Reason = "STALE"           // the file changed since it was read
	IOError          Reason = "IO_ERROR"        // the file system says no
	Failed           Reason = "FAILED"          // a fault of the daemon
	Repeated         Reason = "REPEATED"        // an identical call once too often
	OverBudget       Reason = "OVER_BUDGET"     // the budget of tool calls is used up
	OutcomeUnknown   Reason = "OUTCOME_UNKNOWN" // the daemon died while it ran
	NotStarted       Reason = "NOT_STARTED"     // the step was stopped before it ran
	Interrupted      Reason = "INTERRUPTED"     // it ran and was stopped
	WaitCircle       Reason = "WAIT_CIRCLE"     // the wait would never end (R9)
	PlanRequired     Reason = "PLAN_REQUIRED"   // until the agent's plan is approved it may only read
)

// Fail makes the answer of a failed call.
func Fail(e Error) Answer {
	text, err := json.Marshal(e)
	if err != nil { // strings always marshal
		text = []byte(e.Message)
	}
	return Answer{Text: string(text), IsError: true}
}
