package bolt

import (
	"bytes"
	"context"
	"iter"
	"math"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// Bounds of a page: what is copied out of one read transaction. None is open while a consumer holds an entry, for pages
// that a reader might see cannot be reused and the file would grow.
const (
	pageItems = 256
	pageBytes = 1 << 20
)

// view runs fn in a read transaction. A panic of bbolt becomes the error.
func (s *Store) view(fn func(tx *bbolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	tx, err := s.begin(false)
	if err != nil {
		return err
	}
	defer s.rollback(tx)
	defer func() {
		if r := recover(); r != nil {
			err = s.damaged(r)
		}
	}()
	return fn(tx)
}

func (s *Store) validate(ctx context.Context, p store.Partition, name string) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := store.ValidateName(name); err != nil {
		return err
	}
	return s.ready(ctx)
}

// ready tells whether a read may begin.
func (s *Store) ready(ctx context.Context) error {
	if ctx.Err() != nil {
		return errdefs.As(ctx.Err())
	}
	select {
	case <-s.closing:
		return stalled(errClosed)
	default:
		return nil
	}
}

// Get gives a record.
func (s *Store) Get(ctx context.Context, p store.Partition, key string) (store.Record, error) {
	if err := s.validate(ctx, p, key); err != nil {
		return store.Record{}, err
	}
	it, found, err := s.record(p, key)
	switch {
	case err != nil:
		return store.Record{}, err
	case !found:
		return store.Record{}, errdefs.New(errdefs.NotFound, errdefs.RecordNotFound, key, "there is no record %s", key)
	}
	return store.Record{Key: key, Rev: it.pos, Value: it.value}, nil
}

// record reads one record and copies it.
func (s *Store) record(p store.Partition, name string) (it item, found bool, err error) {
	key, v := recordKey(p, name), valid
	err = s.view(func(tx *bbolt.Tx) error {
		raw := tx.Bucket([]byte(treeRecords)).Get(key)
		if raw == nil {
			return nil
		}
		found = true
		it, v = decode(treeRecords, key, raw)
		it.value = clone(it.value)
		return nil
	})
	if err != nil || !found || v == valid {
		return it, found, err
	}
	if v == corrupt {
		s.chores.suspect(suspect{treeRecords, string(key)})
	}
	return item{}, true, errdefs.New(errdefs.DataLoss, errdefs.RecordCorrupt, name,
		"the record %s was damaged on disk; what was found is kept in quarantine", name)
}

// Read yields the entries of a log after a position, in order.
func (s *Store) Read(ctx context.Context, p store.Partition, log string, after store.Pos) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if err := s.validate(ctx, p, log); err != nil {
			yield(store.Entry{}, err)
			return
		}
		if after == math.MaxUint64 {
			return
		}
		for it, err := range s.items(ctx, treeLogs, logKey(p, log, after+1), logPrefix(p, log)) {
			if !yield(store.Entry{Pos: it.pos, Value: it.value}, err) {
				return
			}
		}
	}
}

// Scan yields the records at and below prefix: first the one of that very name, then the others by name.
func (s *Store) Scan(ctx context.Context, p store.Partition, prefix string) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		below := partPrefix(p)
		err := p.Validate()
		if prefix != "" {
			below = append(recordKey(p, prefix), '/')
			err = s.validate(ctx, p, prefix)
		}
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		if prefix != "" && !s.yieldOne(p, prefix, yield) {
			return
		}
		for it, err := range s.items(ctx, treeRecords, below, below) {
			if !yield(store.Record{Key: nameOf(p, it.key), Rev: it.pos, Value: it.value}, err) {
				return
			}
		}
	}
}

// yieldOne yields the record of a name if there is one, and tells whether to go on.
func (s *Store) yieldOne(p store.Partition, name string, yield func(store.Record, error) bool) bool {
	it, found, err := s.record(p, name)
	switch {
	case found && errdefs.Is(err, errdefs.RecordCorrupt), err == nil && !found:
		return true
	case err != nil:
		yield(store.Record{}, err)
		return false
	}
	return yield(store.Record{Key: name, Rev: it.pos, Value: it.value}, nil)
}

// nameOf is the name in a record's key; empty for the item that goes with an error.
func nameOf(p store.Partition, key []byte) string {
	if len(key) <= len(p) {
		return ""
	}
	return string(key[len(p)+1:])
}

// items yields what lies in tree from a key on as long as the prefix holds, page by page.
func (s *Store) items(ctx context.Context, tree string, from, prefix []byte) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for next := from; next != nil; {
			var page []item
			err := s.ready(ctx)
			if err == nil {
				page, next, err = s.page(tree, next, prefix)
			}
			if err != nil {
				yield(item{}, err)
				return
			}
			for _, it := range page {
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

// page copies the items of one page and tells where the next one begins, nil at the end.
func (s *Store) page(tree string, from, prefix []byte) (page []item, next []byte, err error) {
	var bad []suspect
	err = s.view(func(tx *bbolt.Tx) error {
		c, seen, size := tx.Bucket([]byte(tree)).Cursor(), 0, 0
		for k, raw := c.Seek(from); bytes.HasPrefix(k, prefix); k, raw = c.Next() {
			if seen == pageItems || size >= pageBytes {
				next = clone(k)
				return nil
			}
			seen++
			switch it, v := decode(tree, k, raw); v {
			case valid:
				page = append(page, item{clone(k), it.pos, clone(it.value)})
				size += len(raw)
			case corrupt:
				bad = append(bad, suspect{tree, string(k)})
			case quarantined:
			}
		}
		return nil
	})
	for _, b := range bad {
		s.chores.suspect(b)
	}
	return page, next, err
}

// Last gives the last n entries of a log, oldest first. Corrupt ones are left out.
func (s *Store) Last(ctx context.Context, p store.Partition, log string, n int) ([]store.Entry, error) {
	if err := s.validate(ctx, p, log); err != nil {
		return nil, err
	}
	var last []store.Entry
	var bad []suspect
	prefix := logPrefix(p, log)
	err := s.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(treeLogs)).Cursor()
		for k, raw := seekEnd(c, prefix); len(last) < n && bytes.HasPrefix(k, prefix); k, raw = c.Prev() {
			it, v := decode(treeLogs, k, raw)
			if v != valid {
				bad = append(bad, suspect{treeLogs, string(k)})
				continue
			}
			last = append(last, store.Entry{Pos: it.pos, Value: clone(it.value)})
		}
		return nil
	})
	for _, b := range bad {
		s.chores.suspect(b)
	}
	if err != nil {
		return nil, err
	}
	for i, j := 0, len(last)-1; i < j; i, j = i+1, j-1 {
		last[i], last[j] = last[j], last[i]
	}
	return last, nil
}

// seekEnd moves c to the last key before those that follow all keys with prefix.
func seekEnd(c *bbolt.Cursor, prefix []byte) (key, raw []byte) {
	// Positions are below 1<<63, so that no entry has this key.
	end := append(clone(prefix), bytes.Repeat([]byte{0xff}, posSize)...)
	if k, _ := c.Seek(end); k == nil {
		return c.Last()
	}
	return c.Prev()
}
