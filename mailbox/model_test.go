package mailbox_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// waiting is a message of the model: not taken, with how many boundaries have passed it over.
type waiting struct {
	mailbox.Message
	passed int
}

// model is a mailbox as the contract tells it: a list of what waits. It knows nothing of positions that were taken.
type model struct {
	waits           []waiting
	now             time.Time
	life            int
	mail, void, old []string // what a boundary took last, what it took away, and the notices that newer ones stand for
}

// take is a boundary. proves M2, M3, M6 and M11 as far as the noun goes
func (m *model) take(turnOver bool) {
	m.mail, m.void, m.old = nil, nil, nil
	var choice []waiting
	for i, w := range m.waits {
		later := func(is func(mailbox.Message) bool) bool {
			return slices.ContainsFunc(m.waits[i+1:], func(l waiting) bool { return is(l.Message) })
		}
		switch {
		case w.About != "" && later(func(l mailbox.Message) bool {
			return l.About == w.About && l.Kind == w.Kind && (w.Quiet || !l.Quiet)
		}):
			m.old = append(m.old, w.ID)
		case m.isVoid(w.Message):
			if len(m.void) < 16 {
				m.void = append(m.void, w.ID)
			}
		case w.Delivery == mailbox.AtTurn && !turnOver && !later(func(l mailbox.Message) bool {
			return sender(l) == sender(w.Message) && l.Delivery != mailbox.AtTurn && !m.isVoid(l)
		}):
		default:
			choice = append(choice, w)
		}
	}
	slices.SortFunc(choice, func(a, b waiting) int {
		if pa, pb := a.passed >= 3, b.passed >= 3; pa || pb {
			return cmp.Or(map[bool]int{true: -1}[pa]-map[bool]int{true: -1}[pb], cmp.Compare(a.Pos, b.Pos))
		}
		return cmp.Or(cmp.Compare(rank(a.Message), rank(b.Message)), cmp.Compare(a.Pos, b.Pos))
	})
	room := mailbox.MaxTakeBytes
	for _, w := range choice {
		room -= size(w.Message)
		if len(m.mail) == mailbox.MaxTake || len(m.mail) > 0 && room < 0 {
			break
		}
		m.mail = append(m.mail, w.ID)
	}
	m.settle(slices.Concat(m.mail, m.void, m.old))
	for i := range m.waits {
		if len(m.mail) > 0 {
			m.waits[i].passed++
		}
	}
}

// settle forgets messages.
func (m *model) settle(ids []string) {
	m.waits = slices.DeleteFunc(m.waits, func(w waiting) bool { return slices.Contains(ids, w.ID) })
}

func (m *model) isVoid(l mailbox.Message) bool {
	return !l.Expires.IsZero() && !m.now.Before(l.Expires) || l.Incarnation != 0 && l.Incarnation != m.life
}

func rank(m mailbox.Message) int {
	notices := []task.MessageKind{task.Ended, task.WentIdle, task.Returned, task.Remark}
	switch {
	case m.Kind == task.ShutdownRequest:
		return 1
	case slices.Contains(notices, m.Kind) && m.About.Kind() != task.Teammate:
		return 3
	case m.Leader:
		return 2
	}
	return 4
}

// sender is who a message is from: a notice about a teammate goes behind what that one has sent.
func sender(m mailbox.Message) string {
	if m.About != "" {
		return string(m.About)
	}
	return cmp.Or(string(m.FromTask), m.From)
}

func size(m mailbox.Message) int {
	if m.About != "" {
		return mailbox.NoticeSize
	}
	return len(m.Text)
}

// recipient is an agent's mailboxes as the store keeps them: logs, and the records that a take puts in one commit with the
// transcript. A lead has two, with positions of one sequence.
type recipient struct {
	logs       [2][]mailbox.Message
	records    [2]mailbox.Box
	transcript []mailbox.Message
}

// shelves are the mailboxes as the store is read: all after the low mark.
func (r *recipient) shelves() []mailbox.Shelf {
	shelves := make([]mailbox.Shelf, len(r.logs))
	for i, log := range r.logs {
		after := slices.IndexFunc(log, func(m mailbox.Message) bool { return m.Pos > r.records[i].Low })
		if after >= 0 {
			shelves[i].Mail = log[after:]
		}
		shelves[i].Box, shelves[i].Lead = r.records[i], i == 1
	}
	return shelves
}

