package mailbox_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// TestBounds fills a boundary to the brim. proves M2
func TestBounds(t *testing.T) {
	half := strings.Repeat("x", mailbox.MaxTakeBytes/2)
	tests := []struct {
		name  string
		texts []string
		want  int
	}{
		{"nothing", nil, 0},
		{"one as large as may be", []string{half + half}, 1},
		{"a single one is never too large", []string{half + half + "x", "x"}, 1},
		{"exactly all bytes", []string{half, half, "x"}, 2},
		{"one byte too many", []string{half, half + "x", "x"}, 1}, // the last would fit, and must not overtake
		{"as many as may be", make([]string, mailbox.MaxTake), mailbox.MaxTake},
		{"one too many", make([]string, mailbox.MaxTake+1), mailbox.MaxTake},
	}
	for _, tt := range tests {
		var mail []mailbox.Message
		for i, text := range tt.texts {
			mail = append(mail, mailbox.Message{Pos: uint64(2 * (i + 1)), Text: text})
		}
		took := mailbox.Take(mailbox.Box{}, mail, mailbox.Boundary{})
		taken, next := took.Mail, took.Next
		if len(taken) != tt.want || len(next.Taken) != 0 || next.Low != uint64(2*tt.want) {
			t.Errorf("%s: took %d, box %+v", tt.name, len(taken), next)
		}
	}
}

// TestSettledNoticesLeaveNoTrace: a recipient that is told all ends by answers takes no mail, and its record stays small.
func TestSettledNoticesLeaveNoTrace(t *testing.T) {
	var at mailbox.Box
	for n := range 1000 {
		m := mailbox.Message{Pos: uint64(2*n + 1), Kind: task.Ended, About: task.NewID(task.Subagent, uint64(n))}
		settled, next := mailbox.Settle(at, []mailbox.Message{m}, []task.ID{m.About})
		if len(settled) != 1 || next.Low != m.Pos || len(next.Taken) != 0 {
			t.Fatalf("notice %d: settled %v, box %+v", n, settled, next)
		}
		at = next
	}
}

// TestNoticesCountNothing: notices fill no mailbox, and only what they become counts in a take. proves M11
func TestNoticesCountNothing(t *testing.T) {
	notice, mail := mailbox.Message{From: mailbox.Daemon, Kind: task.Ended, About: "sub-1"}, mailbox.Message{Text: "four"}
	if notice.Counts() != (mailbox.Unread{}) || mail.Counts() != (mailbox.Unread{Messages: 1, Bytes: 4}) {
		t.Errorf("a notice counts as %+v, mail as %+v", notice.Counts(), mail.Counts())
	}
	var notices []mailbox.Message
	for n := range 20 {
		notices = append(notices, mailbox.Message{Pos: uint64(n + 1), Kind: task.Ended, About: task.NewID(task.Subagent, uint64(n))})
	}
	if taken := mailbox.Take(mailbox.Box{}, notices, mailbox.Boundary{}).Mail; len(taken) != mailbox.MaxTakeBytes/mailbox.NoticeSize {
		t.Errorf("one boundary took %d notices", len(taken))
	}
}

// TestFits: a mailbox is full at a count and at a size. proves M11 as far as the noun goes
func TestFits(t *testing.T) {
	for _, tt := range []struct {
		unread mailbox.Unread
		text   string
		want   bool
	}{
		{mailbox.Unread{}, strings.Repeat("x", mailbox.MaxText), true},
		{mailbox.Unread{Messages: mailbox.MaxUnread - 1}, "x", true},
		{mailbox.Unread{Messages: mailbox.MaxUnread}, "", false},
		{mailbox.Unread{Bytes: mailbox.MaxUnreadBytes - 1}, "x", true},
		{mailbox.Unread{Bytes: mailbox.MaxUnreadBytes - 1}, "xx", false},
	} {
		if got := tt.unread.Fits(tt.text); got != tt.want {
			t.Errorf("%+v takes %d bytes more: %v", tt.unread, len(tt.text), got)
		}
	}
}

