package runtime_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// deleted checks that a team is not there any more and that nothing lives in it.
func (h *house) deleted(team roster.Team) {
	h.t.Helper()
	_, err := h.sup.FindTeam(context.Background(), team.Name, "")
	h.why(err, errdefs.TeamNotFound)
	teams, err := h.journal.Teams(context.Background())
	h.must(err)
	for _, left := range teams {
		if left.ID == team.ID {
			h.t.Errorf("%s is listed", team.Name)
		}
	}
	for id, err := range h.journal.Living(context.Background(), team.ID) {
		h.must(err)
		h.t.Errorf("%s lives in %s", id, team.Name)
	}
}

// proves N1: a team that is deleted takes all that lives in it along: what runs, what is idle, what is queued. Its tasks
// stay readable, nothing begins in it again, and its name and workspace are free.
func TestDeleteTeam(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{"hang": hang, "echo": echo}), func(h *house) {
		team, err := h.found(calling("shop"))
		h.must(err)
		idle := h.spawn("echo", mate("Ann"))
		h.untilState(idle, task.Idle)
		ended := h.spawn("echo")
		h.result(ended)
		ids := []task.ID{h.spawn("hang"), h.spawn("hang", mate("Bob")), h.spawn("hang"), idle}
		h.untilState(ids[0], task.Running)
		h.must(h.wipe("SHOP", "once"))
		for _, id := range ids {
			if r := h.ended(id, task.Killed, task.StoppedByClient); r.TaskID != id {
				h.t.Errorf("%s ended as %+v", id, r)
			}
		}
		h.deleted(team)
		h.why(h.wipe("shop", ""), errdefs.TeamNotFound)
		h.must(h.wipe("SHOP", "once"))
		h.restart()
		h.must(h.wipe("SHOP", "once"))
		h.deleted(team)
		if len(h.entries(ids[0])) == 0 || h.task(idle).TeamName != "shop" {
			h.t.Error("the transcripts are not readable any more")
		}
		h.refused(errdefs.TaskEnded, func(a *task.Assignment) { a.Parent = ids[0] })
		h.refused(errdefs.TeamNotFound, func(a *task.Assignment) { a.Team, a.Workspace = "shop", "" })
		_, err = h.sup.Send(context.Background(), sendTo(idle, "wake up"))
		h.why(err, errdefs.TeamNotFound)
		_, err = h.sup.Send(context.Background(), runtime.SendRequest{Caller: "test", Team: "shop", To: "Ann", Text: "hi"})
		h.why(err, errdefs.TeamNotFound)
		fresh, err := h.found(calling("shop"))
		h.must(err)
		if fresh.ID == team.ID || h.task(h.spawn("echo", mate("Ann"))).Team != fresh.ID {
			h.t.Errorf("the new team is %+v", fresh)
		}
	}, slots(2))
}

// A deletion is never held up by who does not answer, and while it lasts nothing begins: neither a spawn nor a revival.
// proves T1
func TestDeleteTeamOfADeafTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, cast(map[string]modelFunc{"deaf": play(call("deaf", "{}"), text("never")), "echo": echo}), inBubble,
			with(g.deaf("deaf")))
		defer close(g.open)
		team, err := h.found(calling("shop"))
		h.must(err)
		ended := h.spawn("echo", mate("Ann"))
		h.untilState(ended, task.Idle)
		h.must(h.stopTask(ended, task.Kill))
		deaf := h.spawn("deaf")
		<-g.entered
		done := make(chan error, 1)
		go func() { done <- h.wipe("shop", "") }()
		synctest.Wait() // it waits for the deaf one
		h.refused(errdefs.TeamNotFound)
		h.refused(errdefs.TeamNotFound, mate("Bob"))
		_, err = h.write("Ann", "wake up")
		h.why(err, errdefs.TeamNotFound)
		h.must(<-done)
		h.ended(deaf, task.Killed, task.StoppedByClient)
		h.deleted(team)
	})
}

// proves T3: when the team is gone, so are its processes: of shells, and of a teammate that is stuck in one.
// case STP-1: the team can be deleted.
func TestDeleteTeamReapsProcesses(t *testing.T) {
	h := newHouse(t, play(call("bash", `{"command":"echo $$ > stuck; sleep 600"}`), text("never")))
	team, err := h.found(calling("shop"))
	h.must(err)
	h.spawn("x", mate("Ann"))
	shell := h.shell("trap '' TERM; echo $$ > shell; nohup setsid sleep 600 & sleep 600")
	h.made("stuck")
	h.made("shell")
	h.must(h.wipe("shop", ""))
	h.gone("stuck")
	h.gone("shell")
	h.noProcess()
	h.ended(shell, task.Killed, task.StoppedByClient)
	h.deleted(team)
}

