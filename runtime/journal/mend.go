package journal

import (
	"context"
	"slices"
	"strconv"
	"strings"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/store"
)

// isGone tells that a record can't be read and never will be: it is damaged, or there is none.
func isGone(err error) bool {
	return errdefs.Is(err, errdefs.RecordCorrupt) || errdefs.Is(err, errdefs.RecordNotFound)
}

// mend makes what damage has taken of the daemon's partition and follows from what is left (D7): the names and
// workspaces that lead to teams. A team whose own row is damaged is lost with its living tasks; its name and its workspace
// are free again. It runs at the start, when nobody else writes.
func (j *Journal) mend(ctx context.Context) error {
	teams, err := j.AllTeams(ctx)
	if err != nil {
		return err
	}
	for _, team := range teams {
		if err := j.mendTeam(ctx, team); err != nil {
			return err
		}
	}
	_, lost, err := j.blocks(ctx)
	if err != nil {
		return err
	}
	lost = slices.DeleteFunc(lost, func(id string) bool {
		return slices.ContainsFunc(teams, func(t roster.Team) bool { return t.ID == id })
	})
	for _, id := range lost {
		if err := j.logLost(ctx, id); err != nil {
			return err
		}
	}
	for _, prefix := range []string{"name", "root"} {
		if err := j.freeRefs(ctx, prefix); err != nil {
			return err
		}
	}
	return nil
}

// mendTeam writes what leads to a team anew where it is damaged or lost.
func (j *Journal) mendTeam(ctx context.Context, t roster.Team) error {
	if t.Deleted {
		return nil // nothing leads to it
	}
	b := j.Batch(Daemon)
	b.putTeam(t)
	b.leadTo(t)
	if b.err != nil {
		return b.err
	}
	for _, op := range b.ops {
		_, err := j.st.Get(ctx, daemonPart, op.Name)
		if err == nil {
			continue
		}
		if !isGone(err) {
			return err
		}
		if _, err := j.st.Commit(ctx, store.Batch{Part: daemonPart, Ops: []store.Op{op}}); err != nil {
			return err
		}
		j.log.Error("what leads to a team was damaged and is written anew", "team", t.Name, "record", op.Name, "error", err)
	}
	return nil
}

// blocks lists the blocks of ids that were handed out, and the teams that have them.
func (j *Journal) blocks(ctx context.Context) (numbers []uint64, teams []string, err error) {
	for rec, err := range j.st.Scan(ctx, daemonPart, "block") {
		if err != nil {
			return nil, nil, err
		}
		row := &storev1.BlockRow{}
		if err := decode(rec.Key, rec.Value, row); err != nil {
			return nil, nil, err
		}
		n, err := strconv.ParseUint(strings.TrimPrefix(rec.Key, "block/"), 10, 64)
		if err != nil {
			return nil, nil, errdefs.Wrap(err, errdefs.DataLoss, errdefs.RecordCorrupt, rec.Key, "%s is no block of ids", rec.Key)
		}
		numbers = append(numbers, n)
		if !slices.Contains(teams, row.GetTeamId()) {
			teams = append(teams, row.GetTeamId())
		}
	}
	return numbers, teams, nil
}

// logLost tells of the living tasks of a team whose row is damaged.
func (j *Journal) logLost(ctx context.Context, team string) error {
	for id, err := range j.Living(ctx, team) {
		if err != nil {
			return err
		}
		j.log.Error("the row of a living task's team is damaged; the task is lost", "team", team, "task", id)
	}
	return nil
}

// freeRefs drops names or workspaces that lead to no team any more: they would refuse every spawn.
func (j *Journal) freeRefs(ctx context.Context, prefix string) error {
	for rec, err := range j.st.Scan(ctx, daemonPart, prefix) {
		if err != nil {
			return err
		}
		ref := &storev1.TeamRefRow{}
		if err := decode(rec.Key, rec.Value, ref); err != nil {
			return err
		}
		team, err := j.Team(ctx, ref.GetTeamId())
		if err == nil && !team.Deleted {
			continue
		}
		if err != nil && !errdefs.Is(err, errdefs.RecordCorrupt) && !errdefs.Is(err, errdefs.TeamNotFound) {
			return err
		}
		j.log.Error("a team's row is damaged; the team is lost", "team", ref.GetTeamId(), "record", rec.Key, "error", err)
		_, err = j.st.Commit(ctx, store.Batch{
			Part: daemonPart, Guards: []store.Guard{{Key: rec.Key, Rev: rec.Rev}},
			Ops: []store.Op{{Kind: store.Delete, Name: rec.Key}},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recount makes the row of ids anew from what was handed out. Damaged blocks and teams count too, for their numbers are
// never used again (N3).
func (j *Journal) recount(ctx context.Context) (*storev1.IDsRow, error) {
	row := &storev1.IDsRow{}
	numbers, _, err := j.blocks(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range numbers {
		row.NextBlock = max(row.NextBlock, n+1)
	}
	teams, err := j.AllTeams(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range teams {
		n, _ := strconv.ParseUint(strings.TrimPrefix(t.ID, "t-"), 10, 64) // ours: always a number
		row.NextTeam = max(row.NextTeam, n)
	}
	if row.NextBlock, err = j.firstFree(ctx, row.GetNextBlock(), blockKey); err != nil {
		return nil, err
	}
	next, err := j.firstFree(ctx, row.GetNextTeam()+1, func(n uint64) string { return teamKey(teamID(n)) })
	row.NextTeam = next - 1
	return row, err
}

// firstFree gives the first number from n on under which nothing was ever written.
func (j *Journal) firstFree(ctx context.Context, n uint64, key func(uint64) string) (uint64, error) {
	for ; ; n++ {
		_, err := j.st.Get(ctx, daemonPart, key(n))
		switch {
		case errdefs.Is(err, errdefs.RecordNotFound):
			return n, nil
		case err != nil && !errdefs.Is(err, errdefs.RecordCorrupt):
			return 0, err
		}
	}
}
