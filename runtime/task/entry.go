package task

import "time"

// Seq is the position of an entry in a task's transcript: increasing, with gaps. 0 is before the first.
type Seq uint64

// Entry is one position of a transcript.
type Entry struct {
	Seq  Seq
	Time time.Time
	Body Body
}

// Body is what an entry holds: *Input, *Assistant, *CallStarted, *ToolResult, *StateChange or *Notice.
type Body interface{ body() }

// Input is text given to the agent: its assignment, or mail.
type Input struct {
	From      string // `user`, or a task id
	Text      string
	MessageID string // empty for the assignment
}

// Assistant is what the model answered in one step.
type Assistant struct {
	Step      int // from 1
	Text      string
	Reasoning string
	Calls     []ToolCall // *asked*
	Usage     Usage
	Partial   bool // cut short by a stop; Text is what had come, without its calls
}

// ToolCall is one call that the model asked for.
type ToolCall struct {
	ID        string // the daemon's, unique in the task: [a-z0-9]{9}
	Name      string
	Arguments string // as the model wrote them, which may be malformed
}

// CallStarted marks that the calls may have had an effect from here on. It is not shown to clients.
type CallStarted struct {
	CallIDs []string
	Label   string // what they do, one line for people
}

// ToolResult is *answered*: the one answer of a call.
type ToolResult struct {
	CallID    string
	Tool      string
	Text      string // what the model is given
	IsError   bool
	Truncated bool       // Text is head and tail of what @output/CALL_ID keeps
	Files     []FileMark // files whose content the agent knows from this call
	Report    *Report    // the accepted report, for the report tool
}

// FileMark says that the agent knows a file at a content: it read or wrote it.
type FileMark struct {
	Path    string // absolute
	Hash    string // hex SHA-256 of the whole content
	Changed bool   // the call changed the file
}

// StateChange is one arrow of the state machine.
type StateChange struct {
	From, To State
	Reason   Reason
}

// Notice is a remark of the daemon, which the agent sees too.
type Notice struct {
	Text   string
	WrapUp Reason // it asks for the wrap-up, for this reason; 0 = it does not
}

func (*Input) body()       {}
func (*Assistant) body()   {}
func (*CallStarted) body() {}
func (*ToolResult) body()  {}
func (*StateChange) body() {}
func (*Notice) body()      {}

// Delta is live text of a model call under way; the step's Assistant entry replaces it.
type Delta struct {
	Step    int
	Attempt int // from 1
	Text    string
	Reset   bool // the attempt failed: drop this step's text so far
}
