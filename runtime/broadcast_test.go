package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/storetest"
)

// crewOf spawns teammates and waits until they rest.
func (h *house) crewOf(names ...string) (ids []task.ID) {
	h.t.Helper()
	for _, name := range names {
		id := h.spawn("hello", mate(name))
		h.untilState(id, task.Idle)
		ids = append(ids, id)
	}
	return ids
}

// heard counts how often a task took a text.
func (h *house) heard(id task.ID, words string) (n int) {
	h.t.Helper()
	for _, in := range h.inputs(id) {
		if in == words {
			n++
		}
	}
	return n
}

// proves M1, M4: a message to all goes to the living teammates but the sender, wakes those that rest, revives nobody, and has
// a receipt for each from its acceptance on.
func TestMessageToAll(t *testing.T) {
	bubble(t, echo, func(h *house) {
		ids := h.crewOf(task.LeadName, "ann", "bob", "carl")
		lead, ann, bob, carl := ids[0], ids[1], ids[2], ids[3]
		h.must(h.stopTask(carl, task.Kill))
		sent := h.post(runtime.SendRequest{Sender: ann, To: team.Everyone, Text: "news"})
		receipts, err := h.journal.Sent(context.Background(), sent.Team, sent.MessageID)
		h.must(err)
		names := ""
		for _, r := range receipts {
			names += r.Value.To + " "
		}
		if len(receipts) != 2 || !strings.Contains(names, "bob") || !strings.Contains(names, task.LeadName) {
			h.t.Errorf("recipients: %s", names)
		}
		h.errandsDone(sent.Team)
		time.Sleep(time.Hour)
		for id, n := range map[task.ID]int{lead: 1, ann: 0, bob: 1, carl: 0} {
			if got := h.heard(id, "news"); got != n {
				h.t.Errorf("%s heard it %d times", id, got)
			}
		}
		if !h.receipt(sent, bob).Woke || h.task(carl).State != task.Killed {
			h.t.Errorf("bob: %+v; carl is %s", h.receipt(sent, bob), h.task(carl).State)
		}
	})
}

// proves M1: nothing is accepted for nobody.
func TestMessageToNobody(t *testing.T) {
	bubble(t, echo, func(h *house) {
		ann := h.crewOf("ann")[0]
		_, err := h.sup.Send(context.Background(), runtime.SendRequest{Sender: ann, To: team.Everyone, Text: "news"})
		if !errdefs.Is(err, errdefs.RecipientNotFound) || !strings.Contains(err.Error(), "nobody") {
			h.t.Errorf("alone: %v", err)
		}
	})
}

// proves M5: who ends between the acceptance of a message to all and its turn to get it does not, which its receipt, the
// sender and the leader are told.
func TestMessageToAllMissesWhoEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ann, bob task.ID
		var h *house
		stopped, once := make(chan error, 1), sync.Once{}
		bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			done, err := commit()
			if touches(b, "outbox/m-") {
				once.Do(func() {
					go func() { stopped <- h.stopTask(bob, task.Kill) }()
					h.untilState(bob, task.Killed)
				})
			}
			return done, err
		}}
		inside(t, echo, func(house *house) {
			h = house
			ids := h.crewOf("ann", "bob")
			ann, bob = ids[0], ids[1]
			sent := h.post(runtime.SendRequest{Sender: ann, To: team.Everyone, Text: "news"})
			h.must(<-stopped)
			h.errandsDone(sent.Team)
			if r := h.receipt(sent, bob); r.Fate != mailbox.Undeliverable || r.Reason == "" {
				h.t.Errorf("receipt: %+v", r)
			}
			time.Sleep(time.Hour)
			back := h.noticesIn(sent.Team, ann, task.Returned)
			inbox := h.noticesIn(sent.Team, mailbox.LeaderBox, task.Returned)
			if len(back) != 1 || len(inbox) != 1 || !strings.Contains(back[0], "bob") || !strings.Contains(inbox[0], sent.MessageID) {
				h.t.Errorf("told: %q, %q", back, inbox)
			}
			if h.heard(bob, "news") != 0 || h.task(bob).State != task.Killed {
				h.t.Errorf("bob is %s", h.task(bob).State)
			}
		}, tapped(bent))
	})
}

// proves M1, M5: whose name is another one's when its turn comes does not get a message to all, and keeps it from nobody.
func TestMessageToAllMissesWhoIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bob task.ID
		var h *house
		replaced, once := make(chan struct{}), sync.Once{}
		bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			done, err := commit()
			if touches(b, "outbox/m-") {
				once.Do(func() {
					go func() {
						defer close(replaced)
						h.must(h.stopTask(bob, task.Kill))
						h.spawn("hello", mate("bob"))
					}()
					<-replaced
				})
			}
			return done, err
		}}
		inside(t, echo, func(house *house) {
			h = house
			ids := h.crewOf("ann", "bob", "carl")
			bob = ids[1]
			sent := h.post(runtime.SendRequest{Sender: ids[0], To: team.Everyone, Text: "news"})
			h.errandsDone(sent.Team)
			if r := h.receipt(sent, bob); r.Fate != mailbox.Undeliverable || r.Reason == "" {
				h.t.Errorf("receipt: %+v", r)
			}
			h.eventually(func() bool { return h.heard(ids[2], "news") == 1 })
			if h.heard(ids[2], "news") != 1 {
				h.t.Error("carl did not hear it")
			}
		}, tapped(bent))
	})
}

