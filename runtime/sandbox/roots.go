package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
)

// maxLinks bounds the links that one path may lead through, as the kernel's own bound does.
const maxLinks = 40

// Access is what a path is resolved for.
type Access uint8

// The accesses.
const (
	ToRead   Access = iota + 1 // beneath a readable root
	ToWrite                    // beneath a writable root, and never a protected path (P3)
	ToCreate                   // as ToWrite, and missing parent directories are made
)

// Roots are the granted directories of one task, held open, and the only way of its file tools to the disk. Safe for
// concurrent use.
//
// A path is walked name by name from an open root: each directory is opened beneath the one before (os.Root), and a
// link is not followed but asked for anew, as if the agent had named its target. So what is opened is what the grant
// allowed, whatever others rename meanwhile.
type Roots struct {
	workspace string
	grant     grant.Grant
	open      map[string]*os.Root // by path; never changed after OpenRoots
}

// OpenRoots opens the grant's roots. Relative paths will be relative to the workspace, which is absolute. A root that
// cannot be opened is FailedPrecondition/NoWorkspace, or Unavailable/Fault when only files or memory are short.
func OpenRoots(workspace string, g grant.Grant) (*Roots, error) {
	r := &Roots{workspace: workspace, grant: g, open: map[string]*os.Root{}}
	for _, path := range slices.Concat(g.Readable, g.Writable) {
		if r.open[path] != nil {
			continue
		}
		root, err := openPlain(path)
		if err != nil {
			return nil, errors.Join(cannotOpen(path, err), r.Close())
		}
		r.open[path] = root
	}
	return r, nil
}

// openPlain opens a granted directory, whose path led through no link when it was granted. A link that stands there now
// was put there since, and what it leads to is not what was granted.
func openPlain(path string) (*os.Root, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	same, err := standsAt(root, path)
	if err == nil && !same {
		err = fmt.Errorf("%s leads through a link now", path)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// standsAt tells whether a root is the directory at a path without links.
func standsAt(root *os.Root, path string) (bool, error) {
	opened, err := root.Stat(".")
	if err != nil {
		return false, err
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	switch {
	case errors.Is(err, unix.ELOOP):
		return false, nil
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // before Linux 5.6, or forbidden
		resolved, err := filepath.EvalSymlinks(path)
		return resolved == path, err
	case err != nil:
		return false, err
	}
	plain := os.NewFile(uintptr(fd), path)
	defer plain.Close()
	there, err := plain.Stat()
	return err == nil && os.SameFile(opened, there), err
}

func cannotOpen(path string, err error) error {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
		return errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, path,
			"the machine is too short of open files or memory to open %s", path)
	}
	return errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.NoWorkspace, path,
		"the granted directory %s cannot be opened", path)
}

// replaced tells whether another directory stands now where a root was opened, or none. What is opened by that name is
// not what the file tools see.
func (r *Roots) replaced(path string) bool {
	root := r.open[path]
	if root == nil {
		return false
	}
	then, err := root.Stat(".")
	if err != nil {
		return true
	}
	now, err := os.Stat(path)
	return err != nil || !os.SameFile(then, now)
}

// Close lets go of the roots. Places that were resolved stay open.
func (r *Roots) Close() error {
	var errs []error
	for _, root := range r.open {
		errs = append(errs, root.Close())
	}
	return errors.Join(errs...)
}

// Abs makes a path absolute and clean: a relative one is relative to the workspace.
func (r *Roots) Abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(r.workspace, path)
}

// Resolve finds where a path really is and holds its directory open. The last name need not exist. Errors:
// PermissionDenied/Denied for what the grant does not allow, also behind a link; fs.ErrNotExist for a missing
// directory; Aborted/Conflict when it changes meanwhile. The caller closes the place.
func (r *Roots) Resolve(path string, want Access) (*Place, error) {
	asked := r.Abs(path)
	target := asked
	for range maxLinks {
		root, err := r.admit(asked, target, want)
		if err != nil {
			return nil, err
		}
		place, link, err := walk(r.open[root], root, target, want)
		if err != nil || place != nil {
			return place, err
		}
		target = link
	}
	return nil, denied(asked, "%s leads through more than %d links", asked, maxLinks)
}

