package journal

import (
	"context"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// change writes what f makes of a team.
func change(t *testing.T, j *Journal, id string, f func(*roster.Team)) error {
	t.Helper()
	row, err := j.TeamRow(context.Background(), id)
	must(t, err)
	after := row.Value
	f(&after)
	return j.ChangeTeam(context.Background(), j.Batch(Daemon), row, after)
}

// leads checks where a name leads to; "" for nowhere.
func leads(t *testing.T, j *Journal, name, want string) {
	t.Helper()
	found, err := j.TeamByName(context.Background(), name)
	if found.ID != want || (want == "") != errdefs.Is(err, errdefs.TeamNotFound) {
		t.Errorf("%s leads to %q, %v; want %q", name, found.ID, err, want)
	}
}

// A change of a team is one commit: with its name goes what leads to it, and with its end its workspace too. A restart, which
// mends what leads to teams, brings nothing back.
func TestChangeTeam(t *testing.T) {
	ctx := context.Background()
	st := newStore(t)
	j := newJournal(t, st)
	one, two := newTeam(t, j, "One"), newTeam(t, j, "Two")
	want(t, change(t, j, one.ID, func(r *roster.Team) { r.Name = "TWO" }), errdefs.NameTaken)
	stale, err := j.TeamRow(ctx, one.ID)
	must(t, err)
	must(t, change(t, j, one.ID, func(r *roster.Team) {
		r.Name, r.Description, r.Budget = "Three", "d", task.Budget{Steps: 1, Tokens: 2, Turns: 3, ToolCalls: 4, Cost: 5}
	}))
	want(t, j.ChangeTeam(ctx, j.Batch(Daemon), stale, stale.Value), errdefs.Conflict)
	must(t, change(t, j, one.ID, func(r *roster.Team) { r.Name = "THREE" }))
	must(t, change(t, j, two.ID, func(r *roster.Team) { r.Deleted = true }))
	for range 2 {
		leads(t, j, "one", "")
		leads(t, j, "two", "")
		leads(t, j, "three", one.ID)
		kept, err := j.TeamByRoot(ctx, one.Workspace)
		must(t, err)
		if kept.Name != "THREE" || kept.Description != "d" || kept.Budget.Cost != 5 || kept.Budget.Turns != 3 {
			t.Errorf("it became %+v", kept)
		}
		_, err = j.TeamByRoot(ctx, two.Workspace)
		want(t, err, errdefs.TeamNotFound)
		teams, err := j.Teams(ctx)
		must(t, err)
		all, err := j.AllTeams(ctx)
		must(t, err)
		gone, err := j.Team(ctx, two.ID)
		must(t, err)
		if len(teams) != 1 || len(all) != 2 || gone.Name != "Two" {
			t.Errorf("teams %v of %v", teams, all)
		}
		j = newJournal(t, st)
	}
	again := newTeam(t, j, "Two")
	if again.ID == two.ID {
		t.Error("the id of a deleted team was given again")
	}
	leads(t, newJournal(t, st), "two", again.ID)
}

// In a closed team nothing begins: it says so, and is no conflict that reading again would end. What runs may have children,
// which are stopped with it.
func TestClosedTeam(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	parent := newTask(t, j, team)
	begin := func(parents ...task.ID) error {
		n, err := j.NextID(ctx, team)
		must(t, err)
		at := task.Task{ID: task.NewID(task.Subagent, n), Team: team, Kind: task.Subagent, State: task.Queued, Ancestors: parents}
		if len(parents) > 0 {
			at.Parent = parents[0]
		}
		b := j.Batch(team)
		b.CreateTask(task.Draft{Task: at}, "")
		return j.Commit(ctx, b)
	}
	must(t, begin())
	for range 2 {
		b := j.Batch(team)
		b.CloseTeam()
		commit(t, j, b)
	}
	if closed, err := j.IsClosed(ctx, team); err != nil || !closed {
		t.Errorf("closed: %t, %v", closed, err)
	}
	want(t, begin(), errdefs.TeamNotFound)
	must(t, begin(parent))
}

// Requests about teams themselves are kept and dropped as those of a team are. proves N7
func TestTeamRequests(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	key := RequestKey("uid:1", "r")
	with := func(b *Batch, made roster.Team) { b.PutRequest(key, Request{TaskID: task.ID(made.ID)}) }
	made, err := j.AddTeam(ctx, roster.Team{Name: "one", Workspace: "/one"}, with)
	must(t, err)
	_, err = j.AddTeam(ctx, roster.Team{Name: "two", Workspace: "/two"}, with)
	want(t, err, errdefs.Conflict)
	leads(t, j, "two", "")
	found, err := j.Request(ctx, Daemon, key)
	must(t, err)
	if string(found.TaskID) != made.ID {
		t.Errorf("the request's outcome is %+v", found)
	}
	must(t, j.Prune(ctx, Daemon))
	_, err = j.Request(ctx, Daemon, key)
	must(t, err)
	putRequests(t, j, Daemon, time.Now(), "newest")
	must(t, j.pruneRequests(ctx, Daemon, time.Now().Add(time.Hour), 1))
	_, err = j.Request(ctx, Daemon, key)
	want(t, err, errdefs.RecordNotFound)
}
