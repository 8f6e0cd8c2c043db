package mailbox

import (
	"cmp"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
)

// maxVoid is how many messages that are not to be delivered any more a boundary takes away: what is written of each of them
// fits into the commit of the take.
const maxVoid = 16

// maxAbove bounds the positions that a Box holds above its low mark, for mail that waits for the end of a long turn keeps
// them there: when so much has been taken meanwhile it waits no longer.
const maxAbove = 4096

// maxPassed is how often a message may be passed over before it goes first (M2).
const maxPassed = 3

// Box tells what of a mailbox's log was taken. The zero Box has taken nothing.
type Box struct {
	Low   uint64   // all up to here
	Taken []uint64 // taken above Low, sorted
	Seen  []uint64 // newest position that each of the last takes saw which left something, oldest first, at most maxPassed
}

// Has tells whether the message at pos was taken.
func (b Box) Has(pos uint64) bool {
	_, found := slices.BinarySearch(b.Taken, pos)
	return pos <= b.Low || found
}

// passed tells whether the message at pos, which was not taken, was passed over too often.
func (b Box) passed(pos uint64) bool { return len(b.Seen) == maxPassed && pos <= b.Seen[0] }

// Boundary is a place where an agent takes mail.
type Boundary struct {
	Now         time.Time
	Incarnation int  // of the agent
	TurnOver    bool // no turn is under way: what waits for its end is taken too
}

// Shelf is a mailbox that an agent takes mail from at a boundary.
type Shelf struct {
	Box  Box
	Mail []Message // all after Box.Low, in the order of its positions; what of it was taken the box says
	Lead bool      // it is the leader inbox, and the lead reads it: mail to the user is not its own
}

// Taking is what a boundary takes of a mailbox.
type Taking struct {
	Mail  []Message // in the order in which they are read
	First int       // how many of them go before all, for they were passed over too often
	Void  []Message // not to be delivered any more
	Next  Box
}

// Empty tells whether there is nothing to take.
func (t Taking) Empty() bool { return len(t.Mail) == 0 && len(t.Void) == 0 }

// Rouses tells whether it holds anything that an agent wakes for, or goes on for.
func (t Taking) Rouses() bool {
	return slices.ContainsFunc(t.Mail, func(m Message) bool { return !m.Quiet })
}

// Take chooses what a boundary takes of a single mailbox, as TakeAll does.
func Take(b Box, mail []Message, at Boundary) Taking {
	return TakeAll([]Shelf{{Box: b, Mail: mail}}, at)[0]
}

// TakeAll chooses what a boundary takes of an agent's mailboxes, as if they were one: the whole, as far as the bounds go,
// shutdown requests first, then the leader's and the user's, then notices, then peers', each sender's in its order; but what
// was passed over three times goes before all. It stops at the first message that would go beyond the bounds, so that no
// sender's order is broken. It gives a Taking for each mailbox; Merge gives their order.
func TakeAll(shelves []Shelf, at Boundary) []Taking {
	all := make([]Taking, len(shelves))
	var waiting []choice
	hurried := hurried(shelves, at)
	for i, s := range shelves {
		var due []Message
		due, all[i].Void = s.due(at, hurried)
		for _, m := range due {
			waiting = append(waiting, choice{m, i, s.Box.passed(m.Pos)})
		}
	}
	slices.SortStableFunc(waiting, choice.compare)
	waiting = waiting[:within(waiting)]
	for _, c := range waiting {
		t := &all[c.shelf]
		t.Mail = append(t.Mail, c.Message)
		if c.passed {
			t.First++
		}
	}
	for i, s := range shelves {
		all[i].Next = s.next(all[i], len(waiting) > 0)
	}
	return all
}

// Merge gives the mail of all takings of a boundary in the order in which it is read.
func Merge(takings []Taking) []Message {
	var all []choice
	for _, t := range takings {
		for i, m := range t.Mail {
			all = append(all, choice{Message: m, passed: i < t.First})
		}
	}
	slices.SortStableFunc(all, choice.compare)
	var mail []Message
	for _, c := range all {
		mail = append(mail, c.Message)
	}
	return mail
}

// choice is a message that a boundary may take.
type choice struct {
	Message
	shelf  int
	passed bool // over too often
}

// compare orders messages as they are taken (M2). Those that were passed over are a queue: what waits longest goes first.
func (c choice) compare(other choice) int {
	switch {
	case c.passed && other.passed:
		return cmp.Compare(c.Pos, other.Pos)
	case c.passed:
		return -1
	case other.passed:
		return 1
	}
	return cmp.Or(cmp.Compare(c.Rank(), other.Rank()), cmp.Compare(c.Pos, other.Pos))
}

// within gives how many of the messages are within the bounds of a boundary. A single one always is.
func within(waiting []choice) int {
	size := 0
	for n, c := range waiting {
		size += c.takeSize()
		if n == MaxTake || (n > 0 && size > MaxTakeBytes) {
			return n
		}
	}
	return len(waiting)
}

