package journal

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store/bolt"
)

// ward is a store whose records are damaged on disk between two starts.
type ward struct {
	t    *testing.T
	path string
	st   *bolt.Store
	j    *Journal
	log  bytes.Buffer
}

func newWard(t *testing.T) *ward {
	t.Helper()
	w := &ward{t: t, path: filepath.Join(t.TempDir(), "agentd.db")}
	must(t, w.start())
	t.Cleanup(func() { must(t, w.st.Close()) })
	return w
}

func (w *ward) start() error {
	w.t.Helper()
	var err error
	w.st, err = bolt.Open(context.Background(), bolt.Options{Path: w.path})
	must(w.t, err)
	w.log.Reset()
	w.j, err = Open(context.Background(), w.st, time.Now, slog.New(slog.NewTextHandler(&w.log, nil)))
	return err
}

// damage flips a bit of the records' checksums, which follow their keys in the file, and starts again.
func (w *ward) damage(records ...string) error {
	w.t.Helper()
	must(w.t, w.st.Close())
	file, err := os.ReadFile(w.path)
	must(w.t, err)
	for _, name := range records {
		key := []byte("daemon\x00" + name)
		if !bytes.Contains(file, key) {
			w.t.Fatalf("there is no record %s", name)
		}
		for at := 0; ; {
			n := bytes.Index(file[at:], key)
			if n < 0 {
				break
			}
			at += n + len(key)
			file[at] ^= 1
		}
	}
	must(w.t, os.WriteFile(w.path, file, 0o600))
	return w.start()
}

// told wants words in the journal's log.
func (w *ward) told(words ...string) {
	w.t.Helper()
	for _, word := range words {
		if !strings.Contains(w.log.String(), word) {
			w.t.Errorf("nobody is told of %s: %s", word, w.log.String())
		}
	}
}

// well fails the test when anything is damaged still.
func (w *ward) well() {
	w.t.Helper()
	must(w.t, w.st.Close())
	report, err := bolt.Check(context.Background(), w.path, io.Discard)
	if err != nil || !report.OK() {
		w.t.Errorf("the store is not sound: %v %v", report, err)
	}
	must(w.t, w.start())
	if w.log.Len() > 0 {
		w.t.Errorf("the next start mends again: %s", w.log.String())
	}
}

// TestDamagedDaemon: the daemon's row is damaged: it goes on from the spare, owns its teams and knows its past.
// proves D7
func TestDamagedDaemon(t *testing.T) {
	ctx := context.Background()
	w := newWard(t)
	team := newTeam(t, w.j, "main").ID
	id, store, starts := newTask(t, w.j, team), w.j.StoreID(), w.j.daemon.GetStarts()
	must(t, w.j.MarkClean(ctx))
	must(t, w.damage("daemon"))
	w.told("spare")
	if w.j.StoreID() != store || w.j.daemon.GetStarts() != starts+1 || !w.j.CleanStop() {
		t.Errorf("it has become %v", w.j.daemon)
	}
	apply(t, w.j, id, task.Start{})
	w.well()
	must(t, w.st.Close())
	must(t, w.start())
	want(t, w.damage("daemon", "spare"), errdefs.RecordCorrupt)
}

// TestDamagedIDs: no number is handed out again, those of damaged blocks and teams included.
// proves N3, D7
func TestDamagedIDs(t *testing.T) {
	for _, damaged := range [][]string{{"ids"}, {"ids", "block/1", "team/t-2"}} {
		w := newWard(t)
		for _, name := range []string{"a", "b"} {
			newTask(t, w.j, newTeam(t, w.j, name).ID)
		}
		must(t, w.damage(damaged...))
		n, err := w.j.NextID(context.Background(), "t-1")
		must(t, err)
		if n < 2*blockSize {
			t.Errorf("%v: the id %d is handed out again", damaged, n)
		}
		if c := newTeam(t, w.j, "c").ID; c != "t-3" {
			t.Errorf("%v: the new team is %s", damaged, c)
		}
		w.told("ids")
		w.well()
	}
}

// TestDamagedRefs: the team of a name and of a workspace is found again.
// proves D7
func TestDamagedRefs(t *testing.T) {
	ctx := context.Background()
	w := newWard(t)
	team := newTeam(t, w.j, "Main")
	must(t, w.damage("name/main", rootKey(team.Workspace)))
	w.told("name/main", rootKey(team.Workspace))
	byName, err := w.j.TeamByName(ctx, "MAIN")
	must(t, err)
	byRoot, err := w.j.TeamByRoot(ctx, team.Workspace)
	must(t, err)
	if byName.ID != team.ID || byRoot.ID != team.ID {
		t.Errorf("the name leads to %q, the workspace to %q", byName.ID, byRoot.ID)
	}
	w.well()
}

// TestDamagedTeam: a damaged team is lost, and its living tasks are named; its name and its workspace get a new one.
// proves D7
func TestDamagedTeam(t *testing.T) {
	ctx := context.Background()
	w := newWard(t)
	lost, other := newTeam(t, w.j, "lost"), newTeam(t, w.j, "other")
	living, ended := newTask(t, w.j, lost.ID), newTask(t, w.j, lost.ID)
	apply(t, w.j, ended, task.Finish{State: task.Killed, Reason: task.StoppedByClient})
	must(t, w.damage("team/"+lost.ID))
	w.told("task="+string(living), "name/lost", rootKey(lost.Workspace))
	if strings.Contains(w.log.String(), "task="+string(ended)) {
		t.Errorf("an ended task is called lost: %s", w.log.String())
	}
	fresh, err := w.j.CreateTeam(ctx, "Lost", lost.Workspace)
	must(t, err)
	if fresh.ID == lost.ID || fresh.ID == other.ID {
		t.Errorf("the new team is %s", fresh.ID)
	}
	if got, err := w.j.TeamByRoot(ctx, other.Workspace); err != nil || got.ID != other.ID {
		t.Errorf("the other team is %v, %v", got, err)
	}
}