// TestTakenOutOfOrder: what was taken above the low mark is not taken again, and the record forgets it as the mark
// passes it.
func TestTakenOutOfOrder(t *testing.T) {
	mail := []mailbox.Message{{ID: "m-1", Pos: 3}, {ID: "m-2", Pos: 5}, {ID: "m-3", Pos: 7}, {ID: "m-4", Pos: 9}}
	b := mailbox.Box{Low: 2, Taken: []uint64{5, 9, 11}}
	for pos, want := range map[uint64]bool{1: true, 2: true, 3: false, 5: true, 6: false, 9: true, 11: true, 12: false} {
		if b.Has(pos) != want {
			t.Errorf("Has(%d) is %v", pos, !want)
		}
	}
	took := mailbox.Take(b, mail, mailbox.Boundary{})
	taken, next := took.Mail, took.Next
	if len(taken) != 2 || taken[0].ID != "m-1" || taken[1].ID != "m-3" {
		t.Errorf("took %+v", taken)
	}
	if want := (mailbox.Box{Low: 9, Taken: []uint64{11}}); !reflect.DeepEqual(next, want) {
		t.Errorf("the box is %+v, want %+v", next, want)
	}
}

// TestWaitsForTheTurn: what waits for the end of the turn is taken then, and before it only when the same sender has hurried
// it by something later. proves M3 as far as the noun goes
func TestWaitsForTheTurn(t *testing.T) {
	now := time.Unix(1000, 0)
	late := mailbox.Message{ID: "late", Pos: 1, From: "ann", Delivery: mailbox.AtTurn}
	after := func(m mailbox.Message) []mailbox.Message {
		m.ID, m.Pos = "second", 2
		return []mailbox.Message{late, m}
	}
	tests := []struct {
		name string
		mail []mailbox.Message
		at   mailbox.Boundary
		want string
	}{
		{"alone", []mailbox.Message{late}, mailbox.Boundary{}, ""},
		{"at the end", []mailbox.Message{late}, mailbox.Boundary{TurnOver: true}, "late"},
		{"another sender's", after(mailbox.Message{From: "bob"}), mailbox.Boundary{}, "second"},
		{"a later one of the same", after(mailbox.Message{From: "ann"}), mailbox.Boundary{}, "late second"},
		{"an interrupt of the same", after(mailbox.Message{From: "ann", Delivery: mailbox.Interrupt}), mailbox.Boundary{}, "late second"},
		{"one that waits too", after(late), mailbox.Boundary{}, ""},
		{"one that came too late", after(mailbox.Message{From: "ann", Expires: now}), mailbox.Boundary{Now: now}, ""},
	}
	for _, tt := range tests {
		if got := ids(mailbox.Take(mailbox.Box{}, tt.mail, tt.at).Mail); got != tt.want {
			t.Errorf("%s: took %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := mailbox.Take(mailbox.Box{Taken: []uint64{2}}, after(mailbox.Message{From: "ann"}), mailbox.Boundary{}); !got.Empty() {
		t.Errorf("what was taken before hurried %q", ids(got.Mail))
	}
	if got := ids(mailbox.Shelf{Mail: []mailbox.Message{late}}.Waiting(mailbox.Boundary{})); got != "late" {
		t.Errorf("%q waits", got)
	}
	toUser := after(mailbox.Message{From: "ann", To: mailbox.User})
	if got := mailbox.TakeAll([]mailbox.Shelf{{Mail: toUser, Lead: true}}, mailbox.Boundary{}); !got[0].Empty() {
		t.Errorf("what is for the user hurried %q", ids(got[0].Mail))
	}
}

// TestPassedOver: what three boundaries have passed over goes first, also what waited for the end of the turn and before a
// shutdown request. A boundary that takes nothing passes nothing over. proves M2 as far as the noun goes
func TestPassedOver(t *testing.T) {
	full := strings.Repeat("x", mailbox.MaxText)
	mail := []mailbox.Message{{ID: "late", Pos: 1, From: "ann", Delivery: mailbox.AtTurn}}
	var at mailbox.Box
	for pos := uint64(2); pos < 5; pos++ {
		if took := mailbox.Take(at, mail, mailbox.Boundary{}); !took.Empty() {
			t.Fatalf("took %q", ids(took.Mail))
		}
		mail = append(mail, mailbox.Message{ID: "user", Pos: pos, From: "user", Leader: true, Text: full})
		at = mailbox.Take(at, mail, mailbox.Boundary{}).Next
		at = mailbox.Take(at, mail, mailbox.Boundary{}).Next // which takes nothing
	}
	mail = append(mail, mailbox.Message{ID: "shutdown", Pos: 5, Kind: task.ShutdownRequest})
	took := mailbox.Take(at, mail, mailbox.Boundary{TurnOver: true})
	if got := ids(took.Mail); got != "late shutdown" || took.First != 1 {
		t.Errorf("took %q", got)
	}
}

// TestLongTurn: mail that waits for the end of a turn does not make the record grow without bound.
func TestLongTurn(t *testing.T) {
	var at mailbox.Box
	mail := []mailbox.Message{{ID: "late", Pos: 1, From: "ann", Delivery: mailbox.AtTurn}}
	largest := 0
	for at.Low == 0 {
		for range mailbox.MaxTake {
			mail = append(mail, mailbox.Message{ID: "x", Pos: uint64(len(mail) + 1), From: "bob"})
		}
		at = mailbox.Take(at, mail, mailbox.Boundary{}).Next
		if largest = max(largest, len(at.Taken)); largest > 5000 {
			t.Fatalf("the record holds %d positions", largest)
		}
	}
	if largest < 1000 {
		t.Errorf("it waited for %d messages only", largest)
	}
}

// TestVoid: a boundary takes away no more of what is not to be delivered than its commit has room for.
func TestVoid(t *testing.T) {
	var mail []mailbox.Message
	for n := range 50 {
		mail = append(mail, mailbox.Message{Pos: uint64(n + 1), Incarnation: 1})
	}
	var at mailbox.Box
	for left := 50; left > 0; left -= 16 {
		took := mailbox.Take(at, mail, mailbox.Boundary{Incarnation: 2})
		if n := len(took.Void); n != min(left, 16) || len(took.Mail) > 0 || took.Void[0].Pos != at.Low+1 {
			t.Fatalf("%d of %d are void, %d are taken", n, left, len(took.Mail))
		}
		at = took.Next
	}
}

// TestInboxWithoutALead: notices that nobody takes cost the lead that comes at last one look, and it is told of each task
// once. proves M11 as far as the noun goes
func TestInboxWithoutALead(t *testing.T) {
	const notices, mates = 100_000, 20
	mail := make([]mailbox.Message, 0, notices+1)
	for n := range notices {
		mail = append(mail, mailbox.Message{
			Pos: uint64(n + 1), Kind: task.WentIdle, About: task.NewID(task.Teammate, uint64(n%mates)), After: task.Seq(n),
		})
	}
	mail = append(mail, mailbox.Message{ID: "from-user", Pos: notices + 1, Leader: true})
	shelf := mailbox.Shelf{Mail: mail, Lead: true}
	if n := len(shelf.Waiting(mailbox.Boundary{})); n != mates+1 {
		t.Fatalf("%d messages wait", n)
	}
	first := mailbox.TakeAll([]mailbox.Shelf{shelf}, mailbox.Boundary{})[0]
	if first.Mail[0].ID != "from-user" || len(first.Mail) < 2 || first.Mail[1].After != notices-mates {
		t.Errorf("taken are %+v", first.Mail)
	}
	if left := notices - first.Next.Low; left > mates || len(first.Next.Taken) > mates {
		t.Errorf("the next boundary reads %d messages, the record holds %d", left, len(first.Next.Taken))
	}
}

// TestLoudNotices: a notice that wakes nobody stands for none that tells something. proves M9 as far as the noun goes
func TestLoudNotices(t *testing.T) {
	idle := func(pos uint64, id string, quiet bool) mailbox.Message {
		return mailbox.Message{ID: id, Pos: pos, Kind: task.WentIdle, About: "tm-1", Quiet: quiet}
	}
	ended := mailbox.Message{ID: "ended", Pos: 6, Kind: task.Ended, About: "tm-1"}
	mail := []mailbox.Message{
		idle(1, "a", false), idle(2, "b", true), idle(3, "told", false), idle(4, "c", true), idle(5, "quiet", true), ended,
	}
	took := mailbox.Take(mailbox.Box{}, mail, mailbox.Boundary{})
	if got := ids(took.Mail); got != "told quiet ended" || took.Next.Low != 6 || !took.Rouses() {
		t.Errorf("took %q, box %+v", got, took.Next)
	}
	if mailbox.Take(mailbox.Box{}, mail[3:5], mailbox.Boundary{}).Rouses() {
		t.Error("quiet notices rouse")
	}
}

// TestResultBeforeNotice: what a teammate has sent in its turn goes before the notice of that turn, also what was to wait for
// the end of the lead's. proves M9 as far as the noun goes
// case MSG-9
func TestResultBeforeNotice(t *testing.T) {
	mail := []mailbox.Message{
		{ID: "result", Pos: 1, From: "ann", FromTask: "tm-1", Delivery: mailbox.AtTurn},
		{ID: "later", Pos: 2, From: "bob", FromTask: "tm-2", Delivery: mailbox.AtTurn},
		{ID: "idle", Pos: 3, From: mailbox.Daemon, Kind: task.WentIdle, About: "tm-1"},
		{ID: "child", Pos: 4, From: mailbox.Daemon, Kind: task.Ended, About: "sub-3"},
	}
	if got := ids(mailbox.Take(mailbox.Box{}, mail, mailbox.Boundary{}).Mail); got != "child result idle" {
		t.Errorf("took %q", got)
	}
}

// TestSharedBounds: the bounds of a boundary hold over both mailboxes of a lead, and so does the order. proves M2 as far as
// the noun goes
func TestSharedBounds(t *testing.T) {
	var own, inbox []mailbox.Message
	for n := range 20 {
		own = append(own, mailbox.Message{ID: "end", Pos: uint64(n + 1), Kind: task.Ended, About: task.NewID(task.Subagent, uint64(n+1))})
	}
	inbox = append(inbox, mailbox.Message{ID: "peer", Pos: 30, From: "ann"},
		mailbox.Message{ID: "user", Pos: 31, Leader: true, Text: strings.Repeat("x", mailbox.MaxText-mailbox.NoticeSize)})
	took := mailbox.TakeAll([]mailbox.Shelf{{Mail: own}, {Mail: inbox, Lead: true}}, mailbox.Boundary{})
	if got := ids(mailbox.Merge(took)); got != "user end" {
		t.Errorf("took %q", got)
	}
}

// TestReceipts: how far a message has come is told from whether it can come further. proves M4 as far as the noun goes
func TestReceipts(t *testing.T) {
	way := []mailbox.State{mailbox.Accepted, mailbox.Waking, mailbox.Delivered, mailbox.Answered}
	for i, state := range way {
		for j, until := range way {
			if state.Reaches(until) != (i >= j) {
				t.Errorf("%d reaches %d: %v", state, until, state.Reaches(until))
			}
		}
		if state.Final() != (state == mailbox.Answered) {
			t.Errorf("%d is final: %v", state, state.Final())
		}
	}
	for _, state := range []mailbox.State{mailbox.Undeliverable, mailbox.Expired, mailbox.Superseded} {
		if !state.Final() || !state.Reaches(mailbox.Answered) {
			t.Errorf("%d: nothing comes after it", state)
		}
	}
}

func ids(mail []mailbox.Message) string {
	var all []string
	for _, m := range mail {
		all = append(all, m.ID)
	}
	return strings.Join(all, " ")
}