// hurried gives, for each sender, the position of the last unread message that does not wait for the end of the turn: what
// stands before it waits no longer. A notice about a sender is one of its messages here, for it never goes before them (M9).
func hurried(shelves []Shelf, at Boundary) map[string]uint64 {
	last := map[string]uint64{}
	for _, s := range shelves {
		moot := s.moot()
		for i, m := range s.Mail {
			if m.Delivery != AtTurn && !moot[i] && !s.Box.Has(m.Pos) && !m.void(at) {
				last[m.sender()] = max(last[m.sender()], m.Pos)
			}
		}
	}
	return last
}

// sender is whose messages are kept in order.
func (m Message) sender() string {
	if m.About != "" {
		return string(m.About)
	}
	return cmp.Or(string(m.FromTask), m.From)
}

// due gives the messages that may be taken at a boundary, and those that are not to be delivered any more.
func (s Shelf) due(at Boundary, hurried map[string]uint64) (due, void []Message) {
	moot := s.moot()
	over := at.TurnOver || len(s.Box.Taken) > maxAbove
	for i, m := range s.Mail {
		switch {
		case moot[i] || s.Box.Has(m.Pos):
		case m.void(at):
			void = append(void, m)
		case over || m.Delivery != AtTurn || m.Pos < hurried[m.sender()]:
			due = append(due, m)
		}
	}
	return due, void[:min(len(void), maxVoid)]
}

// Waiting gives what may still be given to the agent, now or at the end of its turn, in the order of its positions.
func (s Shelf) Waiting(at Boundary) []Message {
	at.TurnOver = true
	waiting, _ := s.due(at, nil)
	return waiting
}

// next is the box after a taking. took tells whether the boundary took anything, of whichever mailbox: then what is left was
// passed over.
func (s Shelf) next(t Taking, took bool) Box {
	gone := s.Box.with(t.Mail).with(t.Void)
	next := gone.compact(s.Mail, s.moot())
	switch {
	case len(s.Mail) == 0 || next.Low >= s.Mail[len(s.Mail)-1].Pos: // nothing is left
	case took:
		seen := append(slices.Clone(s.Box.Seen), s.Mail[len(s.Mail)-1].Pos)
		next.Seen = seen[max(0, len(seen)-maxPassed):]
	default:
		next.Seen = s.Box.Seen
	}
	return next
}

// moot tells of each message of the shelf whether its reader never takes it. It follows from the mail alone, so that no
// record needs to hold it.
func (s Shelf) moot() []bool {
	moot := superseded(s.Mail)
	for i, m := range s.Mail {
		moot[i] = moot[i] || s.Lead && m.To == User
	}
	return moot
}

// superseded tells which notices a newer one about the same task stands for (M11): they are pointers to one transcript. One
// that wakes nobody stands for none that does.
func superseded(mail []Message) []bool {
	type subject struct {
		kind  task.MessageKind
		about task.ID
		quiet bool
	}
	is, newer := make([]bool, len(mail)), map[subject]bool{}
	for i, m := range slices.Backward(mail) {
		if m.Kind != task.WentIdle && m.Kind != task.Ended {
			continue
		}
		loud, quiet := subject{m.Kind, m.About, false}, subject{m.Kind, m.About, true}
		is[i] = newer[loud] || m.Quiet && newer[quiet]
		newer[subject{m.Kind, m.About, m.Quiet}] = true
	}
	return is
}

// Settle takes the notices about tasks whose end the recipient learned in another way (R6), and gives the box after it.
// The mail after b.Low is given in order.
func Settle(b Box, mail []Message, about []task.ID) ([]Message, Box) {
	return Remove(b, mail, func(m Message) bool { return m.Kind == task.Ended && slices.Contains(about, m.About) })
}

// Remove takes the unread messages that are chosen, and gives the box after it. The mail after b.Low is given in order.
func Remove(b Box, mail []Message, chosen func(Message) bool) ([]Message, Box) {
	var removed []Message
	for _, m := range mail {
		if !b.Has(m.Pos) && chosen(m) {
			removed = append(removed, m)
		}
	}
	next := b.with(removed).compact(mail, superseded(mail))
	if len(mail) > 0 && next.Low < mail[len(mail)-1].Pos {
		next.Seen = b.Seen
	}
	return removed, next
}

// with is the box that has taken these as well.
func (b Box) with(mail []Message) Box {
	b.Taken = slices.Clone(b.Taken)
	for _, m := range mail {
		b.Taken = append(b.Taken, m.Pos)
	}
	slices.Sort(b.Taken)
	return b
}

// compact is the box with its low mark as high as can be, so that it does not grow with what it has taken. The mail after
// b.Low is given in order, and which of it is moot.
func (b Box) compact(mail []Message, moot []bool) Box {
	next := Box{Low: b.Low}
	for i, m := range mail {
		if !moot[i] && !b.Has(m.Pos) {
			break
		}
		next.Low = m.Pos
	}
	for _, pos := range b.Taken {
		if pos > next.Low {
			next.Taken = append(next.Taken, pos)
		}
	}
	return next
}