// proves M2: each recipient gets a sender's messages in their order, also those to all that are yet to be handed on, whatever
// the digits of their numbers, and what is sent to the recipient alone after them.
func TestMessageToAllKeepsTheOrder(t *testing.T) {
	const more = 100 // from numbers of one or two digits to those of three
	synctest.Test(t, func(t *testing.T) {
		var h *house
		var begun atomic.Bool
		bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			done, err := commit()
			if touches(b, "outbox/m-") && begun.CompareAndSwap(false, true) {
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for i := range more {
						h.post(runtime.SendRequest{To: team.Everyone, Text: fmt.Sprint("all ", 1+i)})
					}
					h.post(runtime.SendRequest{To: "bob", Text: "bob alone"})
				}()
				<-sent
			}
			return done, err
		}}
		inside(t, echo, func(house *house) {
			h = house
			ids := h.crewOf("ann", "bob")
			sent := h.post(runtime.SendRequest{To: team.Everyone, Text: "all 0"})
			h.errandsDone(sent.Team)
			want := []string{"hello"}
			for i := range 1 + more {
				want = append(want, fmt.Sprint("all ", i))
			}
			for id, want := range map[task.ID][]string{ids[0]: want, ids[1]: append(slices.Clone(want), "bob alone")} {
				h.eventually(func() bool { return h.task(id).State == task.Idle && len(h.inputs(id)) >= len(want) })
				if got := h.inputs(id); !slices.Equal(got, want) {
					h.t.Errorf("%s heard %q", id, got)
				}
			}
		}, tapped(bent))
	})
}

// proves M2: what goes ahead to one recipient, so that what is sent to it alone comes behind it, overtakes nothing on the way
// to the others.
func TestMessageToOneKeepsTheOrderOfTheOthers(t *testing.T) {
	const many = 40 // more than one commit hands on
	synctest.Test(t, func(t *testing.T) {
		var h *house
		var ids []task.ID
		var writes atomic.Int32
		bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			if touches(b, "outbox/m-") && writes.Add(1) == 2 { // it is accepted, and about to be handed on
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					h.post(runtime.SendRequest{To: string(ids[many-1]), Text: "for the last"})
					h.post(runtime.SendRequest{To: team.Everyone, Text: "all 2"})
					h.post(runtime.SendRequest{To: string(ids[4]), Text: "for the fifth"})
				}()
				<-sent
			}
			return commit()
		}}
		inside(t, hang, func(house *house) {
			h = house
			ann := h.spawn("busy", mate("ann"))
			in := h.task(ann).Team
			ids = append([]task.ID{ann}, h.recruits(in, many-1)...)
			h.post(runtime.SendRequest{To: team.Everyone, Text: "all 1"})
			h.errandsDone(in)
			alone := map[int][]string{4: {"for the fifth"}}
			for i, id := range ids {
				want := append([]string{"all 1", "all 2"}, alone[i]...)
				if i == many-1 {
					want = []string{"all 1", "for the last", "all 2"}
				}
				var got []string
				for _, m := range h.mailOf(in, id) {
					got = append(got, m.Text)
				}
				if !slices.Equal(got, want) {
					h.t.Errorf("%s got %q", id, got)
				}
			}
		}, tapped(bent), slots(1))
	})
}

// proves M2: nor does an answer to a plan overtake what its sender has sent to all before.
func TestControlMessageKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *house
		var plan string
		var writes atomic.Int32
		bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			if touches(b, "outbox/m-") && writes.Add(1) == 2 { // it is accepted, and about to be handed on
				answered := make(chan error)
				go func() {
					_, err := h.answerPlan(plan, true)
					answered <- err
				}()
				h.must(<-answered)
			}
			return commit()
		}}
		inside(t, hang, func(house *house) {
			h = house
			ann := h.spawn("busy", planner)
			h.untilState(ann, task.Running)
			plan = h.submit(ann, "a plan")
			h.errandsDone(h.post(runtime.SendRequest{To: team.Everyone, Text: "news"}).Team)
			mail := h.mailOf(h.task(ann).Team, ann)
			if len(mail) != 2 || mail[0].Text != "news" || mail[1].Kind != task.PlanResponse {
				h.t.Errorf("ann got %+v", mail)
			}
		}, tapped(bent))
	})
}

