package view

import (
	"cmp"
	"context"
	"slices"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// Teammate is one line of a roster.
type Teammate struct {
	roster.Member
	Task              Task
	Asleep            string // why a peer's message, or anybody's, does not revive it; empty: it does, or the teammate lives
	PlanApproval      bool   // it was spawned to submit a plan first
	PlanApproved      bool
	PlanControlID     string // of the plan that waits for an answer; empty: none does
	ShutdownControlID string // of the shutdown request that waits for an answer; empty: none does
}

// TeammateFilter chooses teammates of one team.
type TeammateFilter struct {
	Team      string // id
	Living    bool   // only those that have not ended
	PageSize  int    // 1 to MaxPage; 0: DefaultPage
	PageToken string
}

// Teammates gives one page of a roster, the lead first, then by creation, and the token of the next. Those who lost their
// name to another are not in it.
func (v *View) Teammates(ctx context.Context, f TeammateFilter) ([]Teammate, string, error) {
	size, from, err := parsePage(f.PageSize, f.PageToken)
	if err != nil {
		return nil, "", err
	}
	in, err := v.journal.Team(ctx, f.Team)
	if err != nil {
		return nil, "", err
	}
	if from != (token{}) && from.team != teamNumber(in.ID) {
		return nil, "", errdefs.BadField("page_token", "belongs to another team's roster; leave it empty for the first page")
	}
	members, err := v.members(ctx, f, from.pos)
	if err != nil {
		return nil, "", err
	}
	var page []Teammate
	for _, m := range members {
		if len(page) == size {
			return page, token{teamNumber(in.ID), rosterPlace(m)}.String(), nil
		}
		row, err := v.journal.Task(ctx, m.TaskID)
		if journal.IsLost(err) {
			continue // in quarantine, as the status says: the rest is shown
		}
		if err != nil {
			return nil, "", err
		}
		if f.Living && row.Value.State.Terminal() {
			continue // since a moment
		}
		shown, err := v.teammate(ctx, m, row.Value, in)
		if err != nil {
			return nil, "", err
		}
		page = append(page, shown)
	}
	return page, "", nil
}

// members are those who have names, from a place in the roster on, in its order. Of those who have ended no task is read
// when only living ones are asked for.
func (v *View) members(ctx context.Context, f TeammateFilter, from journal.Rev) ([]roster.Member, error) {
	var living map[task.ID]bool
	if f.Living {
		var err error
		if living, err = v.livingTeammates(ctx, f.Team); err != nil {
			return nil, err
		}
	}
	var members []roster.Member
	for m, err := range v.journal.Members(ctx, f.Team) {
		if err != nil {
			return nil, err
		}
		if rosterPlace(m) >= from && (!f.Living || living[m.TaskID]) {
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(a, b roster.Member) int { return cmp.Compare(rosterPlace(a), rosterPlace(b)) })
	return members, nil
}

// rosterPlace orders a roster: the lead is at 0.
func rosterPlace(m roster.Member) journal.Rev {
	if m.Name == task.LeadName {
		return 0
	}
	return journal.Rev(m.TaskID.Number())
}

// Teammate shows one teammate by its name, in any case, or by its task's id. RecipientNotFound names those that come nearest.
func (v *View) Teammate(ctx context.Context, in, name string) (Teammate, error) {
	of, err := v.journal.Team(ctx, in)
	if err != nil {
		return Teammate{}, err
	}
	found, err := team.Registry{Journal: v.journal}.Find(ctx, in, name)
	if err != nil {
		return Teammate{}, err
	}
	if found.Task.Value.Kind != task.Teammate {
		return Teammate{}, errdefs.New(errdefs.NotFound, errdefs.RecipientNotFound, name, "team %s has no teammate %q", of.Name, name)
	}
	return v.teammate(ctx, found.Member.Value, found.Task.Value, of)
}

func (v *View) teammate(ctx context.Context, m roster.Member, t task.Task, in roster.Team) (Teammate, error) {
	out := Teammate{Member: m}
	var err error
	if out.Task, err = v.dress(ctx, t, in); err != nil {
		return Teammate{}, err
	}
	if t.State.Terminal() {
		out.Asleep = team.Asleep(t, m.Dismissed, false)
		if out.Asleep == "" && t.IsLead() {
			out.Asleep = "it was the lead, which only a client's message revives"
		}
	}
	spec, err := v.journal.Spec(ctx, t.Team, t.ID)
	if err != nil && !errdefs.Is(err, errdefs.RecordCorrupt) {
		return Teammate{}, err
	}
	control, err := v.journal.Control(ctx, t.Team, t.ID)
	if err != nil && !errdefs.Is(err, errdefs.RecordCorrupt) {
		return Teammate{}, err
	}
	plan, shutdown := control.Value.Plan, control.Value.Shutdown
	out.PlanApproval, out.PlanApproved = spec.PlanApproval, plan.Approved
	if waits(plan, t) {
		out.PlanControlID = plan.ID
	}
	if waits(shutdown, t) {
		out.ShutdownControlID = shutdown.ID
	}
	return out, nil
}

// waits tells whether a handshake can still be answered: it is bound to one life of the teammate (M6).
func waits(h journal.Handshake, t task.Task) bool {
	return h.ID != "" && !h.Approved && h.Incarnation == t.Incarnation && !t.State.Terminal() && t.Stop == nil
}
