// Package mailbox is the noun of mail: messages, what of them a boundary takes, and how far each has come. It is pure:
// given rows it returns what to write.
package mailbox

import (
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
)

// Limits of mail.
const (
	MaxText = 64 << 10 // bytes of one message (N8)
	MaxTake = 100      // messages that one boundary takes
	// MaxTakeBytes bounds the text that one boundary takes (M2). A single message always fits.
	MaxTakeBytes = 64 << 10
)

// Bounds of what a mailbox holds unread (M11). Many senders at once may go over them by a message each.
const (
	MaxUnread      = 1000
	MaxUnreadBytes = 4 << 20
)

// Unread is what a mailbox holds that was not taken, without notices.
type Unread struct {
	Messages int64
	Bytes    int64 // of their texts
}

// Fits tells whether the mailbox takes one more text.
func (u Unread) Fits(text string) bool {
	return u.Messages < MaxUnread && u.Bytes+int64(len(text)) <= MaxUnreadBytes
}

// Who sends what no agent does (N5), and who takes mail without being a teammate.
const (
	User   = "user"   // a client while a lead lives; mail to it is for the people behind the clients
	Daemon = "daemon" // notices
)

// Mailboxes that belong to no task.
const (
	LeaderBox task.ID = "leader" // the leader inbox; what the lead has taken of it
	UserBox   task.ID = "user"   // the leader inbox; what the user has acknowledged of it
)

// NoticeSize is what a pointer counts as when a boundary takes it, in bytes: at most so long is its text then.
const NoticeSize = 8 << 10

// Delivery says when a message is taken (M3).
type Delivery uint8

// The deliveries. The zero one is AtStep.
const (
	AtStep    Delivery = iota + 1 // at the next step boundary
	AtTurn                        // after the turn, or with a later one of the same sender
	Interrupt                     // now
)

// Message is one piece of accepted mail.
type Message struct {
	ID       string  // m-N; of a notice another
	Pos      uint64  // position in the recipient's log; 0 before it is accepted
	From     string  // as the daemon knows it (N5)
	FromTask task.ID // of an agent; empty: a client or the daemon
	Leader   bool    // it is from the leader: the lead or a client
	To       string  // a teammate's name, task.LeadName, User, or a task id
	Text     string
	Summary  string // one line about it
	Color    string // of the sender
	Sent     time.Time
	Kind     task.MessageKind // zero: task.Text
	Delivery Delivery         // zero: AtStep
	ReplyTo  string           // the message that it answers, or gives back
	Expires  time.Time        // zero: never
	Hops     int              // how often what led to it went from agent to agent (M7)

	ControlID   string // of a control message: what answers refer to, c-N
	Approve     bool   // of an answer
	Incarnation int    // life of the recipient that it is bound to (M6); 0: any

	// About makes it a pointer to what the daemon tells of this task: that it has ended, or that its turn has, which stands
	// behind the position After of its transcript. Its text is made when it is taken.
	About task.ID
	After task.Seq
	Quiet bool // it wakes nobody, and keeps nobody from resting (M9)
}

// IsNotice tells whether the daemon itself says it. Notices count nothing in the bounds and are never refused (M11).
func (m Message) IsNotice() bool {
	switch m.Kind {
	case task.Ended, task.WentIdle, task.Returned, task.Remark:
		return true
	case task.Text, task.ShutdownRequest, task.ShutdownResponse, task.PlanRequest, task.PlanResponse:
	}
	return false
}

// Counts is what the message counts as in the bounds of a mailbox.
func (m Message) Counts() Unread {
	if m.IsNotice() {
		return Unread{}
	}
	return Unread{Messages: 1, Bytes: int64(len(m.Text))}
}

// takeSize is what it counts as when it is taken.
func (m Message) takeSize() int {
	if m.About != "" {
		return NoticeSize
	}
	return len(m.Text)
}

// Ranks of mail in the order in which it is taken (M2).
const (
	rankShutdown = iota
	rankLeader
	rankDaemon
	rankPeer
)

// Rank orders messages as they are taken: a lower one goes first.
func (m Message) Rank() int {
	switch {
	case m.Kind == task.ShutdownRequest:
		return rankShutdown
	case m.IsNotice() && m.About.Kind() == task.Teammate: // goes behind what that one has sent (M9)
		return rankPeer
	case m.IsNotice():
		return rankDaemon
	case m.Leader:
		return rankLeader
	}
	return rankPeer
}

// void tells whether a message must not be delivered any more: its time is over, or the life that it was meant for.
func (m Message) void(at Boundary) bool {
	return m.Expired(at.Now) || (m.Incarnation != 0 && m.Incarnation != at.Incarnation)
}

// Lapse is how a message ends that must not be delivered any more, and why.
func (m Message) Lapse(now time.Time) (fate State, reason string) {
	if m.Expired(now) {
		return Expired, "its time to live ran out before it was taken"
	}
	return Superseded, "the life of the recipient that it was meant for is over"
}

// Expired tells whether its time to live is over.
func (m Message) Expired(now time.Time) bool { return !m.Expires.IsZero() && !now.Before(m.Expires) }
