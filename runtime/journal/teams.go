package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// Daemon is the partition of what is about teams and belongs to none of them: Batch, Request and Prune take it for a team.
const Daemon = string(daemonPart)

// CreateTeam is AddTeam for a team with a name and a workspace alone.
func (j *Journal) CreateTeam(ctx context.Context, name, workspace string) (roster.Team, error) {
	return j.AddTeam(ctx, roster.Team{Name: name, Workspace: workspace}, nil)
}

// AddTeam makes a team, gives it its id, and writes what more belongs to it: with is handed the batch in the partition of
// the daemon, and may be nil. BadArgument for a name that may not be given, NameTaken when the name exists in any case,
// Conflict when another team has the workspace, or a guard of with does not hold.
func (j *Journal) AddTeam(ctx context.Context, t roster.Team, with func(*Batch, roster.Team)) (roster.Team, error) {
	if err := roster.CheckName("name", t.Name); err != nil {
		return roster.Team{}, err
	}
	unlock, err := j.lockIDs(ctx)
	if err != nil {
		return roster.Team{}, err
	}
	defer unlock()
	t.Created = j.now()
	err = j.changeIDs(ctx, func(row *storev1.IDsRow) ([]store.Op, []store.Guard, error) {
		row.NextTeam++
		t.ID = teamID(row.GetNextTeam())
		b := j.Batch(Daemon)
		b.putTeam(t)
		b.leadTo(t)
		if with != nil {
			with(b, t)
		}
		return b.ops, b.guards, b.err
	})
	if errdefs.Is(err, errdefs.Conflict) {
		err = j.collision(ctx, t, err)
	}
	if err != nil {
		return roster.Team{}, err
	}
	return t, nil
}

// collision says what a new team ran into.
func (j *Journal) collision(ctx context.Context, t roster.Team, conflict error) error {
	if _, err := j.TeamByName(ctx, t.Name); err == nil {
		return nameTaken(t.Name)
	}
	if other, err := j.TeamByRoot(ctx, t.Workspace); err == nil {
		return errdefs.New(errdefs.Aborted, errdefs.Conflict, t.Workspace,
			"workspace %s belongs to team %q already", t.Workspace, other.Name)
	}
	return conflict
}

func nameTaken(name string) error {
	return errdefs.New(errdefs.AlreadyExists, errdefs.NameTaken, name,
		"there is a team named %q already; choose another name", name)
}

// ChangeTeam writes what became of a team, with what more the batch, which is one of the partition of the daemon, holds. A
// new name leads to it from then on and the old one no more; one that is deleted frees both its name and its workspace. It
// fails with NameTaken when another team has the new name, and with Conflict when the team has changed since it was read.
func (j *Journal) ChangeTeam(ctx context.Context, b *Batch, row Row[roster.Team], after roster.Team) error {
	was := row.Value
	b.guard(teamKey(was.ID), row.Rev)
	b.putTeam(after)
	renamed := nameKey(after.Name) != nameKey(was.Name)
	switch {
	case after.Deleted:
		b.raw(store.Delete, nameKey(was.Name), nil)
		if was.Workspace != "" {
			b.raw(store.Delete, rootKey(was.Workspace), nil)
		}
	case renamed:
		b.raw(store.Delete, nameKey(was.Name), nil)
		b.refer(nameKey(after.Name), after.ID)
	}
	err := j.Commit(ctx, b)
	if renamed && errdefs.Is(err, errdefs.Conflict) {
		if other, found := j.TeamByName(ctx, after.Name); found == nil && other.ID != was.ID {
			return nameTaken(after.Name)
		}
	}
	return err
}

// putTeam writes a team's own row.
func (b *Batch) putTeam(t roster.Team) { b.op(store.Put, teamKey(t.ID), teamRow(t)) }

// leadTo writes what leads to a new team: its name and its workspace, which no other team may have.
func (b *Batch) leadTo(t roster.Team) {
	b.refer(nameKey(t.Name), t.ID)
	if t.Workspace != "" {
		b.refer(rootKey(t.Workspace), t.ID)
	}
}

// refer lets a name or a workspace that leads nowhere lead to a team.
func (b *Batch) refer(key, team string) {
	b.guard(key, 0)
	b.op(store.Put, key, &storev1.TeamRefRow{TeamId: team})
}

// closedKey is the record that closes a team; see CloseTeam.
const closedKey = "closed"

// CloseTeam lets nothing begin in the team any more: a batch that makes a task without a parent, or revives a teammate,
// fails from then on with TeamNotFound. It is the first step of a deletion, and stays.
func (b *Batch) CloseTeam() { b.raw(store.Put, closedKey, nil) }

// guardOpen makes the batch fail with TeamNotFound when its team is closed.
func (b *Batch) guardOpen() { b.guard(closedKey, 0) }

// IsClosed tells whether nothing begins in a team any more: it is being deleted, or was.
func (j *Journal) IsClosed(ctx context.Context, team string) (bool, error) {
	_, err := j.st.Get(ctx, part(team), closedKey)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return false, nil
	}
	return true, err
}

