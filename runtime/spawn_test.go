package runtime_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

func TestTaskRunsFromSpawnToOutcome(t *testing.T) {
	h := newHouse(t, play(
		call("ls", `{"path":"."}`, "read", `{"path":"a.txt"}`),
		call("edit", `{"path":"a.txt","old_string":"one","new_string":"two"}`),
		call("bash", `{"command":"cat a.txt; exit 3"}`),
		call("report", `{"summary":"changed it","findings":[{"title":"f","path":"a.txt","line":1}],"claims":["checked"]}`),
	))
	file := filepath.Join(h.workspace, "a.txt")
	h.must(os.WriteFile(file, []byte("one\n"), 0o600))
	id := h.spawn("change a.txt")
	r := h.result(id)
	if r.State != task.Completed || r.Reason != task.Done || r.Summary != "changed it" || len(r.Findings) != 1 {
		t.Fatalf("result: %+v", r)
	}
	if len(r.Changes) != 1 || r.Changes[0] != file {
		t.Errorf("changes: %v", r.Changes)
	}
	if r.Usage.Steps != 4 || r.Usage.ToolCalls != 5 || r.Usage.InputTokens != 40 || r.Usage.Turns != 1 {
		t.Errorf("usage: %+v", r.Usage)
	}
	got, err := os.ReadFile(file)
	h.must(err)
	if string(got) != "two\n" {
		t.Errorf("file: %q", got)
	}
	for _, e := range h.entries(id) {
		t.Logf("%d %T %+v", e.Seq, e.Body, e.Body)
	}
}

// proves N7
func TestSpawnIsRetriedUnderItsRequestID(t *testing.T) {
	h := newHouse(t, play(text("done")))
	with := func(id string) func(*task.Assignment) { return func(a *task.Assignment) { a.RequestID = id } }
	first := h.spawn("one", with("r1"))
	if again := h.spawn("one", with("r1")); again != first {
		t.Errorf("the retry made %s, not %s", again, first)
	}
	h.restart()
	if again := h.spawn("one", with("r1")); again != first {
		t.Errorf("the retry after a restart made %s, not %s", again, first)
	}
	_, err := h.sup.Spawn(context.Background(), task.Assignment{
		From: "user", Caller: "test", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "another"}, RequestID: "r1",
	})
	if !errdefs.Is(err, errdefs.RequestIDReused) {
		t.Errorf("another body: %v", err)
	}
	if other := h.spawn("one", with("r2")); other == first {
		t.Error("another request id gave the same task")
	}
}

// proves N7: a retry gives the first task although the same spawn would be refused today.
func TestRetryOutlivesWhatTheSpawnNeeded(t *testing.T) {
	h := newHouse(t, play(text("done")))
	dir := filepath.Join(h.workspace, "sub")
	h.must(os.Mkdir(dir, 0o700))
	in := func(a *task.Assignment) { a.RequestID, a.Workspace = "r1", dir }
	first := h.spawn("one", in)
	h.ended(first, task.Completed, task.Done)
	h.must(os.Remove(dir))
	if again := h.spawn("one", in); again != first {
		t.Errorf("without the workspace the retry made %s, not %s", again, first)
	}
	h.must(os.Mkdir(dir, 0o700))
	h.roots = []string{t.TempDir()}
	h.restart()
	if again := h.spawn("one", in); again != first {
		t.Errorf("with other roots the retry made %s, not %s", again, first)
	}
	_, err := h.sup.Spawn(context.Background(), task.Assignment{
		From: "user", Caller: "test", Workspace: dir, AgentSpec: task.AgentSpec{Prompt: "another"}, RequestID: "r1",
	})
	if !errdefs.Is(err, errdefs.WorkspaceNotAllowed) {
		t.Errorf("another body: %v", err)
	}
}

// lateStore is a store in which something happens once, right after a request id was looked for.
type lateStore struct {
	store.Store
	then func()
}

func (s *lateStore) Get(ctx context.Context, p store.Partition, key string) (store.Record, error) {
	rec, err := s.Store.Get(ctx, p, key)
	if then := s.then; then != nil && strings.HasPrefix(key, "request/") {
		s.then = nil
		then()
	}
	return rec, err
}

// proves N7: of two retries of a teammate's spawn at the same time, neither is told that the name is taken: by the other one.
func TestSpawnOfATeammateTwiceAtOnce(t *testing.T) {
	late := &lateStore{}
	h := newHouse(t, echo, func(h *house) {
		h.wrap = func(st store.Store) store.Store {
			late.Store = st
			return late
		}
	})
	same := func(a *task.Assignment) { a.RequestID = "same" }
	var first task.ID
	late.then = func() { first = h.spawn("ann", mate("ann"), same) }
	if second := h.spawn("ann", mate("ann"), same); first == "" || second != first {
		t.Errorf("the same spawn made %q and %q", first, second)
	}
	a := task.Assignment{From: "user", Caller: "test", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "ann"}}
	mate("ann")(&a)
	if _, err := h.sup.Spawn(context.Background(), a); !errdefs.Is(err, errdefs.NameTaken) {
		t.Errorf("another spawn of that name: %v", err)
	}
}
