package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

func testGet(t *testing.T, open Opener) {
	s, _ := open(t)
	wantRecord(t, s, "a", "")
	mustCommit(t, s, put("a", "1"), put("a/b", "2"))
	wantRecord(t, s, "a", "1")
	wantRecord(t, s, "a/b", "2")
	if _, err := s.Get(context.Background(), other, "a"); !errdefs.Is(err, errdefs.RecordNotFound) {
		t.Errorf("Get in another partition = %v", err)
	}
	mustCommit(t, s, put("a", "3"), remove("a/b"))
	wantRecord(t, s, "a", "3")
	wantRecord(t, s, "a/b", "")
	mustCommit(t, s, put("a", ""))
	if r, err := s.Get(context.Background(), part, "a"); err != nil || len(r.Value) != 0 || r.Rev == 0 {
		t.Errorf("Get of an empty value = %v, %v", r, err)
	}
}

func testRead(t *testing.T, open Opener) {
	s, _ := open(t)
	ctx := context.Background()
	if got := collect(t, s.Read(ctx, part, "log", 0)); len(got) != 0 {
		t.Fatalf("an empty log yields %v", got)
	}
	want := names(1000) // more than one page
	for chunk := range slices.Chunk(want, 100) {
		var ops []store.Op
		for _, v := range chunk {
			ops = append(ops, appendTo("log", v), appendTo("log2", "x"))
		}
		mustCommit(t, s, ops...)
	}
	mustCommit(t, s, appendTo("log/a", "x"), appendTo("lo", "x"), put("log", "x"))
	wantLog(t, s, "log", want...)

	all := collect(t, s.Read(ctx, part, "log", 0))
	for _, i := range []int{0, 254, 255, 256, 998} {
		if got := collect(t, s.Read(ctx, part, "log", all[i].Pos)); len(got) != len(all)-i-1 || got[0].Pos != all[i+1].Pos {
			t.Fatalf("Read after entry %d yields %d entries", i, len(got))
		}
	}
	for _, after := range []store.Pos{all[999].Pos, all[999].Pos + 1<<40, math.MaxUint64} {
		if got := collect(t, s.Read(ctx, part, "log", after)); len(got) != 0 {
			t.Fatalf("Read beyond the end yields %v", got)
		}
	}
	seq, first := s.Read(ctx, part, "log", 0), 0
	for _, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		first++
		break
	}
	if again := collect(t, seq); first != 1 || len(again) != len(all) {
		t.Errorf("a sequence that was broken off yields %d entries the second time", len(again))
	}
	big := string(bytes.Repeat([]byte("v"), store.MaxValue))
	for range 5 {
		mustCommit(t, s, appendTo("big", big))
	}
	wantLog(t, s, "big", big, big, big, big, big)
}

// testReadWhileWriting: a consumer may write within its loop, and what it writes may come along or not.
func testReadWhileWriting(t *testing.T, open Opener) {
	s, _ := open(t)
	for _, v := range names(300) {
		mustCommit(t, s, appendTo("log", v), put("r/"+v, v))
	}
	n := 0
	for e, err := range s.Read(context.Background(), part, "log", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("%04d", n); n < 300 && string(e.Value) != want {
			t.Fatalf("entry %d is %q, want %q", n, e.Value, want)
		}
		if n++; n%100 == 0 && n <= 300 {
			mustCommit(t, s, appendTo("log", "new"), put("r/0000", "new"))
		}
	}
	if n < 300 {
		t.Errorf("%d entries, want 300 at least", n)
	}
}

func testLast(t *testing.T, open Opener) {
	s, _ := open(t)
	values := func(log string, n int) []string {
		t.Helper()
		entries, err := s.Last(context.Background(), part, log, n)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, e := range entries {
			if i > 0 && e.Pos <= entries[i-1].Pos {
				t.Fatalf("positions %d, %d", entries[i-1].Pos, e.Pos)
			}
			got = append(got, string(e.Value))
		}
		return got
	}
	if got := values("b", 3); got != nil {
		t.Fatalf("an empty log has %q", got)
	}
	mustCommit(t, s, appendTo("a", "x"), appendTo("b", "1"), appendTo("b", "2"), appendTo("b", "3"), appendTo("b-", "x"),
		appendTo("b/c", "x"))
	for _, c := range []struct {
		log  string
		n    int
		want []string
	}{
		{"b", 0, nil},
		{"b", -1, nil},
		{"b", 2, []string{"2", "3"}},
		{"b", 3, []string{"1", "2", "3"}},
		{"b", 9, []string{"1", "2", "3"}},
		{"a", 2, []string{"x"}},   // the first of all
		{"b/c", 2, []string{"x"}}, // the last of all
		{"aa", 2, nil},
		{"z", 2, nil},
	} {
		if got := values(c.log, c.n); !slices.Equal(got, c.want) {
			t.Errorf("Last(%s, %d) = %q, want %q", c.log, c.n, got, c.want)
		}
	}
}

