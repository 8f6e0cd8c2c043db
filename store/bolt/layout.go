package bolt

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/agentd-dev/agentd/store"
)

const (
	sumSize = 4
	posSize = 8
	// maxPos is beyond what any store reaches: a higher sequence is damage.
	maxPos = 1 << 62
	// quarantinedMark stands in the place of a record that was quarantined.
	quarantinedMark = "\x00"
)

// validity is what the bytes of a value are worth.
type validity uint8

const (
	valid       validity = iota
	corrupt              // the checksum is wrong
	quarantined          // a record that was corrupt and has been moved
)

// item is one value with its place: an entry of a log or a record.
type item struct {
	key   []byte
	pos   store.Pos
	value []byte
}

func partPrefix(p store.Partition) []byte { return append([]byte(p), 0) }

func recordKey(p store.Partition, name string) []byte { return append(partPrefix(p), name...) }

func logPrefix(p store.Partition, log string) []byte { return append(recordKey(p, log), 0) }

func logKey(p store.Partition, log string, pos store.Pos) []byte {
	return binary.BigEndian.AppendUint64(logPrefix(p, log), uint64(pos))
}

// checksum covers a tree by its first letter, a key, its length, and what is stored under it.
func checksum(tree string, key, body []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	seed := uint32(len(key))<<8 | uint32(tree[0])
	return crc32.Update(crc32.Update(seed, table, key), table, body)
}

// seal puts the checksum into the first bytes of raw, which are free for it.
func seal(tree string, key, raw []byte) []byte {
	binary.BigEndian.PutUint32(raw, checksum(tree, key, raw[sumSize:]))
	return raw
}

func encodeRecord(key []byte, rev store.Pos, value []byte) []byte {
	raw := make([]byte, sumSize, sumSize+posSize+len(value))
	raw = binary.BigEndian.AppendUint64(raw, uint64(rev))
	return seal(treeRecords, key, append(raw, value...))
}

func encodeEntry(tree string, key, value []byte) []byte {
	raw := make([]byte, sumSize, sumSize+len(value))
	return seal(tree, key, append(raw, value...))
}

// decode checks what lies under a key of tree. The value of the item still belongs to bbolt.
func decode(tree string, key, raw []byte) (item, validity) {
	if tree == treeRecords && string(raw) == quarantinedMark {
		return item{}, quarantined
	}
	head := sumSize
	if tree == treeRecords {
		head += posSize
	}
	// The length comes first: a damaged one may be gigabytes.
	if len(raw) < head || len(raw) > head+store.MaxValue || len(key) < posSize && tree == treeLogs {
		return item{}, corrupt
	}
	if binary.BigEndian.Uint32(raw) != checksum(tree, key, raw[sumSize:]) {
		return item{}, corrupt
	}
	it := item{key: key, value: raw[head:]}
	switch tree {
	case treeRecords:
		it.pos = store.Pos(binary.BigEndian.Uint64(raw[sumSize:]))
	case treeLogs:
		it.pos = store.Pos(binary.BigEndian.Uint64(key[len(key)-posSize:]))
	}
	return it, valid
}
