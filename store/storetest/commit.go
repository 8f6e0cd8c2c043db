package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

func testLimits(t *testing.T, open Opener) {
	s, _ := open(t)
	long := strings.Repeat("n", store.MaxNameBytes)
	big := strings.Repeat("v", store.MaxValue)
	mustCommit(t, s, put(long, big), appendTo(long, big))
	wantRecord(t, s, long, big)
	wantLog(t, s, long, big)

	var ops []store.Op
	var guards []store.Guard
	for i := range store.MaxOps {
		ops = append(ops, put(fmt.Sprint("r/", i), "v"))
	}
	for i := range store.MaxGuards {
		guards = append(guards, store.Guard{Key: fmt.Sprint("r/", i)})
	}
	if _, err := s.Commit(context.Background(), store.Batch{Part: part, Guards: guards, Ops: ops}); err != nil {
		t.Fatal(err)
	}
	var full []store.Op
	for range store.MaxBatch / store.MaxValue {
		full = append(full, appendTo("full", big))
	}
	mustCommit(t, s, full...)

	for name, b := range map[string]store.Batch{
		"value":  {Ops: []store.Op{put("a", big+"v")}},
		"name":   {Ops: []store.Op{put(long+"n", "v")}},
		"ops":    {Ops: append(ops, appendTo("log", "v"))},
		"guards": {Guards: append(guards, store.Guard{Key: "r/none"})},
		"batch":  {Ops: append(full, appendTo("log", "v"))},
	} {
		t.Run(name, func(t *testing.T) {
			b.Part = part
			wantRefused(t, s, b, errdefs.TooLarge)
		})
	}
	wantLog(t, s, "log")
}

func testNames(t *testing.T, open Opener) {
	s, _ := open(t)
	mustCommit(t, s, put("Aa0_-/b", "v"), put("Aa0_-", "w"))
	wantRecord(t, s, "Aa0_-/b", "v")
	wantRecord(t, s, "aa0_-", "") // case counts
	for _, name := range []string{"", "/a", "a/", "a//b", "a.b", "ä", "a\x00b", " "} {
		wantRefused(t, s, store.Batch{Part: part, Ops: []store.Op{put(name, "v")}}, errdefs.BadArgument)
		wantRefused(t, s, store.Batch{Part: part, Guards: []store.Guard{{Key: name, Rev: 1}}}, errdefs.BadArgument)
		if _, err := s.Get(context.Background(), part, name); !errdefs.Is(err, errdefs.BadArgument) {
			t.Errorf("Get(%q) = %v", name, err)
		}
		if _, err := s.Last(context.Background(), part, name, 1); !errdefs.Is(err, errdefs.BadArgument) {
			t.Errorf("Last(%q) = %v", name, err)
		}
		if err := failure(s.Read(context.Background(), part, name, 0)); !errdefs.Is(err, errdefs.BadArgument) {
			t.Errorf("Read(%q) = %v", name, err)
		}
		if err := s.Trim(context.Background(), part, name, 1); !errdefs.Is(err, errdefs.BadArgument) {
			t.Errorf("Trim(%q) = %v", name, err)
		}
	}
	if err := failure(s.Scan(context.Background(), part, "a/")); !errdefs.Is(err, errdefs.BadArgument) {
		t.Errorf("Scan of half a segment = %v", err)
	}
	wantRefused(t, s, store.Batch{Part: "", Ops: []store.Op{put("a", "v")}}, errdefs.BadArgument)
	wantRefused(t, s, store.Batch{Part: "a/b", Ops: []store.Op{put("a", "v")}}, errdefs.BadArgument)
}

func testRecordTwice(t *testing.T, open Opener) {
	s, _ := open(t)
	for _, second := range []store.Op{put("a", "2"), remove("a"), add("a", 1)} {
		wantRefused(t, s, store.Batch{Part: part, Ops: []store.Op{put("a", "1"), second}}, errdefs.BadArgument)
	}
	wantRecord(t, s, "a", "")
	mustCommit(t, s, appendTo("a", "1"), put("a", "r"), appendTo("a", "2"))
	wantLog(t, s, "a", "1", "2")
	wantRecord(t, s, "a", "r")
}

