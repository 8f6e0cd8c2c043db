package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/runtime/sandbox"
)

// search is one grep under way.
type search struct {
	re      *regexp.Regexp
	context int
	limit   int
	out     strings.Builder
	matches int
	files   int      // searched
	long    int      // lines without a match whose rest was not looked at
	full    bool     // more may match than was given
	skipped []string // what was left out, with the reason
	omitted int      // files left out that are not in skipped
}

func newSearch(args grepArgs) (*search, error) {
	switch {
	case args.Pattern == "":
		return nil, invalid("pattern", "must not be empty")
	case len(args.Pattern) > grepPattern:
		return nil, invalid("pattern", "is longer than %d bytes", grepPattern)
	}
	if err := errors.Join(within("context", args.Context, 0, grepContext), within("limit", args.Limit, 1, grepMax)); err != nil {
		return nil, err
	}
	flags := ""
	if args.IgnoreCase {
		flags = "(?i)"
	}
	re, err := regexp.Compile(flags + args.Pattern)
	if err != nil {
		return nil, invalid("pattern", "is no RE2 expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return &search{re: re, context: args.Context, limit: cmp.Or(args.Limit, grepLimit)}, nil
}

// named searches a text that the model named itself.
func (s *search) named(ctx context.Context, r io.Reader, label string) error {
	bounded := &io.LimitedReader{R: r, N: grepScan}
	err := s.scan(ctx, bounded, label)
	if err == nil && bounded.N == 0 {
		s.skip(label, fmt.Sprintf("all beyond %d MiB", grepScan>>20))
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// walked searches a file of a walk, unless it is too large. What cannot be read is left out.
func (s *search) walked(ctx context.Context, dir *os.Root, f found, label string) error {
	file, stat, err := sandbox.OpenFile(dir, f.name)
	if err != nil {
		s.skip(label, "unreadable")
		return nil
	}
	defer file.Close()
	if stat.Size() > grepFile {
		s.skip(label, fmt.Sprintf("over %d MiB", grepFile>>20))
		return nil
	}
	err = s.scan(ctx, io.LimitReader(file, grepFile), label)
	if err != nil && !errors.Is(err, errEnough) && ctx.Err() == nil {
		s.skip(label, "unreadable")
		return nil
	}
	return err
}

func (s *search) skip(label, reason string) {
	if len(s.skipped) == grepNamed {
		s.omitted++
		return
	}
	s.skipped = append(s.skipped, fmt.Sprintf("%s (%s)", label, reason))
}

// scan gives the matching lines of one text with those around them; errEnough at the limit.
func (s *search) scan(ctx context.Context, r io.Reader, label string) error {
	l := newLines(r)
	if l.binary() {
		s.skip(label, "binary")
		return nil
	}
	s.files++
	g := group{search: s, label: label}
	for l.next(ctx) {
		if at := s.re.FindIndex(l.text); at != nil {
			if s.matches == s.limit || s.out.Len() > readRoom {
				s.full = true
				return errEnough
			}
			s.matches++
			g.match(l, at[0])
			continue
		}
		if l.cut > 0 {
			s.long++
		}
		if s.context > 0 {
			g.around(l)
		}
	}
	return l.err
}

// answer is what was found, and what was not looked at.
func (s *search) answer(remarks []string) string {
	if len(s.skipped) > 0 {
		remark := "[not searched: " + strings.Join(s.skipped, ", ")
		if s.omitted > 0 {
			remark += fmt.Sprintf(" and %d more", s.omitted)
		}
		remarks = append(remarks, remark+"]")
	}
	if s.long > 0 {
		remarks = append(remarks, fmt.Sprintf("[not searched: what is beyond %d KiB in %s]", keepLine>>10, count(s.long, "long line")))
	}
	total := fmt.Sprintf("[%s in %s searched]", count(s.matches, "match"), count(s.files, "file"))
	if s.full {
		total = fmt.Sprintf("[only the first %s: use a narrower pattern, path or glob]", count(s.matches, "match"))
	}
	return s.out.String() + strings.Join(append(remarks, total), "\n")
}

// group gives the matches of one text with the lines around them.
type group struct {
	search *search
	label  string
	before []string // lines that may come before a match, at most search.context
	after  int      // lines still to give after a match
	last   int      // number of the last line given; 0 = none
}

func (g *group) match(l *lines, at int) {
	out := &g.search.out
	if first := l.n - len(g.before); g.search.context > 0 && out.Len() > 0 && (g.last == 0 || first > g.last+1) {
		out.WriteString("--\n")
	}
	for _, line := range g.before {
		out.WriteString(line)
	}
	fmt.Fprintf(out, "%s:%d:%s\n", g.label, l.n, window(l, at))
	g.before, g.after, g.last = g.before[:0], g.search.context, l.n
}

func (g *group) around(l *lines) {
	line := fmt.Sprintf("%s-%d-%s\n", g.label, l.n, window(l, 0))
	if g.after > 0 {
		g.search.out.WriteString(line)
		g.after--
		g.last = l.n
		return
	}
	if len(g.before) == g.search.context {
		g.before = slices.Delete(g.before, 0, 1)
	}
	g.before = append(g.before, line)
}

// window is the part of a line that is given: its start, or what is around a match far in it.
func window(l *lines, at int) string {
	line, lead := string(l.text), ""
	if at > grepLine-grepLead {
		from := cutAfter(line, at-grepLead)
		line, lead = line[from:], fmt.Sprintf("[%d bytes ...] ", from)
	}
	return lead + shorten(valid([]byte(line)), grepLine, l.cut)
}
