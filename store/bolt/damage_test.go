package bolt_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/bolt"
)

const part = store.Partition("t-1")

// written is all values that were ever written under a key; logs have the prefix "log:".
type written map[string]map[string]bool

func (w written) note(key, value string) {
	if w[key] == nil {
		w[key] = make(map[string]bool)
	}
	w[key][value] = true
}

// commit puts and appends a value and notes it.
func (w written) commit(t *testing.T, s *bolt.Store, key, log, value string) {
	t.Helper()
	_, err := s.Commit(context.Background(), store.Batch{Part: part, Ops: []store.Op{
		{Kind: store.Put, Name: key, Value: []byte(value)}, {Kind: store.Append, Name: log, Value: []byte(value)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.note(key, value)
	w.note("log:"+log, value)
}

// survivors reads all of a store and counts what is there. A value that was never written fails the test.
func (w written) survivors(t *testing.T, s *bolt.Store) int {
	t.Helper()
	n := 0
	for r, err := range s.Scan(context.Background(), part, "") {
		if err != nil {
			t.Fatal(err)
		}
		if n++; !w[r.Key][string(r.Value)] {
			t.Fatalf("the record %s holds %q, which was never written", r.Key, r.Value)
		}
	}
	for key := range w {
		log, ok := strings.CutPrefix(key, "log:")
		if !ok {
			continue
		}
		last := store.Pos(0)
		for e, err := range s.Read(context.Background(), part, log, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; !w[key][string(e.Value)] || e.Pos <= last {
				t.Fatalf("the log %s holds %q at %d, after %d", log, e.Value, e.Pos, last)
			}
			last = e.Pos
		}
	}
	return n
}

// fixture makes a store with records, logs, values of many pages, free pages, and gives the used part of its file.
func fixture(t *testing.T) ([]byte, written, int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	s, w := open(t, path), make(written)
	for i := range 300 {
		value := strings.Repeat(fmt.Sprintf("value %d ", i), 1+i%30)
		w.commit(t, s, fmt.Sprintf("task/%d", i%200), fmt.Sprintf("log/%d", i%7), value)
	}
	w.commit(t, s, "big", "log/big", strings.Repeat("big", 20_000))
	size, total := s.Size(), w.survivors(t, s)
	closeSound(t, s, path)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return file[:size], w, total
}

// damages are ways in which a file goes bad.
func damages() map[string]func(r *rand.Rand, file []byte) []byte {
	page := os.Getpagesize()
	return map[string]func(r *rand.Rand, file []byte) []byte{
		"bytes": func(r *rand.Rand, file []byte) []byte {
			for range 1 + r.IntN(20) {
				file[r.IntN(len(file))] = byte(r.Uint32())
			}
			return file
		},
		"headers": func(r *rand.Rand, file []byte) []byte {
			for range 1 + r.IntN(4) {
				file[r.IntN(len(file)/page)*page+r.IntN(80)] = byte(r.Uint32())
			}
			return file
		},
		"zero page": func(r *rand.Rand, file []byte) []byte {
			at := r.IntN(len(file)/page) * page
			clear(file[at : at+page])
			return file
		},
		"swapped pages": func(r *rand.Rand, file []byte) []byte {
			a, b := r.IntN(len(file)/page)*page, r.IntN(len(file)/page)*page
			kept := bytes.Clone(file[a : a+page])
			copy(file[a:a+page], file[b:b+page])
			copy(file[b:b+page], kept)
			return file
		},
		"cut off": func(r *rand.Rand, file []byte) []byte { return file[:1+r.IntN(len(file)-1)] },
		"cycles": func(_ *rand.Rand, file []byte) []byte { // bbolt would never come back
			for at := 2 * page; at < len(file); at += page {
				const branch, header, element = 1, 16, 16
				count := int(binary.NativeEndian.Uint16(file[at+10:]))
				if binary.NativeEndian.Uint16(file[at+8:]) != branch || count > page/element {
					continue
				}
				for i := range count {
					copy(file[at+header+i*element+8:], file[at:at+8])
				}
			}
			return file
		},
		"no metas": func(_ *rand.Rand, file []byte) []byte { clear(file[:2*page]); return file },
	}
}

// proves D7, case OUT-8
func TestDamagedFile(t *testing.T) {
	sound, w, total := fixture(t)
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r, found := rand.New(rand.NewPCG(seed, 0)), 0
			const rounds = 15
			for range rounds {
				path := filepath.Join(t.TempDir(), "store.db")
				if err := os.WriteFile(path, damage(r, bytes.Clone(sound)), 0o600); err != nil {
					t.Fatal(err)
				}
				found += w.surviveDamage(t, path)
			}
			// What a cut takes away is gone; else most of it can be found.
			if want := rounds * total * 6 / 10; name != "cut off" && found < want {
				t.Errorf("%d values have survived in %d rounds, want %d", found, rounds, want)
			}
		})
	}
}

// surviveDamage puts a damaged file through everything there is for it, and gives the number of values that survive.
func (w written) surviveDamage(t *testing.T, path string) int {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	probed := bolt.Probe(t.Context(), path)
	if probed != nil && !errdefs.Is(probed, errdefs.RecordCorrupt) {
		t.Fatalf("Probe = %v", probed)
	}
	report := check(t, path)
	if probed != nil && report.OK() {
		t.Fatalf("Probe = %v, but Check says %v", probed, report)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Fatal("Probe or Check have written")
	}
	if len(report.Problems) == report.Corrupt { // its structure is sound: it opens, and leaves the bad values out
		s := reopen(t, path)
		w.survivors(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	out, err := bolt.Salvage(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(out.SetAside); err != nil {
		t.Fatal(err)
	}
	s := reopen(t, path)
	defer closeSound(t, s, path)
	n := w.survivors(t, s)
	if n != out.Records+out.Entries {
		t.Fatalf("%v, but %d can be read", out, n)
	}
	w.commit(t, s, "after", "log/0", "after") // a position that was given before would end the order of the log
	return n
}

// proves D7: damage that is met while the store is open ends neither the process nor other stores.
func TestDamageWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	var log bytes.Buffer
	s, err := bolt.Open(t.Context(), bolt.Options{Path: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	w := make(written)
	for i := range 100 {
		w.commit(t, s, fmt.Sprintf("task/%d", i), "log", strings.Repeat("v", 500))
	}
	wreck(t, path, s.Size())
	ctx := context.Background()
	if _, err := s.Get(ctx, part, "task/7"); !errdefs.Is(err, errdefs.RecordCorrupt) {
		t.Errorf("Get = %v, want RecordCorrupt", err)
	}
	for range 2 {
		_, err := s.Commit(ctx, store.Batch{Part: part, Ops: []store.Op{{Kind: store.Put, Name: "task/7"}}})
		if !errdefs.Is(err, errdefs.StoreStalled) {
			t.Errorf("Commit = %v, want StoreStalled", err)
		}
	}
	if s.Damaged() == nil || !strings.Contains(log.String(), "damaged") {
		t.Errorf("Damaged() = %v; the log has %q", s.Damaged(), log.String())
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	if _, err := bolt.Open(ctx, bolt.Options{Path: path}); !errdefs.Is(err, errdefs.RecordCorrupt) {
		t.Errorf("Open = %v, want RecordCorrupt", err)
	}
}

// wreck overwrites all pages but the metas.
func wreck(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	start := 2 * int64(os.Getpagesize())
	if _, err := f.WriteAt(bytes.Repeat([]byte{0xa5}, int(size-start)), start); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// proves D7, case OUT-8: bad values are moved to quarantine, counted over restarts, reported once; the rest works.
func TestQuarantine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, w, ctx := reopen(t, path), make(written), context.Background()
	for _, v := range []string{"one", "two", "three"} {
		w.commit(t, s, "task/"+v, "log", "the value "+v)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(file, []byte("the value two"), []byte("the walue two")), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := check(t, path); r.OK() || r.Corrupt != 2 || r.Records != 2 || r.Entries != 2 {
		t.Fatalf("Check = %v", r)
	}

	s = reopen(t, path)
	if n := w.survivors(t, s); n != 4 {
		t.Errorf("%d values, want 4", n)
	}
	if last, err := s.Last(ctx, part, "log", 2); err != nil || string(last[0].Value) != "the value one" {
		t.Errorf("Last = %v, %v", last, err)
	}
	create := store.Batch{Part: part, Guards: []store.Guard{{Key: "task/two"}}, Ops: []store.Op{{Kind: store.Put, Name: "task/two"}}}
	for range 2 {
		if _, err := s.Get(ctx, part, "task/two"); !errdefs.Is(err, errdefs.RecordCorrupt) {
			t.Errorf("Get = %v, want RecordCorrupt", err)
		}
		// It is not a record that does not exist: nothing may be made in its place by mistake.
		if _, err := s.Commit(ctx, create); !errdefs.Is(err, errdefs.Conflict) {
			t.Errorf("Commit = %v, want Conflict", err)
		}
		w.commit(t, s, "task/four", "log", "the value four") // the committer moves them now, if it has not yet
	}
	if n := s.Quarantined(); n != 2 {
		t.Errorf("%d in quarantine, want 2", n)
	}
	closeSound(t, s, path)
	if r := check(t, path); r.Quarantined != 2 || r.Corrupt != 0 {
		t.Errorf("Check = %v", r)
	}

	s = reopen(t, path)
	defer closeSound(t, s, path)
	if n := s.Quarantined(); n != 2 {
		t.Errorf("%d in quarantine after a restart, want 2", n)
	}
	guarded := store.Batch{
		Part: part, Guards: []store.Guard{{Key: "task/two", Rev: store.Damaged}}, Ops: []store.Op{{Kind: store.Put, Name: "heals"}},
	}
	for _, damaged := range []bool{true, false} { // as long as it is damaged, a guard for that holds
		if _, err := s.Commit(ctx, guarded); errdefs.Is(err, errdefs.Conflict) == damaged || damaged && err != nil {
			t.Errorf("damaged %v: Commit = %v", damaged, err)
		}
		w.commit(t, s, "task/two", "log", "new") // an unguarded write heals it
	}
	if _, err := s.Get(ctx, part, "task/two"); err != nil {
		t.Errorf("Get = %v", err)
	}
}

// proves D7: what a newer agentd wrote is refused, and is not damage.
func TestNewerFormat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	closeSound(t, reopen(t, path), path)
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		key, version := []byte("format"), binary.BigEndian.AppendUint64(nil, 2)
		table := crc32.MakeTable(crc32.Castagnoli)
		sum := crc32.Update(crc32.Update(uint32(len(key))<<8|'m', table, key), table, version)
		return tx.Bucket([]byte("meta")).Put(key, append(binary.BigEndian.AppendUint32(nil, sum), version...))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, openErr := bolt.Open(t.Context(), bolt.Options{Path: path})
	_, checkErr := bolt.Check(t.Context(), path, &bytes.Buffer{})
	_, salvageErr := bolt.Salvage(t.Context(), path)
	for name, err := range map[string]error{
		"Open": openErr, "Probe": bolt.Probe(t.Context(), path), "Check": checkErr, "Salvage": salvageErr,
	} {
		if !errdefs.Is(err, errdefs.SchemaTooNew) {
			t.Errorf("%s = %v, want SchemaTooNew", name, err)
		}
	}
}

func TestOpenTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	open(t, path)
	_, openErr := bolt.Open(t.Context(), bolt.Options{Path: path})
	_, checkErr := bolt.Check(t.Context(), path, &bytes.Buffer{})
	_, salvageErr := bolt.Salvage(t.Context(), path)
	for name, err := range map[string]error{"Open": openErr, "Check": checkErr, "Salvage": salvageErr} {
		if !errdefs.Is(err, errdefs.AlreadyRunning) {
			t.Errorf("%s = %v, want AlreadyRunning", name, err)
		}
	}
}

// A store that is so small that its buckets lie within one page is salvaged without its metas too.
func TestSmallStoreLosesItsMetas(t *testing.T) {
	path, w := filepath.Join(t.TempDir(), "store.db"), make(written)
	s := reopen(t, path)
	w.commit(t, s, "a", "log", "one")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(raw[:2*os.Getpagesize()])
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Salvage(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, path)
	if n := w.survivors(t, s); n != 2 {
		t.Errorf("%d values have survived, want 2", n)
	}
	closeSound(t, s, path)
}
