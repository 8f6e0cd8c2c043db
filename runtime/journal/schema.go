package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// Keys, as the package comment draws them.
func taskKey(id task.ID) string             { return "task/" + string(id) }
func liveKey(id task.ID) string             { return "live/" + string(id) }
func childKey(parent, id task.ID) string    { return "child/" + string(parent) + "/" + string(id) }
func usageKey(id task.ID) string            { return "usage/" + string(id) }
func resultKey(id task.ID) string           { return "result/" + string(id) }
func entryLog(id string) string             { return "entry/" + id }
func mailLog(id task.ID) string             { return "mail/" + string(id) }
func inboxKey(id task.ID) string            { return "inbox/" + string(id) }
func mailboxKey(id task.ID) string          { return "mailbox/" + string(id) }
func outputKey(id task.ID, c string) string { return "output/" + string(id) + "/" + c }
func processKey(id task.ID, c string) string {
	return "process/" + string(id) + "/" + c
}

// Hash is how a foreign string enters a key: 32 hex digits of its SHA-256.
func Hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// migration brings the schema from version From to From+1. It must be safe to run again after a crash.
type migration struct {
	From int
	Run  func(ctx context.Context, j *Journal) error
}

// migrations is the table, one row for each step, oldest first. Version 1 is the first schema.
func migrations() []migration { return nil }

// schemaVersion is the version that this binary writes.
func schemaVersion() int { return 1 + len(migrations()) }

// migrate brings an older schema up to date, step by step, each recorded as it is done.
func (j *Journal) migrate(ctx context.Context, row *storev1.DaemonRow, rev store.Pos) error {
	if rev != 0 && int(row.GetSchema()) > schemaVersion() {
		return errdefs.New(errdefs.FailedPrecondition, errdefs.SchemaTooNew, "daemon",
			"the store has schema %d, this agentd knows up to %d: start the newer agentd, or restore a backup",
			row.GetSchema(), schemaVersion())
	}
	for _, m := range migrations() {
		if int(row.GetSchema()) != m.From {
			continue
		}
		if err := m.Run(ctx, j); err != nil {
			return err
		}
		row.Schema++
		j.daemon = row
		if err := j.putDaemon(ctx); err != nil {
			return err
		}
	}
	return nil
}
