package journal

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// Keys, as the package comment draws them.
func taskKey(id task.ID) string          { return "task/" + string(id) }
func liveKey(id task.ID) string          { return "live/" + string(id) }
func specKey(id task.ID) string          { return "spec/" + string(id) }
func childKey(parent, id task.ID) string { return "child/" + string(parent) + "/" + string(id) }
func idleKey(id task.ID) string          { return "idle/" + string(id) }
func memberKey(name string) string       { return "member/" + strings.ToLower(name) }
func controlKey(id task.ID) string       { return "control/" + string(id) }
func outboxKey(id string) string         { return "outbox/" + id }
func usageKey(id task.ID) string         { return "usage/" + string(id) }
func resultKey(id task.ID) string        { return "result/" + string(id) }
func entryLog(id string) string          { return "entry/" + id }
func mailLog(id task.ID) string          { return "mail/" + string(id) }
func inboxKey(id task.ID) string         { return "inbox/" + string(id) }
func mailboxKey(id task.ID) string       { return "mailbox/" + string(id) }

func processKey(id task.ID, callID string) string { return "process/" + string(id) + "/" + callID }

func itemKey(group task.ID, n int) string { return "item/" + string(group) + "/" + strconv.Itoa(n) }

func pieceKey(id task.ID, callID string, n int) string {
	return "output/" + string(id) + "/" + callID + "/" + strconv.Itoa(n)
}

// Hash is how a foreign string enters a key: 32 hex digits of its SHA-256.
func Hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// isSegment tells whether a foreign string can be one segment of a key: if it can't, there is nothing under it.
func isSegment(s string) bool {
	return len(s) <= maxSegment && store.ValidateName(s) == nil && !strings.Contains(s, "/")
}

// maxSegment bounds such a string, in bytes: with all that stands around it, it is within the bound of a key.
const maxSegment = 64

// workKey is the record whose revision tells whether the teammates of a team are at work as before.
const workKey = "work"

func sentKey(message string, recipient task.ID) string {
	return "sent/" + message + "/" + string(recipient)
}

// migration brings the schema from version From to From+1. It must be safe to run again after a crash.
type migration struct {
	From uint32
	Run  func(ctx context.Context, j *Journal) error
}

// migrations is the table, one row for each step, oldest first. Version 1 is the first schema.
func migrations() []migration { return nil }

// newest is the version that a table leads to.
func newest(table []migration) uint32 { return 1 + uint32(len(table)) }

func tooNew(found, known uint32) error {
	return errdefs.New(errdefs.FailedPrecondition, errdefs.SchemaTooNew, "daemon",
		"the store has schema %d, this agentd knows up to %d: start the newer agentd, or restore a backup", found, known)
}

// migrate brings an older schema up to date, step by step, each recorded as it is done.
func (j *Journal) migrate(ctx context.Context, table []migration) error {
	for _, m := range table {
		if j.daemon.GetSchema() != m.From {
			continue
		}
		if err := m.Run(ctx, j); err != nil {
			return err
		}
		j.daemon.Schema++
		if err := j.putDaemon(ctx); err != nil {
			return err
		}
	}
	return nil
}
