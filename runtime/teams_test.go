package runtime_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// found makes a team in the workspace of the house, or as the options say.
func (h *house) found(more ...func(*runtime.CreateTeamRequest)) (roster.Team, error) {
	req := runtime.CreateTeamRequest{Caller: "test", Workspace: h.workspace}
	for _, m := range more {
		m(&req)
	}
	return h.sup.CreateTeam(context.Background(), req)
}

// rename gives a team another name.
func (h *house) rename(from, to string) (roster.Team, error) {
	return h.sup.UpdateTeam(context.Background(), runtime.UpdateTeamRequest{Caller: "test", Team: from, Name: &to})
}

// wipe deletes a team.
func (h *house) wipe(name, requestID string) error {
	return h.sup.DeleteTeam(context.Background(), runtime.DeleteTeamRequest{Caller: "test", RequestID: requestID, Team: name})
}

// why compares the reason of an error.
func (h *house) why(err error, want errdefs.Reason) {
	h.t.Helper()
	if !errdefs.Is(err, want) {
		h.t.Errorf("the error is %v, want %s", err, want)
	}
}

// below makes a directory in the workspace.
func (h *house) below(name string) string {
	h.t.Helper()
	dir := filepath.Join(h.workspace, name)
	h.must(os.Mkdir(dir, 0o700))
	return dir
}

// foundIn is the option of a team's workspace.
func foundIn(dir string) func(*runtime.CreateTeamRequest) {
	return func(r *runtime.CreateTeamRequest) { r.Workspace = dir }
}

// calling is the option of a team's name.
func calling(name string) func(*runtime.CreateTeamRequest) {
	return func(r *runtime.CreateTeamRequest) { r.Name = name }
}

// proves N1, N2: a team is made from a workspace, which is canonical and its alone, as is its name in any case; a spawn in
// that directory finds it.
func TestCreateTeam(t *testing.T) {
	h := newHouse(t, play(text("done")), inBubble)
	shop := h.below("shop")
	h.must(os.Symlink(shop, filepath.Join(h.workspace, "link")))
	team, err := h.found(foundIn(filepath.Join(h.workspace, "link")), func(r *runtime.CreateTeamRequest) {
		r.Description, r.Budget = "sells things", task.Budget{Tokens: 1000}
	})
	h.must(err)
	if !strings.HasPrefix(team.Name, "shop-") || team.Workspace != shop {
		t.Errorf("the team is %+v", team)
	}
	kept, err := h.journal.Team(context.Background(), team.ID)
	h.must(err)
	if kept.Description != "sells things" || kept.Budget != (task.Budget{Tokens: 1000}) {
		t.Errorf("what is kept is %+v", kept)
	}
	if in := h.task(h.spawn("x", in(shop))); in.Team != team.ID {
		t.Errorf("the spawn is in %s", in.TeamName)
	}
	other := h.below("other")
	for name, c := range map[string]struct {
		why  errdefs.Reason
		more []func(*runtime.CreateTeamRequest)
	}{
		"name":                {errdefs.NameTaken, []func(*runtime.CreateTeamRequest){calling(strings.ToUpper(team.Name)), foundIn(other)}},
		"workspace":           {errdefs.NameTaken, []func(*runtime.CreateTeamRequest){calling("fresh"), foundIn(shop)}},
		"both":                {errdefs.NameTaken, []func(*runtime.CreateTeamRequest){foundIn(shop)}},
		"no workspace":        {errdefs.BadArgument, []func(*runtime.CreateTeamRequest){calling("fresh"), foundIn("")}},
		"relative":            {errdefs.BadArgument, []func(*runtime.CreateTeamRequest){foundIn("shop")}},
		"reserved":            {errdefs.BadArgument, []func(*runtime.CreateTeamRequest){calling("Team-Lead"), foundIn(other)}},
		"the daemon's own":    {errdefs.BadArgument, []func(*runtime.CreateTeamRequest){calling("Default"), foundIn(other)}},
		"steps of a turn":     {errdefs.BadArgument, []func(*runtime.CreateTeamRequest){func(r *runtime.CreateTeamRequest) { r.Budget.MaxSteps = 1 }}},
		"wall time":           {errdefs.BadArgument, []func(*runtime.CreateTeamRequest){func(r *runtime.CreateTeamRequest) { r.Budget.WallTime = 1 }}},
		"long description":    {errdefs.TooLarge, []func(*runtime.CreateTeamRequest){func(r *runtime.CreateTeamRequest) { r.Description = strings.Repeat("x", 1025) }}},
		"a budget of nothing": {errdefs.BadArgument, []func(*runtime.CreateTeamRequest){func(r *runtime.CreateTeamRequest) { r.Budget.Tokens = -1 }}},
	} {
		_, err := h.found(c.more...)
		if !errdefs.Is(err, c.why) {
			t.Errorf("%s: %v", name, err)
		}
		if c.why == errdefs.NameTaken && errdefs.KindOf(err) != errdefs.AlreadyExists {
			t.Errorf("%s has the kind of %v", name, err)
		}
	}
}

// proves N7: a retry gives the team of then, at the same time, after a restart, under another name, and when its workspace is
// gone.
func TestCreateTeamRetry(t *testing.T) {
	h := newHouse(t, play(text("done")), inBubble)
	shop := h.below("shop")
	once := func(r *runtime.CreateTeamRequest) { r.RequestID, r.Workspace = "once", shop }
	var crowd sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		crowd.Go(func() {
			team, err := h.found(once)
			h.must(err)
			ids[i] = team.ID
		})
	}
	crowd.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("one request made the teams %v", ids)
		}
	}
	_, err := h.found(once, calling("another"))
	h.why(err, errdefs.RequestIDReused)
	first, err := h.journal.Team(context.Background(), ids[0])
	h.must(err)
	_, err = h.rename(first.Name, "renamed")
	h.must(err)
	h.restart()
	h.must(os.Remove(shop))
	again, err := h.found(once)
	h.must(err)
	if again.ID != ids[0] || again.Name != "renamed" {
		t.Errorf("the retry gives %+v", again)
	}
}

