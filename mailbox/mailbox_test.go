package mailbox_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// box is a recipient as the store keeps it: its mail as a log, and the record that a take puts in one commit with the
// transcript.
type box struct {
	log        []mailbox.Message
	record     mailbox.Box
	transcript []string
}

// read gives the mail after the record's low mark, or the start of it, as a reader that bounds itself does.
func (b *box) read(limit int) []mailbox.Message {
	var mail []mailbox.Message
	for _, m := range b.log {
		if m.Pos > b.record.Low && len(mail) < limit {
			mail = append(mail, m)
		}
	}
	return mail
}

// TestTakeAgainstModel sends, takes and crashes at random. The model is a queue: nothing is lost, nothing comes twice,
// all come in the order in which they were accepted. A crash before the commit of a take leaves everything as it was.
// proves M2
// proves D2 as far as the noun goes
func TestTakeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, sent, pos := &box{}, []string{}, uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				pos += rapid.Uint64Range(1, 5).Draw(t, "gap")
				from := rapid.SampledFrom([]string{mailbox.FromUser, "sub-1", "sub-2"}).Draw(t, "from")
				m := mailbox.Message{
					ID: fmt.Sprintf("m-%d", len(b.log)), Pos: pos, From: from,
					Text: strings.Repeat("x", rapid.SampledFrom([]int{1, 30 << 10, mailbox.MaxText}).Draw(t, "size")),
				}
				b.log, sent = append(b.log, m), append(sent, m.ID)
			},
			"take": func(t *rapid.T) { take(t, b, true) },
			"crash": func(t *rapid.T) {
				before := b.record
				take(t, b, false)
				if !reflect.DeepEqual(b.record, before) {
					t.Fatal("a take that was not committed changed the record")
				}
			},
			"": func(t *rapid.T) {
				if !slices.Equal(b.transcript, sent[:len(b.transcript)]) {
					t.Fatalf("the transcript has %q of %q", b.transcript, sent)
				}
			},
		})
		for len(b.transcript) < len(sent) {
			if take(t, b, true) == 0 {
				t.Fatalf("nothing is taken, and %d of %d messages wait", len(sent)-len(b.transcript), len(sent))
			}
		}
		if !slices.Equal(b.transcript, sent) {
			t.Fatalf("the transcript has %q of %q", b.transcript, sent)
		}
	})
}

// take takes what one boundary takes, within the bounds, and counts it.
func take(t *rapid.T, b *box, commit bool) int {
	taken, next := mailbox.Take(b.record, b.read(mailbox.MaxTake+1))
	bytes := 0
	for _, m := range taken {
		bytes += len(m.Text)
	}
	if len(taken) > mailbox.MaxTake || (len(taken) > 1 && bytes > mailbox.MaxTakeBytes) {
		t.Fatalf("one boundary took %d messages, %d bytes", len(taken), bytes)
	}
	if !commit {
		return len(taken)
	}
	b.record = next
	for _, m := range taken {
		if !next.Has(m.Pos) {
			t.Fatalf("%s was taken, and the record does not say so", m.ID)
		}
		b.transcript = append(b.transcript, m.ID)
	}
	return len(taken)
}

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
		taken, next := mailbox.Take(mailbox.Box{}, mail)
		if len(taken) != tt.want || len(next.Taken) != 0 || next.Low != uint64(2*tt.want) {
			t.Errorf("%s: took %d, box %+v", tt.name, len(taken), next)
		}
	}
}

