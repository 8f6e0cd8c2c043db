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

// Body is what an entry holds: *Input, *Assistant, *CallStarted, *ToolResult, *StateChange, *Notice, *Output or
// *Compaction.
type Body interface{ body() }

// Input is text given to the agent: its assignment, mail, or the end of a task that it spawned.
type Input struct {
	From      string // `user`, `team-lead`, a teammate's name, `daemon`, or a task id
	Text      string // word for word, or of a notice as the agent reads it
	MessageID string // empty for the assignment
	Summary   string // the sender's one line about it
	Color     string // of the sender
	Kind      MessageKind
	ControlID string // of a control message: what answers refer to, c-N
	Approve   bool   // of an answer
	Hops      int    // how often what led to it went from agent to agent (M7)
}

// MessageKind tells what a message is.
type MessageKind uint8

// The kinds of messages. The zero kind is Text.
const (
	Text             MessageKind = iota + 1
	Ended                        // the daemon tells that a task has ended
	WentIdle                     // the daemon tells that a teammate's turn has ended
	Returned                     // the daemon gives a message back that could not be delivered
	ShutdownRequest              // a teammate is asked to shut down
	ShutdownResponse             // its answer
	PlanRequest                  // a teammate asks for the approval of its plan
	PlanResponse                 // the answer
	Remark                       // the daemon tells of something else
)

// Assistant is what the model answered in one step.
type Assistant struct {
	Step      int // from 1
	Text      string
	Reasoning string
	Calls     []ToolCall // *asked*
	Usage     Usage
	Partial   bool // cut short by a stop; Text is what had come, without its calls
	Cut       bool // the provider's limit ended it; the next answer goes on with it
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
	Ends      []ID       // tasks whose end the answer tells, so that nothing else tells of it (R6)
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
	Repair bool   // it asks to repair the result (R2, R3)
	TaskID ID     // the child that it is about, in the transcript of a group
	State  State  // of that child
}

// Stream tells where a shell's bytes were written.
type Stream uint8

// The streams.
const (
	Stdout Stream = iota + 1
	Stderr
)

// Output is a piece of what a shell wrote, without a cut rune.
type Output struct {
	Data    []byte
	Stream  Stream
	Offset  int64 // bytes that both streams had before it, dropped ones included
	Dropped int64 // bytes right before it that were not kept
}

// Compaction replaces what is before it, but for the assignment, in the model's context.
type Compaction struct {
	Summary string
	Usage   Usage // of the summary; the step is counted
}

func (*Input) body()       {}
func (*Assistant) body()   {}
func (*CallStarted) body() {}
func (*ToolResult) body()  {}
func (*StateChange) body() {}
func (*Notice) body()      {}
func (*Output) body()      {}
func (*Compaction) body()  {}

// Delta is live text of a model call under way; the step's Assistant entry replaces it.
type Delta struct {
	Step    int
	Attempt int // from 1
	Text    string
	Reset   bool // the attempt failed: drop this step's text so far
}
