package view_test

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/bolt"
)

// desk is a view of a real store, and what a supervisor would write.
type desk struct {
	t    *testing.T
	path string
	st   *bolt.Store
	j    *journal.Journal
	live *view.Live
	v    *view.View
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, path: filepath.Join(t.TempDir(), "agentd.db")}
	d.open()
	t.Cleanup(func() { d.must(d.st.Close()) })
	return d
}

// sound looks at every page of the file at the end of the test.
func (d *desk) sound() *desk {
	d.t.Cleanup(func() {
		d.must(d.st.Close())
		if report, err := bolt.Check(context.Background(), d.path, io.Discard); err != nil || !report.OK() {
			d.t.Errorf("the store is not sound: %v %v", report, err)
		}
	})
	return d
}

// open starts a daemon's journal and view.
func (d *desk) open() {
	d.t.Helper()
	var err error
	d.st, err = bolt.Open(context.Background(), bolt.Options{Path: d.path})
	d.must(err)
	d.j, err = journal.Open(context.Background(), d.st, time.Now, slog.New(slog.DiscardHandler))
	d.must(err)
	d.live = view.NewLive()
	d.v = view.New(d.j, d.live, noQueue, time.Now)
}

func (d *desk) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// check is must for other goroutines than the test's.
func (d *desk) check(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Error(err)
	}
}

func (d *desk) want(err error, reason errdefs.Reason) {
	d.t.Helper()
	if !errdefs.Is(err, reason) {
		d.t.Errorf("the error is %v, want %s", err, reason)
	}
}

func (d *desk) team(name string) string {
	d.t.Helper()
	team, err := d.j.CreateTeam(context.Background(), name, "/ws/"+name)
	d.must(err)
	return team.ID
}

// spawn registers a queued task.
func (d *desk) spawn(team, description string, ancestors ...task.ID) task.ID {
	d.t.Helper()
	n, err := d.j.NextID(context.Background(), team)
	d.must(err)
	t := task.Task{
		ID: task.NewID(task.Subagent, n), Team: team, Kind: task.Subagent, State: task.Queued, Incarnation: 1,
		Description: description, Ancestors: ancestors, Created: time.Now(),
	}
	if len(ancestors) > 0 {
		t.Parent = ancestors[0]
	}
	b := d.j.Batch(team)
	b.CreateTask(task.Draft{Task: t}, "")
	d.must(d.j.Commit(context.Background(), b))
	return t.ID
}

// apply changes a task as the supervisor does.
func (d *desk) apply(id task.ID, c task.Change) {
	d.t.Helper()
	row, err := d.j.Task(context.Background(), id)
	d.must(err)
	b := d.j.Batch(row.Value.Team)
	after, err := task.Apply(row.Value, c, b.Now())
	d.must(err)
	switch {
	case c == task.Change(task.Rest{}):
		b.RestTask(row, after, false)
	case row.Value.State.Terminal():
		b.ReopenTask(row, after)
	case after.State.Terminal():
		b.EndTask(row, after, task.Conclusion{Report: task.Report{Summary: "all done"}, Changes: []string{"/ws/a"}})
	default:
		if row.Value.State == task.Idle {
			_, err := d.j.Rouse(context.Background(), b, id)
			d.must(err)
		}
		b.ChangeTask(row, after)
	}
	d.must(d.j.Commit(context.Background(), b))
}

func done() task.Finish { return task.Finish{State: task.Completed, Reason: task.Done} }

// append writes entries in one batch.
func (d *desk) append(id task.ID, bodies ...task.Body) {
	d.t.Helper()
	row, err := d.j.Task(context.Background(), id)
	d.must(err)
	b := d.j.Batch(row.Value.Team)
	b.Append(id, bodies...)
	d.must(d.j.Commit(context.Background(), b))
}

// meter counts the entries that are read of each log, and the records of each kind.
type meter struct {
	store.Store
	mu     sync.Mutex
	read   map[string]int
	before func(key string) // called before a record is read
}

// Read counts.
func (m *meter) Read(ctx context.Context, p store.Partition, log string, after store.Pos) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range m.Store.Read(ctx, p, log, after) {
			m.mu.Lock()
			m.read[log]++
			m.mu.Unlock()
			if !yield(e, err) {
				return
			}
		}
	}
}

// Get counts by kind of record, as "get KIND".
func (m *meter) Get(ctx context.Context, p store.Partition, key string) (store.Record, error) {
	kind, _, _ := strings.Cut(key, "/")
	m.mu.Lock()
	m.read["get "+kind]++
	before := m.before
	m.mu.Unlock()
	if before != nil {
		before(key)
	}
	return m.Store.Get(ctx, p, key)
}

// count gives the number of entries read of a log since it was asked before.
func (m *meter) count(log string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.read[log]
	m.read[log] = 0
	return n
}

// metered starts a daemon's journal and view that count what they read.
func (d *desk) metered() *meter {
	d.t.Helper()
	m := &meter{Store: d.st, read: map[string]int{}}
	var err error
	d.j, err = journal.Open(context.Background(), m, time.Now, slog.New(slog.DiscardHandler))
	d.must(err)
	d.v = view.New(d.j, d.live, noQueue, time.Now)
	return m
}

// noQueue is the queue of a desk: nobody waits.
func noQueue(task.ID) int { return 0 }
