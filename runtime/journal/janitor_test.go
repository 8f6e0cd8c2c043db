package journal

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// putRequests keeps first outcomes as if they had come at a time.
func putRequests(t *testing.T, j *Journal, team string, at time.Time, ids ...string) {
	t.Helper()
	for chunk := range slices.Chunk(ids, store.MaxGuards) {
		b := j.Batch(team)
		b.now = at
		for _, id := range chunk {
			b.PutRequest(RequestKey("uid:1", id), Request{Body: []byte{1}, TaskID: task.ID(id)})
		}
		commit(t, j, b)
	}
}

// kept lists which of the ids still have their first outcome.
func kept(t *testing.T, j *Journal, team string, ids ...string) []string {
	t.Helper()
	var left []string
	for _, id := range ids {
		r, err := j.Request(context.Background(), team, RequestKey("uid:1", id))
		if errdefs.Is(err, errdefs.RecordNotFound) {
			continue
		}
		must(t, err)
		if string(r.TaskID) != id {
			t.Errorf("%s had the outcome %s", id, r.TaskID)
		}
		left = append(left, id)
	}
	return left
}

// TestRequests: the first outcome of a request id is kept for 24 hours, and among the newest whatever its age, over
// restarts. proves N7
func TestRequests(t *testing.T) {
	ctx := context.Background()
	st := newStore(t)
	j := newJournal(t, st)
	team := newTeam(t, j, "main").ID
	now := time.Now()
	all := []string{"a", "b", "c", "d", "e"}
	putRequests(t, j, team, now.Add(-30*time.Hour), "a", "b", "c")
	putRequests(t, j, team, now.Add(-time.Hour), "d", "e")
	b := j.Batch(team)
	b.PutRequest(RequestKey("uid:1", "a"), Request{TaskID: "second"})
	want(t, j.Commit(ctx, b), errdefs.Conflict)
	if RequestKey("uid:1", "a") == RequestKey("uid:2", "a") {
		t.Error("callers share their request ids")
	}

	j = newJournal(t, st)
	must(t, j.Prune(ctx, team)) // there are far fewer than keepAtLeast
	for _, step := range []struct {
		atLeast int
		left    []string
	}{{9, all}, {5, all}, {4, all[1:]}, {3, all[2:]}, {1, all[3:]}, {1, all[3:]}} {
		must(t, j.pruneRequests(ctx, team, now.Add(-keepRequests), step.atLeast))
		if got := kept(t, j, team, all...); !slices.Equal(got, step.left) {
			t.Errorf("at least %d: kept %v, want %v", step.atLeast, got, step.left)
		}
	}
	putRequests(t, j, team, now, "a") // and can be used anew
}

// TestPruneInBatches drops more than one batch holds.
func TestPruneInBatches(t *testing.T) {
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	var ids []string
	for i := range store.MaxOps + 50 {
		ids = append(ids, fmt.Sprint("r", i))
	}
	now := time.Now()
	putRequests(t, j, team, now.Add(-30*time.Hour), ids...)
	must(t, j.pruneRequests(context.Background(), team, now.Add(-keepRequests), 20))
	if got := kept(t, j, team, ids...); !slices.Equal(got, ids[len(ids)-20:]) {
		t.Errorf("kept %d", len(got))
	}
}

// TestPruneSparesReused: a log that comes back untrimmed after a crash takes no outcome away that an id got since, and
// stops no prune.
func TestPruneSparesReused(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	now := time.Now()
	stale := func(at time.Time) {
		b := j.Batch(team)
		b.op(store.Append, "requests", &storev1.RequestSeenRow{Hash: RequestKey("uid:1", "r"), Time: at.UnixNano()})
		commit(t, j, b)
	}
	stale(now.Add(-60 * time.Hour))
	stale(now.Add(-50 * time.Hour))
	putRequests(t, j, team, now.Add(-time.Hour), "r")
	must(t, j.pruneRequests(ctx, team, now.Add(-keepRequests), 1))
	if got := kept(t, j, team, "r"); len(got) != 1 {
		t.Error("a fresh outcome was dropped")
	}
	stale(now) // the newest, whatever it is, is kept
	must(t, j.pruneRequests(ctx, team, now, 1))
	if got := kept(t, j, team, "r"); len(got) != 0 {
		t.Error("the outcome is kept for ever")
	}
}

// TestPruneFeed keeps 7 days. proves O3 as far as keeping goes
func TestPruneFeed(t *testing.T) {
	ctx := context.Background()
	start := time.Now()
	clock := start.Add(-8 * 24 * time.Hour)
	j, err := Open(ctx, newStore(t), func() time.Time { return clock }, slog.New(slog.DiscardHandler))
	must(t, err)
	team := newTeam(t, j, "main").ID
	for _, age := range []time.Duration{8 * 24 * time.Hour, keepFeed + time.Minute, keepFeed - time.Minute, 0} {
		clock = start.Add(-age)
		b := j.Batch(team)
		b.stateChange(task.ID(fmt.Sprint("sub-", int(age.Minutes()))), 0, task.Queued, 0)
		commit(t, j, b)
	}
	must(t, j.Prune(ctx, team))
	commit(t, j, j.Batch(team)) // a trim is done with the next commit at the latest
	if got := feed(t, j, team); !slices.Equal(got, []string{"sub-10079 NONE>QUEUED ", "sub-0 NONE>QUEUED "}) {
		t.Errorf("left is %q", got)
	}
}
