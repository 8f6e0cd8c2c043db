package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/agentd-dev/agentd/runtime/sandbox"
)

const (
	walkEntries = 200_000 // entries that one call goes through
	walkDepth   = 100     // directories below each other; each is held open
	patternSize = 512     // bytes of a glob pattern
	patternWays = 64      // combinations of its alternatives; each costs a match of its own for every path
)

// errEnough ends a walk early.
var errEnough = errors.New("enough")

// walker goes through the regular files beneath a directory in the order of their paths. It honours .gitignore, leaves out
// .git, and follows no links.
type walker struct {
	base   string // path of the directory from its granted root: slash path, "." for the root
	visit  func(dir *os.Root, f found) error
	seen   int
	closed int  // directories that could not be read
	cut    bool // there was more than walkEntries or walkDepth
}

// found is a file that a walk came by.
type found struct {
	name string // in its directory
	path string // absolute
	rel  string // from the directory that the walk started at: slash path
}

// walkFiles walks the files beneath path, and gives remarks about what was left out. visit ends it with errEnough.
func walkFiles(ctx context.Context, scope *Scope, start string, visit func(dir *os.Root, f found) error) ([]string, error) {
	dir, place, err := openDir(scope, start)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // read only: nothing to lose
	base, err := filepath.Rel(place.Root, place.Path)
	if err != nil {
		return nil, err
	}
	w := &walker{base: filepath.ToSlash(base), visit: visit}
	rules, err := w.inherited(scope, place)
	if err != nil {
		return nil, err
	}
	if err := w.walk(ctx, dir, place.Path, ".", rules, 0); err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return w.remarks(), nil
}

func (w *walker) remarks() []string {
	var out []string
	if w.cut {
		out = append(out, fmt.Sprintf("[stopped after %d entries or %d levels: name a smaller path]", walkEntries, walkDepth))
	}
	if w.closed > 0 {
		out = append(out, fmt.Sprintf("[could not read %s]", count(w.closed, "directory")))
	}
	return out
}

// inherited are the rules of the directories above the start, unless they ignore the start itself: who names an ignored
// directory wants to see it.
func (w *walker) inherited(scope *Scope, place *sandbox.Place) (ignores, error) {
	if w.base == "." {
		return nil, nil
	}
	var rules ignores
	at := "."
	for name := range strings.SplitSeq(w.base, "/") {
		dir, _, err := openDir(scope, filepath.Join(place.Root, filepath.FromSlash(at)))
		if err != nil {
			return nil, err
		}
		rules = rules.with(dir, at)
		if err := dir.Close(); err != nil {
			return nil, err
		}
		if at = path.Join(at, name); rules.ignored(at, true) {
			return nil, nil
		}
	}
	return rules, nil
}

func (w *walker) walk(ctx context.Context, dir *os.Root, abs, rel string, rules ignores, depth int) error {
	entries, more, err := entriesOf(dir, max(0, walkEntries-w.seen))
	if err != nil {
		w.closed++
		return nil //nolint:nilerr // counted, and told as a remark
	}
	rules = rules.with(dir, path.Join(w.base, rel))
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.seen++; w.seen > walkEntries {
			w.cut = true
			return errEnough
		}
		f := found{name: e.Name(), path: filepath.Join(abs, e.Name()), rel: path.Join(rel, e.Name())}
		if isGit(e.Name()) || rules.ignored(path.Join(w.base, f.rel), e.IsDir()) {
			continue
		}
		switch {
		case e.IsDir():
			err = w.enter(ctx, dir, f, rules, depth+1)
		case e.Type().IsRegular():
			err = w.visit(dir, f)
		}
		if err != nil {
			return err
		}
	}
	if more {
		w.cut = true
		return errEnough
	}
	return nil
}

func (w *walker) enter(ctx context.Context, dir *os.Root, f found, rules ignores, depth int) error {
	if depth > walkDepth {
		w.cut = true
		return nil
	}
	next, err := dir.OpenRoot(f.name)
	if err != nil {
		w.closed++
		return nil
	}
	defer next.Close() //nolint:errcheck // read only: nothing to lose
	return w.walk(ctx, next, f.path, f.rel, rules, depth)
}

func isGit(name string) bool { return name == ".git" }

// pathPattern is a glob pattern for paths from the directory that a walk starts at. One without a slash is for names at
// any depth. The empty one matches all.
type pathPattern string

func newPathPattern(name, pattern string) (pathPattern, error) {
	if pattern == "" {
		return "", nil
	}
	if len(pattern) > patternSize {
		return "", invalid(name, "is longer than %d bytes", patternSize)
	}
	pattern = path.Clean(pattern)
	if !doublestar.ValidatePattern(pattern) {
		return "", invalid(name, "%q is not a valid pattern: *, ?, [a-z], {a,b} and **/ have a meaning", pattern)
	}
	if ways(pattern) > patternWays {
		return "", invalid(name, "has more than %d combinations of the alternatives in its braces: use several patterns", patternWays)
	}
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	return pathPattern(pattern), nil
}

// ways is how many combinations the alternatives of a valid pattern's braces have, counted as if none were nested. Beyond
// patternWays it does not count on.
func ways(pattern string) int {
	n, class := 1, false
	var open []int // alternatives so far of each brace that is open
	for i := 0; i < len(pattern) && n <= patternWays; i++ {
		last := len(open) - 1
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '{':
			open = append(open, 1)
		case c == ',' && last >= 0:
			open[last]++
		case c == '}':
			n *= open[last]
			open = open[:last]
		}
	}
	return n
}

func (p pathPattern) matches(rel string) bool {
	return p == "" || doublestar.MatchUnvalidated(string(p), rel)
}