// trial runs both.
type trial struct {
	model
	recipient
	last uint64          // newest position
	fate map[string]bool // of what is not in the transcript: void, settled, told by a newer notice, or for the user
}

// TestAgainstModel sends, takes in the turn and at its end, lets time pass, lives die, boundaries crash and ends be told by
// answers, at random. Whatever happens, each boundary takes what the model takes, in its order; nothing is lost, nothing
// comes twice, each sender's mail comes in its order, and the records do not grow with what they have seen.
// proves M1, M2, M3, M6, M9 and M11 as far as the noun goes
// proves D2 and R6 as far as the noun goes
// case STA-5: an end that is both queued and answered is announced once.
// case MSG-6: a shutdown request of an earlier life never comes to a later one.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &trial{model: model{now: time.Unix(1000, 0), life: 1}, fate: map[string]bool{}}
		t.Repeat(map[string]func(*rapid.T){
			"send":   r.send,
			"flood":  r.flood,
			"take":   func(t *rapid.T) { r.boundary(t, false) },
			"rest":   func(t *rapid.T) { r.boundary(t, true) },
			"crash":  r.crash,
			"settle": r.answer,
			"wait":   func(t *rapid.T) { r.now = r.now.Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "time")) * time.Second) },
			"reopen": func(*rapid.T) { r.life++ },
			"":       r.check,
		})
		for len(r.waits) > 0 {
			r.boundary(t, true)
		}
		r.boundary(t, true) // what is for the user alone is passed
		r.check(t)
		for i, log := range r.logs {
			if n := len(log); n > 0 && !reflect.DeepEqual(r.records[i], mailbox.Box{Low: log[n-1].Pos}) {
				t.Fatalf("after all, the record is %+v, and the newest message stands at %d", r.records[i], log[n-1].Pos)
			}
		}
	})
}

// send accepts a message of any kind.
func (r *trial) send(t *rapid.T) {
	m := mailbox.Message{
		FromTask: rapid.SampledFrom([]task.ID{"", "tm-1", "tm-2"}).Draw(t, "from"),
		Kind: rapid.SampledFrom([]task.MessageKind{
			0, task.Text, task.Ended, task.WentIdle, task.Returned, task.ShutdownRequest, task.ShutdownResponse, task.PlanRequest,
			task.PlanResponse,
		}).Draw(t, "kind"),
		Delivery: rapid.SampledFrom([]mailbox.Delivery{0, mailbox.AtStep, mailbox.AtTurn, mailbox.Interrupt}).Draw(t, "delivery"),
		Text:     strings.Repeat("x", rapid.SampledFrom([]int{1, 1, 20 << 10, mailbox.MaxText}).Draw(t, "size")),
	}
	m.From = map[task.ID]string{"": mailbox.User, "tm-1": "ann", "tm-2": "bob"}[m.FromTask]
	box := rapid.IntRange(0, 1).Draw(t, "box")
	switch m.Kind {
	case task.Ended, task.WentIdle:
		m.From, m.Text, m.Delivery, m.Quiet = mailbox.Daemon, "", 0, rapid.Bool().Draw(t, "quiet")
		m.About = rapid.SampledFrom([][]task.ID{{"sub-7", "sub-8"}, {"tm-1", "tm-2"}}[box]).Draw(t, "about")
	case task.Returned:
		m.From, m.FromTask, m.Delivery = mailbox.Daemon, "", 0
	case task.ShutdownRequest:
		m.Incarnation, m.Leader = r.life, true
	default:
		m.Leader = m.FromTask == ""
		if rapid.IntRange(0, 3).Draw(t, "expires") == 0 {
			m.Expires = r.now.Add(2 * time.Second)
		}
		if box == 1 && rapid.IntRange(0, 3).Draw(t, "to user") == 0 {
			m.To = mailbox.User
		}
	}
	r.accept(box, m, rapid.Uint64Range(1, 3).Draw(t, "gap"))
}

