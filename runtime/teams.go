package runtime

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// CreateTeamRequest asks for a new team.
type CreateTeamRequest struct {
	RequestID   string // makes a retry return the first outcome; empty: no retry
	Caller      string // scope of RequestID
	Name        string // empty: one made from the workspace
	Workspace   string // absolute directory
	Description string // at most 1 KiB
	Budget      task.Budget
}

// CreateTeam makes a team (N1, N2). NameTaken, of the kind AlreadyExists, when its name, in any case, or its workspace is
// another team's. Requests about teams themselves are kept with the list of teams, in the commit that changes it: a retry
// finds the first outcome there, whatever has become of the name, the workspace or the team since (N7).
func (s *Supervisor) CreateTeam(ctx context.Context, req CreateTeamRequest) (roster.Team, error) {
	if err := req.check(); err != nil {
		return roster.Team{}, err
	}
	if err := s.ready(); err != nil {
		return roster.Team{}, err
	}
	ctx = context.WithoutCancel(ctx)
	body := req
	body.RequestID, body.Caller = "", ""
	r := newRequest(req.Caller, req.RequestID, body)
	return s.changeOnce(ctx, r, func() (roster.Team, error) {
		workspace, err := s.canonical(req.Workspace)
		if err != nil {
			return roster.Team{}, err
		}
		team, err := s.cfg.Journal.AddTeam(ctx, roster.Team{
			Name: cmp.Or(req.Name, nameFor(workspace)), Workspace: workspace, Description: req.Description, Budget: req.Budget,
		}, r.ofTeam)
		if errdefs.Is(err, errdefs.Conflict) {
			if other, findErr := s.cfg.Journal.TeamByRoot(ctx, workspace); findErr == nil {
				err = errdefs.New(errdefs.AlreadyExists, errdefs.NameTaken, workspace,
					"workspace %s is that of team %q already", workspace, other.Name)
			}
		}
		return team, err
	})
}

// changeOnce makes a change of a team, again when something changed meanwhile, unless its request was used before. What is
// refused may be what the same request has done at the same time: then it is that one's outcome.
func (s *Supervisor) changeOnce(
	ctx context.Context, r *requestRow, change func() (roster.Team, error),
) (roster.Team, error) {
	var refusal error
	for {
		if team, known, err := s.teamThen(ctx, r); err != nil || known {
			return team, err
		}
		if refusal != nil {
			return roster.Team{}, refusal
		}
		team, err := change()
		if err == nil {
			return team, nil
		}
		if !errdefs.Is(err, errdefs.Conflict) {
			refusal = err
		}
	}
}

func (r CreateTeamRequest) check() error {
	if r.Workspace == "" {
		return errdefs.BadField("workspace", "is missing; give an absolute directory")
	}
	if r.Name != "" {
		if err := checkTeamName(r.Name); err != nil {
			return err
		}
	}
	if err := checkTeam(r.Description, r.Budget); err != nil {
		return err
	}
	return checkRequestID(r.RequestID)
}

// checkTeamName leaves the name of the default team to the daemon, which makes that team when it is needed.
func checkTeamName(name string) error {
	if isDefault(name) {
		return errdefs.BadField("name", "%q is the daemon's own name for the team without a workspace; choose another", name)
	}
	return roster.CheckName("name", name)
}

func checkTeam(description string, b task.Budget) error {
	switch {
	case len(description) > maxLine:
		return tooLarge("description", len(description), maxLine)
	case !utf8.ValidString(description):
		return errdefs.BadField("description", "is not valid UTF-8")
	case b.MaxSteps != 0:
		return errdefs.BadField("budget.max_steps", "is of one task's turn; of a team, bound the steps")
	case b.WallTime != 0:
		return errdefs.BadField("budget.wall_time", "is of one task; a team has no wall time")
	}
	return checkBudget("budget", b)
}

// nameFor makes the name of a team from its workspace (N1).
func nameFor(workspace string) string {
	sum := sha256.Sum256([]byte(workspace))
	return roster.NameFor(workspace, hex.EncodeToString(sum[:]))
}

// ofTeam adds the request to the batch that changes a team. Its outcome is the team.
func (r *requestRow) ofTeam(b *journal.Batch, t roster.Team) {
	if r != nil {
		r.outcome.TaskID = task.ID(t.ID)
		r.put(b)
	}
}

