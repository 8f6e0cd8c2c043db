package journal

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// newStoreID is random, and short enough for a process's environment.
func newStoreID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails; see crypto/rand
	return hex.EncodeToString(b[:])
}

// readDaemon reads the daemon's row and what guards its next write. A damaged or lost one is read from its spare: a start
// without it would be fenced out of every team and know neither its schema nor its processes. When the spare is damaged
// too the store can't be started.
func (j *Journal) readDaemon(ctx context.Context) (*storev1.DaemonRow, error) {
	row := &storev1.DaemonRow{}
	rev, err := j.get(ctx, daemonPart, "daemon", row)
	j.daemonGuard = []store.Guard{{Key: "daemon", Rev: rev}}
	if err == nil || !isGone(err) {
		return row, err
	}
	if errdefs.Is(err, errdefs.RecordCorrupt) {
		j.daemonGuard = nil // no guard holds for it; the store's lock says that nobody else is here
	}
	spare := &storev1.DaemonRow{}
	switch _, spareErr := j.get(ctx, daemonPart, "spare", spare); {
	case errdefs.Is(spareErr, errdefs.RecordNotFound):
		return nil, err
	case spareErr != nil:
		return nil, spareErr
	}
	j.log.Error("the daemon's row is damaged or lost; going on from its spare", "error", err)
	return spare, nil
}

// putDaemon writes the daemon's row and its spare. Conflict when another daemon has started on the store meanwhile.
func (j *Journal) putDaemon(ctx context.Context) error {
	value, err := proto.Marshal(j.daemon)
	if err != nil {
		return errdefs.Wrap(err, errdefs.Internal, errdefs.Fault, "daemon", "the daemon's row can't be encoded")
	}
	ops := []store.Op{
		{Kind: store.Put, Name: "daemon", Value: value}, {Kind: store.Put, Name: "spare", Value: value},
	}
	ops = append(ops, dropProbe()...) // a crash may have left them
	done, err := j.st.Commit(ctx, store.Batch{Part: daemonPart, Guards: j.daemonGuard, Ops: ops})
	if err == nil {
		j.daemonGuard = []store.Guard{{Key: "daemon", Rev: done.Pos[0]}}
	}
	return err
}

// StoreID is the random id of the store; it marks the processes of its tasks.
func (j *Journal) StoreID() string { return j.daemon.GetStoreId() }

// Life is the number of this start of the daemon, from 1.
func (j *Journal) Life() uint64 { return j.daemon.GetStarts() }

// CleanStop tells whether the daemon before this one stopped in order: then no restart is counted as a crash (D6).
func (j *Journal) CleanStop() bool { return j.clean }

// MarkClean records that this daemon stops in order. Nothing is committed after it.
func (j *Journal) MarkClean(ctx context.Context) error {
	j.daemon.Clean = true
	return j.putDaemon(ctx)
}
