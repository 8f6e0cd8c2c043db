package journal

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/store"
)

// CreateTeam makes a team. BadArgument for a name that may not be given, NameTaken when the name exists in any case,
// Conflict when another team has the workspace.
func (j *Journal) CreateTeam(ctx context.Context, name, workspace string) (roster.Team, error) {
	if err := roster.CheckName("team", name); err != nil {
		return roster.Team{}, err
	}
	unlock, err := j.lockIDs(ctx)
	if err != nil {
		return roster.Team{}, err
	}
	defer unlock()
	team := roster.Team{Name: name, Workspace: workspace, Created: j.now()}
	err = j.changeIDs(ctx, func(row *storev1.IDsRow) ([]store.Op, []store.Guard, error) {
		row.NextTeam++
		team.ID = teamID(row.GetNextTeam())
		return teamOps(team)
	})
	if errdefs.Is(err, errdefs.Conflict) {
		err = j.collision(ctx, team, err)
	}
	if err != nil {
		return roster.Team{}, err
	}
	return team, nil
}

// collision says what a new team ran into.
func (j *Journal) collision(ctx context.Context, t roster.Team, conflict error) error {
	if _, err := j.TeamByName(ctx, t.Name); err == nil {
		return errdefs.New(errdefs.AlreadyExists, errdefs.NameTaken, t.Name,
			"there is a team named %q already; choose another name", t.Name)
	}
	if other, err := j.TeamByRoot(ctx, t.Workspace); err == nil {
		return errdefs.New(errdefs.Aborted, errdefs.Conflict, t.Workspace,
			"workspace %s belongs to team %q already", t.Workspace, other.Name)
	}
	return conflict
}

func teamOps(t roster.Team) ([]store.Op, []store.Guard, error) {
	row, err := proto.Marshal(&storev1.TeamRow{
		Id: t.ID, Name: t.Name, Workspace: t.Workspace, Created: nanos(t.Created),
	})
	if err != nil {
		return nil, nil, errdefs.Wrap(err, errdefs.InvalidArgument, errdefs.BadArgument, t.Name, "team: %v", err)
	}
	ref, err := proto.Marshal(&storev1.TeamRefRow{TeamId: t.ID})
	if err != nil {
		return nil, nil, errdefs.Wrap(err, errdefs.Internal, errdefs.Fault, t.Name, "team: %v", err)
	}
	ops := []store.Op{
		{Kind: store.Put, Name: teamKey(t.ID), Value: row},
		{Kind: store.Put, Name: nameKey(t.Name), Value: ref},
	}
	guards := []store.Guard{{Key: nameKey(t.Name)}}
	if t.Workspace != "" {
		ops = append(ops, store.Op{Kind: store.Put, Name: rootKey(t.Workspace), Value: ref})
		guards = append(guards, store.Guard{Key: rootKey(t.Workspace)})
	}
	return ops, guards, nil
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
	return j.teamByRef(ctx, rootKey(workspace), workspace)
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

// Team reads a team by its id.
func (j *Journal) Team(ctx context.Context, id string) (roster.Team, error) {
	row := &storev1.TeamRow{}
	if _, err := j.get(ctx, daemonPart, teamKey(id), row); err != nil {
		if errdefs.Is(err, errdefs.RecordNotFound) {
			err = teamNotFound(id)
		}
		return roster.Team{}, err
	}
	return teamOf(row), nil
}

// Teams lists all teams.
func (j *Journal) Teams(ctx context.Context) ([]roster.Team, error) {
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

func teamOf(row *storev1.TeamRow) roster.Team {
	return roster.Team{
		ID: row.GetId(), Name: row.GetName(), Workspace: row.GetWorkspace(), Created: timeOf(row.GetCreated()),
	}
}

func teamNotFound(subject string) error {
	return errdefs.New(errdefs.NotFound, errdefs.TeamNotFound, subject, "there is no team %q", subject)
}