// teamThen gives the team that a request id was used for before, as it is now.
func (s *Supervisor) teamThen(ctx context.Context, r *requestRow) (team roster.Team, known bool, err error) {
	found, known, err := s.first(ctx, journal.Daemon, r)
	if err != nil || !known {
		return team, false, err
	}
	team, err = s.cfg.Journal.Team(ctx, string(found.TaskID))
	return team, true, err
}

// UpdateTeamRequest changes what is set of a team.
type UpdateTeamRequest struct {
	RequestID   string  // makes a retry return the first outcome; empty: no retry
	Caller      string  // scope of RequestID
	Lead        task.ID // the team's lead, when it is what asks: it keeps nobody from renaming the team; empty: a client
	Team        string  // name
	Name        *string
	Description *string      // at most 1 KiB
	Budget      *task.Budget // as a whole
}

// UpdateTeam changes a team and gives it as it is then. TeamInUse when it is to have another name while it has living
// teammates, who know it by the one that it has. Two at once come one after the other: the second sees what the first did.
func (s *Supervisor) UpdateTeam(ctx context.Context, req UpdateTeamRequest) (roster.Team, error) {
	if err := req.check(); err != nil {
		return roster.Team{}, err
	}
	if err := s.ready(); err != nil {
		return roster.Team{}, err
	}
	ctx = context.WithoutCancel(ctx)
	body := req
	body.RequestID, body.Caller = "", ""
	if req.Lead != "" {
		body.Team = "" // its own, whatever that is called when the call runs again
	}
	r := newRequest(req.Caller, req.RequestID, body)
	return s.changeOnce(ctx, r, func() (roster.Team, error) { return s.updateTeam(ctx, req, r) })
}

func (r UpdateTeamRequest) check() error {
	switch {
	case r.Team == "":
		return errdefs.BadField("team", "is missing; give the name of a team")
	case r.Name == nil && r.Description == nil && r.Budget == nil:
		return errdefs.BadField("name", "nothing is set; set name, description or budget")
	}
	if r.Name != nil {
		if err := checkTeamName(*r.Name); err != nil {
			return err
		}
	}
	var description string
	var budget task.Budget
	if r.Description != nil {
		description = *r.Description
	}
	if r.Budget != nil {
		budget = *r.Budget
	}
	if err := checkTeam(description, budget); err != nil {
		return err
	}
	return checkRequestID(r.RequestID)
}

// updateTeam writes the change once. Conflict when the team changed since it was read.
func (s *Supervisor) updateTeam(ctx context.Context, req UpdateTeamRequest, r *requestRow) (roster.Team, error) {
	row, err := s.teamRow(ctx, req.Team)
	if err != nil {
		return roster.Team{}, err
	}
	after := row.Value
	if req.Name != nil && *req.Name != after.Name {
		if err := s.unused(ctx, after, req.Lead); err != nil {
			return after, err
		}
		after.Name = *req.Name
	}
	if req.Description != nil {
		after.Description = *req.Description
	}
	if req.Budget != nil {
		after.Budget = *req.Budget
	}
	b := s.cfg.Journal.Batch(journal.Daemon)
	r.ofTeam(b, after)
	return after, s.cfg.Journal.ChangeTeam(ctx, b, row, after)
}

// teamRow finds a team by its name, with what guards its change.
func (s *Supervisor) teamRow(ctx context.Context, name string) (journal.Row[roster.Team], error) {
	team, err := s.cfg.Journal.TeamByName(ctx, name)
	if err != nil {
		return journal.Row[roster.Team]{}, err
	}
	row, err := s.cfg.Journal.TeamRow(ctx, team.ID)
	if err == nil && row.Value.Deleted {
		return s.teamRow(ctx, name) // it went between the two: now the name is free, or another's
	}
	return row, err
}

// unused refuses a team with a living teammate, but for the lead that asks.
func (s *Supervisor) unused(ctx context.Context, t roster.Team, lead task.ID) error {
	for id, err := range s.cfg.Journal.Living(ctx, t.ID) {
		if err != nil {
			return err
		}
		if id.Kind() != task.Teammate || id == lead {
			continue
		}
		row, err := s.cfg.Journal.Task(ctx, id)
		switch {
		case journal.IsLost(err):
			continue
		case err != nil:
			return err
		case !row.Value.State.Terminal():
			return errdefs.New(errdefs.FailedPrecondition, errdefs.TeamInUse, t.Name,
				"team %q has a living teammate, %s; dismiss its teammates first, or stop the team", t.Name, row.Value.Name)
		}
	}
	return nil
}
