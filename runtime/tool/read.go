package tool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

const (
	readLines = 2000             // lines given by default
	readLine  = 2000             // bytes of one line given
	readScan  = 64 << 20         // bytes of one text that a read goes through
	readRoom  = MaxAnswer - 1024 // bytes of lines given, so that the answer needs no cut
)

type readArgs struct {
	Path   string `json:"path"`
	Offset int    `json:"offset,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

func readTool() Tool {
	return builtin[readArgs]{
		spec: Spec{
			Name: "read",
			Description: "Read a text file with line numbers. Also reads the whole output of one of your earlier calls: " +
				"path @output/CALL_ID. Long files are given in parts; the last line tells where to go on.",
			Parameters: schema(`
				"path":{"type":"string","description":"file, relative to the workspace or absolute; or @output/CALL_ID"},
				"offset":{"type":"integer","minimum":1,"description":"first line wanted, from 1 (default 1)"},
				"limit":{"type":"integer","minimum":1,"maximum":2000,"description":"lines wanted (default 2000)"}`, "path"),
			ReadOnly: true,
		},
		run: read,
	}
}

func read(ctx context.Context, call Call, args readArgs) (Answer, error) {
	if err := errors.Join(within("offset", args.Offset, 1, 1<<31-1), within("limit", args.Limit, 1, readLines)); err != nil {
		return Answer{}, err
	}
	if args.Path == "" {
		return Answer{}, invalid("path", "must not be empty")
	}
	part := &part{path: args.Path, first: cmp.Or(args.Offset, 1), limit: cmp.Or(args.Limit, readLines)}
	if callID, ok := strings.CutPrefix(args.Path, outputPrefix); ok {
		r, err := openOutput(ctx, call.Scope, callID)
		if err != nil {
			return Answer{}, err
		}
		err = errors.Join(part.read(ctx, r, false), r.Close())
		return Answer{Text: part.answer()}, err
	}
	place, err := resolve(call.Scope, args.Path, sandbox.ToRead)
	if err != nil {
		return Answer{}, err
	}
	defer place.Close() //nolint:errcheck // read only: nothing to lose
	f, stat, err := place.Open()
	if err != nil {
		return Answer{}, pathError(call.Scope, args.Path, sandbox.ToRead, err)
	}
	sum := &summed{hash: sha256.New(), r: f}
	whole := stat.Size() <= maxFile
	if err := errors.Join(part.read(ctx, sum, whole), f.Close()); err != nil {
		return Answer{}, readError(ctx, call.Scope, args.Path, err)
	}
	answer := Answer{Text: part.answer()}
	if part.ended && whole {
		answer.Files = []task.FileMark{{Path: place.Path, Hash: hex.EncodeToString(sum.hash.Sum(nil))}}
	}
	return answer, nil
}

// readError tells ctx's end and what is an *Error already from what the file system says.
func readError(ctx context.Context, scope *Scope, path string, err error) error {
	if _, ok := errors.AsType[*Error](err); ok || ctx.Err() != nil {
		return err
	}
	return pathError(scope, path, sandbox.ToRead, err)
}

// summed hashes what is read through it.
type summed struct {
	r    io.Reader
	hash hash.Hash
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.hash.Write(p[:n]) // never fails
	return n, err
}

// part is the lines of a text that were asked for.
type part struct {
	path         string
	first, limit int
	out          strings.Builder
	last         int  // last line in out; 0 = none
	total        int  // lines of the text, when ended
	ended        bool // the end of the text was seen
	more         bool // there is a line after last
}

// read takes the part from the text. With whole it goes on to the end of the text all the same.
func (p *part) read(ctx context.Context, r io.Reader, whole bool) error {
	bounded := &io.LimitedReader{R: r, N: readScan}
	l := newLines(bounded)
	if l.binary() {
		return p.binary()
	}
	for l.next(ctx) {
		if p.more || l.n < p.first {
			continue
		}
		line := fmt.Sprintf("%6d\t%s\n", l.n, shorten(valid(l.text), readLine, l.cut))
		if l.n >= p.first+p.limit || p.out.Len()+len(line) > readRoom {
			p.more = true
			if !whole {
				return nil
			}
			continue
		}
		if strings.ContainsRune(line, 0) {
			return p.binary()
		}
		p.out.WriteString(line)
		p.last = l.n
	}
	switch {
	case l.err != nil:
		return l.err
	case bounded.N == 0:
		return p.tooFar(l.n)
	}
	p.ended, p.total = true, l.n
	if p.first > max(1, l.n) {
		return invalid("offset", "%d is beyond the end: %s has %s", p.first, p.path, count(l.n, "line"))
	}
	return nil
}

func (p *part) binary() error {
	return &Error{Reason: NotText, Subject: p.path, Message: p.path + " is binary; look at it with a command"}
}

// tooFar gives what there is of the part, or refuses when the text is so long that its start does not reach it.
func (p *part) tooFar(seen int) error {
	if p.last > 0 {
		p.more = true
		return nil
	}
	return &Error{Reason: TooLarge, Subject: p.path, Message: fmt.Sprintf(
		"line %d of %s lies beyond its first %d MiB (%d lines): use grep, or a command such as tail", p.first, p.path,
		readScan>>20, seen)}
}

// answer is the part with a last line that tells where it stands.
func (p *part) answer() string {
	switch {
	case p.ended && p.total == 0:
		return "[the file is empty]"
	case p.ended && p.more:
		return fmt.Sprintf("%s[lines %d-%d of %d; go on with offset %d]", p.out.String(), p.first, p.last, p.total, p.last+1)
	case p.more:
		return fmt.Sprintf("%s[lines %d-%d, and more; go on with offset %d]", p.out.String(), p.first, p.last, p.last+1)
	}
	return fmt.Sprintf("%s[lines %d-%d of %d, the end]", p.out.String(), p.first, p.last, p.total)
}
