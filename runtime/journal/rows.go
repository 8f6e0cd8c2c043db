package journal

import (
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
)

// Live is what a living task's loop is guarded by, and how its starts went (D6).
type Live struct {
	Start         int  // start number of the newest loop
	Restarts      int  // restarts in a row that committed no step
	Alone         bool // the newest start was alone
	FailedResumes int  // resumes in a row that failed
}

// DueKind tells what happens at a deadline.
type DueKind uint8

// The kinds of deadline.
const (
	DueTimeout  DueKind = iota + 1 // the wall time is over
	DueStop                        // a stop level is over: the next one follows
	DueReattach                    // the client of a cancel_on_disconnect spawn did not come back
	DueResume                      // the backoff of a suspect is over (D6)
	DueShutdown                    // a teammate has not answered the request to shut down (T5)
	DueExpiry                      // a message is delivered no more; its id stands for the task's, its recipient is in `sent`
)

// dueKinds are those of tasks.
func dueKinds() []DueKind { return []DueKind{DueTimeout, DueStop, DueReattach, DueResume, DueShutdown} }

// Due is a deadline of a task, or of a message to it.
type Due struct {
	At     time.Time
	TaskID task.ID
	Kind   DueKind
}

func dueKey(id task.ID, kind DueKind) string {
	names := map[DueKind]string{
		DueTimeout: "timeout", DueStop: "stop", DueReattach: "reattach", DueResume: "resume",
		DueShutdown: "shutdown", DueExpiry: "expiry",
	}
	return "due/" + string(id) + "/" + names[kind]
}

// Request is the first outcome of a client's request id.
type Request struct {
	Body      []byte // SHA-256 of the request's body
	TaskID    task.ID
	MessageID string
}

// RequestKey is the key of a caller's request id within a team.
func RequestKey(caller, requestID string) string { return Hash(caller + "\x00" + requestID) }

func requestKey(hash string) string { return "request/" + hash }
