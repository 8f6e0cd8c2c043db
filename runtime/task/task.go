// Package task is the noun at the heart of agentd: one registered piece of work, its states, its transcript's entries,
// its result. It is pure: no clock, no disk, no wire. A task changes only by a Change that Apply allows.
package task

import (
	"time"

	"github.com/agentd-dev/agentd/runtime/grant"
)

// State is where a task stands.
type State uint8

// The states. Completed, Failed and Killed are terminal.
const (
	Queued    State = iota + 1 // durable, not started
	Running                    // a loop works on it
	Waiting                    // it waits for the provider's rate limit or for a child, and holds no slot
	Stopping                   // a stop was asked for
	Completed                  // did what was asked
	Failed                     // could not
	Killed                     // was stopped
	Idle                       // a teammate between two turns: it holds no slot, and mail wakes it
)

// States lists all states in the order of a life.
func States() []State {
	return []State{Queued, Running, Waiting, Idle, Stopping, Completed, Failed, Killed}
}

// Terminal tells whether the state is final for an incarnation.
func (s State) Terminal() bool { return s == Completed || s == Failed || s == Killed }

// String is the contract's word for the state.
func (s State) String() string {
	switch s {
	case Queued:
		return "QUEUED"
	case Running:
		return "RUNNING"
	case Waiting:
		return "WAITING"
	case Stopping:
		return "STOPPING"
	case Completed:
		return "COMPLETED"
	case Failed:
		return "FAILED"
	case Killed:
		return "KILLED"
	case Idle:
		return "IDLE"
	}
	return "NONE"
}

// Reason tells why a task is terminal.
type Reason uint8

// The reasons.
const (
	Done              Reason = iota + 1 // the agent ended its turn by itself
	StoppedByClient                     // a client asked for the stop
	ParentEnded                         // the parent task ended
	MaxSteps                            // the steps of the turn ran out
	BudgetExceeded                      // the budget ran out
	Timeout                             // the wall time ran out
	ModelError                          // the model could not be asked
	ContextOverflow                     // the history no longer fits the model's context
	NoProgress                          // repeated an identical call although it was told
	Panic                               // the loop panicked
	SpawnFailed                         // could not be started
	CrashLoop                           // took the daemon down repeatedly
	Interrupted                         // a shell whose daemon stopped or went down
	ExitNonzero                         // a shell whose command failed
	ContractViolation                   // the output violates its schema after the repair rounds
	AcceptanceFailed                    // a check fails after the repair rounds
	Shutdown                            // a teammate that was asked to shut down
)

// Reasons lists all reasons in order.
func Reasons() []Reason {
	return []Reason{
		Done, StoppedByClient, ParentEnded, MaxSteps, BudgetExceeded, Timeout, ModelError, ContextOverflow, NoProgress,
		Panic, SpawnFailed, CrashLoop, Interrupted, ExitNonzero, ContractViolation, AcceptanceFailed,
		Shutdown,
	}
}

// String is the contract's word for the reason; empty for none.
func (r Reason) String() string {
	switch r {
	case Done:
		return "DONE"
	case StoppedByClient:
		return "STOPPED_BY_CLIENT"
	case ParentEnded:
		return "PARENT_ENDED"
	case MaxSteps:
		return "MAX_STEPS"
	case BudgetExceeded:
		return "BUDGET_EXCEEDED"
	case Timeout:
		return "TIMEOUT"
	case ModelError:
		return "MODEL_ERROR"
	case ContextOverflow:
		return "CONTEXT_OVERFLOW"
	case NoProgress:
		return "NO_PROGRESS"
	case Panic:
		return "PANIC"
	case SpawnFailed:
		return "SPAWN_FAILED"
	case CrashLoop:
		return "CRASH_LOOP"
	case Interrupted:
		return "INTERRUPTED"
	case ExitNonzero:
		return "EXIT_NONZERO"
	case ContractViolation:
		return "CONTRACT_VIOLATION"
	case AcceptanceFailed:
		return "ACCEPTANCE_FAILED"
	case Shutdown:
		return "SHUTDOWN"
	}
	return ""
}

// StopLevel is how hard a task is being stopped; higher is harder. 0 is no stop.
type StopLevel uint8

// The levels.
const (
	WrapUp StopLevel = iota + 1 // finish the step, then report
	Cancel                      // end the step now, keep what there is
	Kill                        // end at once
)

// String is the contract's word for the level; empty for none.
func (l StopLevel) String() string {
	switch l {
	case WrapUp:
		return "WRAP_UP"
	case Cancel:
		return "CANCEL"
	case Kill:
		return "KILL"
	}
	return ""
}

// StopOrder is a stop that was asked for.
type StopOrder struct {
	Level         StopLevel
	State         State         // terminal state that the stop leads to
	Reason        Reason        // terminal reason that the stop leads to
	Message       string        // why, for people
	WrapUpTimeout time.Duration // until WrapUp becomes Cancel
	CancelTimeout time.Duration // until Cancel becomes Kill
}

