package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/sandbox"
)

// maxFile is the largest file that is hashed, and so the largest that can be edited, in bytes.
const maxFile = 32 << 20

// outputPrefix starts the path of what an earlier call gave.
const outputPrefix = "@output/"

// resolve finds a path for a tool; its error is an *Error or a fault.
func resolve(scope *Scope, path string, want sandbox.Access) (*sandbox.Place, error) {
	place, err := scope.Files.Resolve(path, want)
	if err != nil {
		return nil, pathError(scope, path, want, err)
	}
	return place, nil
}

// pathError makes what the file system said about a path an *Error that tells the model what it may do.
func pathError(scope *Scope, path string, want sandbox.Access, err error) error {
	fail := &Error{Reason: IOError, Subject: path}
	notFile, isNotFile := errors.AsType[*sandbox.NotFileError](err)
	file, isFile := errors.AsType[*fs.PathError](err)
	switch {
	case errdefs.Is(err, errdefs.Denied):
		fail.Reason, fail.Allowed = NotGranted, scope.Grant.Writable
		if want == sandbox.ToRead {
			fail.Allowed = readable(scope.Grant)
		}
		fail.Message = errdefs.As(err).Message
	case errdefs.Is(err, errdefs.Conflict):
		fail.Reason, fail.Message = Stale, path+" is being changed by someone else: read it again"
	case errors.Is(err, fs.ErrNotExist):
		fail.Reason, fail.Message = NotFound, fmt.Sprintf("%s does not exist (relative paths start at %s)", path, scope.Workspace)
	case isNotFile:
		notFile.Path = path
		fail.Reason, fail.Message = NotText, notFile.Error()
		if notFile.Mode.IsDir() {
			fail.Message += "; use ls or glob"
		}
	case isFile:
		fail.Message = fmt.Sprintf("%s: %v", path, file.Err)
	default:
		fail.Message = fmt.Sprintf("%s: %v", path, err)
	}
	return fail
}

// readable are the roots that may be read.
func readable(g grant.Grant) []string {
	roots := slices.Concat(g.Readable, g.Writable)
	slices.Sort(roots)
	return slices.Compact(roots)
}

// openOutput opens what an earlier call of this agent gave.
func openOutput(ctx context.Context, scope *Scope, callID string) (io.ReadCloser, error) {
	none := &Error{Reason: NotFound, Subject: outputPrefix + callID,
		Message: fmt.Sprintf("no call %.80q of yours kept an output", callID)}
	if !isCallID(callID) {
		return nil, none
	}
	r, err := scope.Outputs.Output(ctx, callID)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return nil, none
	}
	return r, err
}

// isCallID tells whether a call can have this id: the store takes no other for a name.
func isCallID(text string) bool {
	const most = 64 // bytes; ours are much shorter
	return text != "" && len(text) <= most && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

// shown is a path as the model is shown it, on one line: relative to the workspace when it lies beneath.
func shown(scope *Scope, path string) string {
	rel, err := filepath.Rel(scope.Workspace, path)
	if err != nil || !grant.Beneath(scope.Workspace, path) {
		return printable(path)
	}
	return printable(rel)
}

// printable is a file's name; one that could pass for something else, such as two lines, is quoted.
func printable(name string) string {
	if strings.ContainsFunc(name, unicode.IsControl) || !utf8.ValidString(name) {
		return strconv.Quote(name)
	}
	return name
}

// version is a file at one content.
type version struct {
	content []byte
	hash    string
	stat    fs.FileInfo
}

// current reads a file whole, for a tool that is about to change it.
func current(scope *Scope, path string, place *sandbox.Place) (version, error) {
	f, stat, err := place.Open()
	if err != nil {
		return version{}, pathError(scope, path, sandbox.ToWrite, err)
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return version{}, pathError(scope, path, sandbox.ToWrite, err)
	}
	if len(content) > maxFile {
		return version{}, &Error{Reason: TooLarge, Subject: path,
			Message: fmt.Sprintf("%s is larger than %d MiB and cannot be changed by this tool", path, maxFile>>20)}
	}
	return version{content: content, hash: hashOf(content), stat: stat}, nil
}

// mustKnow demands that the agent has read the file at its current content.
func mustKnow(scope *Scope, path string, place *sandbox.Place, now version) error {
	switch scope.Known.Hash(place.Path) {
	case now.hash:
		return nil
	case "":
		return &Error{Reason: NotRead, Subject: path, Message: "read " + path + " before you change it"}
	}
	return &Error{Reason: Stale, Subject: path,
		Message: path + " has changed since you read it: read it again before you change it"}
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "y") {
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(noun, "y"))
	}
	if strings.HasSuffix(noun, "ch") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