// What a kill cuts off the next start goes on with: the team is gone in the end, and never half of it.
func TestDeleteTeamKilledAfterEachCommit(t *testing.T) {
	for n, over := 1, false; !over; n++ {
		synctest.Test(t, func(t *testing.T) { over = deletedAfter(t, n) })
		if n > 50 {
			t.Fatal("the deletion has no end")
		}
	}
}

// deletedAfter deletes a team with a kill after n commits; it tells whether the deletion was done by then.
func deletedAfter(t *testing.T, n int) bool {
	h := newHouse(t, cast(map[string]modelFunc{"hang": hang, "echo": echo}), inBubble)
	team, err := h.found(calling("shop"))
	h.must(err)
	h.untilState(h.spawn("echo", mate("Ann")), task.Idle)
	h.untilState(h.spawn("hang"), task.Running)
	h.cut.after(n)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- h.sup.DeleteTeam(ctx, runtime.DeleteTeamRequest{Caller: "test", RequestID: "once", Team: "shop"})
	}()
	synctest.Wait()
	h.kill()
	cancel()
	over := <-done == nil
	h.start()
	synctest.Wait()
	h.must(h.wipe("shop", "once"))
	h.deleted(team)
	if _, err := h.found(calling("shop")); err != nil {
		t.Errorf("after %d commits: %v", n, err)
	}
	return over
}

// The default team comes into being again.
func TestDeleteDefaultTeam(t *testing.T) {
	h := newHouse(t, play(text("done")), inBubble, func(h *house) { h.roots = []string{h.workspace} })
	first := h.task(h.spawn("x", in("")))
	h.result(first.ID)
	h.must(h.wipe(roster.DefaultTeam, ""))
	second := h.task(h.spawn("x", in("")))
	if second.TeamName != roster.DefaultTeam || second.Team == first.Team || second.Workspace != h.workspace {
		t.Errorf("the spawn after it is in %s of %s", second.Team, second.Workspace)
	}
}

// The default team may get a name: its directory leads to it by that one, and who names none gets a default team anew.
func TestRenameDefaultTeam(t *testing.T) {
	h := newHouse(t, play(text("done")), inBubble, func(h *house) { h.roots = []string{h.workspace} })
	first := h.task(h.spawn("x", in("")))
	_, err := h.rename(roster.DefaultTeam, "shop")
	h.must(err)
	byRoot, byDefault := h.task(h.spawn("x")), h.task(h.spawn("x", in("")))
	if byRoot.Team != first.Team || byRoot.TeamName != "shop" || byDefault.TeamName != roster.DefaultTeam ||
		byDefault.Workspace != h.workspace {
		t.Errorf("by its directory: %s; without one: %s in %s", byRoot.TeamName, byDefault.TeamName, byDefault.Workspace)
	}
	if found, err := h.sup.FindTeam(context.Background(), "", h.workspace); err != nil || found.ID != first.Team {
		t.Errorf("found %+v, %v", found, err)
	}
}

// proves M5: mail whose recipient fails while its team is being deleted goes back: nothing revives it there any more.
func TestMailGoesBackWhenItsTeamIsDeleted(t *testing.T) {
	entered, open := make(chan bool, 1), make(chan bool)
	ann := func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
		entered <- true
		<-open
		return model.Response{}, &model.Error{Class: model.InvalidRequest, Message: "no"}
	}
	trapped(t, ann, func(h *house, s *trap) {
		id := h.spawn("ann", mate("ann"))
		<-entered
		late := sendTo(id, "afterwards")
		late.Delivery = mailbox.AtTurn
		sent, err := h.sup.Send(context.Background(), late)
		h.must(err)
		s.set("closed", func() {
			close(open)
			h.untilState(id, task.Failed)
		})
		h.must(h.sup.DeleteTeam(context.Background(), runtime.DeleteTeamRequest{Team: h.task(id).TeamName}))
		synctest.Wait()
		receipts, err := h.view.MessageReceipts(context.Background(), sent.MessageID)
		h.must(err)
		if last := receipts[len(receipts)-1]; last.State != mailbox.Undeliverable {
			t.Errorf("receipts: %+v", receipts)
		}
		if errands, err := h.journal.Errands(context.Background(), h.task(id).Team); len(errands) > 0 || err != nil {
			t.Errorf("left in the outbox: %+v, %v", errands, err)
		}
	})
}
