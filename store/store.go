// Package store is the one interface that everything durable passes: logs and records of bytes, grouped in
// partitions. It knows nothing of agents. A second home of the state must be able to honour it, so it is small:
// no closures, no transactions, no time, no snapshot.
//
// What an implementation promises (storetest proves it):
//
//   - A Commit that returns nil is on disk, whole. Errors with reason Fenced, Conflict, TooLarge, BadArgument and
//     StoreStalled mean that nothing of the batch was applied. OutcomeUnknown means that it may still land: load
//     again and go on.
//   - Positions increase within a partition, over its logs and records together. Compare them; never count on the
//     next one.
//   - The owner of a partition sees its own acknowledged writes. Reads give no common snapshot.
//   - A value whose checksum is wrong is quarantined and reported, and never returned: Get answers RecordCorrupt,
//     Read, Last and Scan leave it out.
package store

import (
	"context"
	"iter"
	"math"
)

// Pos is a place in a partition's one increasing sequence. 0 is before everything, or none.
type Pos uint64

// Partition is the unit of atomicity, order and ownership: a team's immutable id (t-N), or "daemon".
type Partition string

// OpKind tells what an operation does.
type OpKind uint8

// The kinds of operation.
const (
	Append OpKind = iota + 1 // adds an entry to the log Name
	Put                      // writes the record Name
	Delete                   // removes the record Name; it may be missing
	Add                      // adds a vector to the record Name, made by EncodeVector; a missing record is zero
)

// Limits of a batch.
const (
	MaxOps       = 200       // operations a batch
	MaxGuards    = 64        // guards a batch
	MaxValue     = 512 << 10 // bytes a value
	MaxBatch     = 4 << 20   // bytes of all values of a batch
	MaxNameBytes = 256       // bytes a name: segments of [A-Za-z0-9_-]+ joined by '/'
)

// Op is one operation. A record stands at most once in a batch; a log may be appended to repeatedly.
type Op struct {
	Kind  OpKind
	Name  string
	Value []byte
}

// Damaged is the revision of a record whose checksum is wrong. A guard with it holds while the record is neither written anew
// nor deleted.
const Damaged Pos = math.MaxUint64

// Guard is a condition of a batch: the record's revision before it. Rev 0 means that the record must not exist.
type Guard struct {
	Key string
	Rev Pos
}

// Batch is applied as a whole or not at all.
type Batch struct {
	Part   Partition
	Fence  Guard // the partition's owner record; the zero Guard is no fence. A failed fence answers Fenced
	Guards []Guard
	Ops    []Op
}

// Committed tells where the operations of a batch landed, one Pos for each in the order of Ops.
type Committed struct{ Pos []Pos }

// Entry is one entry of a log.
type Entry struct {
	Pos   Pos
	Value []byte
}

// Record is one record. Rev is the position of its last write.
type Record struct {
	Key   string
	Rev   Pos
	Value []byte
}

// Store keeps logs and records. All methods are safe for concurrent use.
type Store interface {
	// Commit applies b. Nil means durable.
	Commit(ctx context.Context, b Batch) (Committed, error)
	// Read yields the entries of a log after a position, in order. It ends at the first error it yields.
	Read(ctx context.Context, p Partition, log string, after Pos) iter.Seq2[Entry, error]
	// Get answers RecordNotFound when there is no such record, RecordCorrupt when its checksum is wrong.
	Get(ctx context.Context, p Partition, key string) (Record, error)
	// Last gives the last n entries of a log, oldest first, at a cost bounded by n.
	Last(ctx context.Context, p Partition, log string, n int) ([]Entry, error)
	// Scan yields the records whose key starts with the segments of prefix. The empty prefix yields all.
	Scan(ctx context.Context, p Partition, prefix string) iter.Seq2[Record, error]
	// Trim drops a log's entries up to and including a position: soon, not at once, never in a batch.
	Trim(ctx context.Context, p Partition, log string, upTo Pos) error
	// Close waits for what was given to Commit and closes. Later calls answer StoreStalled.
	Close() error
}