// flood accepts more small messages than a boundary takes.
func (r *trial) flood(t *rapid.T) {
	from := rapid.SampledFrom([]string{"user", "ann"}).Draw(t, "from")
	for range mailbox.MaxTake + 1 {
		r.accept(0, mailbox.Message{From: from, Leader: from == "user", Text: "x"}, 1)
	}
}

func (r *trial) accept(box int, m mailbox.Message, gap uint64) {
	r.last += gap
	m.ID, m.Pos = fmt.Sprintf("m-%d", r.last), r.last
	r.logs[box] = append(r.logs[box], m)
	if m.To == mailbox.User {
		r.fate[m.ID] = true
		return
	}
	r.waits = append(r.waits, waiting{Message: m})
}

// boundary takes, in one commit.
func (r *trial) boundary(t *rapid.T, turnOver bool) {
	took := mailbox.TakeAll(r.shelves(), mailbox.Boundary{Now: r.now, Incarnation: r.life, TurnOver: turnOver})
	r.take(turnOver)
	mail, void := mailbox.Merge(took), slices.Concat(took[0].Void, took[1].Void)
	if got, want := ids(mail), strings.Join(r.mail, " "); got != want {
		t.Fatalf("took %s, the model %s", got, want)
	}
	for i, taking := range took {
		r.records[i] = taking.Next
	}
	for _, m := range void {
		r.settled(t, m.ID)
	}
	r.settle(strings.Fields(ids(void)))
	for _, id := range r.old {
		r.settled(t, id)
	}
	r.transcript = append(r.transcript, mail...)
}

// settled notes what became of a message that is in no transcript: one thing.
func (r *trial) settled(t *rapid.T, id string) {
	if r.fate[id] {
		t.Fatalf("%s is settled twice", id)
	}
	r.fate[id] = true
}

// crash is a boundary whose commit fails: what was read and decided changes nothing.
func (r *trial) crash(t *rapid.T) {
	before := fmt.Sprintf("%+v", r.records)
	mailbox.TakeAll(r.shelves(), mailbox.Boundary{Now: r.now, Incarnation: r.life, TurnOver: rapid.Bool().Draw(t, "turn")})
	mailbox.Settle(r.records[0], r.shelves()[0].Mail, []task.ID{"sub-7"})
	if after := fmt.Sprintf("%+v", r.records); after != before {
		t.Fatalf("what was not committed changed the records from %s to %s", before, after)
	}
}

// answer tells the end of a task in another way than by its notice.
func (r *trial) answer(t *rapid.T) {
	about := rapid.SampledFrom([]task.ID{"sub-7", "sub-8"}).Draw(t, "about")
	settled, next := mailbox.Settle(r.records[0], r.shelves()[0].Mail, []task.ID{about})
	r.records[0] = next
	for _, m := range settled {
		if r.fate[m.ID] {
			continue // a newer notice stands for it
		}
		r.settled(t, m.ID)
	}
	for _, w := range slices.Clone(r.waits) {
		if w.Kind == task.Ended && w.About == about {
			if !r.fate[w.ID] {
				t.Fatalf("%s is not settled", w.ID)
			}
			r.settle([]string{w.ID})
		}
	}
}

// check counts what there is.
func (r *trial) check(t *rapid.T) {
	newest := map[string]uint64{} // by sender and rank
	there := map[string]int{}
	for _, m := range r.transcript {
		key := fmt.Sprint(sender(m), rank(m))
		if m.Pos <= newest[key] {
			t.Fatalf("%s comes after something later of %s", m.ID, key)
		}
		newest[key] = m.Pos
		there[m.ID]++
	}
	for _, w := range r.waits {
		there[w.ID]++
	}
	for i, log := range r.logs {
		for _, m := range log {
			if r.fate[m.ID] {
				there[m.ID]++
			}
			if there[m.ID] != 1 {
				t.Fatalf("%s is in %d places", m.ID, there[m.ID])
			}
		}
		if taken := r.records[i].Taken; len(taken) > 0 && taken[0] <= r.records[i].Low {
			t.Fatalf("the record keeps what it need not: %+v", r.records[i])
		}
	}
}
