package view

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// Team is a team with all that follows from its other rows.
type Team struct {
	roster.Team
	Usage        task.Usage // of all its tasks
	Teammates    int        // living ones, with the lead
	Lead         task.ID    // living; empty: none lives
	UnreadLeader int        // mail to the leader that was not taken, without notices
	UnreadUser   int        // mail to the user that was not acknowledged
}

// TeamView shows a team.
func (v *View) TeamView(ctx context.Context, of roster.Team) (Team, error) {
	out := Team{Team: of}
	var err error
	if out.Usage, err = v.journal.Usage(ctx, of.ID, task.ID(of.ID)); err != nil {
		return Team{}, err
	}
	living, err := v.livingTeammates(ctx, of.ID)
	if err != nil {
		return Team{}, err
	}
	out.Teammates = len(living)
	lead, found, err := team.Registry{Journal: v.journal}.Lead(ctx, of.ID)
	if err != nil && !journal.IsLost(err) {
		return Team{}, err
	}
	if found && !lead.Value.State.Terminal() {
		out.Lead = lead.Value.ID
	}
	for box, n := range map[task.ID]*int{mailbox.LeaderBox: &out.UnreadLeader, mailbox.UserBox: &out.UnreadUser} {
		unread, err := v.journal.Inbox(ctx, of.ID, box)
		if err != nil && !errdefs.Is(err, errdefs.RecordCorrupt) {
			return Team{}, err
		}
		*n = int(unread.Value.Messages)
	}
	return out, nil
}

// livingTeammates are the ids of a team's teammates that have not ended.
func (v *View) livingTeammates(ctx context.Context, in string) (map[task.ID]bool, error) {
	living := map[task.ID]bool{}
	for id, err := range v.journal.Living(ctx, in) {
		if err != nil {
			return nil, err
		}
		if id.Kind() == task.Teammate {
			living[id] = true
		}
	}
	return living, nil
}

// Teams gives one page of teams in the order of their creation, and the token of the next. A page has 1 to MaxPage teams; 0
// is DefaultPage.
func (v *View) Teams(ctx context.Context, pageSize int, pageToken string) ([]Team, string, error) {
	size, from, err := parsePage(pageSize, pageToken)
	if err != nil {
		return nil, "", err
	}
	all, err := v.teams(ctx, "")
	if err != nil {
		return nil, "", err
	}
	var page []Team
	last := from
	for _, of := range all {
		number := teamNumber(of.ID)
		if number <= from.team {
			continue
		}
		if len(page) == size {
			return page, last.String(), nil
		}
		shown, err := v.TeamView(ctx, of)
		if err != nil {
			return nil, "", err
		}
		page, last = append(page, shown), token{team: number}
	}
	return page, "", nil
}

// parsePage reads the size of a page, with its default, and where it begins.
func parsePage(size int, pageToken string) (int, token, error) {
	if size == 0 {
		size = DefaultPage
	}
	if size < 1 || size > MaxPage {
		return 0, token{}, errdefs.BadField("page_size", "must be 1 to %d", MaxPage)
	}
	from, err := parseToken(pageToken)
	return size, from, err
}
