package runtime_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// in is an assignment's workspace.
func in(dir string) func(*task.Assignment) { return func(a *task.Assignment) { a.Workspace = dir } }

// refused spawns what must be refused.
func (h *house) refused(why errdefs.Reason, more ...func(*task.Assignment)) {
	h.t.Helper()
	a := task.Assignment{From: "user", Caller: "test", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}}
	for _, m := range more {
		m(&a)
	}
	id, err := h.sup.Spawn(context.Background(), a)
	if !errdefs.Is(err, why) {
		h.t.Errorf("spawned %q, %v; not refused with %s", id, err, why)
	}
}

// proves N1: a directory is a team, by whatever way it is reached.
func TestWorkspaceIsTheTeam(t *testing.T) {
	h := newHouse(t, play(text("done")), inBubble)
	a, b := filepath.Join(h.workspace, "a dir"), filepath.Join(h.workspace, "b")
	link := filepath.Join(h.workspace, "link")
	h.must(os.Mkdir(a, 0o700))
	h.must(os.Mkdir(b, 0o700))
	h.must(os.Symlink(a, link))
	one, two, three := h.task(h.spawn("x", in(a))), h.task(h.spawn("x", in(b))), h.task(h.spawn("x", in(link)))
	if one.Team == two.Team || one.Team != three.Team || three.Workspace != a {
		t.Errorf("teams %s, %s, %s; workspace %s", one.TeamName, two.TeamName, three.TeamName, three.Workspace)
	}
	if !strings.HasPrefix(one.TeamName, "a-dir-") || len(one.TeamName) != len("a-dir-")+6 {
		t.Errorf("team name %q", one.TeamName)
	}
	h.restart()
	if again := h.task(h.spawn("x", in(a))); again.Team != one.Team {
		t.Errorf("after a restart it is %s", again.TeamName)
	}
	named := h.task(h.spawn("x", in(b), func(a *task.Assignment) { a.Team = strings.ToUpper(one.TeamName) }))
	if named.Team != one.Team || named.Workspace != b {
		t.Errorf("by name: %s in %s", named.TeamName, named.Workspace)
	}
	h.refused(errdefs.TeamNotFound, func(a *task.Assignment) { a.Team = "nobody" })
	h.refused(errdefs.BadArgument, in("relative"))
	h.refused(errdefs.BadArgument, in(filepath.Join(a, "missing")))
	h.refused(errdefs.BadArgument, in("/etc/hostname"))
	h.refused(errdefs.NoWorkspace, in(""))
}

// proves N1: workspaces lie beneath a --workspace root, of which the first is the default team's.
func TestWorkspaceRoots(t *testing.T) {
	roots := func(h *house) {
		h.roots = []string{filepath.Join(h.workspace, "first"), filepath.Join(h.workspace, "second")}
	}
	h := newHouse(t, play(text("done")), inBubble, func(h *house) {
		roots(h)
		for _, dir := range append(h.roots, filepath.Join(h.workspace, "outside")) {
			h.must(os.Mkdir(dir, 0o700))
		}
	})
	h.refused(errdefs.WorkspaceNotAllowed, in(filepath.Join(h.workspace, "outside")))
	link := filepath.Join(h.roots[0], "way out")
	h.must(os.Symlink(filepath.Join(h.workspace, "outside"), link))
	h.refused(errdefs.WorkspaceNotAllowed, in(link))

	explicit := h.task(h.spawn("x", in(h.roots[0])))
	byDefault := h.task(h.spawn("x", in("")))
	if byDefault.TeamName != roster.DefaultTeam || byDefault.Workspace != h.roots[0] || explicit.Team != byDefault.Team {
		t.Errorf("default: %s in %s; the first root: %s", byDefault.TeamName, byDefault.Workspace, explicit.TeamName)
	}
	second := h.task(h.spawn("x", in(h.roots[1])))
	if second.Team == byDefault.Team {
		t.Error("the second root is the default team's")
	}
}

// proves N1: a directory that became the first --workspace after it had a team stays that team's, and is the default's too.
func TestFirstRootWithATeam(t *testing.T) {
	h := newHouse(t, play(text("done")), inBubble)
	h.spawn("x")
	h.stop()
	h.roots = []string{h.workspace}
	h.start()
	if d := h.task(h.spawn("x", in(""))); d.TeamName != roster.DefaultTeam || d.Workspace != h.workspace {
		t.Errorf("default: %s in %s", d.TeamName, d.Workspace)
	}
}

// proves N1: a team's own workspace is held to the roots of today, and must exist.
func TestTeamsWorkspaceIsChecked(t *testing.T) {
	h := newHouse(t, play(text("done")), inBubble)
	inside, outside := filepath.Join(h.workspace, "inside"), filepath.Join(h.workspace, "outside")
	h.must(os.Mkdir(inside, 0o700))
	h.must(os.Mkdir(outside, 0o700))
	of := func(id task.ID) func(*task.Assignment) {
		name := h.task(id).TeamName
		return func(a *task.Assignment) { a.Team, a.Workspace = name, "" }
	}
	gone, kept := of(h.spawn("x", in(inside))), of(h.spawn("x", in(outside)))
	h.stop()
	h.roots = []string{inside}
	h.start()
	h.refused(errdefs.WorkspaceNotAllowed, kept)
	h.spawn("x", gone)
	h.must(os.Remove(inside))
	h.refused(errdefs.BadArgument, gone)
}