func testScan(t *testing.T, open Opener) {
	s, _ := open(t)
	keys := []string{"a", "a-1", "a/1", "a/1/x", "a/10", "a/2", "a0", "ab/1", "b"}
	var ops []store.Op
	for _, k := range keys {
		ops = append(ops, put(k, "v-"+k))
	}
	mustCommit(t, s, append(ops, appendTo("a/log", "x"))...)
	_, err := s.Commit(context.Background(), store.Batch{Part: other, Ops: []store.Op{put("a/1", "other")}})
	if err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string][]string{
		"":    keys,
		"a":   {"a", "a/1", "a/1/x", "a/10", "a/2"},
		"a/1": {"a/1", "a/1/x"},
		"ab":  {"ab/1"},
		"b":   {"b"},
		"c":   nil,
	} {
		var got []string
		for _, r := range collect(t, s.Scan(context.Background(), part, prefix)) {
			if string(r.Value) != "v-"+r.Key || r.Rev == 0 {
				t.Errorf("%s holds %q at %d", r.Key, r.Value, r.Rev)
			}
			got = append(got, r.Key)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("Scan(%q) = %q, want %q", prefix, got, want)
		}
	}
	ops = nil
	for _, v := range names(200) {
		ops = append(ops, put("many/"+v, v))
	}
	for range 2 {
		mustCommit(t, s, ops...)
		for i := range ops {
			ops[i].Name += "x"
		}
	}
	if got := collect(t, s.Scan(context.Background(), part, "many")); len(got) != 400 {
		t.Errorf("%d records, want 400", len(got))
	}
}

func testCanceledRead(t *testing.T, open Opener) {
	s, _ := open(t)
	mustCommit(t, s, put("a", "1"), appendTo("log", "1"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, getErr := s.Get(ctx, part, "a")
	_, lastErr := s.Last(ctx, part, "log", 1)
	for name, err := range map[string]error{
		"Get":  getErr,
		"Last": lastErr,
		"Read": failure(s.Read(ctx, part, "log", 0)),
		"Scan": failure(s.Scan(ctx, part, "")),
		"Trim": s.Trim(ctx, part, "log", 1),
	} {
		if !errdefs.Is(err, errdefs.CallCanceled) {
			t.Errorf("%s = %v, want CallCanceled", name, err)
		}
	}
}

// testTrim cannot know when a trim is done: it reads until it is. A store that never trims hangs here.
func testTrim(t *testing.T, open Opener) {
	s, _ := open(t)
	for chunk := range slices.Chunk(names(2000), 100) {
		var ops []store.Op
		for _, v := range chunk {
			ops = append(ops, appendTo("log", v))
		}
		mustCommit(t, s, ops...)
	}
	mustCommit(t, s, appendTo("log2", "x"), appendTo("lo", "x"), put("log", "x"))
	all := collect(t, s.Read(context.Background(), part, "log", 0))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := s.Trim(ctx, part, "log", all[1899].Pos); err != nil {
		t.Fatal(err)
	}
	if err := s.Trim(ctx, part, "log", all[0].Pos); err != nil { // less than before: nothing to do
		t.Fatal(err)
	}
	if err := s.Trim(ctx, part, "none", all[0].Pos); err != nil {
		t.Fatal(err)
	}
	for first := all[0].Pos; first != all[1900].Pos; {
		now := collect(t, s.Read(ctx, part, "log", 0))
		if len(now) < 100 || now[len(now)-1].Pos != all[1999].Pos {
			t.Fatalf("a trim of 1900 of 2000 entries has left %d", len(now))
		}
		first = now[0].Pos
	}
	wantLog(t, s, "log2", "x")
	wantLog(t, s, "lo", "x")
	wantRecord(t, s, "log", "x")
}
