package runtime_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// repository makes the workspace a git repository with a commit.
func (h *house) repository() {
	h.t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		h.t.Skip("there is no git here")
	}
	for name, content := range map[string]string{
		"same": "same\n", "edited": "old\n", "deleted": "old\n", "moved": "old\n", "dirty": "old\n", "dirtier": "old\n",
		"reverted": "old\n", "sub/edited": "old\n", ".gitignore": "ignored\nruns\n",
	} {
		h.put(name, content)
	}
	h.git("init", "-q")
	h.git("add", ".")
	h.git("commit", "-q", "-m", "first")
}

func (h *house) git(args ...string) {
	h.t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
	c.Dir, c.Env = h.workspace, []string{"HOME=" + h.dir, "PATH=" + os.Getenv("PATH")}
	if out, err := c.CombinedOutput(); err != nil {
		h.t.Fatalf("git %s: %v\n%s", args, err, out)
	}
}

// changes are a result's, relative to the workspace.
func (h *house) changes(r task.Result) string {
	h.t.Helper()
	var names []string
	for _, path := range r.Changes {
		name, err := filepath.Rel(h.workspace, path)
		h.must(err)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// bash makes an answer that asks for a command.
func bash(command string) model.Response {
	arguments, _ := json.Marshal(map[string]string{"command": command}) // strings always marshal
	return call("bash", string(arguments))
}

// proves R1: the changes are what the tools changed, and what git saw change since the first command.
func TestChangesSeenByGit(t *testing.T) {
	for _, c := range []struct{ name, command, want string }{
		{"nothing", "true", ""},
		{"edited", "echo new > edited; echo new > sub/edited", "edited sub/edited"},
		{"untracked", "mkdir -p a/b && touch a/b/c new", "a/b/c new"},
		{"deleted", "rm deleted", "deleted"},
		{"renamed", "git mv moved elsewhere", "elsewhere moved"},
		{"ignored", "touch ignored", ""},
		{"same content", "cat edited > x && mv x edited; touch same", ""},
		{"dirty before", "echo newer > dirtier", "dirtier"},
		{"dirty before, then reverted", "git checkout -q -- reverted", "reverted"},
		{"dirty before, then gone", "rm junk", "junk"},
		{"staged", "git add dirty junk", ""},
		{"committed", "echo new > edited; touch new; git -c user.name=x -c user.email=x@y add edited new; " +
			"git -c user.name=x -c user.email=x@y commit -q -m second", "edited new"},
		{"committed as it was", "git -c user.name=x -c user.email=x@y commit -q -m second dirty", ""},
		{"odd names", `touch 'a b' "$(printf 'two\nlines')" '"quoted"' ./-dash '$x'`, "\"quoted\" $x -dash a b two\nlines"},
		{"not utf-8", `touch "$(printf 'x\377y')"`, "x\uFFFDy"},
		{"failed", "touch new; false", "new"},
		{"by a tool too", "touch new", "new tool"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			answers := []model.Response{bash(c.command), text("done")}
			if c.name == "by a tool too" {
				answers = append([]model.Response{call("write", `{"path":"tool","content":"x"}`)}, answers...)
			}
			h := newHouse(t, play(answers...))
			h.repository()
			h.put("dirty", "dirty\n")
			h.put("dirtier", "dirty\n")
			h.put("reverted", "dirty\n")
			h.put("junk", "junk\n")
			if got := h.changes(h.ended(h.spawn("x"), task.Completed, task.Done)); got != c.want {
				t.Errorf("changes: %q, not %q", got, c.want)
			}
		})
	}
}

// Only what lies in the workspace counts, and a repository without a commit has changes too.
func TestChangesInPartOfARepository(t *testing.T) {
	h := newHouse(t, play(bash("echo new > ../outside; echo new > inside; git add inside")))
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git here")
	}
	h.git("init", "-q")
	h.put("before", "x")
	top := h.workspace
	h.put("part/before", "x")
	h.workspace = filepath.Join(top, "part")
	if got := h.changes(h.ended(h.spawn("x"), task.Completed, task.Done)); got != "inside" {
		t.Errorf("changes: %q", got)
	}
}

// The state before the first command outlives the daemon, and so do the changes.
func TestChangesAcrossARestart(t *testing.T) {
	g := newGate()
	h := newHouse(t, play(bash("touch first"), call("gate", "{}"), bash("touch second"), text("done")), with(g.tool("gate")))
	h.repository()
	h.put("junk", "junk\n")
	id := h.spawn("x")
	<-g.entered
	h.cut.cut()
	close(g.open)
	h.restart()
	if got := h.changes(h.ended(id, task.Completed, task.Done)); got != "first second" {
		t.Errorf("changes: %q", got)
	}
}

// An end by CANCEL or a limit is one like any other. A KILL does not wait for git.
func TestChangesOfOtherEnds(t *testing.T) {
	write := call("write", `{"path":"tool","content":"x"}`)
	for level, want := range map[task.StopLevel]string{task.Cancel: "new running tool", task.Kill: "tool"} {
		t.Run(level.String(), func(t *testing.T) {
			h := newHouse(t, play(write, bash("touch new running; sleep 1000")))
			h.repository()
			id := h.spawn("x")
			h.awaitFile("running")
			h.must(h.stopTask(id, level))
			if got := h.changes(h.ended(id, task.Killed, task.StoppedByClient)); got != want {
				t.Errorf("changes: %q, not %q", got, want)
			}
		})
	}
	t.Run("limit", func(t *testing.T) {
		h := newHouse(t, play(bash("touch new"), text("done")))
		h.repository()
		if got := h.changes(h.ended(h.spawn("x", steps(2)), task.Failed, task.MaxSteps)); got != "new" {
			t.Errorf("changes: %q", got)
		}
	})
}

// Git in a repository of an agent's making starts nothing that the repository names.
func TestGitStartsNoHooks(t *testing.T) {
	h := newHouse(t, play(bash("echo new > edited"), text("done")))
	h.repository()
	h.put("hook", "#!/bin/sh\ntouch "+filepath.Join(h.dir, "hooked")+"\n")
	h.must(os.Chmod(filepath.Join(h.workspace, "hook"), 0o700)) //nolint:gosec // it must be executable
	for _, name := range []string{"post-index-change", "fsmonitor-watchman"} {
		h.must(os.Link(filepath.Join(h.workspace, "hook"), filepath.Join(h.workspace, ".git/hooks", name)))
	}
	h.git("config", "core.fsmonitor", filepath.Join(h.workspace, "hook"))
	h.git("config", "core.pager", filepath.Join(h.workspace, "hook"))
	h.git("config", "diff.external", filepath.Join(h.workspace, "hook"))
	_ = os.Remove(filepath.Join(h.dir, "hooked")) // the test's own git obeys
	if got := h.changes(h.ended(h.spawn("x"), task.Completed, task.Done)); got != "edited" {
		t.Errorf("changes: %q", got)
	}
	if _, err := os.Lstat(filepath.Join(h.dir, "hooked")); err == nil {
		t.Error("a program of the repository ran")
	}
}