// admit asks the grant about target, to which the path that was asked for leads, and gives the root that holds it.
func (r *Roots) admit(asked, target string, want Access) (string, error) {
	subject := target
	if asked != target {
		subject = fmt.Sprintf("%s, a link to %s,", asked, target)
	}
	if want == ToRead {
		if root := r.grant.ReadableRoot(target); root != "" {
			return root, nil
		}
		return "", denied(asked, "%s is outside the readable directories", subject)
	}
	root := r.grant.WritableRoot(target)
	if root == "" {
		return "", denied(asked, "%s is outside the writable directories", subject)
	}
	if protected(root, target) {
		return "", denied(asked, "%s is never writable by agents", subject)
	}
	return root, nil
}

func denied(path, format string, args ...any) error {
	return errdefs.New(errdefs.PermissionDenied, errdefs.Denied, path, format, args...)
}

func changed(path string) error {
	return errdefs.New(errdefs.Aborted, errdefs.Conflict, path, "%s was changed by someone else meanwhile", path)
}

// walk opens the directories from the root down to the path's last one. A link on the way ends the walk: it gives the
// path that the link makes of the whole, and no place.
func walk(from *os.Root, root, path string, want Access) (place *Place, link string, err error) {
	dir, err := from.OpenRoot(".")
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if place == nil {
			_ = dir.Close() // read only: nothing to lose
		}
	}()
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return nil, "", err
	}
	names := split(rel)
	for i, name := range names {
		at := filepath.Join(root, filepath.Join(names[:i]...))
		last := i == len(names)-1
		stat, err := lstat(dir, name, want == ToCreate && !last)
		switch {
		case last && errors.Is(err, fs.ErrNotExist):
			return &Place{Path: path, Root: root, dir: dir, name: name}, "", nil
		case err != nil:
			return nil, "", &fs.PathError{Op: "open", Path: filepath.Join(at, name), Err: bare(err)}
		case stat.Mode()&fs.ModeSymlink != 0:
			link, err := follow(dir, at, name, names[i+1:])
			return nil, link, err
		case last:
			return &Place{Path: path, Root: root, dir: dir, name: name}, "", nil
		}
		next, err := descend(dir, at, name, stat)
		if err != nil {
			return nil, "", err
		}
		_ = dir.Close() // read only: nothing to lose
		dir = next
	}
	return &Place{Path: path, Root: root, dir: dir, name: "."}, "", nil
}

// lstat looks at a name, and makes it a directory first when it is missing and shall be there.
func lstat(dir *os.Root, name string, create bool) (fs.FileInfo, error) {
	stat, err := dir.Lstat(name)
	if !create || !errors.Is(err, fs.ErrNotExist) {
		return stat, err
	}
	if err := dir.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return dir.Lstat(name)
}

// follow gives the path that a link makes of at/name/rest.
func follow(dir *os.Root, at, name string, rest []string) (string, error) {
	target, err := dir.Readlink(name)
	if err != nil {
		return "", changed(filepath.Join(at, name)) // it was a link a moment ago
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(at, target)
	}
	return filepath.Join(target, filepath.Join(rest...)), nil
}

// descend opens a directory that stat has just described; another one of that name, or a link, is refused.
func descend(dir *os.Root, at, name string, stat fs.FileInfo) (*os.Root, error) {
	path := filepath.Join(at, name)
	if !stat.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	next, err := dir.OpenRoot(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: bare(err)}
	}
	now, err := next.Stat(".")
	if err == nil && os.SameFile(stat, now) {
		return next, nil
	}
	return nil, errors.Join(changed(path), next.Close())
}

// bare takes the path off an error that names only the last part of it.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// protected tells whether agents may never write the path, which lies beneath root (P3): `.git` itself, for it may be a
// file that names another git directory; what makes git run or read something else, also in the git directories of
// submodules and worktrees; and the configuration of agents. The root's own name counts too.
func protected(root, path string) bool {
	names := split(path)
	first := len(split(root)) - 1
	inGit := false
	for i, name := range names {
		switch {
		case inGit && isOneOf(name, "config", "config.worktree", "hooks", "info", "commondir", "gitdir"):
			return true
		case isOneOf(name, ".git"):
			if i == len(names)-1 {
				return true
			}
			inGit = true
		case i >= first && isOneOf(name, ".agentd", ".claude", ".mcp.json"):
			return true
		}
	}
	return false
}

// isOneOf compares names as a file system may that ignores case and what cannot be seen.
func isOneOf(name string, names ...string) bool {
	name = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cf, unicode.Variation_Selector) {
			return -1
		}
		return r
	}, name)
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// split gives the names of a clean path; none for "." and "/".
func split(path string) []string {
	path = strings.TrimPrefix(path, string(filepath.Separator))
	if path == "" || path == "." {
		return nil
	}
	return strings.Split(path, string(filepath.Separator))
}
