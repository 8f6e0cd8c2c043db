package definition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// maxFiles is how many files of a directory are read.
	maxFiles = 200
	// maxEntries is how many entries of a directory are looked at.
	maxEntries = 10_000
	// settled is how old a file must be before its stamp tells that it is unchanged: a second write within one tick of the
	// file system's clock leaves the stamp as it is.
	settled = time.Second
)

// place is a directory of definitions: sub in base. Nothing that lies outside of base is read, whatever links say.
type place struct {
	base, sub string
	source    Source
	claude    bool
}

func (p place) dir() string { return filepath.Join(p.base, p.sub) }

// folder is what was read at a place.
type folder struct {
	stamps      []stamp
	fresh       bool // some file was too young for its stamp to tell
	definitions []Definition
	problems    []Problem
}

// stamp tells a file from a later version of itself.
type stamp struct {
	name     string
	inode    uint64
	size     int64
	modified time.Time
	changed  syscall.Timespec // of the inode: `touch -d` does not set it
}

// youngAt tells whether a later change might have left the stamp as it is.
func (s stamp) youngAt(now time.Time) bool { return now.Sub(time.Unix(s.changed.Unix())) < settled }

// open opens the directory; nil when there is none.
func (p place) open() (*os.Root, error) {
	base, err := os.OpenRoot(p.base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = base.Close() }()
	dir, err := base.OpenRoot(p.sub)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return dir, err
}

// look gives the stamps of the files, by name, and the problem of a directory that has too many.
func look(dir *os.Root) (stamps []stamp, problem string, err error) {
	list, err := dir.Open(".")
	if err != nil {
		return nil, "", err
	}
	defer list.Close()
	entries, err := list.ReadDir(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != ".md" || e.Name()[0] == '.' {
			continue // a directory, or what an editor leaves
		}
		if len(stamps) == maxFiles {
			return stamps, fmt.Sprintf("there are more than %d files; only the first ones by name are read", maxFiles), nil
		}
		s := stamp{name: e.Name()}
		if stat, err := dir.Stat(e.Name()); err == nil { // else reading it tells why
			s.size, s.modified = stat.Size(), stat.ModTime()
			if inode, ok := stat.Sys().(*syscall.Stat_t); ok {
				s.inode, s.changed = inode.Ino, inode.Ctim
			}
		}
		stamps = append(stamps, s)
	}
	return stamps, "", nil
}

// read reads the place, unless last is what stands there still.
func (p place) read(last *folder, known []string) *folder {
	now := time.Now()
	dir, err := p.open()
	if dir == nil {
		return p.unreadable(err)
	}
	defer func() { _ = dir.Close() }()
	stamps, problem, err := look(dir)
	if err != nil {
		return p.unreadable(err)
	}
	if last != nil && !last.fresh && slices.Equal(last.stamps, stamps) {
		return last
	}
	f := &folder{stamps: stamps}
	if problem != "" {
		f.problems = append(f.problems, Problem{Path: p.dir(), Message: problem})
	}
	for _, s := range stamps {
		f.fresh = f.fresh || s.youngAt(now)
		p.add(f, dir, s.name, known)
	}
	return f
}

// unreadable is the folder of a directory that is not there, or that err keeps from being read.
func (p place) unreadable(err error) *folder {
	f := &folder{fresh: true}
	if err != nil {
		f.problems = []Problem{{Path: p.dir(), Message: "can't be read: " + cause(err)}}
	}
	return f
}

// add reads one file.
func (p place) add(f *folder, dir *os.Root, name string, known []string) {
	path := filepath.Join(p.dir(), name)
	text, err := readFile(dir, name)
	if err != nil {
		f.problems = append(f.problems, Problem{Path: path, Message: "can't be read: " + cause(err)})
		return
	}
	def, problems := parse(text, strings.TrimSuffix(name, ".md"), dialect{p.claude, known})
	def.Source, def.Path = p.source, path
	same := func(d Definition) bool { return strings.EqualFold(d.Name, def.Name) }
	if i := slices.IndexFunc(f.definitions, same); i >= 0 && works(problems) {
		problems = append(problems, Problem{
			Line: def.line, Message: fmt.Sprintf("the name %q is taken by %s", def.Name, f.definitions[i].Path),
		})
	}
	if works(problems) {
		f.definitions = append(f.definitions, def)
	}
	for _, problem := range problems {
		problem.Path = path
		f.problems = append(f.problems, problem)
	}
}

// readFile reads a regular file of bounded size that lies in the directory.
func readFile(dir *os.Root, name string) (string, error) {
	file, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a fifo must not hold anybody up
	if err != nil {
		return "", err
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !stat.Mode().IsRegular() {
		return "", errors.New("it is not a regular file")
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it has more than %d bytes", maxFile)
	}
	return string(text), err
}

// cause is what an error says beside the path, which a problem has already.
func cause(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		if e.Err.Error() == "path escapes from parent" { // the os package does not export it
			return "it is a link that leads out of the directory"
		}
		return e.Err.Error()
	}
	return err.Error()
}
