package journal

import (
	"context"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// fence gives the guard that keeps older daemons out of a team's partition; at first use it takes the partition over. That of
// the daemon has none: each of its batches guards what it changes.
func (j *Journal) fence(ctx context.Context, team string) (store.Guard, error) {
	if team == Daemon {
		return store.Guard{}, nil
	}
	j.mu.Lock()
	g, ok := j.fences[team]
	j.mu.Unlock()
	if ok {
		return g, nil
	}
	rev, err := j.own(ctx, team)
	if err != nil {
		return g, err
	}
	g = store.Guard{Key: "owner", Rev: rev}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.fences[team] = g
	return g, nil
}

// own makes this start the owner of a team's partition and gives the owner record's revision. Fenced when a later start
// owns it.
func (j *Journal) own(ctx context.Context, team string) (store.Pos, error) {
	value, err := proto.Marshal(&storev1.OwnerRow{Start: j.daemon.GetStarts()})
	if err != nil {
		return 0, errdefs.Wrap(err, errdefs.Internal, errdefs.Fault, team, "the owner's row can't be encoded")
	}
	for {
		row := &storev1.OwnerRow{}
		rev, err := j.get(ctx, part(team), "owner", row)
		guards := []store.Guard{{Key: "owner", Rev: rev}}
		switch {
		case errdefs.Is(err, errdefs.RecordNotFound):
		case errdefs.Is(err, errdefs.RecordCorrupt):
			guards = nil // no guard holds for it; the store's lock says that nobody else is here
		case err != nil:
			return 0, err
		case row.GetStart() == j.daemon.GetStarts():
			return rev, nil
		case row.GetStart() > j.daemon.GetStarts():
			return 0, errdefs.New(errdefs.FailedPrecondition, errdefs.Fenced, team,
				"a later start of the daemon owns team %s", team)
		}
		done, err := j.st.Commit(ctx, store.Batch{
			Part: part(team), Guards: guards, Ops: []store.Op{{Kind: store.Put, Name: "owner", Value: value}},
		})
		if err == nil {
			return done.Pos[0], nil
		}
		if !errdefs.Is(err, errdefs.Conflict) {
			return 0, err
		}
	}
}
