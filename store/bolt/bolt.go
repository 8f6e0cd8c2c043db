// Package bolt is the home of the state on one machine: a store.Store in a bbolt file.
//
// The file, with 0 for a zero byte, all numbers big endian:
//
//	meta        "format"                          crc32c, version of this layout (8 bytes)
//	records     PARTITION 0 NAME                  crc32c, revision (8 bytes), value; or one zero byte
//	logs        PARTITION 0 NAME 0 pos (8 bytes)  crc32c, value
//	quarantine  records|logs 0 KEY 0 time (8)     the bytes as they were found; time is Unix nanoseconds
//
// The checksum covers bucket, key and what follows it, so that a value that lands elsewhere is noticed. A record
// that is one zero byte was quarantined: it reads as corrupt until it is written or deleted. The sequence of the bucket
// records is the last position that was given; it serves all partitions, for positions need only increase.
//
// Writes are committed in groups: one goroutine takes whatever waits, writes it in one transaction and answers all.
// Nothing is delayed to make groups larger; they grow by themselves while the disk is busy. A transaction can be read
// an instant before it is synced, so a loss of power, but no kill, can take back what was read unacknowledged.
//
// A sync that fails proves nothing about later ones: the kernel may drop what it could not write and go on showing it.
// What bbolt wrote in a transaction that failed is referred to by its meta page alone. So when that page can be seen
// afterwards the metas are written once more before anything is built on them (docs/adr/0008).
//
// bbolt trusts its file and panics or faults on a damaged page. Readers and the committer recover, and a store that met
// such a page takes no more writes until it is opened again, after Check and Salvage. (What they cannot recover from is
// a branch page that leads back to itself: bbolt recurses until the stack ends the process.) Open, Probe, Check and
// Salvage read the pages by themselves, without trust, before bbolt sees them.
package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// formatVersion is the layout that this package writes. A change of the layout raises it.
const formatVersion = 1

// The top-level buckets.
const (
	treeMeta       = "meta"
	treeRecords    = "records"
	treeLogs       = "logs"
	treeQuarantine = "quarantine"
	formatKey      = "format"
)

// mapSize is the address space that is mapped from the start; remapping waits for all readers.
const mapSize = 64 << 20

// lockPatience is the wait for bbolt's own lock: the state directory's lock is held by then, so that the only other
// holder is a dead daemon's child that has not come to exec yet, or whoever checks the file.
const lockPatience = time.Second

// Options say where a store lies.
type Options struct {
	Path string       // the file; made when it is missing
	Log  *slog.Logger // told of quarantined values and of damage; nil is silent
}

var _ store.Store = (*Store)(nil)

// Store is a store.Store in one file. See the package comment.
type Store struct {
	db       *bbolt.DB
	path     string
	log      *slog.Logger
	requests chan *request // unbuffered: a batch is handed over when the committer takes it
	closing  chan struct{}
	stopped  chan struct{} // closed when the committer has ended
	close    func() error
	chores   chores
	unsure   bool // the committer's: the last sync failed and what it was for can be seen

	quarantined atomic.Int64
	damage      atomic.Pointer[errdefs.Error]
	locked      atomic.Bool // a panic left a lock of bbolt behind: it must not be called any more
}

// Open opens the store, or makes it when the file is missing. A damaged file, an empty one too, is DataLoss (see Salvage),
// one of a later agentd FailedPrecondition/SchemaTooNew, one that is in use FailedPrecondition/AlreadyRunning. It reads
// the metas, the freelist and the top pages; ctx is looked at before, not during that.
func Open(ctx context.Context, o Options) (*Store, error) {
	if ctx.Err() != nil {
		return nil, errdefs.As(ctx.Err())
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := createMissing(o.Path); err != nil {
		return nil, err
	}
	if err := Probe(ctx, o.Path); err != nil {
		return nil, err
	}
	db, err := openFile(o.Path, false)
	if err != nil {
		return nil, err
	}
	s := &Store{
		db: db, path: o.Path, log: o.Log, requests: make(chan *request), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.close = sync.OnceValue(s.shut)
	s.chores.wake = make(chan struct{}, 1)
	if err := s.countQuarantine(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// The committer is part of an open store as the pages of bbolt are: it has no life of its own that a caller
	// could order or budget, ends in Close, and a store without it would block its first Commit for ever.
	go s.run()
	return s, nil
}

// countQuarantine counts what earlier runs have moved to quarantine.
func (s *Store) countQuarantine() error {
	return s.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte(treeQuarantine)).Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			s.quarantined.Add(1)
		}
		return nil
	})
}

