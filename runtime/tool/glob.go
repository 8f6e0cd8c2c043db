package tool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// globShown is how many paths are given.
const globShown = 500

type globArgs struct {
	Pattern string `json:"pattern"`
	Path    string `json:"path,omitempty"`
}

func globTool() Tool {
	return builtin[globArgs]{
		spec: Spec{
			Name: "glob",
			Description: "Find files by their path, in the order of the paths. ** stands for any directories, {a,b} for either; " +
				"a pattern without a slash matches names at any depth. What .gitignore names is left out.",
			Parameters: schema(`
				"pattern":{"type":"string","minLength":1,"maxLength":512,"description":"such as **/*_test.go"},
				"path":{"type":"string","description":"directory to look in, which the pattern is relative to (default: the workspace)"}`,
				"pattern"),
			ReadOnly: true,
		},
		run: glob,
	}
}

func glob(ctx context.Context, call Call, args globArgs) (Answer, error) {
	if args.Pattern == "" {
		return Answer{}, invalid("pattern", "must not be empty")
	}
	if filepath.IsAbs(args.Pattern) {
		args.Path, args.Pattern = doublestar.SplitPattern(args.Pattern)
	}
	pattern, err := newPathPattern("pattern", args.Pattern)
	if err != nil {
		return Answer{}, err
	}
	var out strings.Builder
	matches, given := 0, 0
	remarks, err := walkFiles(ctx, call.Scope, args.Path, func(_ *os.Root, f found) error {
		if !pattern.matches(f.rel) {
			return nil
		}
		matches++
		if line := shown(call.Scope, f.path) + "\n"; given < globShown && out.Len()+len(line) <= readRoom {
			out.WriteString(line)
			given++
		}
		return nil
	})
	if err != nil {
		return Answer{}, err
	}
	total := fmt.Sprintf("[%s]", count(matches, "file"))
	if given < matches {
		total = fmt.Sprintf("[only %d of %d files: use a narrower pattern or path]", given, matches)
	}
	return Answer{Text: out.String() + strings.Join(append(remarks, total), "\n")}, nil
}
