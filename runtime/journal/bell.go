package journal

import (
	"strings"

	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// Bell rings when something that it listens to has changed. A ring says no more than that: who hears it reads again, and
// the rings of a while are one. Nothing is left of it when it is closed. It belongs to one reader.
type Bell struct {
	journal *Journal
	rings   chan struct{} // holds one ring
	keys    map[string]bool
}

// Bell makes a bell that listens to nothing yet. Listen before you read, and close it at the end.
func (j *Journal) Bell() *Bell {
	return &Bell{journal: j, rings: make(chan struct{}, 1), keys: map[string]bool{}}
}

// Rings is where to wait for the next ring.
func (b *Bell) Rings() <-chan struct{} { return b.rings }

// Transcript listens to what is appended to a task's transcript.
func (b *Bell) Transcript(team string, id task.ID) { b.listen(team + "/" + entryLog(string(id))) }

// Mail listens to the mail that a mailbox accepts.
func (b *Bell) Mail(team string, box task.ID) { b.listen(team + "/" + mailLog(box)) }

// Taken listens to what is taken of a mailbox.
func (b *Bell) Taken(team string, box task.ID) { b.listen(team + "/" + mailboxKey(box)) }

// Sent listens to what is kept of a message for its receipts: its recipients and how it ended there.
func (b *Bell) Sent(team, messageID string) {
	b.listen(team + "/sent/" + messageID)
	b.listen(team + "/" + outboxKey(messageID))
}

func (b *Bell) listen(key string) {
	if b.keys[key] {
		return
	}
	b.keys[key] = true
	b.journal.mu.Lock()
	defer b.journal.mu.Unlock()
	listeners := b.journal.bells[key]
	if listeners == nil {
		listeners = map[*Bell]bool{}
		b.journal.bells[key] = listeners
	}
	listeners[b] = true
}

// Close ends the listening.
func (b *Bell) Close() {
	b.journal.mu.Lock()
	defer b.journal.mu.Unlock()
	for key := range b.keys {
		delete(b.journal.bells[key], b)
		if len(b.journal.bells[key]) == 0 {
			delete(b.journal.bells, key)
		}
	}
	clear(b.keys)
}

func (b *Bell) ring() {
	select {
	case b.rings <- struct{}{}:
	default:
	}
}

// heard is what an operation is listened to as; empty: nobody can.
func heard(op store.Op) string {
	if op.Kind == store.Append {
		return op.Name
	}
	switch kind, rest, _ := strings.Cut(op.Name, "/"); kind {
	case "mailbox", "outbox":
		return op.Name
	case "sent":
		message, _, _ := strings.Cut(rest, "/")
		return kind + "/" + message
	}
	return ""
}
