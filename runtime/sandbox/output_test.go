package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// proves O4
// case OUT-6
func TestOutputCutsBetweenRunes(t *testing.T) {
	text := strings.Repeat("日本語 ü🦊e\u0301 ", 8<<10)
	for quota := range 20 {
		for shift := range 4 {
			stream := strings.Repeat("x", shift) + text
			o := output{quota: quota}
			for rest := stream; rest != ""; { // in pieces that respect nothing
				n := min(len(rest), 4097)
				_, _ = o.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			kept, dropped := o.result()
			mark := fmt.Sprintf("\n[%d bytes dropped]\n", dropped)
			head, tail, ok := strings.Cut(string(kept), mark)
			switch {
			case !ok || !utf8.Valid(kept):
				t.Fatalf("quota %d, shift %d: no mark or a broken rune", quota, shift)
			case !strings.HasPrefix(stream, head) || !strings.HasSuffix(stream, tail):
				t.Fatalf("quota %d, shift %d: neither head nor tail", quota, shift)
			case len(head)+int(dropped)+len(tail) != len(stream):
				t.Fatalf("quota %d, shift %d: %d + %d + %d bytes of %d", quota, shift, len(head), dropped, len(tail), len(stream))
			case len(head) < quota-3 || len(head) > quota || len(tail) < tailSize-3 || len(tail) > tailSize:
				t.Fatalf("quota %d, shift %d: head %d, tail %d bytes", quota, shift, len(head), len(tail))
			}
		}
	}
}

func TestOutputWithinBoundsIsWhole(t *testing.T) {
	for _, size := range []int{0, 1, 10, 11, 10 + tailSize} {
		o := output{quota: 10}
		stream := strings.Repeat("y", size)
		_, _ = o.Write([]byte(stream))
		if kept, dropped := o.result(); string(kept) != stream || dropped != 0 {
			t.Errorf("%d bytes: kept %d, dropped %d", size, len(kept), dropped)
		}
	}
}
