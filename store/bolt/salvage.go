package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/bbolt"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

const (
	salvageBatch = 1000    // entries a transaction
	positionGap  = 1 << 20 // positions left out: those of entries that were lost are never given again
)

// Salvaged is what Salvage has done.
type Salvaged struct {
	Path        string // the new file
	SetAside    string // where the old one lies
	Records     int    // records copied
	Entries     int    // log entries copied
	Quarantined int    // values copied to quarantine: those that were there, and those with a wrong checksum
	Loose       int    // records and entries among them that were found only in pages that no tree leads to
	Problems    int    // pages and values that were damaged
}

// String is the outcome in one line.
func (s Salvaged) String() string {
	return fmt.Sprintf("%s: salvaged %d records and %d log entries (%d of them from loose pages), %d values in "+
		"quarantine, %d problems; the damaged file is %s",
		s.Path, s.Records, s.Entries, s.Loose, s.Quarantined, s.Problems, s.SetAside)
}

// Salvage copies what can be read of a damaged file, which nobody has open, into a new one in its place, and sets the
// old one aside as PATH.corrupt-TIME (UTC). At every instant there is a file at path. When pages are damaged it takes
// along what lies in leaves that the trees have lost; among it may be versions and records that had been replaced or
// deleted. When it fails the file is as it was.
func Salvage(ctx context.Context, path string) (Salvaged, error) {
	im, err := openImage(path)
	if err != nil {
		return Salvaged{}, err
	}
	defer im.close()
	if v := im.format(ctx); v > formatVersion {
		return Salvaged{}, tooNew(path, v)
	}
	db, err := createFile(path)
	if err != nil {
		return Salvaged{}, err
	}
	db.NoSync = true
	c := &copier{db: db, out: Salvaged{Path: path, SetAside: path + time.Now().UTC().Format(".corrupt-20060102T150405.000Z")}}
	err = c.copy(ctx, im)
	if err == nil {
		err = db.Sync()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		err = errors.Join(err, os.Remove(path+newSuffix))
		if ctx.Err() != nil {
			return Salvaged{}, errdefs.As(err)
		}
		return Salvaged{}, stalled(err)
	}
	// A link, and not a rename: a file that is missing for an instant would be taken for a new store after a crash.
	if err := os.Link(path, c.out.SetAside); err != nil {
		return Salvaged{}, stalled(err)
	}
	return c.out, replace(path+newSuffix, path)
}

// copier fills a new file.
type copier struct {
	db   *bbolt.DB
	out  Salvaged
	tx   *bbolt.Tx
	open int    // entries written in tx
	last uint64 // highest position seen
	err  error  // of the new file: it ends the work

	sweeping bool                // what comes now is from loose pages
	loose    map[string]struct{} // keys that only loose pages had
}

func (c *copier) copy(ctx context.Context, im *image) error {
	w := newWalk(im, func(error) { c.out.Problems++ })
	if len(im.metas) > 0 {
		c.reachable(ctx, w, im.metas[0])
	}
	if len(im.metas) == 0 || c.out.Problems > 0 {
		c.sweeping, c.loose = true, make(map[string]struct{})
		c.exclude(w)
		w.problem = func(error) {} // any bytes may lie there
		w.loose(ctx, func(e element) {
			tree := treeRecords
			if isLogKey(e.key) {
				tree = treeLogs
			}
			c.take(tree, e)
		})
	}
	c.flush(true)
	if c.err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return c.err
}

// reachable copies what the trees lead to.
func (c *copier) reachable(ctx context.Context, w *walk, m meta) {
	trees := w.trees(ctx, m)
	if err := complete(trees); err != nil {
		w.problem(err)
	}
	for _, t := range trees {
		if t.sequence <= maxPos {
			c.last = max(c.last, t.sequence)
		}
		switch t.name {
		case treeRecords, treeLogs:
			w.tree(ctx, t, func(e element) { c.take(t.name, e) })
		case treeQuarantine:
			w.tree(ctx, t, func(e element) {
				c.out.Quarantined++
				c.put(treeQuarantine, e.key, e.value)
			})
		}
	}
}

