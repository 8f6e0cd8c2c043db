package bolt

import (
	"context"
	"errors"
	"os"
	goruntime "runtime"
	"runtime/debug"

	"go.etcd.io/bbolt"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// Bounds of a group. A transaction is held in memory and its pages are written at once.
const (
	maxGroup      = 512     // batches
	maxGroupBytes = 8 << 20 // bytes of values; the last batch may exceed it
)

// request is a batch on its way; answer takes exactly one answer.
type request struct {
	batch  store.Batch
	answer chan answer
}

type answer struct {
	committed store.Committed
	err       error
}

// Commit applies b. ctx counts until the committer takes the batch; from then on Commit waits for the true answer.
func (s *Store) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	if err := b.Validate(); err != nil {
		return store.Committed{}, err
	}
	if ctx.Err() != nil {
		return store.Committed{}, errdefs.As(ctx.Err())
	}
	r := &request{batch: b, answer: make(chan answer, 1)}
	select {
	case s.requests <- r:
	case <-ctx.Done():
		return store.Committed{}, errdefs.As(ctx.Err())
	case <-s.closing:
		return store.Committed{}, stalled(errClosed)
	}
	a := <-r.answer
	return a.committed, a.err
}

// run is the committer. It ends when the store closes.
func (s *Store) run() {
	defer close(s.stopped)
	debug.SetPanicOnFault(true)
	for {
		var group []*request
		select {
		case r := <-s.requests:
			group = s.gather(r)
		case <-s.chores.wake:
		case <-s.closing:
			return
		}
		s.write(group)
	}
}

// gather takes whatever else waits by now.
func (s *Store) gather(first *request) []*request {
	// Those whom the last group answered are about to come back: let them, or groups would be full and nearly empty
	// by turns. This waits for no time and for nobody who is not ready to run.
	goruntime.Gosched()
	group, size := []*request{first}, first.batch.Size()
	for len(group) < maxGroup && size < maxGroupBytes {
		select {
		case r := <-s.requests:
			group, size = append(group, r), size+r.batch.Size()
		default:
			return group
		}
	}
	return group
}

// write commits a group and the chores, and answers all.
func (s *Store) write(group []*request) {
	answers, err := s.transact(group)
	for i, r := range group {
		if err != nil {
			// A refusal is void too: it may have been due to an earlier batch of the group that has not landed.
			r.answer <- answer{err: err}
			continue
		}
		r.answer <- answers[i]
	}
}

// transact writes a group in one transaction. An error is the answer to all: StoreStalled when nothing landed,
// OutcomeUnknown when that is not certain.
func (s *Store) transact(group []*request) (answers []answer, err error) {
	if s.damage.Load() != nil {
		return nil, stalled(s.Damaged())
	}
	if s.unsure {
		if err := rewriteMetas(s.path, s.db.Info().PageSize); err != nil {
			return nil, stalled(err)
		}
		s.unsure = false
	}
	tx, err := s.begin(true)
	if err != nil {
		return nil, stalled(err)
	}
	id := tx.ID()
	defer func() {
		if r := recover(); r != nil {
			cause := s.damaged(r)
			s.rollback(tx)
			err = s.outcome(id, cause)
		}
	}()
	t := newTxn(tx)
	for _, r := range group {
		committed, err := t.apply(r.batch)
		answers = append(answers, answer{committed, err})
	}
	done := s.chores.do(t)
	if !t.dirty {
		s.rollback(tx)
		s.settle(done)
		return answers, nil
	}
	if err := t.finish(); err != nil {
		s.rollback(tx)
		return nil, stalled(err)
	}
	if err := tx.Commit(); err != nil {
		s.rollback(tx)
		s.log.Error("a commit failed", "path", s.path, "batches", len(group), "err", err)
		return nil, s.outcome(id, err)
	}
	s.settle(done)
	return answers, nil
}

// outcome tells whether a transaction that failed can be seen nevertheless: the sync after the write of its meta page
// failed. Then it lands, or is lost with the power; nothing is built on it before rewriteMetas.
func (s *Store) outcome(id int, cause error) error {
	seen := 0
	err := s.view(func(tx *bbolt.Tx) error {
		seen = tx.ID()
		return nil
	})
	if err != nil || seen >= id {
		s.unsure = true
		return unknown(cause)
	}
	return stalled(cause)
}

// rewriteMetas writes both meta pages as they are read, and syncs them. After a sync that failed the kernel may show a
// page that it will not write any more: the next sync succeeds without it, and the next transaction would overwrite pages
// that the older meta on disk still needs.
func rewriteMetas(path string, pageSize int) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	metas := make([]byte, 2*pageSize)
	if _, err := f.ReadAt(metas, 0); err != nil {
		return err
	}
	if _, err := f.WriteAt(metas, 0); err != nil {
		return err
	}
	return f.Sync()
}
