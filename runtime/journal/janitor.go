package journal

import (
	"context"
	"time"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
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
	for e, err := range j.st.Read(ctx, part(team), "feed", 0) {
		if err != nil {
			return err
		}
		row := &storev1.FeedRow{}
		if err := decode("feed", e.Value, row); err != nil {
			return err
		}
		if !timeOf(row.GetTime()).Before(before) {
			break
		}
		last = e.Pos
	}
	if last == 0 {
		return nil
	}
	return j.st.Trim(ctx, part(team), "feed", last)
}

// pruneRequests drops request ids that are older than before and not among the newest atLeast.
func (j *Journal) pruneRequests(ctx context.Context, team string, before time.Time, atLeast int) error {
	newest, err := j.st.Last(ctx, part(team), "requests", atLeast)
	if err != nil || len(newest) < atLeast {
		return err
	}
	b := j.Batch(team)
	var last store.Pos
	for e, err := range j.st.Read(ctx, part(team), "requests", 0) {
		if err != nil {
			return err
		}
		row := &storev1.RequestSeenRow{}
		if err := decode("requests", e.Value, row); err != nil {
			return err
		}
		if e.Pos >= newest[0].Pos || !timeOf(row.GetTime()).Before(before) {
			break
		}
		b.raw(store.Delete, requestKey(row.GetHash()), nil)
		last = e.Pos
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
	if len(b.ops) > 0 {
		if err := j.Commit(ctx, b); err != nil {
			return err
		}
	}
	return j.st.Trim(ctx, part(team), "requests", last)
}