// TestSettleAgainstModel mixes mail with notices of ended tasks, whose ends the recipient is told of by a take or by an
// answer of its own, whichever is first, with crashes before the commit. The model is the mail that waits: each message
// comes once and in order, each end is told once, and the record does not grow with what was taken.
// proves R6 as far as the noun goes
// case STA-5: an end that is both queued and answered is announced once.
func TestSettleAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, pos, ended := &box{}, uint64(0), 0
		var sent []string         // mail, in order
		told := map[task.ID]int{} // ends
		accept := func(m mailbox.Message) {
			pos += rapid.Uint64Range(1, 5).Draw(t, "gap")
			m.ID, m.Pos = fmt.Sprintf("m-%d", len(b.log)), pos
			b.log = append(b.log, m)
		}
		take := func() int {
			taken, next := mailbox.Take(b.record, b.read(len(b.log)))
			for _, m := range taken {
				if m.About != "" {
					told[m.About]++
				} else {
					b.transcript = append(b.transcript, m.ID)
				}
			}
			b.record = next
			return len(taken)
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				size := rapid.SampledFrom([]int{1, 30 << 10, mailbox.MaxText}).Draw(t, "size")
				accept(mailbox.Message{From: mailbox.FromUser, Text: strings.Repeat("x", size)})
				sent = append(sent, b.log[len(b.log)-1].ID)
			},
			"end": func(*rapid.T) {
				ended++
				accept(mailbox.Message{From: mailbox.FromDaemon, About: task.NewID(task.Subagent, uint64(ended))})
			},
			"take": func(*rapid.T) { take() },
			"answer": func(t *rapid.T) {
				about := rapid.SliceOfN(rapid.IntRange(1, max(ended, 1)), 1, 3).Draw(t, "about")
				commit := rapid.Bool().Draw(t, "commit")
				var ends []task.ID
				for _, n := range about {
					ends = append(ends, task.NewID(task.Subagent, uint64(n)))
				}
				settled, next := mailbox.Settle(b.record, b.read(len(b.log)), ends)
				if !commit {
					return
				}
				b.record = next
				for _, m := range settled {
					told[m.About]++
				}
			},
			"": func(t *rapid.T) {
				if !slices.Equal(b.transcript, sent[:len(b.transcript)]) {
					t.Fatalf("the transcript has %q of %q", b.transcript, sent)
				}
				if len(b.record.Taken) > 0 && b.record.Taken[0] <= b.record.Low {
					t.Fatalf("the record keeps what it need not: %+v", b.record)
				}
			},
		})
		for more := true; more; {
			more = take() > 0
		}
		if !slices.Equal(b.transcript, sent) {
			t.Fatalf("the transcript has %q of %q", b.transcript, sent)
		}
		for n := 1; n <= ended; n++ {
			if id := task.NewID(task.Subagent, uint64(n)); told[id] != 1 {
				t.Fatalf("the end of %s was told %d times", id, told[id])
			}
		}
		if len(b.record.Taken) > 0 || len(told) != ended {
			t.Fatalf("in the end the record is %+v, told are %v of %d", b.record, told, ended)
		}
	})
}

// TestSettledNoticesLeaveNoTrace: a recipient that is told all ends by answers takes no mail, and its record stays small.
func TestSettledNoticesLeaveNoTrace(t *testing.T) {
	b := &box{}
	for n := range 1000 {
		m := mailbox.Message{Pos: uint64(2*n + 1), About: task.NewID(task.Subagent, uint64(n))}
		b.log = append(b.log, m)
		settled, next := mailbox.Settle(b.record, b.read(len(b.log)), []task.ID{m.About})
		if len(settled) != 1 || next.Low != m.Pos || len(next.Taken) != 0 {
			t.Fatalf("notice %d: settled %v, box %+v", n, settled, next)
		}
		b.record = next
	}
}

// TestNoticesCountNothing: notices fill no mailbox, and only what they become counts in a take. proves M11
func TestNoticesCountNothing(t *testing.T) {
	notice, mail := mailbox.Message{From: mailbox.FromDaemon, About: "sub-1"}, mailbox.Message{Text: "four"}
	if notice.Counts() != (mailbox.Unread{}) || mail.Counts() != (mailbox.Unread{Messages: 1, Bytes: 4}) {
		t.Errorf("a notice counts as %+v, mail as %+v", notice.Counts(), mail.Counts())
	}
	var notices []mailbox.Message
	for n := range 20 {
		notices = append(notices, mailbox.Message{Pos: uint64(n + 1), About: task.NewID(task.Subagent, uint64(n))})
	}
	if taken, _ := mailbox.Take(mailbox.Box{}, notices); len(taken) != mailbox.MaxTakeBytes/mailbox.NoticeSize {
		t.Errorf("one boundary took %d notices", len(taken))
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
	taken, next := mailbox.Take(b, mail)
	if len(taken) != 2 || taken[0].ID != "m-1" || taken[1].ID != "m-3" {
		t.Errorf("took %+v", taken)
	}
	if want := (mailbox.Box{Low: 9, Taken: []uint64{11}}); !reflect.DeepEqual(next, want) {
		t.Errorf("the box is %+v, want %+v", next, want)
	}
}
