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

// maxTries bounds a read-change-commit that others keep overtaking.
const maxTries = 100

// idRange is ids from next up to, not including, end.
type idRange struct{ next, end uint64 }

// NextID gives a number that no task, message or team's id in this store has had or will have (N3).
func (j *Journal) NextID(ctx context.Context, team string) (uint64, error) {
	for range maxTries {
		if n, ok := j.takeID(team); ok {
			return n, nil
		}
		if err := j.reserveIDs(ctx, team); err != nil {
			return 0, err
		}
	}
	return 0, errdefs.New(errdefs.Aborted, errdefs.Conflict, team, "ids of %s are taken faster than reserved", team)
}

func (j *Journal) takeID(team string) (uint64, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	ranges := j.ids[team]
	for len(ranges) > 0 && ranges[0].next == ranges[0].end {
		ranges = ranges[1:]
	}
	j.ids[team] = ranges
	if len(ranges) == 0 {
		return 0, false
	}
	n := ranges[0].next
	ranges[0].next++
	return n, true
}

// reserveIDs takes the next free block for the team. A block that is not used up is lost at the next start: gaps are
// fine.
func (j *Journal) reserveIDs(ctx context.Context, team string) error {
	var block uint64
	err := j.changeIDs(ctx, func(row *storev1.IDsRow) ([]store.Op, []store.Guard, error) {
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
	j.ids[team] = append(j.ids[team], idRange{first, (block + 1) * blockSize})
	return nil
}

// changeIDs changes the `ids` record and writes what goes with it, trying again when somebody was faster.
func (j *Journal) changeIDs(
	ctx context.Context, change func(*storev1.IDsRow) ([]store.Op, []store.Guard, error),
) error {
	for try := 0; ; try++ {
		row := &storev1.IDsRow{}
		rev, err := j.get(ctx, daemonPart, "ids", row)
		if err != nil && !errdefs.Is(err, errdefs.RecordNotFound) {
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
		err = j.commit(ctx, store.Batch{
			Part:   daemonPart,
			Guards: append(guards, store.Guard{Key: "ids", Rev: rev}),
			Ops:    append(ops, store.Op{Kind: store.Put, Name: "ids", Value: value}),
		})
		if !errdefs.Is(err, errdefs.Conflict) || try == maxTries {
			return err
		}
		if len(guards) > 0 && !j.idsMoved(ctx, rev) {
			return err // the conflict is about the caller's own guards
		}
	}
}

func (j *Journal) idsMoved(ctx context.Context, rev store.Pos) bool {
	now, err := j.get(ctx, daemonPart, "ids", &storev1.IDsRow{})
	return err == nil && now != rev
}

func blockKey(block uint64) string { return fmt.Sprintf("block/%d", block) }

// TeamOf gives the team that a task's id belongs to; TaskNotFound when there can be no such task.
func (j *Journal) TeamOf(ctx context.Context, id task.ID) (string, error) {
	digits, ok := strings.CutPrefix(string(id), task.Subagent.Prefix())
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || task.NewID(task.Subagent, n) != id {
		return "", taskNotFound(id)
	}
	block := n / blockSize
	j.mu.Lock()
	team, ok := j.owners[block]
	j.mu.Unlock()
	if ok {
		return team, nil
	}
	row := &storev1.BlockRow{}
	switch _, err := j.get(ctx, daemonPart, blockKey(block), row); {
	case errdefs.Is(err, errdefs.RecordNotFound):
		return "", taskNotFound(id)
	case err != nil:
		return "", err
	}
	j.mu.Lock()
	j.owners[block] = row.GetTeamId()
	j.mu.Unlock()
	return row.GetTeamId(), nil
}

func taskNotFound(id task.ID) error {
	return errdefs.New(errdefs.NotFound, errdefs.TaskNotFound, string(id),
		"there is no task %q; `agentctl ps --all` lists them", string(id))
}
