// Package storetest proves that a store.Store keeps its promises, and makes one fail on purpose.
//
// Run is the conformance suite. Every implementation runs it:
//
//	storetest.Run(t, func(t *testing.T) (store.Store, func() store.Store) { ... })
//
// Wrap puts a Faulty around a store: it counts commits and lets chosen ones fail, applied or not, so that a test can
// walk over all commits of a whole run and make each of them fail in turn.
package storetest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// Opener opens an empty store. Reopen closes it and opens what it has left behind; it may be called repeatedly. The
// opener closes, by t.Cleanup, what is open at the end.
type Opener func(t *testing.T) (s store.Store, reopen func() store.Store)

// Run runs the whole suite, each test on a store of its own.
func Run(t *testing.T, open Opener) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Opener)
	}{
		{"Limits", testLimits},
		{"Names", testNames},
		{"RecordTwice", testRecordTwice},
		{"Guards", testGuards},
		{"CreateOnly", testCreateOnly},
		{"Fence", testFence},
		{"AllOrNothing", testAllOrNothing},
		{"Isolation", testIsolation},
		{"Positions", testPositions},
		{"Add", testAdd},
		{"ValuesAreCopied", testValuesAreCopied},
		{"CanceledCommit", testCanceledCommit},
		{"Get", testGet},
		{"Read", testRead},
		{"ReadWhileWriting", testReadWhileWriting},
		{"Last", testLast},
		{"Scan", testScan},
		{"CanceledRead", testCanceledRead},
		{"Trim", testTrim},
		{"Concurrency", testConcurrency},
		{"CreateRace", testCreateRace},
		{"Reopen", testReopen},
		{"Close", testClose},
		{"Model", testModel},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// part is the partition of most tests; other is one beside it, whose name begins with it.
const (
	part  = store.Partition("t-1")
	other = store.Partition("t-10")
)

func put(name, value string) store.Op {
	return store.Op{Kind: store.Put, Name: name, Value: []byte(value)}
}

func appendTo(log, value string) store.Op {
	return store.Op{Kind: store.Append, Name: log, Value: []byte(value)}
}

func add(name string, vector ...int64) store.Op {
	return store.Op{Kind: store.Add, Name: name, Value: store.EncodeVector(vector)}
}

func remove(name string) store.Op { return store.Op{Kind: store.Delete, Name: name} }

// mustCommit commits operations to part and gives their positions.
func mustCommit(t testing.TB, s store.Store, ops ...store.Op) []store.Pos {
	t.Helper()
	c, err := s.Commit(context.Background(), store.Batch{Part: part, Ops: ops})
	if err != nil {
		t.Fatalf("Commit(%v) = %v", ops, err)
	}
	if len(c.Pos) != len(ops) {
		t.Fatalf("Commit gave %d positions for %d operations", len(c.Pos), len(ops))
	}
	return c.Pos
}

// wantRefused commits b, which must be refused for a reason.
func wantRefused(t testing.TB, s store.Store, b store.Batch, want errdefs.Reason) {
	t.Helper()
	if c, err := s.Commit(context.Background(), b); !errdefs.Is(err, want) || c.Pos != nil {
		t.Fatalf("Commit = %v, %v; want reason %v", c, err, want)
	}
}

// wantRecord checks the value of a record in part; "" is none.
func wantRecord(t testing.TB, s store.Store, key, want string) store.Record {
	t.Helper()
	r, err := s.Get(context.Background(), part, key)
	if want == "" {
		if !errdefs.Is(err, errdefs.RecordNotFound) {
			t.Fatalf("Get(%s) = %q, %v; want RecordNotFound", key, r.Value, err)
		}
		return r
	}
	if err != nil || string(r.Value) != want || r.Key != key {
		t.Fatalf("Get(%s) = %q %q, %v; want %q", key, r.Key, r.Value, err, want)
	}
	return r
}

// wantLog checks all values of a log in part.
func wantLog(t testing.TB, s store.Store, log string, want ...string) {
	t.Helper()
	var got []string
	for _, e := range collect(t, s.Read(context.Background(), part, log, 0)) {
		got = append(got, string(e.Value))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the log %s holds %q, want %q", log, got, want)
	}
}

// collect gives all of a sequence that must not fail.
func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// failure gives the error that ends a sequence, nil when it ends by itself.
func failure[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%04d", i)
	}
	return all
}
