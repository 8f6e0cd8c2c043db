package tool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// keepLine is how much of one line is held in memory, in bytes.
const keepLine = 64 << 10

// sniffed is how much of a text's start is looked at for a NUL, as git does, in bytes.
const sniffed = 8000

// lines reads text line by line in bounded memory.
type lines struct {
	r    *bufio.Reader
	n    int    // number of the current line, from 1
	text []byte // the current line without its end; valid until the next call
	cut  int64  // bytes of the current line that were not kept
	err  error  // why it ended; nil at the end of the text
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10)} }

// binary tells whether the start of the text is none. It must come before the first line.
func (l *lines) binary() bool {
	start, _ := l.r.Peek(sniffed) // an error shows again at the first line
	return bytes.IndexByte(start, 0) >= 0
}

// next goes to the next line, if there is one and ctx lasts.
func (l *lines) next(ctx context.Context) bool {
	l.text, l.cut = l.text[:0], 0
	for read := false; ; read = true {
		if l.err = ctx.Err(); l.err != nil {
			return false
		}
		chunk, err := l.r.ReadSlice('\n')
		body := chunk
		if err == nil {
			body = bytes.TrimSuffix(chunk[:len(chunk)-1], []byte("\r"))
		}
		kept := body[:min(len(body), keepLine-len(l.text))]
		l.text = append(l.text, kept...)
		l.cut += int64(len(body) - len(kept))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			l.err = err
			return false
		case err != nil && !read && len(chunk) == 0:
			return false
		}
		l.n++
		return true
	}
}

// valid makes a line fit for a history.
func valid(line []byte) string { return strings.ToValidUTF8(string(line), string(utf8.RuneError)) }
