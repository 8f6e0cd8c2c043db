package task

import (
	"time"

	"github.com/agentd-dev/agentd/runtime/grant"
)

// MaxModelName is the longest name of a model, in bytes.
const MaxModelName = 200

// Limits of a spawn (N8, R7).
const (
	MaxItems      = 8         // of a group
	MaxChecks     = 8         // acceptance commands
	MaxSchema     = 64 << 10  // bytes of a result schema
	MaxCommand    = 64 << 10  // bytes of a command line
	MaxPrompt     = 256 << 10 // bytes of a prompt and its inputs together
	DefaultAtOnce = 4         // of a parallel group
)

// Previous stands in a chain's prompts for the conclusion of the step before.
const Previous = "{previous}"

// Assignment is all that a fresh task is told: the one typed entry that RPCs and tools use. It never carries the
// history of who assigns it. Without Group and Shell it is one agent's.
type Assignment struct {
	RequestID          string // makes a retry return the first outcome; empty: no retry
	Caller             string // who asks, as the server authenticated it: scope of RequestID
	From               string // who the prompt is from: `user`, or a task id
	Team               string // team name; empty: the team of the workspace
	Workspace          string // absolute; empty: the team's
	Parent             ID     // empty: nobody
	CallID             string // the parent's tool call that asks; empty: a client asks
	Description        string // empty: the start of the prompt
	CancelOnDisconnect bool

	AgentSpec               // of a single agent; of a group and a shell only Budget and Grant
	Group     *GroupSpec    // several agents instead
	Shell     *ShellSpec    // a command line instead
	Teammate  *TeammateSpec // the agent is a teammate, or the lead
}

// TeammateSpec says what the agent is in its team.
type TeammateSpec struct {
	Name         string // of the lead LeadName
	Color        string // empty: one that the team has least of
	PlanApproval bool   // it may only read until its plan is approved
	UntilQuiet   bool   // of the lead
}

// AgentSpec says what one agent is to do.
type AgentSpec struct {
	Agent      string // definition; empty: general
	Prompt     string
	Inputs     []NamedText // named texts beside the prompt
	Model      string      // empty: the definition's, else the daemon's
	Budget     Budget
	Grant      grant.Request
	Worktree   bool // it asks for a worktree of its own
	Acceptance []Check
	Schema     string // JSON Schema of its output; empty: none
}

// NamedText is a text with a heading; TaskID instead of Text asks for an ended task's summary.
type NamedText struct {
	Name   string
	Text   string
	TaskID ID
}

// Check is an acceptance command.
type Check struct {
	Command string
	Timeout time.Duration // 0: 10 minutes
}

// GroupSpec says which agents a group runs, and how.
type GroupSpec struct {
	Chain          bool // one after the other
	Items          []AgentSpec
	MaxConcurrency int // of a parallel group; 0: DefaultAtOnce
	ResumeFrom     ID  // an ended chain, whose completed steps are kept
}

// ShellSpec says what a shell runs.
type ShellSpec struct {
	Command string
	Dir     string   // absolute, or relative to the workspace; empty: the workspace
	Env     []string // NAME=VALUE, beside what every command gets
}

// Draft is a task that is about to be made, with all that goes with it.
type Draft struct {
	Task    Task
	Spec    Spec
	Opening string // its first input; empty: none
}

// Spec is what a task was given beside its record. It never changes.
type Spec struct {
	Instructions string      // prompt of the agent definition; empty: none
	Agents       []AgentNote // definitions that it may delegate to
	Dropped      []string    // tools of the definition that are not granted
	Acceptance   []Check
	Schema       string
	Shell        *ShellSpec // with an absolute Dir
	Group        *Formation
	PlanApproval bool // of a teammate: it may only read until its plan is approved
}

// AgentNote tells a delegating agent of a definition.
type AgentNote struct {
	Name        string
	Description string
}

// Formation is how a group runs its children.
type Formation struct {
	Chain          bool
	Kept           []ID // ended tasks of an earlier chain, which stand for the first items
	Children       []ID // its own, in the order of the items after those kept; those of a chain come into being one by one
	MaxConcurrency int
}

// Result is how a task ended: what the parent or client sees instead of the transcript.
type Result struct {
	TaskID ID
	State  State
	Reason Reason
	Error  string
	Conclusion
	Usage    Usage
	WallTime time.Duration
	Children []ID
}

// Conclusion is what an ended task leaves, beside its record.
type Conclusion struct {
	Report              // the agent's; the Summary of a group and a shell is the daemon's
	Changes  []string   // paths that changed, sorted
	Evidence []Evidence // of the daemon's checks
	Output   string     // raw, with a schema
	ExitCode *int       // of a shell
}

// Evidence is what an acceptance command gave.
type Evidence struct {
	Command  string
	ExitCode int // -1: a signal or the timeout ended it
	TimedOut bool
	Output   string // its end
}

// Passed tells whether the check held.
func (e Evidence) Passed() bool { return e.ExitCode == 0 && !e.TimedOut }

// NoSummary stands for a conclusion that was not given.
const NoSummary = "(no summary)"

// Finding is something an agent found out.
type Finding struct {
	Title  string `json:"title"`
	Detail string `json:"detail,omitempty"`
	Path   string `json:"path,omitempty"`
	Line   int    `json:"line,omitempty"` // from 1; 0 = none
}

// Artifact is a file that an agent made.
type Artifact struct {
	Path        string `json:"path"`
	Description string `json:"description,omitempty"`
}

// Report is the agent's structured conclusion, as the report tool takes it.
type Report struct {
	Summary   string     `json:"summary"`
	Findings  []Finding  `json:"findings,omitempty"`
	Artifacts []Artifact `json:"artifacts,omitempty"`
	Claims    []string   `json:"claims,omitempty"`
}
