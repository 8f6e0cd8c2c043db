package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/task"
)

// asking is the option of a grant that the spawn asks for.
func asking(r grant.Request) func(*task.Assignment) {
	return func(a *task.Assignment) { a.Grant = r }
}

func below(parent task.ID) func(*task.Assignment) {
	return func(a *task.Assignment) { a.Parent = parent }
}

// refusal spawns and wants to be refused for a reason.
func (h *house) refusal(reason errdefs.Reason, more ...func(*task.Assignment)) errdefs.Error {
	h.t.Helper()
	a := task.Assignment{From: "user", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}}
	for _, m := range more {
		m(&a)
	}
	_, err := h.sup.Spawn(context.Background(), a)
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok || e.Reason != reason {
		h.t.Errorf("got %v, want %s", err, reason)
		return errdefs.Error{}
	}
	return *e
}

// proves P1: what a request asks for beyond its parent is refused, naming each; what it does not ask for it does not get.
func TestGrantOfASpawn(t *testing.T) {
	h := newHouse(t, play(text("done")))
	h.must(os.MkdirAll(filepath.Join(h.workspace, "src"), 0o700))
	src := filepath.Join(h.workspace, "src")

	all := h.task(h.spawn("x")).Grant
	for _, name := range []string{"bash", "read", "report", "subagent", "task_output", "task_stop"} {
		if !all.AllowsTool(name) {
			t.Errorf("a client's spawn has no %s: %q", name, all.Tools)
		}
	}
	if !all.Network || all.Depth != task.MaxDepth || !slices.Equal(all.Writable, []string{h.workspace}) {
		t.Errorf("a client's spawn is granted %+v", all)
	}
	few := h.task(h.spawn("x", asking(grant.Request{Tools: []string{"read", "ls"}})))
	if !slices.Equal(few.Grant.Tools, []string{"ls", "read", "report"}) {
		t.Errorf("tools %q: it always can report, and has nobody to look after", few.Grant.Tools)
	}
	inside := h.task(h.spawn("x", asking(grant.Request{Readable: []string{"src"}})))
	if !slices.Equal(inside.Grant.Readable, []string{src}) || inside.Grant.Writable != nil || inside.Workspace != h.workspace {
		t.Errorf("narrowed to a directory: %+v in %s", inside.Grant, inside.Workspace)
	}
	e := h.refusal(errdefs.GrantExceeded, asking(grant.Request{Tools: []string{"read", "fly", "swim"}, Writable: []string{"/"}}))
	for _, what := range []string{"fly", "swim", "writable_roots: /"} {
		if !strings.Contains(e.Message, what) {
			t.Errorf("%q does not name %s", e.Message, what)
		}
	}
	if e := h.refusal(errdefs.BadArgument, asking(grant.Request{Readable: []string{"nowhere"}})); e.Field != "grant.readable_roots" {
		t.Errorf("a root that is not there: %+v", e)
	}
}

// proves N8: a directory that may be read and written is one root.
func TestRootsAreCountedOnce(t *testing.T) {
	h := newHouse(t, play(text("done")))
	var dirs []string
	for n := range 33 {
		dirs = append(dirs, fmt.Sprint("d", n))
		h.must(os.Mkdir(filepath.Join(h.workspace, dirs[n]), 0o700))
	}
	id := h.spawn("x", asking(grant.Request{Readable: dirs[:32], Writable: dirs[:32]}))
	h.ended(id, task.Completed, task.Done)
	if e := h.refusal(errdefs.BadArgument, asking(grant.Request{Readable: dirs[:20], Writable: dirs[20:]})); e.Field != "grant.readable_roots" {
		t.Errorf("too many: %+v", e)
	}
}

// proves P3 as far as this machine goes: nothing can keep a command within a narrower grant, so it has none.
func TestConfinedTaskHasNoShell(t *testing.T) {
	h := newHouse(t, play(text("done")))
	no := false
	for name, r := range map[string]grant.Request{
		"roots": {Readable: []string{"."}}, "network": {Network: &no},
	} {
		got := h.task(h.spawn("x", asking(r)))
		if got.Grant.AllowsTool("bash") || !slices.Contains(got.Dropped, "bash") {
			t.Errorf("%s: tools %q, dropped %q", name, got.Grant.Tools, got.Dropped)
		}
		r.Tools = []string{"bash"}
		h.refusal(errdefs.GrantExceeded, asking(r))
	}
}

