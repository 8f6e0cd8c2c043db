package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// model is what a store should be: one partition, in thirty lines.
type model struct {
	records map[string]store.Record
	logs    map[string][]store.Entry
}

func (m *model) holds(b store.Batch) bool {
	for _, g := range b.Guards {
		if m.records[g.Key].Rev != g.Rev {
			return false
		}
	}
	return true
}

func (m *model) apply(b store.Batch, c store.Committed) {
	for i, op := range b.Ops {
		switch op.Kind {
		case store.Append:
			m.logs[op.Name] = append(m.logs[op.Name], store.Entry{Pos: c.Pos[i], Value: op.Value})
		case store.Put:
			m.records[op.Name] = store.Record{Key: op.Name, Rev: c.Pos[i], Value: op.Value}
		case store.Delete:
			delete(m.records, op.Name)
		case store.Add:
			sum, _ := store.AddVectors(m.records[op.Name].Value, op.Value) // both are vectors here
			m.records[op.Name] = store.Record{Key: op.Name, Rev: c.Pos[i], Value: sum}
		}
	}
}

// testModel does random operations on a store and on the model and compares them.
func testModel(t *testing.T, open Opener) {
	rapid.Check(t, func(r *rapid.T) {
		s, reopen := open(t)
		defer func() { _ = s.Close() }() // the opener closes it again, but only after hundreds of others
		m := &model{records: make(map[string]store.Record), logs: make(map[string][]store.Entry)}
		r.Repeat(map[string]func(*rapid.T){
			"commit": func(r *rapid.T) {
				b := drawBatch(r, m)
				c, err := s.Commit(context.Background(), b)
				switch {
				case m.holds(b) && err == nil:
					m.apply(b, c)
				case m.holds(b) || !errdefs.Is(err, errdefs.Conflict):
					r.Fatalf("Commit(%v) = %v; the guards hold: %v", b, err, m.holds(b))
				}
			},
			"reopen": func(*rapid.T) { s = reopen() },
			"":       func(r *rapid.T) { m.compare(r, s) },
		})
	})
}

func drawBatch(r *rapid.T, m *model) store.Batch {
	key := rapid.SampledFrom([]string{"a", "a/1", "a/10", "a-", "b"})
	counter := rapid.SampledFrom([]string{"n", "n/1"})
	value := rapid.SliceOfN(rapid.Byte(), 0, 20)
	b := store.Batch{Part: part}
	seen := make(map[string]bool)
	for range rapid.IntRange(0, 5).Draw(r, "ops") {
		op := store.Op{Kind: store.OpKind(rapid.IntRange(int(store.Append), int(store.Add)).Draw(r, "kind"))}
		switch op.Kind {
		case store.Add:
			op.Name = counter.Draw(r, "counter")
			op.Value = store.EncodeVector(rapid.SliceOfN(rapid.Int64Range(-100, 100), 0, 3).Draw(r, "vector"))
		case store.Delete:
			op.Name = rapid.OneOf(key, counter).Draw(r, "key")
		default:
			op.Name, op.Value = key.Draw(r, "key"), value.Draw(r, "value")
		}
		if op.Kind == store.Append || !seen[op.Name] {
			b.Ops = append(b.Ops, op)
			seen[op.Name] = seen[op.Name] || op.Kind != store.Append
		}
	}
	for range rapid.IntRange(0, 2).Draw(r, "guards") {
		g := store.Guard{Key: key.Draw(r, "guard")}
		if g.Rev = m.records[g.Key].Rev; rapid.IntRange(0, 4).Draw(r, "stale") == 0 {
			g.Rev += 1 << 30
		}
		b.Guards = append(b.Guards, g)
	}
	return b
}

// compare reads everything that the model knows, in all ways.
func (m *model) compare(r *rapid.T, s store.Store) {
	ctx := context.Background()
	for _, prefix := range []string{"", "a", "n"} {
		got := make(map[string]store.Record)
		for rec, err := range s.Scan(ctx, part, prefix) {
			if err != nil {
				r.Fatal(err)
			}
			got[rec.Key] = rec
		}
		want := maps.Clone(m.records)
		maps.DeleteFunc(want, func(k string, _ store.Record) bool {
			return prefix != "" && k != prefix && !strings.HasPrefix(k, prefix+"/")
		})
		if !maps.EqualFunc(got, want, func(a, b store.Record) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			r.Fatalf("Scan(%q) = %v, want %v", prefix, got, want)
		}
	}
	for log, want := range m.logs {
		var got []store.Entry
		for e, err := range s.Read(ctx, part, log, want[0].Pos) {
			if err != nil {
				r.Fatal(err)
			}
			got = append(got, e)
		}
		if !equalEntries(got, want[1:]) {
			r.Fatalf("Read(%s) = %v, want %v", log, got, want[1:])
		}
		last, err := s.Last(ctx, part, log, 2)
		if err != nil || !equalEntries(last, want[max(0, len(want)-2):]) {
			r.Fatalf("Last(%s) = %v, %v; the log is %v", log, last, err, want)
		}
	}
}

func equalEntries(a, b []store.Entry) bool {
	return slices.EqualFunc(a, b, func(x, y store.Entry) bool { return x.Pos == y.Pos && string(x.Value) == string(y.Value) })
}
