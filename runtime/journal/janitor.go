package journal

import (
	"context"
	"time"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store"
)

// How long rows are kept that only serve those who come back.
const (
	keepFeed     = 7 * 24 * time.Hour // O3
	keepRequests = 24 * time.Hour     // N7
	keepAtLeast  = 100_000            // newest request ids of a team, whatever their age (N7)
)

// Prune drops a team's rows that have served their time: old feed rows and old request ids. The supervisor calls it at
// start and every hour.
func (j *Journal) Prune(ctx context.Context, team string) error {
	now := j.now()
	if err := j.pruneFeed(ctx, team, now.Add(-keepFeed)); err != nil {
		return err
	}
	return j.pruneRequests(ctx, team, now.Add(-keepRequests), keepAtLeast)
}

func (j *Journal) pruneFeed(ctx context.Context, team string, before time.Time) error {
	var last store.Pos
	for e, err := range j.Feed(ctx, team, 0) {
		if err != nil {
			return err
		}
		if e.Tick >= tickOf(before) {
			break
		}
		last = e.Pos
	}
	if last == 0 {
		return nil
	}
	return j.st.Trim(ctx, part(team), feedLog, last)
}

// pruneRequests drops request ids that are older than before and not among the newest atLeast.
func (j *Journal) pruneRequests(ctx context.Context, team string, before time.Time, atLeast int) error {
	var bound store.Pos // the oldest to keep whatever its age
	var last store.Pos
	b := j.Batch(team)
	for e, err := range j.st.Read(ctx, part(team), "requests", 0) {
		if err != nil {
			return err
		}
		row := &storev1.RequestSeenRow{}
		if err := decode("requests", e.Value, row); err != nil {
			return err
		}
		if !timeOf(row.GetTime()).Before(before) {
			break
		}
		if bound == 0 { // only now: mostly there is nothing old, and nothing to count
			if bound, err = j.nthNewestRequest(ctx, team, atLeast); err != nil {
				return err
			}
		}
		if e.Pos >= bound {
			break
		}
		last = e.Pos
		if err := j.dropRequest(ctx, b, row); err != nil {
			return err
		}
		if len(b.ops) == store.MaxOps {
			if err := j.Commit(ctx, b); err != nil {
				return err
			}
			b = j.Batch(team)
		}
	}
	if last == 0 {
		return nil
	}
	if err := j.Commit(ctx, b); err != nil {
		return err
	}
	return j.st.Trim(ctx, part(team), "requests", last)
}

// nthNewestRequest is the position of the n-th newest request id; that of the oldest when there are fewer.
func (j *Journal) nthNewestRequest(ctx context.Context, team string, n int) (store.Pos, error) {
	newest, err := j.st.Last(ctx, part(team), "requests", n)
	if err != nil || len(newest) == 0 {
		return 0, err
	}
	return newest[0].Pos, nil
}

// dropRequest drops what a request id's entry tells of, unless the id was used anew since: a log that was to be trimmed
// may come back after a crash.
func (j *Journal) dropRequest(ctx context.Context, b *Batch, seen *storev1.RequestSeenRow) error {
	row := &storev1.RequestRow{}
	_, err := j.get(ctx, part(b.team), requestKey(seen.GetHash()), row)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound), err == nil && row.GetTime() != seen.GetTime():
		return nil
	case err != nil && !errdefs.Is(err, errdefs.RecordCorrupt):
		return err
	}
	b.raw(store.Delete, requestKey(seen.GetHash()), nil)
	return nil
}
