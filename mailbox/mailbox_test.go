package mailbox_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/mailbox"
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
