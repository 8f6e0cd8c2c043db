package sandbox

import (
	"fmt"
	"unicode/utf8"
)

// tailSize is how much of the end of an output is kept beyond the quota, in bytes (O4).
const tailSize = 64 << 10

// output keeps the head and the tail of a stream of any length in bounded memory.
type output struct {
	quota int    // of the head, in bytes
	head  []byte // the first quota bytes
	tail  []byte // at least the last tailSize bytes after the head, at most twice that
	total int64  // bytes written
}

// Write takes all of p.
func (o *output) Write(p []byte) (int, error) {
	o.total += int64(len(p))
	n := min(len(p), o.quota-len(o.head))
	o.head = append(o.head, p[:n]...)
	rest := p[n:]
	if skip := len(rest) - tailSize; skip > 0 {
		rest, o.tail = rest[skip:], o.tail[:0]
	}
	if len(o.tail)+len(rest) > 2*tailSize {
		o.tail = append(o.tail[:0], o.tail[len(o.tail)-tailSize:]...)
	}
	o.tail = append(o.tail, rest...)
	return len(p), nil
}

// result is what is kept, with a mark where bytes were dropped, and how many were. No rune is cut.
func (o *output) result() (kept []byte, dropped int64) {
	head, tail := o.head, o.tail[max(0, len(o.tail)-tailSize):]
	if int64(len(head)+len(tail)) == o.total {
		return append(head, tail...), 0
	}
	head, tail = WholeEnd(head), WholeStart(tail)
	dropped = o.total - int64(len(head)+len(tail))
	head = fmt.Appendf(head, "\n[%d bytes dropped]\n", dropped)
	return append(head, tail...), dropped
}

// WholeEnd is b without a rune that its end cuts.
func WholeEnd(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// WholeStart is b without a rune that its start cuts.
func WholeStart(b []byte) []byte {
	for i := 0; i < utf8.UTFMax && i < len(b); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}