func testGuards(t *testing.T, open Opener) {
	s, _ := open(t)
	first := mustCommit(t, s, put("a", "1"), put("b", "1"))
	guarded := func(rev store.Pos, value string) store.Batch {
		return store.Batch{Part: part, Guards: []store.Guard{{Key: "a", Rev: rev}}, Ops: []store.Op{put("a", value)}}
	}
	wantRefused(t, s, guarded(first[1], "x"), errdefs.Conflict)
	c, err := s.Commit(context.Background(), guarded(first[0], "2"))
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s, guarded(first[0], "3"), errdefs.Conflict)
	if got := wantRecord(t, s, "a", "2"); got.Rev != c.Pos[0] {
		t.Errorf("the revision is %d, Commit said %d", got.Rev, c.Pos[0])
	}
	// One of several guards is enough, on a record that the batch does not touch.
	wantRefused(t, s, store.Batch{Part: part, Guards: []store.Guard{{Key: "a", Rev: c.Pos[0]}, {Key: "b", Rev: 1 << 40}},
		Ops: []store.Op{put("c", "1")}}, errdefs.Conflict)
	// A record that was deleted and made again is another one.
	mustCommit(t, s, remove("a"))
	wantRefused(t, s, guarded(c.Pos[0], "4"), errdefs.Conflict)
	mustCommit(t, s, put("a", "2"))
	wantRefused(t, s, guarded(c.Pos[0], "4"), errdefs.Conflict)
	// Guards see the partition of the batch only.
	b := guarded(0, "1")
	b.Part = other
	if _, err := s.Commit(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

func testCreateOnly(t *testing.T, open Opener) {
	s, _ := open(t)
	create := func(value string) store.Batch {
		return store.Batch{Part: part, Guards: []store.Guard{{Key: "id"}}, Ops: []store.Op{put("id", value)}}
	}
	if _, err := s.Commit(context.Background(), create("1")); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s, create("2"), errdefs.Conflict)
	wantRecord(t, s, "id", "1")
	mustCommit(t, s, remove("id"))
	if _, err := s.Commit(context.Background(), create("3")); err != nil {
		t.Fatal(err)
	}
	wantRecord(t, s, "id", "3")
}

func testFence(t *testing.T, open Opener) {
	s, _ := open(t)
	mine := mustCommit(t, s, put("owner", "me"))[0]
	fenced := store.Batch{Part: part, Fence: store.Guard{Key: "owner", Rev: mine}, Ops: []store.Op{appendTo("log", "1")}}
	if _, err := s.Commit(context.Background(), fenced); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, put("owner", "another"))
	// The fence comes before the guards: who is not the owner must not learn anything else.
	fenced.Guards = []store.Guard{{Key: "none", Rev: 1}}
	wantRefused(t, s, fenced, errdefs.Fenced)
	wantLog(t, s, "log", "1")
}

func testAllOrNothing(t *testing.T, open Opener) {
	s, _ := open(t)
	mustCommit(t, s, put("text", "\x80"), put("a", "1"))
	bad := store.Batch{Part: part, Ops: []store.Op{put("a", "2"), appendTo("log", "x"), add("n", 1), add("text", 1)}}
	wantRefused(t, s, bad, errdefs.BadArgument)
	bad.Ops[3] = remove("text")
	bad.Guards = []store.Guard{{Key: "a", Rev: 1 << 40}}
	wantRefused(t, s, bad, errdefs.Conflict)
	wantRecord(t, s, "a", "1")
	wantRecord(t, s, "text", "\x80")
	wantRecord(t, s, "n", "")
	wantLog(t, s, "log")
}

