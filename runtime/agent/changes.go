package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// What the file tools change is known from their answers; what commands change is asked of git. Where there is no git, or
// it takes too long, only the tools' paths are known.
const (
	gitTimeout   = 10 * time.Second
	maxDirty     = 2000     // paths that may be changed already when a task begins
	maxDirtySize = 1 << 20  // bytes of those paths together
	maxHashed    = 1 << 20  // bytes of a file whose content is compared; larger ones by size and time
	beforeCall   = "before" // call id under which the state before the first command is kept
	afterCall    = "after"  // call id of the look at the end
)

// repository is what git tells of a workspace. Paths are absolute.
type repository struct {
	head    string   // commit, or the empty tree before the first
	dirty   []string // what differs from head, or is not tracked
	changed []string // tracked paths that differ from an earlier head
}

// before is a repository as a task's first command found it.
type before struct {
	head  string            // empty: git could not be asked
	dirty map[string]string // path to fingerprint of what was changed already
}

// lookBefore keeps the state of the repository before the first command of the task, durably: a later loop compares with
// the same.
func (a *Agent) lookBefore(ctx context.Context) error {
	if a.before != nil {
		return nil
	}
	kept, err := a.keptBefore(ctx)
	if err != nil || kept != nil {
		a.before = kept
		return err
	}
	repo, err := a.look(ctx, beforeCall, "")
	if err != nil {
		return err
	}
	seen := &before{head: repo.head, dirty: map[string]string{}}
	if size := len(strings.Join(repo.dirty, "")); len(repo.dirty) > maxDirty || size > maxDirtySize {
		seen.head = ""
	}
	if seen.head != "" {
		for _, path := range repo.dirty {
			seen.dirty[path] = a.fingerprint(path)
		}
		b := a.batch()
		b.PutOutput(a.Task.ID, beforeCall, seen.encode())
		if err := gone(a.Journal.Commit(ctx, b)); err != nil {
			return err
		}
	}
	a.before = seen
	return nil
}

// keptBefore reads what lookBefore has kept; nil when that is nothing.
func (a *Agent) keptBefore(ctx context.Context) (*before, error) {
	kept, err := a.Scope.Outputs.Output(ctx, beforeCall)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(kept)
	if err = errors.Join(err, kept.Close()); err != nil {
		return nil, err
	}
	return decodeBefore(raw), nil
}

// encode puts names, which may hold anything but NUL, between NULs.
func (b *before) encode() []byte {
	raw := []byte(b.head + "\x00")
	for path, mark := range b.dirty {
		raw = append(raw, path+"\x00"+mark+"\x00"...)
	}
	return raw
}

func decodeBefore(raw []byte) *before {
	fields := strings.Split(string(raw), "\x00")
	b := &before{head: fields[0], dirty: map[string]string{}}
	for i := 1; i+1 < len(fields); i += 2 {
		b.dirty[fields[i]] = fields[i+1]
	}
	return b
}

// changedSince lists what git saw change since the first command of the task; nothing when there was none. A file that was
// changed before counts only if its content is another one now.
func (a *Agent) changedSince(ctx context.Context) ([]string, error) {
	if !a.History.commands {
		return nil, nil
	}
	if a.before == nil {
		kept, err := a.keptBefore(ctx)
		if err != nil || kept == nil {
			return nil, err
		}
		a.before = kept
	}
	if a.before.head == "" {
		return nil, nil
	}
	repo, err := a.look(ctx, afterCall, a.before.head)
	if err != nil || repo.head == "" {
		return nil, err
	}
	var changed []string
	now := map[string]bool{}
	for _, path := range append(repo.dirty, repo.changed...) {
		if mark, dirty := a.before.dirty[path]; !now[path] && (!dirty || mark != a.fingerprint(path)) {
			changed = append(changed, valid(path))
		}
		now[path] = true
	}
	for path, mark := range a.before.dirty { // what is as git has it again, or gone
		if !now[path] && mark != a.fingerprint(path) {
			changed = append(changed, valid(path))
		}
	}
	return changed, nil
}

