package sandbox

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// Place is where a path really is: a name in a directory that is held open.
type Place struct {
	Path string // absolute; no name beneath Root is a link
	Root string // the granted root that holds it
	dir  *os.Root
	name string // "." for the root itself
}

// Close lets go of the directory.
func (p *Place) Close() error { return p.dir.Close() }

// Stat describes what is there; fs.ErrNotExist when nothing is.
func (p *Place) Stat() (fs.FileInfo, error) { return p.dir.Lstat(p.name) }

// Open opens the regular file that is there, for reading. Anything else is a NotFileError, and never blocks.
func (p *Place) Open() (*os.File, fs.FileInfo, error) { return OpenFile(p.dir, p.name) }

// OpenDir opens the directory that is there. The caller closes it.
func (p *Place) OpenDir() (*os.Root, error) { return p.dir.OpenRoot(p.name) }

// Replace puts a file with the content there, whole or not at all. was describes the file that is to be replaced, whose
// permissions stay; nil when there is none. When there is something else now it is Aborted/Conflict.
func (p *Place) Replace(content []byte, was fs.FileInfo) (err error) {
	temp := ".agentd-" + rand.Text() + ".tmp"
	mode := fs.FileMode(0o666)
	if was != nil {
		mode = 0o600 // until it has the permissions of the file
	}
	f, err := p.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.dir.Remove(temp))
		}
	}()
	if err := errors.Join(fill(f, content, was), f.Close()); err != nil {
		return err
	}
	if was == nil {
		switch err := p.dir.Link(temp, p.name); { // unlike a rename it replaces nothing
		case err == nil:
			return p.dir.Remove(temp)
		case errors.Is(err, fs.ErrExist):
			return changed(p.Path)
		}
		// The file system knows no links: the rename must do.
	}
	if !p.still(was) {
		return changed(p.Path)
	}
	return p.dir.Rename(temp, p.name)
}

func fill(f *os.File, content []byte, was fs.FileInfo) error {
	if _, err := f.Write(content); err != nil {
		return err
	}
	if was != nil {
		if err := f.Chmod(was.Mode().Perm()); err != nil {
			return err
		}
	}
	return f.Sync()
}

// still tells whether the place holds what it held.
func (p *Place) still(was fs.FileInfo) bool {
	now, err := p.Stat()
	if was == nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return err == nil && os.SameFile(was, now) && was.Size() == now.Size() && was.ModTime().Equal(now.ModTime())
}

// NotFileError says that something is there, but no regular file.
type NotFileError struct {
	Path string
	Mode fs.FileMode
}

// Error names what is there.
func (e *NotFileError) Error() string {
	kind := "a device or socket"
	switch {
	case e.Mode.IsDir():
		kind = "a directory"
	case e.Mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case e.Mode&fs.ModeSymlink != 0:
		kind = "a link"
	}
	return e.Path + " is " + kind + ", not a regular file"
}

// OpenFile opens a regular file of a directory for reading. Links are not followed; anything but a regular file is a
// NotFileError, and never blocks.
func OpenFile(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, nil, &NotFileError{Path: name, Mode: before.Mode()}
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // should it have become a pipe meanwhile
	if err != nil {
		return nil, nil, err
	}
	stat, err := f.Stat()
	if err == nil && os.SameFile(before, stat) {
		return f, stat, nil
	}
	return nil, nil, errors.Join(changed(name), err, f.Close())
}
