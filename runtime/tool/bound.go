package tool

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxAnswer is how much of an answer the model is given by default, in bytes (O4).
const MaxAnswer = 32 << 10

const (
	minBound   = 256 // room for the mark and a little text
	maxCluster = 64  // bytes that a cut moves at most to keep a character with its marks; longer ones are cut
)

// Bound cuts a text to its head and tail, of limit bytes together with a mark between them that tells how many bytes
// are left out and where they are. A limit below 256 counts as 256. The outcome is valid UTF-8 whatever the text is;
// no character is cut from its combining marks, and no line end in two.
func Bound(text string, limit int, callID string) (out string, truncated bool) {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	limit = max(limit, minBound)
	if len(text) <= limit {
		return text, false
	}
	room := max(0, limit-len(boundMark(len(text), callID)))
	head := cutBefore(text, room*3/5)
	tail := cutAfter(text, len(text)-(room-room*3/5))
	return text[:head] + boundMark(tail-head, callID) + text[tail:], true
}

func boundMark(left int, callID string) string {
	return fmt.Sprintf("\n[... %d bytes left out: read @output/%s for the whole ...]\n", left, callID)
}

// cutBefore is the last place at or before i where the text may be cut.
func cutBefore(text string, i int) int {
	for !runeStart(text, i) {
		i--
	}
	for j := i; j >= max(0, i-maxCluster); {
		if !joined(text, j) {
			return j
		}
		_, size := utf8.DecodeLastRuneInString(text[:j])
		j -= size
	}
	return i
}

// cutAfter is the first place at or after i where the text may be cut.
func cutAfter(text string, i int) int {
	for !runeStart(text, i) {
		i++
	}
	for j := i; j <= min(len(text), i+maxCluster); {
		if !joined(text, j) {
			return j
		}
		_, size := utf8.DecodeRuneInString(text[j:])
		j += size
	}
	return i
}

func runeStart(text string, i int) bool { return i <= 0 || i >= len(text) || utf8.RuneStart(text[i]) }

// joined tells whether what stands before and after i is one character to a reader, or one line end.
func joined(text string, i int) bool {
	const joiner = '\u200d'
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	after, _ := utf8.DecodeRuneInString(text[i:])
	switch {
	case i == 0 || i == len(text):
		return false
	case before == '\r' && after == '\n', before == joiner, after == joiner:
		return true
	case isFlag(before) && isFlag(after):
		return true
	}
	return unicode.IsMark(after) || (after >= '\U0001F3FB' && after <= '\U0001F3FF') // skin tones
}

// isFlag tells whether the rune is one of the two letters that make a flag.
func isFlag(r rune) bool { return r >= '\U0001F1E6' && r <= '\U0001F1FF' }

// shorten cuts a line to its head of at most limit bytes, and tells how many bytes are missing; more of them were cut
// off before.
func shorten(line string, limit int, more int64) string {
	if len(line) <= limit && more == 0 {
		return line
	}
	at := cutBefore(line, min(limit, len(line)))
	return fmt.Sprintf("%s [... %d more bytes in this line]", line[:at], int64(len(line)-at)+more)
}