// testIsolation: batches that are refused take none with them that is under way at the same time.
func testIsolation(t *testing.T, open Opener) {
	s, _ := open(t)
	const n = 200
	errs := make(chan error, n)
	for i := range n {
		go func() {
			b := store.Batch{Part: part, Ops: []store.Op{appendTo("log", "v"), put(fmt.Sprint("r/", i), "v")}}
			if i%2 == 1 {
				b.Guards = []store.Guard{{Key: fmt.Sprint("none/", i), Rev: 7}}
			}
			_, err := s.Commit(context.Background(), b)
			if refused := errdefs.Is(err, errdefs.Conflict); refused != (i%2 == 1) || err != nil && !refused {
				errs <- fmt.Errorf("batch %d: %w", i, err)
				return
			}
			errs <- nil
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := len(collect(t, s.Read(context.Background(), part, "log", 0))); got != n/2 {
		t.Errorf("%d entries, want %d", got, n/2)
	}
	if got := len(collect(t, s.Scan(context.Background(), part, "r"))); got != n/2 {
		t.Errorf("%d records, want %d", got, n/2)
	}
}

func testPositions(t *testing.T, open Opener) {
	s, reopen := open(t)
	last := store.Pos(0)
	next := func(ops ...store.Op) []store.Pos {
		t.Helper()
		got := mustCommit(t, s, ops...)
		for _, p := range got {
			if p <= last {
				t.Fatalf("position %d after %d", p, last)
			}
			last = p
		}
		return got
	}
	got := next(appendTo("log", "1"), put("a", "1"), appendTo("log", "2"), add("n", 1), remove("none"))
	if r := wantRecord(t, s, "a", "1"); r.Rev != got[1] {
		t.Errorf("revision %d, want %d", r.Rev, got[1])
	}
	entries := collect(t, s.Read(context.Background(), part, "log", 0))
	if entries[0].Pos != got[0] || entries[1].Pos != got[2] {
		t.Errorf("entries at %d and %d, want %d and %d", entries[0].Pos, entries[1].Pos, got[0], got[2])
	}
	// What is gone does not give its position back, not even over a restart.
	next(remove("a"), remove("n"))
	if err := s.Trim(context.Background(), part, "log", last); err != nil {
		t.Fatal(err)
	}
	s = reopen()
	next(put("a", "2"))
}

func testAdd(t *testing.T, open Opener) {
	s, _ := open(t)
	mustCommit(t, s, add("usage", 1, 2))
	pos := mustCommit(t, s, add("usage", 10, -2, 5), add("sum", 7))
	r := wantRecord(t, s, "usage", string(store.EncodeVector([]int64{11, 0, 5})))
	if r.Rev != pos[0] {
		t.Errorf("revision %d, want %d", r.Rev, pos[0])
	}
	wantRecord(t, s, "sum", string(store.EncodeVector([]int64{7})))
	mustCommit(t, s, remove("usage"))
	mustCommit(t, s, add("usage", 3))
	wantRecord(t, s, "usage", string(store.EncodeVector([]int64{3})))

	wantRefused(t, s, store.Batch{Part: part, Ops: []store.Op{{Kind: store.Add, Name: "n", Value: []byte{0x80}}}},
		errdefs.BadArgument)
	wantRecord(t, s, "n", "")
}

func testValuesAreCopied(t *testing.T, open Opener) {
	s, _ := open(t)
	value := []byte("before")
	_, err := s.Commit(context.Background(), store.Batch{Part: part, Ops: []store.Op{
		{Kind: store.Put, Name: "a", Value: value}, {Kind: store.Append, Name: "log", Value: value},
	}})
	if err != nil {
		t.Fatal(err)
	}
	copy(value, "after!")
	copy(wantRecord(t, s, "a", "before").Value, "after!")
	wantRecord(t, s, "a", "before")
	wantLog(t, s, "log", "before")
}

func testCanceledCommit(t *testing.T, open Opener) {
	s, _ := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := s.Commit(ctx, store.Batch{Part: part, Ops: []store.Op{put("a", "1")}})
	if !errdefs.Is(err, errdefs.CallCanceled) {
		t.Fatalf("Commit = %v, want CallCanceled", err)
	}
	wantRecord(t, s, "a", "")
}