// recruits writes so many living teammates, which never run.
func (h *house) recruits(in string, n int) (ids []task.ID) {
	h.t.Helper()
	ctx := context.Background()
	for len(ids) < n {
		b := h.journal.Batch(in)
		for range min(25, n-len(ids)) {
			number, err := h.journal.NextID(ctx, in)
			h.must(err)
			id := task.NewID(task.Teammate, number)
			name := fmt.Sprint("recruit-", number)
			b.CreateTask(task.Draft{Task: task.Task{
				ID: id, Team: in, Kind: task.Teammate, Name: name, State: task.Queued, Incarnation: 1, Workspace: h.workspace,
			}}, "user")
			b.PutMember(roster.Member{Name: name, TaskID: id}, 0, roster.Joined)
			ids = append(ids, id)
		}
		h.must(h.journal.Commit(ctx, b))
	}
	return ids
}

// proves M1, M2: a message to 10,000 reaches each once, though the daemon is killed on the way.
func TestMessageToTenThousand(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 teammates")
	}
	const many = 10_000
	bubble(t, hang, func(h *house) {
		ann := h.spawn("busy", mate("ann"))
		h.untilState(ann, task.Running)
		in := h.task(ann).Team
		ids := h.recruits(in, many)
		h.cut.after(80 + 100) // the receipts, the acceptance, and then some
		sent, err := h.sup.Send(context.Background(), runtime.SendRequest{Sender: ann, To: team.Everyone, Text: "news"})
		h.must(err)
		<-h.cut.dead
		h.restart()
		h.errandsDone(in)
		for _, id := range ids {
			if mail := h.mailOf(in, id); len(mail) != 1 || mail[0].Text != "news" {
				h.t.Fatalf("%s got %+v", id, mail)
			}
		}
		receipts, err := h.journal.Sent(context.Background(), in, sent.MessageID)
		if err != nil || len(receipts) != many {
			h.t.Errorf("%d receipts, %v", len(receipts), err)
		}
	}, slots(1))
}

// postAs repeats a message until it is acknowledged.
func (c client) postAs(request string, req runtime.SendRequest) (sent runtime.Sending) {
	c.h.t.Helper()
	req.RequestID, req.Caller, req.Workspace = request, "test", c.h.workspace
	c.insist("send", func() (err error) {
		sent, err = c.h.sup.Send(context.Background(), req)
		return err
	})
	return sent
}

// toAll is a message to all that a client repeats.
func toAll(h *house) {
	req := runtime.SendRequest{RequestID: "all", Caller: "test", Workspace: h.workspace, To: team.Everyone, Text: "news"}
	_, _ = h.sup.Send(context.Background(), req) // a client that is not answered asks again
}

// allHeard tells whether all have taken the message to all and rest, and nothing is left to be handed on.
func allHeard(h *house, ids []task.ID) bool {
	for _, id := range ids {
		if h.task(id).State != task.Idle || h.heard(id, "news") == 0 {
			return false
		}
	}
	errands, err := h.journal.Errands(context.Background(), h.task(ids[0]).Team)
	return err == nil && len(errands) == 0
}

// eventually waits until something holds, true, or the store is cut.
func (h *house) eventually(holds func() bool) bool {
	h.t.Helper()
	for range 100_000 {
		switch {
		case holds():
			return true
		case h.cut.isDead():
			return false
		}
		time.Sleep(10 * time.Millisecond) // in the bubble
	}
	h.t.Fatal("it never comes")
	return false
}

// heardOnce checks that each has taken the message to all once.
func heardOnce(h *house, ids []task.ID) {
	h.t.Helper()
	h.eventually(func() bool { return allHeard(h, ids) })
	time.Sleep(time.Hour)
	for _, id := range ids {
		if n := h.heard(id, "news"); n != 1 {
			h.t.Errorf("%s took it %d times", id, n)
		}
	}
}

// proves M1, M2, D8: with the n-th commit failing, for all n and all ways to fail, each recipient of a message to all takes
// it once.
func TestMessageToAllEveryCommitFails(t *testing.T) {
	walkFaults(t, 15, func(t *testing.T, plan storetest.Plan) (failed bool) {
		var faulty *storetest.Faulty
		bubble(t, echo, func(h *house) {
			c := client{h}
			var ids []task.ID
			for _, name := range []string{"ann", "bob", "carl"} {
				ids = append(ids, c.spawnAs(name, task.Assignment{
					Teammate: &task.TeammateSpec{Name: name}, AgentSpec: task.AgentSpec{Prompt: "hello"},
				}))
			}
			c.postAs("all", runtime.SendRequest{To: team.Everyone, Text: "news"})
			heardOnce(h, ids)
			failed = h.healed(faulty)
		}, failsBy(plan, &faulty))
		return failed
	})
}

// proves M1, M2, D4: killed right after the n-th commit, for all n, each recipient of a message to all takes it once.
func TestMessageToAllKilledAfterEachCommit(t *testing.T) {
	walk(t, 8, func(t *testing.T, n int) (over bool) {
		bubble(t, echo, func(h *house) {
			ids := h.crewOf("ann", "bob", "carl")
			h.cut.after(n)
			toAll(h)
			over = h.eventually(func() bool { return allHeard(h, ids) })
			h.restart()
			toAll(h)
			heardOnce(h, ids)
		})
		return over
	})
}