// exclude marks the free pages, when the freelist can be read, so that nothing is taken from them.
func (c *copier) exclude(w *walk) {
	if len(w.im.metas) == 0 {
		return
	}
	ids, err := w.im.free(w.im.metas[0])
	if err != nil {
		c.out.Problems++
		return
	}
	for _, id := range ids {
		w.reached[id] = true
	}
}

// take copies a record or an entry as it is. A corrupt one goes to quarantine, but not from a loose page, where any
// bytes may lie.
func (c *copier) take(tree string, e element) {
	it, v := decode(tree, e.key, e.value)
	switch {
	case v == valid:
		c.last = max(c.last, uint64(it.pos))
		if c.wanted(tree, it) {
			c.put(tree, e.key, e.value)
		}
	case c.sweeping:
	case v == quarantined:
		c.mark(e.key)
	default:
		c.out.Problems++
		c.isolate(tree, e)
	}
}

// isolate puts a corrupt value into quarantine. A key that is damaged too may be one that cannot be used.
func (c *copier) isolate(tree string, e element) {
	at := append([]byte(tree+"\x00"), e.key...)
	at = binary.BigEndian.AppendUint64(append(at, 0), uint64(time.Now().UnixNano()))
	if len(e.key) == 0 || len(at) > bbolt.MaxKeySize {
		return
	}
	c.out.Quarantined++
	c.put(treeQuarantine, at, e.value[:min(len(e.value), maxKept)])
	if tree == treeRecords {
		c.mark(e.key)
	}
}

// mark lets a record read as quarantined, unless there is one: a damaged key may be that of another.
func (c *copier) mark(key []byte) {
	if tx := c.begin(); tx != nil && tx.Bucket([]byte(treeRecords)).Get(key) == nil {
		c.put(treeRecords, key, []byte(quarantinedMark))
	}
}

// wanted tells whether an item is to be copied. Damage can lead to a stale page, so that of several versions the newest
// counts; but one from a loose page never replaces what the trees have led to.
func (c *copier) wanted(tree string, it item) bool {
	tx := c.begin()
	if tx == nil {
		return false
	}
	raw := tx.Bucket([]byte(tree)).Get(it.key)
	_, loose := c.loose[string(it.key)]
	if raw != nil && c.sweeping && !loose {
		return false
	}
	have, v := decode(tree, it.key, raw)
	if v == valid && have.pos >= it.pos {
		return false
	}
	if v != valid {
		c.count(tree)
	}
	if c.sweeping {
		c.loose[string(it.key)] = struct{}{}
	}
	return true
}

func (c *copier) count(tree string) {
	if tree == treeRecords {
		c.out.Records++
	} else {
		c.out.Entries++
	}
	if c.sweeping {
		c.out.Loose++
	}
}

func (c *copier) begin() *bbolt.Tx {
	if c.tx == nil && c.err == nil {
		c.tx, c.err = c.db.Begin(true)
	}
	return c.tx
}

func (c *copier) put(tree string, key, value []byte) {
	tx := c.begin()
	if tx == nil || c.err != nil {
		return
	}
	if c.err = tx.Bucket([]byte(tree)).Put(bytes.Clone(key), bytes.Clone(value)); c.err != nil {
		return
	}
	if c.open++; c.open >= salvageBatch {
		c.flush(false)
	}
}

// flush commits what was written.
func (c *copier) flush(end bool) {
	tx := c.begin()
	if tx == nil {
		return
	}
	if c.err != nil {
		_ = tx.Rollback() // the first error counts
		c.tx = nil
		return
	}
	if end {
		c.err = tx.Bucket([]byte(treeRecords)).SetSequence(c.last + positionGap)
	}
	c.err = errors.Join(c.err, tx.Commit())
	c.tx, c.open = nil, 0
}
