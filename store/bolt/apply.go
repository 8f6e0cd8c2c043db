package bolt

import (
	"errors"

	"go.etcd.io/bbolt"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// txn is a write transaction.
type txn struct {
	records, logs, quarantine *bbolt.Bucket

	pos   store.Pos // the last that was given
	dirty bool      // there is something to commit
	err   error     // bbolt refused a write: the whole transaction is void
}

func newTxn(tx *bbolt.Tx) *txn {
	t := &txn{
		records:    tx.Bucket([]byte(treeRecords)),
		logs:       tx.Bucket([]byte(treeLogs)),
		quarantine: tx.Bucket([]byte(treeQuarantine)),
	}
	t.pos = store.Pos(t.records.Sequence())
	return t
}

// apply applies b to the state that the batches before it have left, or refuses it and changes nothing.
func (t *txn) apply(b store.Batch) (store.Committed, error) {
	if b.Fence != (store.Guard{}) && t.revision(b.Part, b.Fence.Key) != b.Fence.Rev {
		return store.Committed{}, errdefs.New(errdefs.FailedPrecondition, errdefs.Fenced, string(b.Part),
			"the partition %s has another owner by now", b.Part)
	}
	for _, g := range b.Guards {
		if t.revision(b.Part, g.Key) != g.Rev {
			return store.Committed{}, errdefs.New(errdefs.Aborted, errdefs.Conflict, g.Key,
				"the record %s was changed in between", g.Key)
		}
	}
	sums, err := t.sums(b)
	if err != nil {
		return store.Committed{}, err
	}
	c := store.Committed{Pos: make([]store.Pos, len(b.Ops))}
	for i, op := range b.Ops {
		t.pos++
		c.Pos[i] = t.pos
		t.write(b.Part, op, sums[i])
	}
	t.dirty = true
	return c, nil
}

// revision is that of a record: 0 when there is none, store.Damaged when it is corrupt.
func (t *txn) revision(p store.Partition, name string) store.Pos {
	key := recordKey(p, name)
	raw := t.records.Get(key)
	if raw == nil {
		return 0
	}
	it, v := decode(treeRecords, key, raw)
	if v != valid {
		return store.Damaged
	}
	return it.pos
}

// sums computes what the Adds of a batch put, by the index of the operation. A corrupt record counts as zero: what it
// counted is in quarantine and reported, and the work that is counted goes on.
func (t *txn) sums(b store.Batch) (map[int][]byte, error) {
	var sums map[int][]byte
	for i, op := range b.Ops {
		if op.Kind != store.Add {
			continue
		}
		key := recordKey(b.Part, op.Name)
		it, _ := decode(treeRecords, key, t.records.Get(key))
		sum, err := store.AddVectors(it.value, op.Value)
		if err != nil {
			return nil, errdefs.Wrap(err, errdefs.InvalidArgument, errdefs.BadArgument, op.Name,
				"the record %s holds no vector to add to", op.Name)
		}
		if sums == nil {
			sums = make(map[int][]byte)
		}
		sums[i] = sum
	}
	return sums, nil
}

// write writes one operation, whose position is t.pos; sum is the value of an Add.
func (t *txn) write(p store.Partition, op store.Op, sum []byte) {
	switch op.Kind {
	case store.Append:
		key := logKey(p, op.Name, t.pos)
		t.check(t.logs.Put(key, encodeEntry(treeLogs, key, op.Value)))
	case store.Put:
		t.put(recordKey(p, op.Name), op.Value)
	case store.Add:
		t.put(recordKey(p, op.Name), sum)
	case store.Delete:
		t.check(t.records.Delete(recordKey(p, op.Name)))
	}
}

func (t *txn) put(key, value []byte) { t.check(t.records.Put(key, encodeRecord(key, t.pos, value))) }

func (t *txn) check(err error) { t.err = errors.Join(t.err, err) }

// finish makes the transaction ready to be committed.
func (t *txn) finish() error {
	t.check(t.records.SetSequence(uint64(t.pos)))
	return t.err
}
