package journal

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// blockSize is the number of ids that a team reserves at once, so that an id leads to its partition.
const blockSize = 1000

// idRange is ids from next up to, not including, end.
type idRange struct{ next, end uint64 }

// NextID gives a number that no task, message or team's id in this store has had or will have (N3).
func (j *Journal) NextID(ctx context.Context, team string) (uint64, error) {
	for {
		if n, ok := j.takeID(team); ok {
			return n, nil
		}
		if err := j.reserveIDs(ctx, team); err != nil {
			return 0, err
		}
	}
}

func (j *Journal) takeID(team string) (uint64, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.ids[team]
	if r.next == r.end {
		return 0, false
	}
	j.ids[team] = idRange{r.next + 1, r.end}
	return r.next, true
}

// reserveIDs takes the next free block for the team, unless somebody did while this caller waited. A block that is not
// used up is lost at the next start: gaps are fine.
func (j *Journal) reserveIDs(ctx context.Context, team string) error {
	unlock, err := j.lockIDs(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if j.hasIDs(team) {
		return nil
	}
	var block uint64
	err = j.changeIDs(ctx, func(row *storev1.IDsRow) ([]store.Op, []store.Guard, error) {
		block = row.GetNextBlock()
		row.NextBlock++
		value, err := proto.Marshal(&storev1.BlockRow{TeamId: team})
		return []store.Op{{Kind: store.Put, Name: blockKey(block), Value: value}}, nil, err
	})
	if err != nil {
		return err
	}
	first := max(block*blockSize, 1) // ids start at 1
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owners[block] = team
	j.ids[team] = idRange{first, (block + 1) * blockSize}
	return nil
}

// lockIDs waits until nobody of this daemon changes the record `ids`: a crowd would only make each other fail.
func (j *Journal) lockIDs(ctx context.Context) (unlock func(), err error) {
	select {
	case j.idsTurn <- struct{}{}:
		return func() { <-j.idsTurn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (j *Journal) hasIDs(team string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ids[team].next < j.ids[team].end
}

// changeIDs changes the record `ids` and writes what goes with it. The caller holds its lock. Conflict when a guard of
// the change does not hold, or another daemon changes the record too.
func (j *Journal) changeIDs(
	ctx context.Context, change func(*storev1.IDsRow) ([]store.Op, []store.Guard, error),
) error {
	row, guard, err := j.readIDs(ctx)
	if err != nil {
		return err
	}
	ops, guards, err := change(row)
	if err != nil {
		return err
	}
	value, err := proto.Marshal(row)
	if err != nil {
		return errdefs.Wrap(err, errdefs.Internal, errdefs.Fault, "ids", "the row of ids can't be encoded")
	}
	_, err = j.st.Commit(ctx, store.Batch{
		Part:   daemonPart,
		Guards: append(guards, guard...),
		Ops:    append(ops, store.Op{Kind: store.Put, Name: "ids", Value: value}),
	})
	return err
}

// readIDs reads the record `ids` and what guards its next write. A damaged or lost one is made anew.
func (j *Journal) readIDs(ctx context.Context) (*storev1.IDsRow, []store.Guard, error) {
	row := &storev1.IDsRow{}
	rev, err := j.get(ctx, daemonPart, "ids", row)
	guard := []store.Guard{{Key: "ids", Rev: rev}}
	if err == nil || !isGone(err) {
		return row, guard, err
	}
	if errdefs.Is(err, errdefs.RecordCorrupt) {
		guard = []store.Guard{{Key: "ids", Rev: store.Damaged}}
		j.log.Error("the record of ids is damaged and is made anew", "error", err)
	}
	row, err = j.recount(ctx)
	return row, guard, err
}

func blockKey(block uint64) string { return fmt.Sprintf("block/%d", block) }

// TeamOf gives the team that a task's id belongs to; TaskNotFound when there can be no such task.
func (j *Journal) TeamOf(ctx context.Context, id task.ID) (string, error) {
	_, n, ok := task.ParseID(id)
	if !ok {
		return "", taskNotFound(id)
	}
	team, err := j.ownerOf(ctx, n)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		err = taskNotFound(id)
	}
	return team, err
}

// ownerOf gives the team that a number was given to; RecordNotFound when it was given to none.
func (j *Journal) ownerOf(ctx context.Context, n uint64) (string, error) {
	block := n / blockSize
	j.mu.Lock()
	team, ok := j.owners[block]
	j.mu.Unlock()
	if ok {
		return team, nil
	}
	row := &storev1.BlockRow{}
	if _, err := j.get(ctx, daemonPart, blockKey(block), row); err != nil {
		return "", err
	}
	j.mu.Lock()
	j.owners[block] = row.GetTeamId()
	j.mu.Unlock()
	return row.GetTeamId(), nil
}

// TeamOfMessage gives the team that a message's id, m-N, belongs to; RecordNotFound when there can be no such message.
func (j *Journal) TeamOfMessage(ctx context.Context, messageID string) (string, error) {
	digits, isID := strings.CutPrefix(messageID, messagePrefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	if !isID || err != nil {
		return "", errdefs.New(errdefs.NotFound, errdefs.RecordNotFound, messageID, "there is no message %q", messageID)
	}
	return j.ownerOf(ctx, n)
}

// IsMessageID tells whether a string can be the id of a message.
func IsMessageID(s string) bool {
	digits, isID := strings.CutPrefix(s, messagePrefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return isID && err == nil && s == messagePrefix+strconv.FormatUint(n, 10)
}

// NextMessageID gives a message its id.
func (j *Journal) NextMessageID(ctx context.Context, team string) (string, error) {
	n, err := j.NextID(ctx, team)
	return messagePrefix + strconv.FormatUint(n, 10), err
}

// messagePrefix begins the ids of messages.
const messagePrefix = "m-"

func taskNotFound(id task.ID) error {
	return errdefs.New(errdefs.NotFound, errdefs.TaskNotFound, string(id),
		"there is no task %q; `agentctl ps --all` lists them", string(id))
}
