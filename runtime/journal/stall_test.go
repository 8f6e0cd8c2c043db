package journal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/storetest"
)

// faulty starts a journal, its Run included, on a store that can be made to fail.
func faulty(t *testing.T, plan storetest.Plan) (*Journal, *storetest.Faulty) {
	t.Helper()
	st := storetest.Wrap(newStore(t), plan)
	j := newJournal(t, st)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- j.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	return j, st
}

func note(j *Journal, team, text string) error {
	b := j.Batch(team)
	b.Append("sub-1", &task.Notice{Text: text})
	return j.Commit(context.Background(), b)
}

// TestStall: from the first commit that fails, all are refused at once without being tried; reads go on; a probe ends it.
// proves D8 as far as commits go
// case OUT-9
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, st := faulty(t, storetest.Plan{})
		team := newTeam(t, j, "main").ID
		must(t, note(j, team, "before"))
		must(t, j.Stalled())
		must(t, j.Recovered(t.Context())) // there is nothing to wait for

		st.Stall()
		want(t, note(j, team, "lost"), errdefs.StoreStalled)
		if j.Stalled() == nil {
			t.Fatal("nobody is told")
		}
		tried := st.Commits()
		for range 100 {
			want(t, note(j, team, "refused"), errdefs.StoreStalled)
		}
		if st.Commits() != tried {
			t.Error("commits are tried during the stall")
		}
		if got := transcript(t, j, team, "sub-1"); len(got) != 1 {
			t.Errorf("entries %v", got)
		}

		impatient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := j.Recovered(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it recovered by itself: %v", err)
		}
		if probes := st.Commits() - tried; probes < 12 || probes > 30 {
			t.Errorf("%d probes in a minute", probes)
		}

		st.Heal()
		begun := time.Now()
		must(t, j.Recovered(t.Context()))
		if took := time.Since(begun); took > slowestProbe {
			t.Errorf("it took %v to notice", took)
		}
		must(t, j.Stalled())
		must(t, note(j, team, "after"))
		want := []string{described(&task.Notice{Text: "before"}), described(&task.Notice{Text: "after"})}
		if got := transcript(t, j, team, "sub-1"); !slices.Equal(got, want) {
			t.Errorf("entries %v", got)
		}
	})
}

// TestUnknown: a commit of unknown outcome stalls too. What did land, nobody announced: at the end of the stall those who
// follow look again. proves D8
func TestUnknown(t *testing.T) {
	for _, mode := range []storetest.Mode{storetest.Landed, storetest.Lost} {
		synctest.Test(t, func(t *testing.T) {
			// The commits before are the start, the team, the fence and a note.
			j, _ := faulty(t, storetest.Plan{From: 5, Count: 1, Mode: mode})
			team := newTeam(t, j, "main").ID
			must(t, note(j, team, "before"))
			bell := j.Bell()
			defer bell.Close()
			bell.Transcript(team, "sub-1")
			want(t, note(j, team, "unknown"), errdefs.OutcomeUnknown)
			want(t, note(j, team, "refused"), errdefs.StoreStalled)
			must(t, j.Recovered(t.Context()))
			synctest.Wait()
			if !rung(bell) {
				t.Error("the follower sleeps on")
			}
			entries := map[storetest.Mode]int{storetest.Landed: 2, storetest.Lost: 1}[mode]
			if got := transcript(t, j, team, "sub-1"); len(got) != entries {
				t.Errorf("mode %d: entries %v", mode, got)
			}
			must(t, note(j, team, "after"))
		})
	}
}

// TestUnknownOwner: a fence whose write was of unknown outcome is looked up again.
func TestUnknownOwner(t *testing.T) {
	for _, mode := range []storetest.Mode{storetest.Landed, storetest.Lost} {
		synctest.Test(t, func(t *testing.T) {
			j, _ := faulty(t, storetest.Plan{From: 3, Count: 1, Mode: mode})
			team := newTeam(t, j, "main").ID
			want(t, note(j, team, "the first commit writes the fence"), errdefs.OutcomeUnknown)
			must(t, j.Recovered(t.Context()))
			must(t, note(j, team, "after"))
		})
	}
}

// TestStalledReads: a store that can't even be read stalls the journal, so that those who wait for recovery wait.
func TestStalledReads(t *testing.T) {
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	must(t, j.st.Close())
	reads := map[string]func() error{
		"Task":        func() error { _, err := j.Task(context.Background(), id); return err },
		"LastEntries": func() error { _, err := j.LastEntries(context.Background(), team, id, 1); return err },
		"Entries": func() error {
			for _, err := range j.Entries(context.Background(), team, id, 0) {
				return err
			}
			return nil
		},
		"Living": func() error {
			for _, err := range j.Living(context.Background(), team) {
				return err
			}
			return nil
		},
	}
	for name, try := range reads {
		j.stall.end()
		if err := try(); !errdefs.Is(err, errdefs.StoreStalled) || j.Stalled() == nil {
			t.Errorf("%s: %v, stalled: %v", name, err, j.Stalled())
		}
	}
}