// proves P1, P2
// case SAF-1: a child may do no more than its parent, whatever its own definition has.
func TestChildIsNarrowerThanItsParent(t *testing.T) {
	g := newGate()
	h := newHouse(t, cast(map[string]modelFunc{"parent": play(call("gate", "{}"), text("done")), "child": play(text("done"))}),
		with(g.tool("gate")))
	parent := h.spawn("parent", asking(grant.Request{Tools: []string{"read", "gate"}, Readable: []string{h.workspace}}))
	<-g.entered
	child := h.task(h.spawn("child", below(parent)))
	if !slices.Equal(child.Grant.Tools, []string{"gate", "read", "report"}) || child.Grant.Writable != nil ||
		child.Grant.Depth != task.MaxDepth-1 {
		t.Errorf("the child is granted %+v", child.Grant)
	}
	h.refusal(errdefs.GrantExceeded, below(parent), asking(grant.Request{Tools: []string{"write"}}))
	h.refusal(errdefs.GrantExceeded, below(parent), func(a *task.Assignment) { a.Shell = &task.ShellSpec{Command: "true"} })
	close(g.open)
	h.ended(parent, task.Completed, task.Done)
}

// proves P2: what an agent's call spawns gets no delegation of its own, and depth is counted down.
func TestSpawnedByAnAgent(t *testing.T) {
	g := newGate()
	h := newHouse(t, cast(map[string]modelFunc{"parent": play(call("gate", "{}"), text("done")), "child": play(text("done"))}),
		with(g.tool("gate")))
	parent := h.spawn("parent")
	<-g.entered
	child := h.task(h.spawn("child", below(parent), func(a *task.Assignment) { a.CallID = "c00000001" }))
	if child.Grant.AllowsTool("subagent") || !child.Grant.AllowsTool("bash") || !child.Grant.AllowsTool("task_stop") {
		t.Errorf("the child has %q", child.Grant.Tools)
	}
	zero := 0
	leaf := h.spawn("child", below(parent), asking(grant.Request{Depth: &zero}))
	h.ended(leaf, task.Completed, task.Done)
	if got := h.task(leaf).Grant.Depth; got != 0 {
		t.Errorf("the depth asked for is %d", got)
	}
	close(g.open)
	h.ended(parent, task.Completed, task.Done)
}

// What a task of its kind has, no definition takes away.
func TestDefinitionKeepsTheToolsOfItsKind(t *testing.T) {
	h := newHouse(t, play(call("report", `{"summary":"s"}`)))
	dir := filepath.Join(h.workspace, ".agentd", "agents")
	h.must(os.MkdirAll(dir, 0o700))
	text := "---\nname: mute\ndescription: x\ndisallowed_tools: [report, task_output, task_stop, write]\n---\nBe quiet.\n"
	h.must(os.WriteFile(filepath.Join(dir, "mute.md"), []byte(text), 0o600))
	id := h.spawn("x", func(a *task.Assignment) { a.Agent = "mute" })
	h.ended(id, task.Completed, task.Done)
	g := h.task(id).Grant
	for name, want := range map[string]bool{"report": true, "task_output": true, "task_stop": true, "write": false} {
		if g.AllowsTool(name) != want {
			t.Errorf("%s: %v, of %q", name, !want, g.Tools)
		}
	}
}

// proves N8: a description is one line, and a depth no negative number.
func TestSpawnRefusesFields(t *testing.T) {
	h := newHouse(t, play(text("done")))
	minus := -1
	for field, bad := range map[string]func(*task.Assignment){
		"description": func(a *task.Assignment) { a.Description = "one\ntwo" },
		"grant.depth": func(a *task.Assignment) { a.Grant.Depth = &minus },
		"items[0].grant.depth": func(a *task.Assignment) {
			a.Group = &task.GroupSpec{Items: []task.AgentSpec{{Prompt: "x", Grant: grant.Request{Depth: &minus}}}}
		},
	} {
		if e := h.refusal(errdefs.BadArgument, bad); e.Field != field {
			t.Errorf("%s: %+v", field, e)
		}
	}
}

// Only agents have children.
func TestParentIsAnAgent(t *testing.T) {
	h := newHouse(t, hang)
	group := h.spawn("", func(a *task.Assignment) {
		a.Group = &task.GroupSpec{Items: []task.AgentSpec{{Prompt: "one"}}}
	})
	if e := h.refusal(errdefs.BadArgument, below(group)); e.Field != "parent_task_id" {
		t.Errorf("below a group: %+v", e)
	}
	h.must(h.stopTask(group, task.Kill))
}