// A team is renamed while nobody lives in it who knows it by its name. The name leads to it at once, and the old one is free.
func TestRenameTeam(t *testing.T) {
	h := newHouse(t, echo, inBubble)
	team, err := h.found(calling("old"))
	h.must(err)
	ann := h.spawn("x", mate("Ann"))
	h.untilState(ann, task.Idle)
	_, err = h.rename("old", "new")
	h.why(err, errdefs.TeamInUse)
	h.must(h.stopTask(ann, task.Kill))
	other, err := h.found(calling("other"), foundIn(h.below("other")))
	h.must(err)
	_, err = h.rename("old", "OTHER")
	h.why(err, errdefs.NameTaken)
	_, err = h.rename("old", "default")
	h.why(err, errdefs.BadArgument)
	_, err = h.rename("nobody", "new")
	h.why(err, errdefs.TeamNotFound)
	renamed, err := h.rename("OLD", "New")
	h.must(err)
	if renamed.ID != team.ID || renamed.Name != "New" {
		t.Errorf("it became %+v", renamed)
	}
	again, err := h.rename("new", "NEW") // the same but for the case
	h.must(err)
	if again.Name != "NEW" {
		t.Errorf("then it became %+v", again)
	}
	h.restart()
	for name, want := range map[string]string{"new": team.ID, "other": other.ID, "old": ""} {
		found, err := h.sup.FindTeam(context.Background(), name, "")
		if found.ID != want || (want == "") != errdefs.Is(err, errdefs.TeamNotFound) {
			t.Errorf("%s leads to %q, %v", name, found.ID, err)
		}
	}
	if in := h.task(h.spawn("x")); in.Team != team.ID {
		t.Errorf("the workspace leads to %s", in.TeamName)
	}
}

// A budget is given as a whole, and the description alone is left or changed.
func TestUpdateTeam(t *testing.T) {
	h := newHouse(t, echo, inBubble)
	_, err := h.found(calling("shop"), func(r *runtime.CreateTeamRequest) { r.Budget = task.Budget{Tokens: 5, Turns: 5} })
	h.must(err)
	h.untilState(h.spawn("x", mate("Ann")), task.Idle)
	what, budget := "sells", task.Budget{Tokens: 7}
	req := runtime.UpdateTeamRequest{Caller: "test", RequestID: "once", Team: "shop", Description: &what, Budget: &budget}
	for range 2 {
		team, err := h.sup.UpdateTeam(context.Background(), req)
		h.must(err)
		if team.Name != "shop" || team.Description != what || team.Budget != budget {
			t.Errorf("it became %+v", team)
		}
	}
	_, err = h.sup.UpdateTeam(context.Background(), runtime.UpdateTeamRequest{Caller: "test", Team: "shop"})
	h.why(err, errdefs.BadArgument)
	_, err = h.sup.UpdateTeam(context.Background(), runtime.UpdateTeamRequest{Caller: "test", Description: &what})
	h.why(err, errdefs.BadArgument)
}

// The budget of a team binds all in it, also those that run when it changes, from their next step on. proves R4
func TestTeamBudgetBindsNextStep(t *testing.T) {
	begun, more := make(chan struct{}), make(chan struct{})
	h := newHouse(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if stepsOf(req) == 0 {
			close(begun)
			<-more
		}
		if len(req.Tools) == 0 {
			return text("wrapped up"), nil
		}
		return call("ls", `{"path":"."}`), nil
	}, inBubble)
	_, err := h.found(calling("shop"))
	h.must(err)
	id := h.spawn("x")
	<-begun
	_, err = h.sup.UpdateTeam(context.Background(), runtime.UpdateTeamRequest{
		Caller: "test", Team: "shop", Budget: &task.Budget{Steps: 2},
	})
	h.must(err)
	close(more)
	if r := h.ended(id, task.Failed, task.BudgetExceeded); r.Usage.Steps != 2 {
		t.Errorf("it took %d steps: %s", r.Usage.Steps, r.Error)
	}
}

// Two who rename at once never lose a team or a name: each name leads to the team that has it.
func TestRenamesAtOnce(t *testing.T) {
	h := newHouse(t, echo, inBubble)
	for _, name := range []string{"one", "two"} {
		_, err := h.found(calling(name), foundIn(h.below(name)))
		h.must(err)
	}
	for range 20 {
		var both sync.WaitGroup
		for from, to := range map[string]string{"one": "same", "two": "same", "same": "one"} {
			both.Go(func() {
				_, err := h.rename(from, to)
				if err != nil && !errdefs.Is(err, errdefs.NameTaken) && !errdefs.Is(err, errdefs.TeamNotFound) {
					t.Error(err)
				}
			})
		}
		both.Wait()
		h.namesAreRight(2)
	}
}

// namesAreRight checks that each team is found by its name and that there are so many names.
func (h *house) namesAreRight(n int) {
	h.t.Helper()
	teams, err := h.journal.Teams(context.Background())
	h.must(err)
	if len(teams) != n {
		h.t.Errorf("there are %d teams, want %d", len(teams), n)
	}
	for _, team := range teams {
		if found, err := h.journal.TeamByName(context.Background(), team.Name); err != nil || found.ID != team.ID {
			h.t.Errorf("%s leads to %+v, %v", team.Name, found, err)
		}
	}
}