// narrow is a store on a disk that is nearly full: batches with more bytes than there is room for are refused.
type narrow struct {
	store.Store
	room atomic.Int64
	lies bool // what the daemon's partition gets, probes too, always fits
}

func (n *narrow) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	deceives := n.lies && b.Part == daemonPart
	if int64(b.Size()) > n.room.Load() && !deceives {
		return store.Committed{}, errdefs.New(errdefs.Unavailable, errdefs.StoreStalled, "", "no space left")
	}
	return n.Store.Commit(ctx, b)
}

// squeeze starts a journal on a narrow store, its Run included, and a loop that commits an answer, each time after a call
// that takes callTime, until one is on disk. It gives the count of its calls.
func squeeze(t *testing.T, n *narrow, callTime time.Duration) (j *Journal, calls *atomic.Int64) {
	t.Helper()
	n.room.Store(store.MaxBatch)
	j = newJournal(t, n)
	team := newTeam(t, j, "main").ID
	must(t, note(j, team, "before"))
	n.room.Store(1 << 10)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
		must(t, <-ended)
	})
	go func() { ended <- j.Run(ctx) }()
	calls = new(atomic.Int64)
	go func() {
		for j.Recovered(ctx) == nil {
			calls.Add(1)
			time.Sleep(callTime)
			if note(j, team, strings.Repeat("v", 200<<10)) == nil {
				break
			}
		}
		ended <- nil
	}()
	return j, calls
}

// TestStallBySize: the probe asks for as much room as what failed, and leaves nothing behind. proves D8
func TestStallBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &narrow{Store: newStore(t)}
		j, calls := squeeze(t, n, time.Second)
		time.Sleep(time.Hour)
		if calls.Load() != 1 {
			t.Errorf("%d calls in an hour, want 1", calls.Load())
		}
		n.room.Store(store.MaxBatch)
		time.Sleep(slowestProbe + 2*time.Second)
		must(t, j.Stalled())
		if calls.Load() != 2 {
			t.Errorf("%d calls, want 2", calls.Load())
		}
		if got := transcript(t, j, "t-1", "sub-1"); len(got) != 2 {
			t.Errorf("%d entries, want 2", len(got))
		}
		for rec, err := range j.st.Scan(t.Context(), daemonPart, "probe") {
			t.Errorf("the probe left %s, %v", rec.Key, err)
		}
	})
}

// TestStallReturns: where probes go through and commits do not, each relapse waits longer. What is calm for long enough
// begins anew. proves D8
func TestStallReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &narrow{Store: newStore(t), lies: true}
		j, calls := squeeze(t, n, time.Second)
		time.Sleep(time.Hour)
		if c := calls.Load(); c < 10 || c > 20 {
			t.Errorf("%d calls in an hour, want 10 to 20", c)
		}
		n.room.Store(store.MaxBatch)
		must(t, j.Recovered(t.Context()))
		time.Sleep(calm + time.Second)
		j.stall.begin(errors.New("another fault"), 1)
		if got := j.stall.firstPause(); got != firstProbe {
			t.Errorf("the first pause of another fault is %v", got)
		}
		if got := j.stall.room(); got != 1 {
			t.Errorf("it asks for %d bytes", got)
		}
		must(t, j.Recovered(t.Context()))
	})
}

// TestProbeSize: a probe has as many bytes as it should, and stays within the store's limits. What it writes is dropped.
func TestProbeSize(t *testing.T) {
	for _, size := range []int{0, 1, store.MaxValue, store.MaxValue + 1, store.MaxBatch} {
		b := store.Batch{Part: daemonPart, Ops: probeOps(size)}
		must(t, b.Validate())
		if b.Size() != size {
			t.Errorf("%d bytes, want %d", b.Size(), size)
		}
		if len(b.Ops) > len(dropProbe()) {
			t.Errorf("%d records are written, %d dropped", len(b.Ops), len(dropProbe()))
		}
	}
	s := newStall()
	s.begin(errors.New("full"), 3*store.MaxBatch)
	if s.room() != store.MaxBatch {
		t.Errorf("%d bytes do not fit into a batch", s.room())
	}
	if err := s.refuse(1); !errdefs.Is(err, errdefs.StoreStalled) {
		t.Error(err)
	}
}

// TestProbeLeft: what a probe wrote before a crash is dropped by the next start.
func TestProbeLeft(t *testing.T) {
	st := newStore(t)
	_, err := st.Commit(t.Context(), store.Batch{Part: daemonPart, Ops: probeOps(store.MaxBatch)})
	must(t, err)
	newJournal(t, st)
	for rec, err := range st.Scan(t.Context(), daemonPart, "probe") {
		t.Errorf("%s is still there, %v", rec.Key, err)
	}
}
