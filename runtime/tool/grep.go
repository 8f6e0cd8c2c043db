package tool

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/agentd-dev/agentd/runtime/sandbox"
)

const (
	grepLimit   = 200      // matching lines given by default
	grepMax     = 2000     // matching lines given at most
	grepContext = 20       // lines around a match at most
	grepLine    = 500      // bytes of one line given
	grepLead    = 100      // bytes given before a match far in a long line
	grepFile    = 16 << 20 // bytes of a file that is searched unless it is named
	grepScan    = 64 << 20 // bytes of a named file or output that are searched
	grepPattern = 4096     // bytes of a pattern
	grepNamed   = 5        // skipped files that are named
)

type grepArgs struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path,omitempty"`
	Glob       string `json:"glob,omitempty"`
	IgnoreCase bool   `json:"ignore_case,omitempty"`
	Context    int    `json:"context,omitempty"`
	Limit      int    `json:"limit,omitempty"`
}

func grepTool() Tool {
	return builtin[grepArgs]{
		spec: Spec{
			Name: "grep",
			Description: "Search text line by line with a regular expression (RE2: no backreferences, no lookaround). Gives " +
				"PATH:LINE:TEXT, and PATH-LINE-TEXT for lines around. What .gitignore names, binary files and very large " +
				"ones are left out. Also searches the output of one of your earlier calls: path @output/CALL_ID.",
			Parameters: schema(`
				"pattern":{"type":"string","minLength":1,"maxLength":4096,"description":"regular expression"},
				"path":{"type":"string","description":"file, directory or @output/CALL_ID (default: the workspace)"},
				"glob":{"type":"string","maxLength":512,"description":"only files whose path from there matches, such as *.go"},
				"ignore_case":{"type":"boolean","description":"letters match in either case (default false)"},
				"context":{"type":"integer","minimum":0,"maximum":20,"description":"lines shown around each match (default 0)"},
				"limit":{"type":"integer","minimum":1,"maximum":2000,"description":"matching lines wanted (default 200)"}`, "pattern"),
			ReadOnly: true,
		},
		run: grep,
	}
}

func grep(ctx context.Context, call Call, args grepArgs) (Answer, error) {
	s, err := newSearch(args)
	if err != nil {
		return Answer{}, err
	}
	pattern, err := newPathPattern("glob", args.Glob)
	if err != nil {
		return Answer{}, err
	}
	if callID, ok := strings.CutPrefix(args.Path, outputPrefix); ok {
		r, err := openOutput(ctx, call.Scope, callID)
		if err != nil {
			return Answer{}, err
		}
		err = errors.Join(s.named(ctx, r, args.Path), r.Close())
		return Answer{Text: s.answer(nil)}, err
	}
	if f, err := openNamed(call.Scope, args.Path); err != nil {
		return Answer{}, err
	} else if f != nil {
		if err := errors.Join(s.named(ctx, f, args.Path), f.Close()); err != nil {
			return Answer{}, readError(ctx, call.Scope, args.Path, err)
		}
		return Answer{Text: s.answer(nil)}, nil
	}
	remarks, err := walkFiles(ctx, call.Scope, args.Path, func(dir *os.Root, f found) error {
		if !pattern.matches(f.rel) {
			return nil
		}
		return s.walked(ctx, dir, f, shown(call.Scope, f.path))
	})
	if err != nil {
		return Answer{}, err
	}
	return Answer{Text: s.answer(remarks)}, nil
}

// openNamed opens the path if it is anything but a directory, else it gives nil.
func openNamed(scope *Scope, path string) (*os.File, error) {
	place, err := resolve(scope, path, sandbox.ToRead)
	if err != nil {
		return nil, err
	}
	defer place.Close() //nolint:errcheck // read only: nothing to lose
	if stat, err := place.Stat(); err == nil && stat.IsDir() {
		return nil, nil
	}
	f, _, err := place.Open()
	if err != nil {
		return nil, pathError(scope, path, sandbox.ToRead, err)
	}
	return f, nil
}
