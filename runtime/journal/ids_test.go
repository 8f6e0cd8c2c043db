package journal

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store/storetest"
)

// TestIDsAreUnique takes ids of two teams by many callers, over several starts, a crash's distance beyond each block.
// proves N3
func TestIDsAreUnique(t *testing.T) {
	st := newStore(t)
	j := newJournal(t, st)
	teams := []string{newTeam(t, j, "a").ID, newTeam(t, j, "b").ID}
	var mu sync.Mutex
	owners := map[uint64]string{}
	for range 3 {
		j = newJournal(t, st)
		var callers sync.WaitGroup
		for _, team := range teams {
			for range 4 {
				callers.Go(func() {
					for range blockSize / 3 {
						n, err := j.NextID(context.Background(), team)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						if other, taken := owners[n]; taken || n == 0 {
							t.Errorf("id %d of %s was %s's", n, team, other)
						}
						owners[n] = team
						mu.Unlock()
					}
				})
			}
		}
		callers.Wait()
	}
	j = newJournal(t, st)
	for n, team := range owners {
		if got, err := j.TeamOf(context.Background(), task.NewID(task.Subagent, n)); err != nil || got != team {
			t.Fatalf("id %d leads to %q, not %s: %v", n, got, team, err)
		}
	}
}

// TestReservingIsNoStampede: a crowd that needs ids at once reserves one block, in one commit.
func TestReservingIsNoStampede(t *testing.T) {
	st := storetest.Wrap(newStore(t), storetest.Plan{})
	j := newJournal(t, st)
	team := newTeam(t, j, "main").ID
	before := st.Commits()
	var crowd sync.WaitGroup
	for range 200 {
		crowd.Go(func() {
			if _, err := j.NextID(context.Background(), team); err != nil {
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	if n := st.Commits() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
}

func TestTeamOfOddIDs(t *testing.T) {
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	if got, err := j.TeamOf(context.Background(), id); got != team || err != nil {
		t.Fatalf("%s leads to %q: %v", id, got, err)
	}
	odd := []task.ID{
		"", "sub", "sub-", "sub-x", "sub-01", "sub-+1", "sub--1", "sub-1 ", " sub-1", "sub-1/2", "sub-1\n", "SUB-1", "1", "-1",
		"TM-1", "tm-01", "sh-", "grp-01", "m-1", "t-1", "sub-1_0", "sub-0x1", "sub-1.0", "sub-\xff", "sub-٣", "sub-1000", "sub-999999999",
		"sub-18446744073709551615", "sub-18446744073709551616", task.ID("sub-" + strings.Repeat("9", 10000)),
	}
	for _, id := range odd {
		_, err := j.TeamOf(context.Background(), id)
		want(t, err, errdefs.TaskNotFound)
	}
	for _, id := range []task.ID{"sub-0", "sub-2", "sh-1", "grp-1", "tm-1"} { // of the team's block, but nobody's
		_, err := j.Task(context.Background(), id)
		want(t, err, errdefs.TaskNotFound)
	}
}

// TestOneTeamOfAName: many create a team of one name at once, in any case, in one daemon: one wins, the others are told.
// case MSG-5
func TestOneTeamOfAName(t *testing.T) {
	j := newJournal(t, newStore(t))
	const callers = 16
	results := make(chan error, callers)
	var crowd sync.WaitGroup
	for i := range callers {
		crowd.Go(func() {
			name := []string{"main", "Main", "MAIN", "mAIN"}[i%4]
			team, err := j.CreateTeam(context.Background(), name, fmt.Sprintf("/ws/%d", i))
			if (err == nil) != (team.ID == "t-1") {
				t.Errorf("%+v, %v", team, err)
			}
			results <- err
		})
	}
	crowd.Wait()
	close(results)
	won := 0
	for err := range results {
		if err == nil {
			won++
			continue
		}
		want(t, err, errdefs.NameTaken)
		if errdefs.KindOf(err) != errdefs.AlreadyExists {
			t.Errorf("the kind of %v", err)
		}
	}
	teams, err := j.Teams(context.Background())
	must(t, err)
	if won != 1 || len(teams) != 1 {
		t.Errorf("%d won, there are %d teams", won, len(teams))
	}
}

// proves N2 as far as teams go
func TestTeams(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	main, err := j.CreateTeam(ctx, "Main", "/ws/main")
	must(t, err)
	bare, err := j.CreateTeam(ctx, "bare", "")
	must(t, err)
	second, err := j.CreateTeam(ctx, "bare2", "")
	must(t, err)
	if main.ID != "t-1" || bare.ID != "t-2" || second.ID != "t-3" {
		t.Errorf("ids %s, %s, %s", main.ID, bare.ID, second.ID)
	}
	for _, find := range []func() (roster.Team, error){
		func() (roster.Team, error) { return j.Team(ctx, "t-1") },
		func() (roster.Team, error) { return j.TeamByName(ctx, "mAIN") },
		func() (roster.Team, error) { return j.TeamByRoot(ctx, "/ws/main") },
	} {
		got, err := find()
		must(t, err)
		if !got.Created.Equal(main.Created) || got.Name != "Main" || got.Workspace != "/ws/main" || got.ID != "t-1" {
			t.Errorf("found %+v", got)
		}
	}
	_, err = j.CreateTeam(ctx, "other", "/ws/main")
	want(t, err, errdefs.Conflict)
	if err == nil || !strings.Contains(err.Error(), `"Main"`) {
		t.Errorf("the owner of the workspace is not named: %v", err)
	}
	_, err = j.CreateTeam(ctx, "team-lead", "")
	want(t, err, errdefs.BadArgument)
	for _, name := range []string{"nobody", "", "a/b", "sub-1", "../daemon"} {
		_, err = j.TeamByName(ctx, name)
		want(t, err, errdefs.TeamNotFound)
	}
	_, err = j.TeamByRoot(ctx, "/elsewhere")
	want(t, err, errdefs.TeamNotFound)
	_, err = j.Team(ctx, "t-9")
	want(t, err, errdefs.TeamNotFound)
}