// createMissing makes the file under another name first: a file that is there was a whole one, so that an empty one has
// lost what it held.
func createMissing(path string) error {
	switch _, err := os.Stat(path); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return stalled(err)
	}
	fresh, err := createFile(path)
	if err != nil {
		return err
	}
	if err := fresh.Close(); err != nil {
		return stalled(err)
	}
	return replace(path+newSuffix, path)
}

// newSuffix marks a file that is being made and will be renamed when it is whole.
const newSuffix = ".new"

// createFile makes an empty store beside path, with newSuffix. A left-over of an attempt that died is replaced.
func createFile(path string) (*bbolt.DB, error) {
	if err := os.Remove(path + newSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, stalled(err)
	}
	db, err := openFile(path+newSuffix, false)
	if err != nil {
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, tree := range []string{treeRecords, treeLogs, treeQuarantine} {
			if _, err := tx.CreateBucket([]byte(tree)); err != nil {
				return err
			}
		}
		meta, err := tx.CreateBucket([]byte(treeMeta))
		if err != nil {
			return err
		}
		version := binary.BigEndian.AppendUint64(nil, formatVersion)
		return meta.Put([]byte(formatKey), encodeEntry(treeMeta, []byte(formatKey), version))
	})
	if err != nil {
		return nil, errors.Join(stalled(err), db.Close())
	}
	return db, nil
}

// replace renames a file and makes that durable.
func replace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return stalled(err)
	}
	dir, err := os.Open(filepath.Dir(to))
	if err != nil {
		return stalled(err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return stalled(err)
	}
	return nil
}

// openFile opens the file by bbolt, never waiting for its lock.
func openFile(path string, readOnly bool) (db *bbolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = dataLoss(path, panicked(r), "the store %s is damaged", path)
		}
	}()
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		ReadOnly:        readOnly,
		Timeout:         lockPatience,
		FreelistType:    bbolt.FreelistMapType,
		InitialMmapSize: mapSize,
		NoStatistics:    true,
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bbolterrors.ErrTimeout):
		return nil, inUse(path)
	case isDamage(err):
		return nil, dataLoss(path, err, "the store %s is damaged", path)
	}
	return nil, stalled(err)
}

func isDamage(err error) bool {
	return errors.Is(err, bbolterrors.ErrInvalid) || errors.Is(err, bbolterrors.ErrVersionMismatch) ||
		errors.Is(err, bbolterrors.ErrChecksum)
}

// Size is the number of bytes of the file that are in use, free pages within them included. 0 when it cannot be told.
func (s *Store) Size() int64 {
	var size int64
	err := s.view(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return nil
	})
	if err != nil {
		return 0
	}
	return size
}

// Quarantined is the number of values in quarantine, those of earlier runs included.
func (s *Store) Quarantined() int64 { return s.quarantined.Load() }

// Damaged is the damage of the file's structure that was met since Open, nil when there was none. A damaged store
// refuses writes and answers what it can still read; Check and Salvage are for it, once it is closed.
func (s *Store) Damaged() error {
	if err := s.damage.Load(); err != nil {
		return err
	}
	return nil
}

// Close waits for the batches that the committer has taken and closes the file.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	close(s.closing)
	<-s.stopped
	if s.locked.Load() {
		return s.Damaged()
	}
	if err := s.db.Close(); err != nil {
		return stalled(err)
	}
	return nil
}

// clone copies bytes that bbolt lends for the length of a transaction.
func clone(b []byte) []byte { return bytes.Clone(b) }