// proves N8: what is beyond a limit is refused with its field; what is at it is taken.
func TestLimits(t *testing.T) {
	h := newHouse(t, hang, inBubble)
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		field string
		bad   func(*task.Assignment)
	}{
		{"prompt", func(a *task.Assignment) { a.Prompt = long(256<<10 + 1) }},
		{"prompt", func(a *task.Assignment) { a.Prompt = " \n" }},
		{"prompt", func(a *task.Assignment) { a.Inputs = []task.NamedText{{Name: "n", Text: long(256 << 10)}} }},
		{"inputs", func(a *task.Assignment) { a.Inputs = make([]task.NamedText, 33) }},
		{"inputs[0].name", func(a *task.Assignment) { a.Inputs = []task.NamedText{{Text: "t"}} }},
		{"inputs[0]", func(a *task.Assignment) { a.Inputs = []task.NamedText{{Name: "n"}} }},
		{"inputs[0]", func(a *task.Assignment) { a.Inputs = []task.NamedText{{Name: "n", Text: "t", TaskID: "sub-1"}} }},
		{"description", func(a *task.Assignment) { a.Description = long(1025) }},
		{"model", func(a *task.Assignment) { a.Model = long(201) }},
		{"budget.max_steps", func(a *task.Assignment) { a.Budget.MaxSteps = 1001 }},
		{"budget.steps", func(a *task.Assignment) { a.Budget.Steps = -1 }},
		{"budget.tokens", func(a *task.Assignment) { a.Budget.Tokens = -1 }},
		{"budget.wall_time", func(a *task.Assignment) { a.Budget.WallTime = -1 }},
		{"request_id", func(a *task.Assignment) { a.RequestID = long(257) }},
	} {
		a := task.Assignment{From: "user", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}}
		c.bad(&a)
		_, err := h.sup.Spawn(context.Background(), a)
		if e := errdefs.As(err); err == nil || e.Kind != errdefs.InvalidArgument || e.Field != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	id := h.spawn(long(256 << 10))
	h.must(h.send(id, long(64<<10)))
	for text, field := range map[string]string{"": "text", long(64<<10 + 1): "text"} {
		if e := errdefs.As(h.send(id, text)); e == nil || e.Kind != errdefs.InvalidArgument || e.Field != field {
			t.Errorf("a message of %d bytes: %v", len(text), e)
		}
	}
	for field, req := range map[string]runtime.StopRequest{
		"wrap_up_timeout": {TaskID: id, WrapUp: -1}, "cancel_timeout": {TaskID: id, Cancel: runtime.MaxStopTimeout + 1},
		"reason": {TaskID: id, Reason: long(1025)}, "request_id": {TaskID: id, RequestID: long(257)},
	} {
		err := h.sup.Stop(context.Background(), req, nil)
		if e := errdefs.As(err); err == nil || e.Kind != errdefs.InvalidArgument || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	h.must(h.stopTask(id, task.Kill))
}

// proves N4, R7: who may be a parent, and how deep.
func TestParents(t *testing.T) {
	h := newHouse(t, hang, inBubble)
	below := func(parent task.ID) func(*task.Assignment) { return func(a *task.Assignment) { a.Parent = parent } }
	top := h.spawn("x")
	chain := top
	for range task.MaxDepth {
		chain = h.spawn("x", below(chain))
	}
	if got := h.task(chain); got.Depth() != task.MaxDepth || got.Ancestors[task.MaxDepth-1] != top {
		t.Errorf("ancestors: %v", got.Ancestors)
	}
	h.refused(errdefs.DepthExceeded, below(chain))
	h.refused(errdefs.TaskNotFound, below("sub-999999"))
	outside := t.TempDir()
	h.refused(errdefs.WorkspaceNotAllowed, below(top), in(outside))
	other := h.spawn("x", in(outside))
	h.refused(errdefs.BadArgument, below(top), in(outside), func(a *task.Assignment) { a.Team = h.task(other).TeamName })
	h.must(h.stopTask(top, task.Kill))
	h.refused(errdefs.TaskEnded, below(top))
	h.ended(chain, task.Killed, task.ParentEnded)
	h.must(h.stopTask(other, task.Kill))
}

// An input can be what another task of the team concluded.
func TestInputs(t *testing.T) {
	h := newHouse(t, cast(map[string]modelFunc{"first": play(text("the summary")), "second": echoInputs}), inBubble)
	first := h.spawn("first")
	h.ended(first, task.Completed, task.Done)
	second := h.spawn("second", func(a *task.Assignment) {
		a.Inputs = []task.NamedText{{Name: "notes", Text: "a note"}, {Name: "before", TaskID: first}}
	})
	want := "second\n\n## notes\n\na note\n\n## before\n\nthe summary"
	if r := h.ended(second, task.Completed, task.Done); r.Summary != want {
		t.Errorf("told: %q", r.Summary)
	}
	h.refused(errdefs.TaskNotFound, func(a *task.Assignment) { a.Inputs = []task.NamedText{{Name: "n", TaskID: "sub-999999"}} })
}

// Run waits for the result.
func TestRun(t *testing.T) {
	h := newHouse(t, play(text("done")), inBubble)
	r, err := h.sup.Run(context.Background(), task.Assignment{From: "user", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}})
	if err != nil || r.State != task.Completed || r.Summary != "done" {
		t.Errorf("%+v, %v", r, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := h.sup.Run(ctx, task.Assignment{From: "user", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "x"}}); err == nil {
		t.Error("a canceled wait gave a result")
	}
	for i := range 2 { // the work of the canceled call goes on
		h.ended(task.ID(fmt.Sprintf("sub-%d", i+1)), task.Completed, task.Done)
	}
}
