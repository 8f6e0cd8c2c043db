package runtime_test

import (
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// tap is a store that a test bends.
type tap struct {
	store.Store
	commit func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) // nil: as it is
	get    func(key string)                                                                     // nil: nothing; called before each Get
	scans  tally                                                                                // by prefix

	mu      sync.Mutex
	spoiled map[string]bool // records and logs that read as corrupt
}

// tapped is the option of a house on a tap.
func tapped(t *tap) func(*house) {
	return func(h *house) { h.wrap = func(st store.Store) store.Store { t.Store = st; return t } }
}

// touches tells whether a batch writes something whose name begins so.
func touches(b store.Batch, prefix string) bool {
	for _, op := range b.Ops {
		if strings.HasPrefix(op.Name, prefix) {
			return true
		}
	}
	return false
}

// spoil damages records and logs.
func (t *tap) spoil(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spoiled = map[string]bool{}
	for _, name := range names {
		t.spoiled[name] = true
	}
}

func (t *tap) check(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spoiled[name] {
		return errdefs.New(errdefs.DataLoss, errdefs.RecordCorrupt, name, "%s is damaged", name)
	}
	return nil
}

func (t *tap) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	if t.commit == nil {
		return t.Store.Commit(ctx, b)
	}
	return t.commit(b, func() (store.Committed, error) { return t.Store.Commit(ctx, b) })
}

func (t *tap) Get(ctx context.Context, p store.Partition, key string) (store.Record, error) {
	if t.get != nil {
		t.get(key)
	}
	if err := t.check(key); err != nil {
		return store.Record{}, err
	}
	return t.Store.Get(ctx, p, key)
}

func (t *tap) Read(ctx context.Context, p store.Partition, log string, after store.Pos) iter.Seq2[store.Entry, error] {
	if err := t.check(log); err != nil {
		return func(yield func(store.Entry, error) bool) { yield(store.Entry{}, err) }
	}
	return t.Store.Read(ctx, p, log, after)
}

func (t *tap) Scan(ctx context.Context, p store.Partition, prefix string) iter.Seq2[store.Record, error] {
	t.scans.add(prefix)
	return t.Store.Scan(ctx, p, prefix)
}

func unknown() error {
	return errdefs.New(errdefs.Unavailable, errdefs.OutcomeUnknown, "", "it may have landed (made to fail)")
}
