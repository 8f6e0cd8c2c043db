package bolt

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

func testStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A batch of a group sees the ones before it; one that is refused takes none with it and leaves no trace.
func TestGroup(t *testing.T) {
	s := testStore(t)
	create := func(value string) *request {
		return &request{batch: store.Batch{Part: "t-1", Guards: []store.Guard{{Key: "a"}}, Ops: []store.Op{
			{Kind: store.Append, Name: "log", Value: []byte(value)}, {Kind: store.Put, Name: "a", Value: []byte(value)},
		}}}
	}
	update := create("third")
	update.batch.Guards[0].Rev = 2 // where the first of the group puts it
	before := lastTx(t, s)
	answers, err := s.transact([]*request{create("first"), create("second"), update})
	if err != nil {
		t.Fatal(err)
	}
	if answers[0].err != nil || !errdefs.Is(answers[1].err, errdefs.Conflict) || answers[2].err != nil {
		t.Fatalf("answers: %v, %v, %v", answers[0].err, answers[1].err, answers[2].err)
	}
	if got := lastTx(t, s); got != before+1 {
		t.Errorf("%d transactions for a group", got-before)
	}
	last, err := s.Last(t.Context(), "t-1", "log", 9)
	if err != nil || len(last) != 2 || string(last[0].Value) != "first" || string(last[1].Value) != "third" {
		t.Errorf("the log holds %v, %v", last, err)
	}
	if _, err := s.transact([]*request{create("fourth")}); err != nil || lastTx(t, s) != before+1 {
		t.Errorf("a group of refusals = %v, and %d transactions", err, lastTx(t, s)-before)
	}
}

// proves D8: a commit that failed but can be seen is OutcomeUnknown, one that cannot be seen has not happened.
func TestOutcome(t *testing.T) {
	s := testStore(t)
	id := lastTx(t, s)
	if err := s.outcome(id, errClosed); !errdefs.Is(err, errdefs.OutcomeUnknown) {
		t.Errorf("seen: %v, want OutcomeUnknown", err)
	}
	if err := s.outcome(id+1, errClosed); !errdefs.Is(err, errdefs.StoreStalled) {
		t.Errorf("not seen: %v, want StoreStalled", err)
	}
}

// After an unknown outcome nothing is written before the metas are on disk for sure; then the store goes on.
// proves D8
func TestUnsure(t *testing.T) {
	s := testStore(t)
	put := store.Batch{Part: "t-1", Ops: []store.Op{{Kind: store.Put, Name: "a", Value: []byte("a")}}}
	commit := func() error {
		_, err := s.Commit(t.Context(), put)
		return err
	}
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	// The committer is idle and cannot be disturbed: what it sees next is what was done before the next Commit.
	if err := s.outcome(lastTx(t, s), errClosed); !errdefs.Is(err, errdefs.OutcomeUnknown) {
		t.Fatal(err)
	}
	aside := s.path + ".aside"
	if err := os.Rename(s.path, aside); err != nil { // a disk that does not answer
		t.Fatal(err)
	}
	before := lastTx(t, s)
	if err := commit(); !errdefs.Is(err, errdefs.StoreStalled) || lastTx(t, s) != before {
		t.Errorf("a commit on unsure metas = %v, after %d transactions", err, lastTx(t, s)-before)
	}
	if err := os.Rename(aside, s.path); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := commit(); err != nil || s.unsure {
			t.Errorf("afterwards: %v, unsure %v", err, s.unsure)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := Check(t.Context(), s.path, io.Discard)
	if err != nil || !report.OK() {
		t.Errorf("the store is not sound: %v %v", report, err)
	}
}

func lastTx(t *testing.T, s *Store) (id int) {
	t.Helper()
	err := s.view(func(tx *bbolt.Tx) error {
		id = tx.ID()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A bound on the group: what is beyond waits for the next one.
func TestGroupBounds(t *testing.T) {
	s := &Store{requests: make(chan *request, 2*maxGroup)}
	for range 2 * maxGroup {
		s.requests <- &request{}
	}
	if got := len(s.gather(&request{})); got != maxGroup {
		t.Errorf("a group of %d batches, want %d", got, maxGroup)
	}
	big := &request{batch: store.Batch{Ops: []store.Op{{Value: make([]byte, maxGroupBytes)}}}}
	if got := len(s.gather(big)); got != 1 {
		t.Errorf("a group of %d batches beyond the bound on bytes, want 1", got)
	}
}
