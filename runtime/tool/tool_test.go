package tool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/sandbox"
)

// agent is one agent's tools on a real directory.
type agent struct {
	t     *testing.T
	ws    string // its workspace; the directory above it is outside the grant
	scope *Scope
	set   Set
	shell *shell
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, ws: filepath.Join(base, "ws"), set: NewSet(Builtin()...), shell: &shell{}}
	if err := os.Mkdir(a.ws, 0o755); err != nil {
		t.Fatal(err)
	}
	g := grant.ForWorkspace(a.ws, a.set.Names(), 5)
	files, err := sandbox.OpenRoots(a.ws, g)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	})
	a.scope = &Scope{Workspace: a.ws, Grant: g, Files: files, Known: NewKnown(), Outputs: outputs{}, Shell: a.shell}
	return a
}

// run runs a tool and learns what it made known, as the loop does.
func (a *agent) run(name, arguments string) Answer {
	a.t.Helper()
	answer, err := a.set.Run(a.t.Context(), name, Call{ID: "call00001", Arguments: json.RawMessage(arguments), Scope: a.scope})
	if err != nil {
		a.t.Fatalf("%s %s: %v", name, arguments, err)
	}
	a.scope.Known.Learn(answer.Files)
	return answer
}

// text runs a tool that must succeed.
func (a *agent) text(name, arguments string) string {
	a.t.Helper()
	answer := a.run(name, arguments)
	if answer.IsError {
		a.t.Fatalf("%s %s: %s", name, arguments, answer.Text)
	}
	return answer.Text
}

// fail runs a tool that must fail with the reason.
func (a *agent) fail(reason Reason, name, arguments string) Error {
	a.t.Helper()
	answer := a.run(name, arguments)
	var e Error
	if err := json.Unmarshal([]byte(answer.Text), &e); !answer.IsError || err != nil || e.Reason != reason || e.Message == "" {
		a.t.Fatalf("%s %.200s: want %s, got %.300s", name, arguments, reason, answer.Text)
	}
	return e
}

// put writes a file of the workspace behind the agent's back.
func (a *agent) put(path, content string) {
	a.t.Helper()
	path = filepath.Join(a.ws, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) link(target, name string) {
	a.t.Helper()
	if err := os.Symlink(target, filepath.Join(a.ws, name)); err != nil {
		a.t.Fatal(err)
	}
}

// is demands a file's content.
func (a *agent) is(path, want string) {
	a.t.Helper()
	got, err := os.ReadFile(filepath.Join(a.ws, path))
	if err != nil || string(got) != want {
		a.t.Errorf("%s is %q (%v), want %q", path, got, err, want)
	}
}

func has(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func hasNot(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%q in:\n%s", part, text)
		}
	}
}

// args makes an arguments object of pairs of names and values.
func args(t *testing.T, pairs ...string) string {
	t.Helper()
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// outputs are kept outputs by call id.
type outputs map[string]string

func (o outputs) Output(_ context.Context, callID string) (io.ReadCloser, error) {
	if text, ok := o[callID]; ok {
		return io.NopCloser(strings.NewReader(text)), nil
	}
	if callID == "" || strings.ContainsAny(callID, "./") {
		return nil, errdefs.New(errdefs.InvalidArgument, errdefs.BadArgument, callID, "%q is no name", callID) // as the store has it
	}
	return nil, errdefs.New(errdefs.NotFound, errdefs.RecordNotFound, callID, "no output of %s", callID)
}

// shell answers every command alike and keeps the last one.
type shell struct {
	got  sandbox.Command
	exit sandbox.Exit
	err  error
}

func (s *shell) Run(_ context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
	s.got = cmd
	return s.exit, s.err
}

// TestOutside refuses every path that leaves the granted roots, in every file tool. // proves P3 // proves P4
func TestOutside(t *testing.T) {
	a := newAgent(t)
	a.put("../secret.txt", "needle secret")
	a.put("a.txt", "needle")
	a.link("../secret.txt", "out")
	a.link("/etc", "etc")
	a.link("..", "up")
	for _, path := range []string{"../secret.txt", "/etc/passwd", "out", "etc/passwd", "up/secret.txt", "x/../../secret.txt"} {
		for name, more := range map[string][]string{
			"read": nil, "write": {"content", "x"}, "edit": {"old_string", "needle", "new_string", "x"}, "ls": nil,
			"glob": {"pattern", "*"}, "grep": {"pattern", "needle"},
		} {
			e := a.fail(NotGranted, name, args(t, append([]string{"path", path}, more...)...))
			if e.Subject != path || len(e.Allowed) != 1 || e.Allowed[0] != a.ws {
				t.Errorf("%s %s: %+v", name, path, e)
			}
		}
	}
	hasNot(t, a.text("grep", `{"pattern":"needle"}`), "secret")
	a.is("../secret.txt", "needle secret")
}

// TestProtected refuses what no agent may write, and may well read it. // proves P3
func TestProtected(t *testing.T) {
	a := newAgent(t)
	a.put(".git/config", "[core]\n")
	a.link(".git", "g")
	has(t, a.text("read", `{"path":".git/config"}`), "[core]")
	for _, path := range []string{".git/config", ".GIT/config", "g/config", ".git/hooks/post-commit", ".claude/x", ".mcp.json", ".agentd/x"} {
		a.fail(NotGranted, "write", args(t, "path", path, "content", "x"))
		a.fail(NotGranted, "edit", args(t, "path", path, "old_string", "core", "new_string", "x"))
	}
	a.is(".git/config", "[core]\n")
}

// TestReadOnlyRoot writes nothing beneath a root that may only be read. // proves P3
func TestReadOnlyRoot(t *testing.T) {
	a := newAgent(t)
	a.put("a.txt", "one")
	a.scope.Grant = grant.Grant{Tools: a.set.Names(), Readable: []string{a.ws}}
	files, err := sandbox.OpenRoots(a.ws, a.scope.Grant)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close() //nolint:errcheck // the test is over
	a.scope.Files = files
	has(t, a.text("read", `{"path":"a.txt"}`), "one")
	a.fail(NotGranted, "write", `{"path":"a.txt","content":"two"}`)
	a.fail(NotGranted, "edit", `{"path":"a.txt","old_string":"one","new_string":"two"}`)
}

func TestCanceled(t *testing.T) {
	a := newAgent(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.set.Run(ctx, "ls", Call{Scope: a.scope}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	call := Call{Scope: a.scope, Arguments: json.RawMessage(`{"pattern":"x"}`)}
	a.put("a.txt", "x")
	if _, err := grepTool().Run(ctx, call); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