// fingerprint tells a file's content from others: by its hash, or by size and time if it is large or no file.
func (a *Agent) fingerprint(path string) string {
	stat, err := os.Lstat(path)
	if err != nil {
		return "none"
	}
	if hash, err := a.hash(path, stat); err == nil {
		return hash
	}
	return fmt.Sprintf("%v %d %d", stat.Mode(), stat.Size(), stat.ModTime().UnixNano())
}

func (a *Agent) hash(path string, stat fs.FileInfo) (string, error) {
	if !stat.Mode().IsRegular() || stat.Size() > maxHashed {
		return "", fs.ErrInvalid
	}
	place, err := a.Scope.Files.Resolve(path, sandbox.ToRead)
	if err != nil {
		return "", err
	}
	defer place.Close() //nolint:errcheck // a directory: nothing to lose
	f, _, err := place.Open()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, io.LimitReader(f, maxHashed))
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, f.Close())
}

// gitScript asks for the top, the head and the changes of a repository, with NULs between. It writes nothing and starts no
// monitor and no hook. What stands in the configuration of a repository runs as the agent's own git would run it.
const gitScript = `exec 2>/dev/null
g() { git -c core.fsmonitor=false -c core.hooksPath=/dev/null --no-optional-locks --no-pager "$@"; }
g rev-parse --show-toplevel && printf '\0' &&
{ g rev-parse -q --verify HEAD || g hash-object -t tree /dev/null; } && printf '\0' &&
g status --porcelain=v1 -z --no-renames --untracked-files=all --ignore-submodules=dirty -- . && printf '\0'`

const diffScript = ` &&
g diff --name-only -z --no-renames --no-ext-diff --no-textconv --ignore-submodules=dirty %s -- .`

// look asks git about the workspace, and what is tracked and differs from an earlier head, if one is given. What can't be
// asked has no head. Only ctx's end and the store's faults are errors.
func (a *Agent) look(ctx context.Context, callID, since string) (repository, error) {
	if !inRepository(a.Scope.Workspace) || !a.Task.Grant.AllowsTool(tool.BashName) {
		return repository{}, nil
	}
	line := gitScript
	if since != "" {
		line += fmt.Sprintf(diffScript, since)
	}
	exit, err := a.Scope.Shell.Run(ctx, sandbox.Command{
		CallID: callID, Line: line, Dir: a.Scope.Workspace, Timeout: gitTimeout,
	})
	switch {
	case err != nil && (ctx.Err() != nil || isOurs(err)):
		return repository{}, err
	case err != nil || exit.Code != 0 || exit.Dropped > 0:
		a.Log.Info("git does not tell what changes", "task", a.Task.ID, "exit", exit.Code, "error", err)
		return repository{}, nil
	}
	return parseRepository(string(exit.Output)), nil
}

// inRepository looks for the directory, or the file of a worktree, that makes a repository: without one, git is not asked.
func inRepository(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

func parseRepository(out string) repository {
	top, rest, _ := strings.Cut(out, "\n\x00")
	head, rest, _ := strings.Cut(rest, "\n\x00")
	if head == "" || strings.Trim(head, "0123456789abcdef") != "" {
		return repository{}
	}
	repo := repository{head: head}
	status, diff, _ := strings.Cut(rest, "\x00\x00")
	if strings.HasPrefix(rest, "\x00") { // nothing is dirty
		status, diff = "", rest[1:]
	}
	for entry := range strings.SplitSeq(status, "\x00") {
		if len(entry) > len("XY ") {
			repo.dirty = append(repo.dirty, filepath.Join(top, entry[len("XY "):]))
		}
	}
	for path := range strings.SplitSeq(diff, "\x00") {
		if path != "" {
			repo.changed = append(repo.changed, filepath.Join(top, path))
		}
	}
	return repo
}
