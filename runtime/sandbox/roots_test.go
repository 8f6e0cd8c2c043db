package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
)

// ground is a directory with a workspace, a readable neighbour and a secret outside both.
type ground struct {
	base, workspace, readable string
	roots                     *Roots
}

func newGround(t *testing.T) ground {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := ground{base: base, workspace: filepath.Join(base, "ws"), readable: filepath.Join(base, "lib")}
	for path, content := range map[string]string{
		"ws/a.txt": "inside", "ws/dir/b.txt": "deeper", "ws/.git/config": "[core]", "ws/.git/hooks/pre-commit": "#!",
		"lib/c.txt": "library", "secret.txt": "secret",
	} {
		put(t, filepath.Join(base, path), content)
	}
	g.roots, err = OpenRoots(g.workspace, grant.Grant{Readable: []string{g.readable}, Writable: []string{g.workspace}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.roots.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (g ground) link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(g.workspace, name)); err != nil {
		t.Fatal(err)
	}
}

// content reads a path as a file tool does.
func (g ground) content(path string) (string, error) {
	place, err := g.roots.Resolve(path, ToRead)
	if err != nil {
		return "", err
	}
	f, _, err := place.Open()
	if err != nil {
		return "", errors.Join(err, place.Close())
	}
	all, err := io.ReadAll(f)
	return string(all), errors.Join(err, f.Close(), place.Close())
}

// TestRead resolves paths for reading. // proves P3
func TestRead(t *testing.T) {
	g := newGround(t)
	g.link(t, "dir/b.txt", "to-file")
	g.link(t, "dir", "to-dir")
	g.link(t, g.workspace+"/a.txt", "absolute")
	g.link(t, "../lib", "to-lib")
	g.link(t, "../secret.txt", "out")
	g.link(t, "/etc/passwd", "out-absolute")
	g.link(t, "..", "up")
	g.link(t, "circle-b", "circle-a")
	g.link(t, "circle-a", "circle-b")
	for _, c := range []struct {
		path, want string
		denied     bool
		err        error
	}{
		{path: "a.txt", want: "inside"},
		{path: g.workspace + "/dir/../a.txt", want: "inside"},
		{path: "../lib/c.txt", want: "library"},
		{path: "to-file", want: "deeper"},
		{path: "to-dir/b.txt", want: "deeper"},
		{path: "absolute", want: "inside"},
		{path: "to-lib/c.txt", want: "library"},
		{path: "up/ws/a.txt", want: "inside"}, // where a path leads counts, not the way
		{path: "out", denied: true},
		{path: "out-absolute", denied: true},
		{path: "up/secret.txt", denied: true},
		{path: "../secret.txt", denied: true},
		{path: "dir/../../secret.txt", denied: true},
		{path: g.base + "/ws-other/x", denied: true},
		{path: "/etc/passwd", denied: true},
		{path: "circle-a", denied: true},
		{path: "missing", err: fs.ErrNotExist},
		{path: "missing/deeper", err: fs.ErrNotExist},
		{path: "a.txt/deeper", err: syscall.ENOTDIR},
	} {
		got, err := g.content(c.path)
		switch {
		case c.denied && !errdefs.Is(err, errdefs.Denied), !c.denied && c.err == nil && err != nil:
			t.Errorf("%s: %q, %v", c.path, got, err)
		case c.err != nil && !errors.Is(err, c.err):
			t.Errorf("%s: got %v, want %v", c.path, err, c.err)
		case got != c.want:
			t.Errorf("%s: got %q, want %q", c.path, got, c.want)
		}
	}
}

// TestDeniedLinkIsNamed tells where a link would have led. // proves P4
func TestDeniedLinkIsNamed(t *testing.T) {
	g := newGround(t)
	g.link(t, "../secret.txt", "out")
	_, err := g.content("out")
	if e := errdefs.As(err); e.Subject != g.workspace+"/out" || !strings.Contains(e.Message, g.base+"/secret.txt") {
		t.Errorf("%+v", e)
	}
}

// TestNeverWritable refuses what no agent may write, by whatever name. // proves P3
func TestNeverWritable(t *testing.T) {
	g := newGround(t)
	g.link(t, ".git", "innocent")
	g.link(t, ".git/config", "plain.txt")
	g.link(t, "../lib", "to-lib")
	for _, path := range []string{
		".git", ".git/config", ".git/hooks/new", ".git/info/exclude", ".GIT/config", ".git/Hooks/x", ".g\u200cit/config",
		"dir/.git/config", "sub/.git", ".git/modules/m/hooks/x", ".git/worktrees/w/config.worktree",
		".agentd/agents/x.md", ".claude/settings.json", ".Claude/x", ".mcp.json", "dir/.mcp.json",
		"innocent/config", "innocent/hooks/x", "plain.txt", "dir/../.git/config",
		"../lib/c.txt", "to-lib/c.txt", "../secret.txt",
	} {
		for _, want := range []Access{ToWrite, ToCreate} {
			if place, err := g.roots.Resolve(path, want); !errdefs.Is(err, errdefs.Denied) {
				t.Errorf("%s: %+v, %v", path, place, err)
			}
		}
	}
	for _, path := range []string{".github/x", ".gitignore", "dir/config", ".git/description", "hooks/x", "agentd"} {
		place, err := g.roots.Resolve(path, ToCreate)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if err := place.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(g.workspace + "/sub"); err == nil {
		t.Error("a refused path has left a directory")
	}
}

// TestProtectedRoots looks at roots that are special themselves.
func TestProtectedRoots(t *testing.T) {
	for _, c := range []struct {
		root, path string
		want       bool
	}{
		{"/r/.git", "/r/.git/hooks/x", true},
		{"/r/.git", "/r/.git/objects/ab", false},
		{"/r/.claude/worktrees/w", "/r/.claude/worktrees/w/a.go", false},
		{"/r/.claude/worktrees/w", "/r/.claude/worktrees/w/.claude/x", true},
		{"/r/.claude", "/r/.claude/x", true},
		{"/", "/a/.mcp.json", true},
		{"/", "/a", false},
	} {
		if got := protected(c.root, c.path); got != c.want {
			t.Errorf("%s beneath %s: %v", c.path, c.root, got)
		}
	}
}

func TestReplace(t *testing.T) {
	g := newGround(t)
	write := func(path, content string) (*Place, error) {
		place, err := g.roots.Resolve(path, ToCreate)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = place.Close() })
		stat, err := place.Stat()
		if err != nil {
			stat = nil
		}
		return place, place.Replace([]byte(content), stat)
	}
	if _, err := write("new/deep/x.txt", "one"); err != nil {
		t.Fatal(err)
	}
	path := g.workspace + "/new/deep/x.txt"
	if err := os.Chmod(path, 0o750); err != nil {
		t.Fatal(err)
	}
	place, err := write("new/deep/x.txt", "two")
	if err != nil {
		t.Fatal(err)
	}
	stat, err := os.Stat(path)
	if err != nil || stat.Mode().Perm() != 0o750 {
		t.Errorf("mode %v, %v", stat.Mode(), err)
	}
	put(t, path, "three, by someone else")
	if err := place.Replace([]byte("four"), stat); !errdefs.Is(err, errdefs.Conflict) {
		t.Errorf("replaced what had changed: %v", err)
	}
	if err := place.Replace([]byte("four"), nil); !errdefs.Is(err, errdefs.Conflict) {
		t.Errorf("created what was there: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// TestCreationReplacesNothing lets many create the same file at once: one does, and the others are told.
func TestCreationReplacesNothing(t *testing.T) {
	g := newGround(t)
	for i := range 20 {
		name := fmt.Sprintf("new/%d", i)
		var created atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			place, err := g.roots.Resolve(name, ToCreate)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				err := place.Replace([]byte("mine"), nil)
				if err == nil {
					created.Add(1)
				} else if !errdefs.Is(err, errdefs.Conflict) {
					t.Error(err)
				}
				_ = place.Close()
			})
		}
		all.Wait()
		if n := created.Load(); n != 1 {
			t.Errorf("%s was created %d times", name, n)
		}
	}
	if entries, err := os.ReadDir(g.workspace + "/new"); err != nil || len(entries) != 20 {
		t.Errorf("left over: %v, %v", entries, err)
	}
}

