package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"sync"
	"time"

	"github.com/agentd-dev/agentd/store"
)

// Bounds of what the committer does beside the batches.
const (
	maxTrim     = 512                 // entries dropped in one transaction
	maxSuspects = 1024                // corrupt values that wait; a reader finds the others again
	maxKept     = store.MaxValue + 64 // bytes kept of a corrupt value
)

// suspect is a value that a reader found corrupt.
type suspect struct {
	tree, key string
}

// chores is the work that the committer does when it writes anyway, or has nothing else to do.
type chores struct {
	wake chan struct{} // holds one

	mu       sync.Mutex           // guards what follows
	trims    map[string]store.Pos // log prefix -> last position to drop
	suspects map[suspect]struct{}
}

// chored is what one transaction has done of the chores.
type chored struct {
	trims    map[string]store.Pos // finished ones
	suspects []suspect            // looked at
	moved    []suspect            // those of them that were corrupt
}

// Trim drops entries soon. A trim that is still waiting when the store closes is forgotten.
func (s *Store) Trim(ctx context.Context, p store.Partition, log string, upTo store.Pos) error {
	if err := s.validate(ctx, p, log); err != nil {
		return err
	}
	s.chores.trim(string(logPrefix(p, log)), upTo)
	return nil
}

func (c *chores) trim(prefix string, upTo store.Pos) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.trims == nil {
		c.trims = make(map[string]store.Pos)
	}
	c.trims[prefix] = max(c.trims[prefix], upTo)
	c.ring()
}

func (c *chores) suspect(s suspect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.suspects == nil {
		c.suspects = make(map[suspect]struct{})
	}
	if len(c.suspects) < maxSuspects {
		c.suspects[s] = struct{}{}
	}
	c.ring()
}

// ring wakes the committer.
func (c *chores) ring() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *chores) waiting() (map[string]store.Pos, map[suspect]struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.trims), maps.Clone(c.suspects)
}

// do does a bounded part of the chores in t. They stay on the list until the transaction has landed.
func (c *chores) do(t *txn) chored {
	trims, suspects := c.waiting()
	done := chored{trims: make(map[string]store.Pos)}
	budget := maxTrim
	for prefix, upTo := range trims {
		if budget -= t.trim([]byte(prefix), upTo, budget); budget > 0 {
			done.trims[prefix] = upTo
		}
	}
	for s := range suspects {
		done.suspects = append(done.suspects, s)
		if t.isolate(s) {
			done.moved = append(done.moved, s)
		}
	}
	return done
}

// settle strikes chores off the list, reports what was moved, and rings again while there are more.
func (s *Store) settle(done chored) {
	s.quarantined.Add(int64(len(done.moved)))
	for _, m := range done.moved {
		s.log.Error("a value with a wrong checksum was moved to quarantine", "tree", m.tree, "key", m.key)
	}
	c := &s.chores
	c.mu.Lock()
	defer c.mu.Unlock()
	for prefix, upTo := range done.trims {
		if c.trims[prefix] == upTo {
			delete(c.trims, prefix)
		}
	}
	for _, m := range done.suspects {
		delete(c.suspects, m)
	}
	if len(c.trims)+len(c.suspects) > 0 {
		c.ring()
	}
}

// trim drops at most budget entries, the oldest first, and tells how many.
func (t *txn) trim(prefix []byte, upTo store.Pos, budget int) int {
	var keys [][]byte // collected first, for a cursor does not survive a deletion
	c := t.logs.Cursor()
	for k, _ := c.Seek(prefix); len(keys) < budget && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if len(k) != len(prefix)+posSize {
			continue // a damaged key; store check finds it
		}
		if store.Pos(binary.BigEndian.Uint64(k[len(prefix):])) > upTo {
			break
		}
		keys = append(keys, clone(k))
	}
	for _, k := range keys {
		t.check(t.logs.Delete(k))
		t.dirty = true
	}
	return len(keys)
}

// isolate moves a value to quarantine if it is corrupt still.
func (t *txn) isolate(s suspect) bool {
	bucket, key := t.records, []byte(s.key)
	if s.tree == treeLogs {
		bucket = t.logs
	}
	raw := bucket.Get(key)
	if raw == nil {
		return false
	}
	if _, v := decode(s.tree, key, raw); v != corrupt {
		return false
	}
	at := append([]byte(s.tree+"\x00"+s.key), 0)
	at = binary.BigEndian.AppendUint64(at, uint64(time.Now().UnixNano()))
	t.check(t.quarantine.Put(at, clone(raw[:min(len(raw), maxKept)])))
	if s.tree == treeLogs {
		t.check(t.logs.Delete(key))
	} else {
		t.check(t.records.Put(key, []byte(quarantinedMark)))
	}
	t.dirty = true
	return true
}