// Patience is the time that the level has before the next one.
func (o StopOrder) Patience() time.Duration {
	if o.Level == WrapUp {
		return o.WrapUpTimeout
	}
	return o.CancelTimeout
}

// Finish is the end that the stop leads to.
func (o StopOrder) Finish() Finish { return Finish{State: o.State, Reason: o.Reason, Error: o.Message} }

// Default bounds of a task.
const (
	DefaultMaxSteps      = 30               // model calls a turn (R5)
	DefaultWrapUpTimeout = 30 * time.Second // T1
	DefaultCancelTimeout = 10 * time.Second // T1
	MaxDepth             = 5                // length of a chain of parents (R7)
)

// Bounds of a budget.
const (
	MaxMaxSteps = 1000 // model calls a turn
	MaxWallTime = 365 * 24 * time.Hour
	MaxCost     = 1_000_000 * Dollar
)

// Budget bounds a task. Zero fields are no bound, except MaxSteps, which is always set.
type Budget struct {
	MaxSteps int           // model calls a turn; the last is the wrap-up
	Steps    int64         // model calls, of the task and those below it
	Tokens   int64         // input and output tokens, of the task and those below it
	WallTime time.Duration // of one turn

	Turns     int64 // of the task and those below it
	ToolCalls int64 // answered, of the task and those below it
	Cost      int64 // nano-dollars, of the task and those below it
}

// Shared tells whether the budget bounds what the task and those below it consume together.
func (b Budget) Shared() bool {
	return b.Steps > 0 || b.Tokens > 0 || b.Turns > 0 || b.ToolCalls > 0 || b.Cost > 0
}

// Dollar is one US dollar as costs are counted.
const Dollar = 1_000_000_000

// Usage is what a task and those below it consumed. Its wall time is not counted but follows from the task.
type Usage struct {
	InputTokens, OutputTokens, CachedTokens, ReasoningTokens int64
	Steps, Turns, ToolCalls                                  int64
	Cost                                                     int64 // nano-dollars
}

// Vector is the usage as the numbers that the store adds up. Fields are only ever appended to it.
func (u Usage) Vector() []int64 {
	return []int64{
		u.InputTokens, u.OutputTokens, u.CachedTokens, u.ReasoningTokens, u.Steps, u.Turns, u.ToolCalls, u.Cost,
	}
}

// UsageOf reads a vector, which may be shorter or longer than today's.
func UsageOf(v []int64) Usage {
	var w [8]int64
	copy(w[:], v)
	return Usage{w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]}
}

// Minus is the usage without another one.
func (u Usage) Minus(other Usage) Usage {
	v, w := u.Vector(), other.Vector()
	for i := range v {
		v[i] -= w[i]
	}
	return UsageOf(v)
}

// Tokens are the input and output tokens together.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Task is one registered piece of work, as its record keeps it. Usage, last position and activity are not in it: they
// follow from other rows.
type Task struct {
	ID                 ID
	Team               string // the team's immutable id, t-N
	Kind               Kind
	Agent              string // agent definition
	Model              string
	Description        string
	Workspace          string // absolute, canonical
	Parent             ID     // empty for a client's spawn
	Ancestors          []ID   // Parent first, then its parent
	CallID             string // the parent's tool call that spawned it; empty: a client or a group did
	Grant              grant.Grant
	Budget             Budget
	CancelOnDisconnect bool   // its client's leaving ends it; of a teammate, as far as its spawn's stream goes (T6)
	Name               string // of a teammate; of the lead LeadName
	Color              string // of a teammate, for people
	SpawnedBy          ID     // the lead that spawned a teammate; empty: a client did (N4)
	UntilQuiet         bool   // a lead that ends when its team is quiet

	State       State
	Reason      Reason
	Error       string     // one line; empty when nothing went wrong
	Stop        *StopOrder // set while Stopping and after
	Incarnation int        // from 1
	Start       int        // counts each start and resume; a loop of an older start can commit nothing
	Created     time.Time
	Started     time.Time // first start; zero before
	Ended       time.Time // zero while it lives

	Turn     time.Time     // when the turn began that is under way; zero: none is
	Worked   time.Duration // what earlier turns took
	Forgiven Usage         // of incarnations whose budget ran out: the budget does not count it
}

// LeadName is the name of a team's lead.
const LeadName = "team-lead"

// IsLead tells whether the task is its team's lead.
func (t Task) IsLead() bool { return t.Kind == Teammate && t.Name == LeadName }

// Root is the task at the top of those above it, or itself.
func (t Task) Root() ID {
	if len(t.Ancestors) == 0 {
		return t.ID
	}
	return t.Ancestors[len(t.Ancestors)-1]
}

// Depth is the number of tasks above it, without groups.
func (t Task) Depth() int {
	depth := 0
	for _, id := range t.Ancestors {
		if id.Kind() != Group {
			depth++
		}
	}
	return depth
}

// WallTime is how long its turns took so far: the time from its start to its end, or to now, without those in which it was
// idle or ended.
func (t Task) WallTime(now time.Time) time.Duration {
	if t.Turn.IsZero() {
		return t.Worked
	}
	return t.Worked + now.Sub(t.Turn)
}
