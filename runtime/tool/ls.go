package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/runtime/sandbox"
)

const (
	lsShown = 500    // entries given
	lsRead  = 50_000 // entries of one directory looked at
)

type lsArgs struct {
	Path string `json:"path,omitempty"`
}

func lsTool() Tool {
	return builtin[lsArgs]{
		spec: Spec{
			Name:        "ls",
			Description: "List a directory: names in order, directories with a slash, files with their size in bytes.",
			Parameters: schema(`
				"path":{"type":"string","description":"directory, relative to the workspace or absolute (default: the workspace)"}`),
			ReadOnly: true,
		},
		run: ls,
	}
}

func ls(_ context.Context, call Call, args lsArgs) (Answer, error) {
	path := cmp.Or(args.Path, call.Scope.Workspace)
	dir, _, err := openDir(call.Scope, path)
	if err != nil {
		return Answer{}, err
	}
	defer dir.Close() //nolint:errcheck // read only: nothing to lose
	entries, more, err := entriesOf(dir, lsRead)
	if err != nil {
		return Answer{}, pathError(call.Scope, path, sandbox.ToRead, err)
	}
	var out strings.Builder
	for _, e := range entries[:min(len(entries), lsShown)] {
		out.WriteString(entryLine(dir, e))
	}
	switch {
	case more:
		fmt.Fprintf(&out, "[only %d entries of more than %d]", lsShown, lsRead)
	case len(entries) > lsShown:
		fmt.Fprintf(&out, "[only %d of %d entries; use glob with a pattern]", lsShown, len(entries))
	default:
		fmt.Fprintf(&out, "[%s]", count(len(entries), "entry"))
	}
	return Answer{Text: out.String()}, nil
}

// openDir opens a directory for reading; an empty path is the workspace.
func openDir(scope *Scope, path string) (*os.Root, *sandbox.Place, error) {
	if path == "" {
		path = scope.Workspace
	}
	place, err := resolve(scope, path, sandbox.ToRead)
	if err != nil {
		return nil, nil, err
	}
	defer place.Close() //nolint:errcheck // read only: nothing to lose
	stat, err := place.Stat()
	if err != nil {
		return nil, nil, pathError(scope, path, sandbox.ToRead, err)
	}
	if !stat.IsDir() {
		return nil, nil, &Error{Reason: IOError, Subject: path, Message: path + " is not a directory"}
	}
	dir, err := place.OpenDir()
	if err != nil {
		return nil, nil, pathError(scope, path, sandbox.ToRead, err)
	}
	return dir, place, nil
}

// entriesOf reads at most limit entries of a directory, sorted by name, and tells whether there are more.
func entriesOf(dir *os.Root, limit int) (entries []fs.DirEntry, more bool, err error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	entries, err = f.ReadDir(limit + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, false, err
	}
	more = len(entries) > limit
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries[:min(len(entries), limit)], more, nil
}

func entryLine(dir *os.Root, e fs.DirEntry) string {
	name := printable(e.Name())
	switch stat, err := dir.Lstat(e.Name()); {
	case err != nil:
		return name + "\t(gone)\n"
	case stat.IsDir():
		return name + "/\n"
	case stat.Mode()&fs.ModeSymlink != 0:
		target, err := dir.Readlink(e.Name())
		if err != nil {
			return name + "\t(link)\n"
		}
		return fmt.Sprintf("%s -> %s\n", name, printable(target))
	case stat.Mode().IsRegular():
		return fmt.Sprintf("%s\t%d\n", name, stat.Size())
	}
	return name + "\t(special file)\n"
}
