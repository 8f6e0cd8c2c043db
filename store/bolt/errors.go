package bolt

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

var errClosed = errors.New("the store is closed")

// stalled is the answer when nothing was applied because the disk, or the damage of the file, forbids it.
func stalled(cause error) *errdefs.Error {
	return errdefs.Wrap(cause, errdefs.Unavailable, errdefs.StoreStalled, "", "the store cannot read or write its file")
}

func unknown(cause error) *errdefs.Error {
	return errdefs.Wrap(cause, errdefs.Unavailable, errdefs.OutcomeUnknown, "",
		"the commit failed when it may already have landed")
}

func dataLoss(subject string, cause error, format string, args ...any) *errdefs.Error {
	return errdefs.Wrap(cause, errdefs.DataLoss, errdefs.RecordCorrupt, subject, format, args...)
}

func inUse(path string) *errdefs.Error {
	return errdefs.New(errdefs.FailedPrecondition, errdefs.AlreadyRunning, path, "the store %s is in use", path)
}

// panicked is a recovered panic as an error.
func panicked(r any) error { return fmt.Errorf("bbolt panicked: %v", r) }

// begin starts a transaction. A panic in there leaves locks of bbolt behind, so that it must not be called again.
func (s *Store) begin(writable bool) (tx *bbolt.Tx, err error) {
	if s.locked.Load() {
		return nil, stalled(s.Damaged())
	}
	defer func() {
		if r := recover(); r != nil {
			s.locked.Store(true)
			err = s.damaged(r)
		}
	}()
	tx, err = s.db.Begin(writable)
	if err != nil {
		return nil, stalled(err)
	}
	return tx, nil
}

// damaged notes a panic of bbolt: the structure of the file is damaged.
func (s *Store) damaged(r any) error {
	err := dataLoss(s.path, panicked(r),
		"the store %s is damaged; restart the daemon: it sets the file aside and goes on with what can be read", s.path)
	if s.damage.CompareAndSwap(nil, err) {
		s.log.Error("the store is damaged and takes no more writes", "path", s.path, "err", err)
	}
	return err
}

// rollback ends a transaction whose pages may be damaged.
func (s *Store) rollback(tx *bbolt.Tx) {
	defer func() {
		if r := recover(); r != nil {
			s.locked.Store(true)
			_ = s.damaged(r) // noted there
		}
	}()
	_ = tx.Rollback() // ErrTxClosed, when Commit got so far
}
