package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

type writeArgs struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

func writeTool() Tool {
	return builtin[writeArgs]{
		spec: Spec{
			Name: "write",
			Description: "Create a text file, with its parent directories, or replace a whole one. A file that exists must " +
				"have been read first. To change a part of a file use edit.",
			Parameters: schema(`
				"path":{"type":"string","description":"file, relative to the workspace or absolute"},
				"content":{"type":"string","description":"the whole new content"}`, "path", "content"),
		},
		run: write,
	}
}

func write(_ context.Context, call Call, args writeArgs) (Answer, error) {
	if args.Path == "" {
		return Answer{}, invalid("path", "must not be empty")
	}
	if len(args.Content) > maxFile {
		return Answer{}, &Error{Reason: TooLarge, Subject: args.Path,
			Message: fmt.Sprintf("the content is larger than %d MiB", maxFile>>20)}
	}
	place, err := resolve(call.Scope, args.Path, sandbox.ToCreate)
	if err != nil {
		return Answer{}, err
	}
	defer place.Close() //nolint:errcheck // a directory: nothing to lose
	var now version
	done := "created"
	if _, err := place.Stat(); !errors.Is(err, fs.ErrNotExist) {
		done = "replaced"
		if now, err = current(call.Scope, args.Path, place); err != nil {
			return Answer{}, err
		}
		if err := mustKnow(call.Scope, args.Path, place, now); err != nil {
			return Answer{}, err
		}
	}
	mark, err := replace(call.Scope, args.Path, place, []byte(args.Content), now.stat)
	if err != nil {
		return Answer{}, err
	}
	return Answer{
		Text:  fmt.Sprintf("%s %s (%s)", done, shown(call.Scope, place.Path), count(len(args.Content), "byte")),
		Files: []task.FileMark{mark},
	}, nil
}

// replace writes a file's new content over what it was; nil: nothing.
func replace(scope *Scope, path string, place *sandbox.Place, content []byte, was fs.FileInfo) (task.FileMark, error) {
	if err := place.Replace(content, was); err != nil {
		return task.FileMark{}, pathError(scope, path, sandbox.ToWrite, err)
	}
	return task.FileMark{Path: place.Path, Hash: hashOf(content), Changed: true}, nil
}