// TestReplaceThroughLink writes the file that a link names and keeps the link.
func TestReplaceThroughLink(t *testing.T) {
	g := newGround(t)
	g.link(t, "dir/b.txt", "to-file")
	place, err := g.roots.Resolve("to-file", ToWrite)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := place.Stat()
	if err := errors.Join(err, place.Replace([]byte("new"), stat), place.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(g.workspace + "/dir/b.txt"); string(got) != "new" || place.Path != g.workspace+"/dir/b.txt" {
		t.Errorf("%q at %s, %v", got, place.Path, err)
	}
	if stat, err := os.Lstat(g.workspace + "/to-file"); err != nil || stat.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
}

// TestSpecialFiles never block and are refused.
func TestSpecialFiles(t *testing.T) {
	g := newGround(t)
	if err := syscall.Mkfifo(g.workspace+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"pipe", "dir", "."} {
		_, err := g.content(path)
		if _, ok := errors.AsType[*NotFileError](err); !ok {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestMissingRoot(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if _, err := OpenRoots(gone, grant.ForWorkspace(gone, nil, 0)); !errdefs.Is(err, errdefs.NoWorkspace) {
		t.Errorf("%v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A granted path led through no link when it was granted: one that stands in it since, at its end or on the way, leads to
// something else, and is not entered. // proves P3
func TestRootThatBecameALink(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	elsewhere := filepath.Join(top, "elsewhere")
	granted := filepath.Join(top, "a", "b")
	must(t, os.MkdirAll(filepath.Join(elsewhere, "b"), 0o700))
	must(t, os.MkdirAll(granted, 0o700))
	open := func() error {
		r, err := OpenRoots(granted, grant.ForWorkspace(granted, nil, 0))
		if err == nil {
			must(t, r.Close())
		}
		return err
	}
	must(t, open())
	for _, path := range []string{granted, filepath.Dir(granted)} {
		must(t, os.Rename(path, path+".old"))
		must(t, os.Symlink(elsewhere, path))
		if err := open(); !errdefs.Is(err, errdefs.NoWorkspace) {
			t.Errorf("%s is a link: %v", path, err)
		}
		must(t, os.Remove(path))
		must(t, os.Rename(path+".old", path))
	}
	must(t, open())
}

// TestSwappedBetween replaces a directory by a link after it was looked at: neither what lies outside nor what is
// protected is entered. // proves P3
func TestSwappedBetween(t *testing.T) {
	for _, target := range []string{"..", ".git"} {
		g := newGround(t)
		dir := g.roots.open[g.workspace]
		stat, err := dir.Lstat("dir")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(g.workspace+"/dir", g.workspace+"/old"); err != nil {
			t.Fatal(err)
		}
		g.link(t, target, "dir")
		if next, err := descend(dir, g.workspace, "dir", stat); err == nil {
			t.Errorf("entered %s", next.Name())
		}
	}
}

// TestSwappingAllTheTime reads and writes through a name that someone keeps turning into a way out. // proves P3
func TestSwappingAllTheTime(t *testing.T) {
	g := newGround(t)
	put(t, g.base+"/b.txt", "secret")
	name, link := g.workspace+"/dir", g.workspace+"/link"
	g.link(t, "..", "link")
	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-done:
				return
			default: // any of these may fail in the middle of another's turn
				_ = os.Rename(name, g.workspace+"/aside")
				_ = os.Rename(link, name)
				_ = os.Rename(name, link)
				_ = os.Rename(g.workspace+"/aside", name)
			}
		}
	})
	for range 3000 {
		if got, err := g.content("dir/b.txt"); err == nil && got == "secret" {
			t.Error("read what lies outside")
			break
		}
		place, err := g.roots.Resolve("dir/b.txt", ToWrite)
		if err != nil {
			continue
		}
		if stat, err := place.Stat(); err == nil {
			_ = place.Replace([]byte("written"), stat) // may fail, must not land outside
		}
		_ = place.Close()
	}
	close(done)
	swapping.Wait()
	if got, err := os.ReadFile(g.base + "/b.txt"); string(got) != "secret" {
		t.Errorf("wrote outside: %q, %v", got, err)
	}
}

// TestReplacedWorkspace moves a workspace away under a task: its commands run neither there nor in what took its name.
func TestReplacedWorkspace(t *testing.T) {
	g := newGround(t)
	shell := shellOf(newBox(t)).Beside(g.roots)
	touch := Command{Line: "echo x >> touched", Dir: g.workspace}
	if _, err := shell.Run(t.Context(), touch); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(g.workspace, g.base+"/moved"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // first nothing bears the name, then another directory
		if _, err := shell.Run(t.Context(), touch); !errdefs.Is(err, errdefs.NoWorkspace) {
			t.Errorf("%v", err)
		}
		_ = os.Mkdir(g.workspace, 0o755)
	}
	if entries, err := os.ReadDir(g.workspace); err != nil || len(entries) > 0 {
		t.Errorf("a command ran in the new directory: %v, %v", entries, err)
	}
	if got, err := os.ReadFile(g.base + "/moved/touched"); err != nil || string(got) != "x\n" {
		t.Errorf("in the old one: %q, %v", got, err)
	}
}
