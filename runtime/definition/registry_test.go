package definition

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// home is a user's directories and a workspace.
type home struct {
	t         *testing.T
	root      string
	workspace string
	registry  *Registry
}

func newHome(t *testing.T) *home {
	t.Helper()
	root := t.TempDir()
	h := &home{t: t, root: root, workspace: filepath.Join(root, "work")}
	h.registry = New(Config{
		UserDir: filepath.Join(root, "config"), ClaudeDir: filepath.Join(root, "claude"), Tools: names(),
	})
	return h
}

// path is that of a file: of the user's config and claude, or of the workspace's .agentd and .claude.
func (h *home) path(name string) string {
	dir, base := filepath.Split(name)
	if dir == ".agentd/" || dir == ".claude/" {
		return filepath.Join(h.workspace, dir, "agents", base)
	}
	return filepath.Join(h.root, name)
}

// write writes a file, older than what is too young to trust its stamp.
func (h *home) write(name, text string) string {
	h.t.Helper()
	path := h.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// agent is a file with a name and a description.
func agent(name, description string) string {
	return fmt.Sprintf("---\nname: %s\ndescription: %s\n---\nDo it.\n", name, description)
}

// list gives the names with their descriptions, without the built-in ones, and the problems with paths from the root.
func (h *home) list(workspace string) (agents, problems []string) {
	h.t.Helper()
	definitions, wrong := h.registry.List(workspace)
	for _, d := range definitions {
		if d.Source != Builtin {
			agents = append(agents, d.Name+": "+d.Description)
		}
	}
	for _, p := range wrong {
		problems = append(problems, strings.ReplaceAll(p.String(), h.root+"/", ""))
	}
	return agents, problems
}

func (h *home) want(agents, problems []string) {
	h.t.Helper()
	gotAgents, gotProblems := h.list(h.workspace)
	if !slices.Equal(gotAgents, agents) {
		h.t.Errorf("agents %q, want %q", gotAgents, agents)
	}
	if !slices.EqualFunc(gotProblems, problems, strings.HasPrefix) {
		h.t.Errorf("problems %q\nwant %q", gotProblems, problems)
	}
}

// TestWhoseNameCounts: the user's own go before the built-in ones, agentd's files before Claude Code's; those of a
// workspace take nobody's name. proves P2 as far as names go
func TestWhoseNameCounts(t *testing.T) {
	h := newHome(t)
	h.write("claude/x.md", agent("both", "claude"))
	h.write("claude/y.md", agent("Reviewer", "claude"))
	h.write("config/x.md", agent("BOTH", "config"))
	h.write(".claude/a.md", agent("own", "claude"))
	h.write(".claude/b.md", agent("Coder", "claude"))
	h.write(".agentd/a.md", agent("Own", "agentd"))
	h.write(".agentd/b.md", agent("both", "agentd"))
	h.want([]string{"BOTH: config", "Own: agentd", "Reviewer: claude"}, []string{
		`work/.agentd/agents/b.md:2: the name "both" is taken by config/x.md: give this one`,
		`work/.claude/agents/b.md:2: the name "Coder" is taken by a built-in definition: give this one`,
	})
	if agents, problems := h.list(""); !slices.Equal(agents, []string{"BOTH: config", "Reviewer: claude"}) || problems != nil {
		t.Errorf("without a workspace: %q, %q", agents, problems)
	}
	d, err := h.registry.Find(h.workspace, "oWN")
	if err != nil || d.Description != "agentd" || d.Source != Workspace || d.Path != h.path(".agentd/a.md") {
		t.Errorf("got %+v, %v", d, err)
	}
	if d, err := h.registry.Find(h.workspace, "coder"); err != nil || d.Source != Builtin {
		t.Errorf("a workspace's file has the built-in's name: %+v, %v", d, err)
	}
}

func TestOneBrokenFileBreaksNothingElse(t *testing.T) {
	h := newHome(t)
	h.write("config/bad.md", "no front matter")
	h.write("config/good.md", agent("good", "g"))
	h.write("config/GOOD2.md", agent("Good", "again"))
	h.write("config/old.md~", "x")
	h.write("config/.hidden.md", "x")
	h.write("config/README.txt", "x")
	h.write("config/sub/deep.md", agent("deep", "d"))
	h.write("config/large.md", agent("large", "l")+strings.Repeat("x", maxFile))
	h.write("outside.md", agent("outside", "o"))
	for link, target := range map[string]string{
		"away.md": "../outside.md", "dangling.md": "nothing", "within.md": "linked.txt", "dir.md": "sub",
	} {
		if err := os.Symlink(target, h.path("config/"+link)); err != nil {
			t.Fatal(err)
		}
	}
	h.write("config/linked.txt", agent("linked", "l"))
	if err := syscall.Mkfifo(h.path("config/fifo.md"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.want([]string{"Good: again", "linked: l"}, []string{
		"config/away.md: can't be read: it is a link that leads out of the directory", "config/bad.md:1: has no front matter",
		"config/dangling.md: can't be read: no such file", "config/dir.md: can't be read: it is not a regular file",
		"config/fifo.md: can't be read: it is not a regular file",
		`config/good.md:2: the name "good" is taken by config/GOOD2.md`,
		"config/large.md: can't be read: it has more than 131072 bytes",
	})
}

// TestLinksOutOfAWorkspace: a repository must not make the daemon read what lies elsewhere.
func TestLinksOutOfAWorkspace(t *testing.T) {
	h := newHome(t)
	h.write("elsewhere/agents/x.md", agent("x", "x"))
	if err := os.MkdirAll(h.workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../elsewhere", filepath.Join(h.workspace, ".agentd")); err != nil {
		t.Fatal(err)
	}
	h.write("work/.claude", "a file")
	h.want(nil, []string{
		"work/.agentd/agents: can't be read: it is a link that leads out of the directory",
		"work/.claude/agents: can't be read: not a directory",
	})
	// The user's own directory may be a link.
	if err := os.Symlink("elsewhere/agents", filepath.Join(h.root, "config")); err != nil {
		t.Fatal(err)
	}
	if agents, problems := h.list(""); !slices.Equal(agents, []string{"x: x"}) || problems != nil {
		t.Errorf("got %q, %q", agents, problems)
	}
}

func TestManyFiles(t *testing.T) {
	h := newHome(t)
	for i := range maxFiles + 1 {
		h.write(fmt.Sprintf("config/a%03d.md", i), agent(fmt.Sprintf("a%03d", i), "d"))
	}
	agents, problems := h.list("")
	if len(agents) != maxFiles || agents[maxFiles-1] != "a199: d" {
		t.Errorf("there are %d: %q", len(agents), agents)
	}
	if want := []string{"config: there are more than 200 files; only the first ones by name are read"}; !slices.Equal(problems, want) {
		t.Errorf("problems %q", problems)
	}
}

// TestChangesNeedNoRestart: what is written, changed or removed counts at the next look.
func TestChangesNeedNoRestart(t *testing.T) {
	h := newHome(t)
	h.want(nil, nil)
	h.write(".agentd/a.md", agent("a", "one"))
	h.want([]string{"a: one"}, nil)
	h.write(".agentd/a.md", agent("a", "two")) // of the same size, within a tick of the clock
	h.want([]string{"a: two"}, nil)
	h.write(".agentd/b.md", "x")
	h.want([]string{"a: two"}, []string{"work/.agentd/agents/b.md:1: has no front"})
	if err := os.Rename(h.path(".agentd/a.md"), h.path(".agentd/b.md")); err != nil {
		t.Fatal(err)
	}
	h.want([]string{"a: two"}, nil)
	if err := os.RemoveAll(h.workspace); err != nil {
		t.Fatal(err)
	}
	h.want(nil, nil)
}

// TestFilesThatRestAreReadOnce: a file whose stamp is as it was is not read again, until Reload.
func TestFilesThatRestAreReadOnce(t *testing.T) {
	h := newHome(t)
	h.write("config/a.md", agent("a", "one"))
	h.want([]string{"a: one"}, nil)
	p := h.registry.user[1]
	last := h.registry.folders[p]
	if last.fresh = true; p.read(last, nil) == last {
		t.Error("a stamp that is too young is believed")
	}
	last.fresh = false // as if it had been read later
	if p.read(last, nil) != last {
		t.Error("it was read again")
	}
	if err := os.Chtimes(h.path("config/a.md"), time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if p.read(last, nil) == last {
		t.Error("another time of change does not make it read again")
	}
	last.definitions[0].Description = "kept"
	last.stamps = p.read(nil, nil).stamps
	h.want([]string{"a: kept"}, nil)
	if n, problems := h.registry.Reload(); n != 1 || problems != nil {
		t.Errorf("reloaded %d, %v", n, problems)
	}
	h.want([]string{"a: one"}, nil)
}

func TestYoungStampsTellNothing(t *testing.T) {
	now := time.Unix(100, 0)
	for changed, young := range map[time.Time]bool{
		now.Add(-settled): false, now.Add(-settled + 1): true, now: true, now.Add(time.Hour): true, // the clock was set back
	} {
		s := stamp{changed: syscall.NsecToTimespec(changed.UnixNano())}
		if s.youngAt(now) != young {
			t.Errorf("changed at %s, looked at %s: young is %v", changed, now, !young)
		}
	}
}

// TestReloadTellsOfAllInUse: the user's definitions, and those of the workspaces that were asked about.
func TestReloadTellsOfAllInUse(t *testing.T) {
	h := newHome(t)
	h.write("config/a.md", agent("a", "d"))
	h.write("config/b.md", "x")
	h.write(".agentd/c.md", agent("c", "d"))
	h.write(".agentd/d.md", "x")
	if n, problems := h.registry.Reload(); n != 1 || len(problems) != 1 {
		t.Errorf("before the workspace is in use: %d, %v", n, problems)
	}
	for i := range 3 {
		h.registry.List(filepath.Join(h.root, fmt.Sprint("empty", i)))
	}
	h.registry.List(h.workspace)
	if n, problems := h.registry.Reload(); n != 2 || len(problems) != 2 {
		t.Errorf("got %d, %v", n, problems)
	}
}

// TestMemoryIsBounded: however many workspaces there were, few are kept.
func TestMemoryIsBounded(t *testing.T) {
	h := newHome(t)
	for i := range 3 * maxWorkspaces {
		h.registry.List(filepath.Join(h.root, fmt.Sprint(i)))
	}
	if n, kept := len(h.registry.workspaces), len(h.registry.folders); n > maxWorkspaces || kept > 2*maxWorkspaces+2 {
		t.Errorf("%d workspaces and %d folders are kept", n, kept)
	}
}

func TestNotFoundNamesTheNearest(t *testing.T) {
	h := newHome(t)
	h.write("config/broken.md", "x")
	for name, want := range map[string]string{
		"explorr":                  `there is no agent definition "explorr"; there are: explorer, coder, reviewer, verifier, general`,
		"Codr":                     `there are: coder, `,
		"broken":                   "(its file is broken: " + h.path("config/broken.md") + ":1: has no front matter",
		"":                         "there are: coder",
		strings.Repeat("x", 1<<20): "there are: ",
	} {
		_, err := h.registry.Find(h.workspace, name)
		if !errdefs.Is(err, errdefs.AgentNotFound) || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%.20q: %.300v, want %s", name, err, want)
		}
	}
	for i := range 20 {
		h.write(fmt.Sprintf("config/x%d.md", i), agent(fmt.Sprintf("x%d", i), "d"))
	}
	if _, err := h.registry.Find("", "y"); !strings.HasSuffix(err.Error(), "x7, x8, x9, ...") {
		t.Errorf("got %v", err)
	}
}

// TestManyAtOnce: files change while many look and reload.
func TestManyAtOnce(t *testing.T) {
	h := newHome(t)
	path := h.write("config/a.md", agent("a", "0"))
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 50 {
				if _, err := h.registry.Find(h.workspace, "a"); err != nil {
					t.Error(err)
				}
				if i == 0 {
					h.registry.Reload()
				}
				if i == 1 {
					next := fmt.Sprintf("%s.%d", path, n)
					if err := os.WriteFile(next, []byte(agent("a", fmt.Sprint(n))), 0o600); err != nil {
						t.Error(err)
					}
					if err := os.Rename(next, path); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if agents, _ := h.list(""); !slices.Equal(agents, []string{"a: 49"}) {
		t.Errorf("got %q", agents)
	}
}
