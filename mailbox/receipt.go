package mailbox

import (
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
)

// State is how far a message has come.
type State uint8

// The states of a message.
const (
	Accepted      State = iota + 1 // on disk
	Delivered                      // in the recipient's transcript
	Undeliverable                  // it can't be delivered any more
	Waking                         // the recipient was idle or had ended, and is being woken by it
	Answered                       // the turn that took it has ended
	Expired                        // its time to live ran out
	Superseded                     // a control message that no longer applies
)

// Final tells whether nothing comes after it.
func (s State) Final() bool {
	switch s {
	case Undeliverable, Answered, Expired, Superseded:
		return true
	case Accepted, Delivered, Waking:
	}
	return false
}

// level orders the states on the way of a message that arrives.
func (s State) level() int {
	switch s {
	case Accepted:
		return 1
	case Waking:
		return 2
	case Delivered:
		return 3
	case Undeliverable, Answered, Expired, Superseded:
	}
	return 4
}

// Reaches tells whether a message in this state has come as far as the other one, or can come no further.
func (s State) Reaches(until State) bool { return s.level() >= until.level() }

// Receipt tells how far a message has come at one recipient.
type Receipt struct {
	MessageID string
	Recipient string // a teammate's name, task.LeadName, User, or a task id
	State     State
	Seq       uint64 // position in the recipient's transcript, once Delivered there
	Reason    string // why it could not be delivered, for people
	Text      string // of an Answered one: the last text of the turn
	ControlID string // of a control message
}

// Sent is what is kept of a message for its receipts, beside the recipient's log.
type Sent struct {
	MessageID string
	Recipient task.ID // a task's, LeaderBox or UserBox
	To        string  // its name
	From      string
	FromTask  task.ID // empty: a client or the daemon
	ControlID string
	Woke      bool     // the recipient was idle or had ended
	After     task.Seq // the message stands after this position in the recipient's log
	Time      time.Time
	Fate      State // how it ended when that is not in the recipient's transcript; 0: it has not
	Reason    string
}
