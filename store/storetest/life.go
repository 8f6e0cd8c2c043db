package storetest

import (
	"context"
	"fmt"
	goruntime "runtime"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// testConcurrency: writers, readers and followers at once; every follower sees every entry once and in order.
func testConcurrency(t *testing.T, open Opener) {
	s, _ := open(t)
	const writers, each = 8, 50
	errs := make(chan error, 2*writers)
	for w := range writers {
		go func() { errs <- write(s, w, each) }()
		go func() { errs <- follow(t.Context(), s, writers, each) }()
	}
	for range 2 * writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	wantRecord(t, s, "sum", string(store.EncodeVector([]int64{writers * each, writers * each * 2})))
}

// write appends to one log for all writers and reads its own record back.
func write(s store.Store, w, n int) error {
	ctx, key := context.Background(), fmt.Sprint("writer/", w)
	for i := range n {
		_, err := s.Commit(ctx, store.Batch{Part: part, Ops: []store.Op{
			appendTo("log", fmt.Sprint(w, " ", i)), put(key, fmt.Sprint(i)), add("sum", 1, 2),
		}})
		if err != nil {
			return err
		}
		if r, err := s.Get(ctx, part, key); err != nil || string(r.Value) != fmt.Sprint(i) {
			return fmt.Errorf("writer %d read %q after it wrote %d: %w", w, r.Value, i, err)
		}
	}
	return nil
}

// follow reads the log with a cursor until it has seen everything.
func follow(ctx context.Context, s store.Store, writers, each int) error {
	next, seen, cursor := make([]int, writers), 0, store.Pos(0)
	for seen < writers*each {
		for e, err := range s.Read(ctx, part, "log", cursor) {
			if err != nil {
				return err
			}
			var w, i int
			if _, err := fmt.Sscan(string(e.Value), &w, &i); err != nil {
				return err
			}
			if i != next[w] || e.Pos <= cursor {
				return fmt.Errorf("entry %d of writer %d at %d, want %d after %d", i, w, e.Pos, next[w], cursor)
			}
			next[w], cursor, seen = i+1, e.Pos, seen+1
		}
		goruntime.Gosched()
	}
	return nil
}

// testCreateRace: of many who create the same record exactly one wins.
func testCreateRace(t *testing.T, open Opener) {
	s, _ := open(t)
	const n = 100
	won := make(chan int, n)
	for i := range n {
		go func() {
			_, err := s.Commit(context.Background(), store.Batch{
				Part: part, Guards: []store.Guard{{Key: "one"}}, Ops: []store.Op{put("one", fmt.Sprint(i))},
			})
			switch {
			case err == nil:
				won <- i
			case errdefs.Is(err, errdefs.Conflict):
				won <- -1
			default:
				t.Error(err)
				won <- -1
			}
		}()
	}
	winner, wins := -1, 0
	for range n {
		if i := <-won; i >= 0 {
			winner, wins = i, wins+1
		}
	}
	if wins != 1 {
		t.Fatalf("%d have won", wins)
	}
	wantRecord(t, s, "one", fmt.Sprint(winner))
}

// testReopen proves D1 for the store: what was acknowledged is there after it was opened again.
func testReopen(t *testing.T, open Opener) {
	s, reopen := open(t)
	pos := mustCommit(t, s, put("a", "1"), appendTo("log", "1"), add("n", 5), put("gone", "x"))
	mustCommit(t, s, remove("gone"))
	for range 2 {
		s = reopen()
		if r := wantRecord(t, s, "a", "1"); r.Rev != pos[0] {
			t.Errorf("revision %d, was %d", r.Rev, pos[0])
		}
		wantRecord(t, s, "n", string(store.EncodeVector([]int64{5})))
		wantRecord(t, s, "gone", "")
		wantLog(t, s, "log", "1")
	}
	mustCommit(t, s, appendTo("log", "2"))
	wantLog(t, s, "log", "1", "2")
}

func testClose(t *testing.T, open Opener) {
	s, _ := open(t)
	mustCommit(t, s, put("a", "1"), appendTo("log", "1"))
	const n = 50
	errs := make(chan error, n)
	for range n {
		go func() {
			_, err := s.Commit(context.Background(), store.Batch{Part: part, Ops: []store.Op{appendTo("log", "2")}})
			errs <- err
		}()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-errs; err != nil && !errdefs.Is(err, errdefs.StoreStalled) {
			t.Errorf("a commit while the store closes = %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close = %v", err)
	}
	wantRefused(t, s, store.Batch{Part: part, Ops: []store.Op{put("a", "2")}}, errdefs.StoreStalled)
	ctx := context.Background()
	_, getErr := s.Get(ctx, part, "a")
	_, lastErr := s.Last(ctx, part, "log", 1)
	for name, err := range map[string]error{
		"Get": getErr, "Last": lastErr,
		"Read": failure(s.Read(ctx, part, "log", 0)),
		"Scan": failure(s.Scan(ctx, part, "")),
		"Trim": s.Trim(ctx, part, "log", 1),
	} {
		if !errdefs.Is(err, errdefs.StoreStalled) {
			t.Errorf("%s after Close = %v, want StoreStalled", name, err)
		}
	}
}