// explain tells a conflict with a closed team from the others, which go away when all is read again.
func (j *Journal) explain(ctx context.Context, b *Batch, err error) error {
	if !errdefs.Is(err, errdefs.Conflict) || !slices.Contains(b.guards, store.Guard{Key: closedKey}) {
		return err
	}
	if closed, readErr := j.IsClosed(ctx, b.team); readErr != nil || !closed {
		return errors.Join(readErr, err)
	}
	t, readErr := j.Team(ctx, b.team)
	if readErr != nil {
		return readErr
	}
	return errdefs.New(errdefs.NotFound, errdefs.TeamNotFound, t.Name, "team %q is deleted; nothing begins in it any more", t.Name)
}

func teamID(n uint64) string          { return fmt.Sprintf("t-%d", n) }
func teamKey(id string) string        { return "team/" + id }
func nameKey(name string) string      { return "name/" + strings.ToLower(name) }
func rootKey(workspace string) string { return "root/" + Hash(workspace) }

// TeamByName finds a team by its name in any case; TeamNotFound when there is none.
func (j *Journal) TeamByName(ctx context.Context, name string) (roster.Team, error) {
	if roster.CheckName("team", name) != nil {
		return roster.Team{}, teamNotFound(name)
	}
	return j.teamByRef(ctx, nameKey(name), name)
}

// TeamByRoot finds the team with that workspace; TeamNotFound when there is none.
func (j *Journal) TeamByRoot(ctx context.Context, workspace string) (roster.Team, error) {
	team, err := j.teamByRef(ctx, rootKey(workspace), workspace)
	if errdefs.Is(err, errdefs.TeamNotFound) {
		err = errdefs.New(errdefs.NotFound, errdefs.TeamNotFound, workspace, "there is no team in %s", workspace)
	}
	return team, err
}

func (j *Journal) teamByRef(ctx context.Context, key, subject string) (roster.Team, error) {
	ref := &storev1.TeamRefRow{}
	if _, err := j.get(ctx, daemonPart, key, ref); err != nil {
		if errdefs.Is(err, errdefs.RecordNotFound) {
			err = teamNotFound(subject)
		}
		return roster.Team{}, err
	}
	return j.Team(ctx, ref.GetTeamId())
}

// Team reads a team by its id, also one that is deleted.
func (j *Journal) Team(ctx context.Context, id string) (roster.Team, error) {
	row, err := j.TeamRow(ctx, id)
	return row.Value, err
}

// TeamRow is Team with the revision that guards its change.
func (j *Journal) TeamRow(ctx context.Context, id string) (Row[roster.Team], error) {
	row := &storev1.TeamRow{}
	rev, err := j.get(ctx, daemonPart, teamKey(id), row)
	if err != nil {
		if errdefs.Is(err, errdefs.RecordNotFound) {
			err = teamNotFound(id)
		}
		return Row[roster.Team]{}, err
	}
	return Row[roster.Team]{Rev: rev, Value: teamOf(row)}, nil
}

// Teams lists the teams that are not deleted.
func (j *Journal) Teams(ctx context.Context) ([]roster.Team, error) {
	teams, err := j.AllTeams(ctx)
	return slices.DeleteFunc(teams, func(t roster.Team) bool { return t.Deleted }), err
}

// AllTeams lists all teams that there ever were.
func (j *Journal) AllTeams(ctx context.Context) ([]roster.Team, error) {
	var teams []roster.Team
	for rec, err := range j.st.Scan(ctx, daemonPart, "team") {
		if err != nil {
			return nil, err
		}
		row := &storev1.TeamRow{}
		if err := decode(rec.Key, rec.Value, row); err != nil {
			return nil, err
		}
		teams = append(teams, teamOf(row))
	}
	return teams, nil
}

func teamRow(t roster.Team) *storev1.TeamRow {
	row := &storev1.TeamRow{
		Id: t.ID, Name: t.Name, Workspace: t.Workspace, Created: nanos(t.Created), Description: t.Description, Deleted: t.Deleted,
	}
	if u := t.Budget; u.Shared() {
		row.Budget = &storev1.BudgetRow{Steps: u.Steps, Tokens: u.Tokens, Turns: u.Turns, ToolCalls: u.ToolCalls, Cost: u.Cost}
	}
	return row
}

func teamOf(row *storev1.TeamRow) roster.Team {
	u := row.GetBudget()
	return roster.Team{
		ID: row.GetId(), Name: row.GetName(), Workspace: row.GetWorkspace(), Created: timeOf(row.GetCreated()),
		Description: row.GetDescription(), Deleted: row.GetDeleted(),
		Budget: task.Budget{
			Steps: u.GetSteps(), Tokens: u.GetTokens(), Turns: u.GetTurns(), ToolCalls: u.GetToolCalls(), Cost: u.GetCost(),
		},
	}
}

func teamNotFound(subject string) error {
	return errdefs.New(errdefs.NotFound, errdefs.TeamNotFound, subject, "there is no team %q", subject)
}
