package task

import "time"

// MaxModelName is the longest name of a model, in bytes.
const MaxModelName = 200

// Assignment is all that a fresh agent is told: the one typed entry that RPCs and tools use. It never carries the
// history of who assigns it.
type Assignment struct {
	RequestID          string // makes a retry return the first outcome; empty: no retry
	Caller             string // who asks, as the server authenticated it: scope of RequestID
	From               string // who the prompt is from: `user`, or a task id
	Team               string // team name; empty: the team of the workspace
	Workspace          string // absolute; empty: the team's
	Parent             ID     // empty: nobody
	Agent              string // definition; empty: general
	Prompt             string
	Inputs             []NamedText // named texts beside the prompt
	Model              string      // empty: the daemon's
	Description        string      // empty: the start of the prompt
	Budget             Budget
	CancelOnDisconnect bool
}

// NamedText is a text with a heading; TaskID instead of Text asks for an ended task's summary.
type NamedText struct {
	Name   string
	Text   string
	TaskID ID
}

// Result is how a task ended: what the parent or client sees instead of the transcript.
type Result struct {
	TaskID    ID
	State     State
	Reason    Reason
	Error     string
	Summary   string // NoSummary when the agent gave none
	Findings  []Finding
	Artifacts []Artifact
	Claims    []string // the agent's, unproven
	Changes   []string // paths that the file tools changed, sorted
	Usage     Usage
	WallTime  time.Duration
	Children  []ID
}

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
