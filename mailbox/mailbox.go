// Package mailbox is the noun of mail: messages, what of them a boundary takes, and how far each has come. It is pure:
// given rows it returns what to write.
package mailbox

import (
	"slices"
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

// Who sends what no agent does (N5).
const (
	FromUser   = "user"   // a client's mail
	FromDaemon = "daemon" // notices
)

// NoticeSize is what a notice counts as when a boundary takes it, in bytes: at most so long is its text then.
const NoticeSize = 8 << 10

// Message is one piece of accepted mail.
type Message struct {
	ID   string // m-N
	Pos  uint64 // position in the recipient's log; 0 before it is accepted
	From string
	Text string
	Sent time.Time

	// About makes it a notice of the daemon that this task has ended, for the one that spawned it. Its text is made when
	// it is taken; until then it counts nothing in the bounds (M11).
	About task.ID
}

// Counts is what the message counts as in the bounds of a mailbox.
func (m Message) Counts() Unread {
	if m.About != "" {
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

// Box tells what of a mailbox's log was taken. The zero Box has taken nothing.
type Box struct {
	Low   uint64   // all up to here
	Taken []uint64 // taken above Low, sorted
}

// Has tells whether the message at pos was taken.
func (b Box) Has(pos uint64) bool {
	_, found := slices.BinarySearch(b.Taken, pos)
	return pos <= b.Low || found
}

// Take chooses what the next boundary takes of the mail after b.Low, which is given in order, and the box after it. It
// stops at the first message that would go beyond the bounds, so the order of a sender is kept.
func Take(b Box, mail []Message) ([]Message, Box) {
	var taken []Message
	bytes, low := 0, b.Low
	for _, m := range mail {
		if b.Has(m.Pos) {
			low = m.Pos
			continue
		}
		if len(taken) == MaxTake || (len(taken) > 0 && bytes+m.takeSize() > MaxTakeBytes) {
			break
		}
		taken, bytes = append(taken, m), bytes+m.takeSize()
		low = m.Pos
	}
	return taken, b.above(low)
}

// Settle takes the notices about tasks whose end the recipient learned in another way (R6), and gives the box after it.
// The mail after b.Low is given in order.
func Settle(b Box, mail []Message, about []task.ID) ([]Message, Box) {
	all := Box{Low: b.Low, Taken: slices.Clone(b.Taken)}
	var settled []Message
	for _, m := range mail {
		if m.About != "" && slices.Contains(about, m.About) && !b.Has(m.Pos) {
			settled = append(settled, m)
			all.Taken = append(all.Taken, m.Pos)
		}
	}
	slices.Sort(all.Taken)
	return settled, all.compact(mail)
}

// compact is the box with its low mark as high as can be, so that it does not grow with what it has taken. The mail after
// b.Low is given in order.
func (b Box) compact(mail []Message) Box {
	low := b.Low
	for _, m := range mail {
		if !b.Has(m.Pos) {
			break
		}
		low = m.Pos
	}
	return b.above(low)
}

// above is the box with a higher low mark: it forgets what the mark has passed.
func (b Box) above(low uint64) Box {
	next := Box{Low: low}
	for _, pos := range b.Taken {
		if pos > low {
			next.Taken = append(next.Taken, pos)
		}
	}
	return next
}

// State is how far a message has come.
type State uint8

// The states of a message in this order.
const (
	Accepted      State = iota + 1 // on disk
	Delivered                      // in the recipient's transcript
	Undeliverable                  // the recipient ended before it took the message
)

// Receipt tells how far a message has come.
type Receipt struct {
	MessageID string
	State     State
	Seq       uint64 // position in the recipient's transcript, once Delivered
	Reason    string // why it is Undeliverable, for people
}
