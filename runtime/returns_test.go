package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store/storetest"
)

// proves M5: mail that a subagent did not take before its end goes back: to a client as its receipt, to an agent as a notice,
// and to the leader inbox.
func TestMailToASubagentGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, on := make(chan bool), make(chan bool)
		single := func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
			asked <- true
			<-on
			return text("all in one"), nil
		}
		inside(t, cast(map[string]modelFunc{"single": single, "hello": echo}), func(h *house) {
			ann := h.crewOf("ann")[0]
			id := h.spawn("single", steps(1))
			<-asked
			mine := h.post(runtime.SendRequest{To: string(id), Text: "from a client"})
			hers := h.post(runtime.SendRequest{Sender: ann, To: string(id), Text: "from ann"})
			on <- true
			h.ended(id, task.Completed, task.Done)
			h.errandsDone(mine.Team)
			for _, sent := range []runtime.Sending{mine, hers} {
				if r := h.receipt(sent, id); r.Fate != mailbox.Undeliverable || !strings.Contains(r.Reason, string(id)) {
					h.t.Errorf("receipt: %+v", r)
				}
			}
			back := h.noticesIn(mine.Team, ann, task.Returned)
			inbox := h.noticesIn(mine.Team, mailbox.LeaderBox, task.Returned)
			if len(back) != 1 || !strings.Contains(back[0], hers.MessageID) || strings.Contains(back[0], mine.MessageID+" ") {
				h.t.Errorf("ann was told %q", back)
			}
			if len(inbox) != 1 || !strings.Contains(inbox[0], mine.MessageID) || !strings.Contains(inbox[0], hers.MessageID) {
				h.t.Errorf("the leader was told %q", inbox)
			}
			if n := h.unreadIn(mine.Team, id); n != (mailbox.Unread{}) {
				h.t.Errorf("unread in a dead box: %+v", n)
			}
		})
	})
}

// failsOnce ends the turn of a teammate with a model error when it is asked for the second time, once somebody has written.
type failsOnce struct {
	asked, on chan bool
	calls     tally
}

func newFailsOnce() *failsOnce { return &failsOnce{asked: make(chan bool), on: make(chan bool)} }

func (f *failsOnce) model(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
	if f.calls.add("") == 2 {
		f.asked <- true
		<-f.on
		return model.Response{}, errors.New("the provider is gone")
	}
	return echo(ctx, req, sink)
}

// proves W3
// case MSG-3: mail that came while a teammate's last turn failed revives it, for that is what it would have done a moment
// later.
func TestMailDuringTheLastTurnRevives(t *testing.T) {
	for _, name := range []string{"ann", task.LeadName} {
		synctest.Test(t, func(t *testing.T) {
			f := newFailsOnce()
			inside(t, f.model, func(h *house) {
				id := h.crewOf(name)[0]
				h.post(runtime.SendRequest{To: name, Text: "one"})
				<-f.asked
				sent := h.post(runtime.SendRequest{To: name, Text: "two"})
				f.on <- true
				h.untilSaid(id, "two", task.Idle)
				if got := h.task(id); got.Incarnation != 2 || h.fate(sent) != 0 {
					h.t.Errorf("it lives for the %d. time", got.Incarnation)
				}
				if got := h.inputs(id); !slices.Equal(got, []string{"hello", "one", "two"}) {
					h.t.Errorf("inputs: %q", got)
				}
			})
		})
	}
}

// left is a teammate that was stopped by a client while mail of a peer waited, which does not revive it.
func left(h *house, g *gate) (ann, bob task.ID, sent runtime.Sending) {
	ann = h.crewOf("ann")[0]
	bob = h.spawn("busy", mate("bob"))
	<-g.entered
	sent = client{h}.postAs("peer", runtime.SendRequest{Sender: ann, To: "bob", Text: "from a peer"})
	h.must(h.stopTask(bob, task.Kill))
	h.errandsDone(sent.Team)
	return ann, bob, sent
}

func leftModel() modelFunc {
	return cast(map[string]modelFunc{"hello": echo, "busy": play(call("gate", "{}"), text("done"))})
}

// proves W3, M12: what does not revive a teammate waits for what does.
func TestMailWaitsForTheNextLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, leftModel(), func(h *house) {
			_, bob, sent := left(h, g)
			if h.task(bob).State != task.Killed || h.unreadIn(sent.Team, bob).Messages != 1 || h.receipt(sent, bob).Fate != 0 {
				h.t.Errorf("bob is %s", h.task(bob).State)
			}
			h.post(runtime.SendRequest{To: "bob", Text: "from a client"})
			h.untilState(bob, task.Idle)
			if got := h.inputs(bob); !slices.Equal(got, []string{"busy", "from a client", "from a peer"}) {
				h.t.Errorf("inputs: %q", got)
			}
		}, with(g.tool("gate")))
	})
}

// proves W3, M5: when the name goes to a new task, the old one's mail goes back, and the new one never sees it.
func TestMailGoesBackWhenTheNameIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, leftModel(), func(h *house) {
			ann, bob, sent := left(h, g)
			h.replaced(ann, bob, sent)
		}, with(g.tool("gate")))
	})
}

// replaced spawns a new bob and checks what becomes of the mail of the old one.
func (h *house) replaced(ann, bob task.ID, sent runtime.Sending) {
	h.t.Helper()
	another := client{h}.spawnAs("another", task.Assignment{
		Teammate: &task.TeammateSpec{Name: "bob"}, AgentSpec: task.AgentSpec{Prompt: "hello"},
	})
	h.untilState(another, task.Idle)
	h.errandsDone(sent.Team)
	time.Sleep(time.Hour)
	if r := h.receipt(sent, bob); r.Fate != mailbox.Undeliverable || !strings.Contains(r.Reason, string(another)) {
		h.t.Errorf("receipt: %+v", r)
	}
	back := h.noticesIn(sent.Team, ann, task.Returned)
	inbox := h.noticesIn(sent.Team, mailbox.LeaderBox, task.Returned)
	if len(back) != 1 || len(inbox) != 1 || !strings.Contains(back[0], sent.MessageID) {
		h.t.Errorf("ann was told %q, the leader %q", back, inbox)
	}
	if n := h.unreadIn(sent.Team, bob); n != (mailbox.Unread{}) {
		h.t.Errorf("unread in a dead box: %+v", n)
	}
	if h.heard(another, "from a peer") != 0 || h.heard(bob, "from a peer") != 0 {
		h.t.Error("it was delivered after all")
	}
}

// proves M5, D4: killed right after the n-th commit, for all n, mail that goes back is told once.
func TestReturnKilledAfterEachCommit(t *testing.T) {
	walk(t, 4, func(t *testing.T, n int) (over bool) {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			inside(t, leftModel(), func(h *house) {
				ann, bob, sent := left(h, g)
				h.cut.after(n)
				_, _ = h.sup.Spawn(context.Background(), task.Assignment{ // which a client repeats that is not answered
					RequestID: "another", Caller: "test", From: "user", Workspace: h.workspace,
					Teammate: &task.TeammateSpec{Name: "bob"}, AgentSpec: task.AgentSpec{Prompt: "hello"},
				})
				over = h.eventually(func() bool {
					return h.receipt(sent, bob).Fate != 0 && h.unreadIn(sent.Team, bob).Messages == 0 &&
						h.task(ann).State == task.Idle && h.task(ann).Start == 2
				})
				h.restart()
				h.replaced(ann, bob, sent)
			}, with(g.tool("gate")))
		})
		return over
	})
}

// proves M5, D8: with the n-th commit failing, for all n and all ways to fail, mail that goes back is told once.
func TestReturnEveryCommitFails(t *testing.T) {
	walkFaults(t, 15, func(t *testing.T, plan storetest.Plan) (failed bool) {
		synctest.Test(t, func(t *testing.T) {
			var faulty *storetest.Faulty
			g := newGate()
			inside(t, leftModel(), func(h *house) {
				c := client{h}
				spawn := func(request, name, prompt string) task.ID {
					return c.spawnAs(request, task.Assignment{
						Teammate: &task.TeammateSpec{Name: name}, AgentSpec: task.AgentSpec{Prompt: prompt},
					})
				}
				ann, bob := spawn("ann", "ann", "hello"), spawn("bob", "bob", "busy")
				h.untilState(bob, task.Running)
				sent := c.postAs("peer", runtime.SendRequest{Sender: ann, To: "bob", Text: "from a peer"})
				c.stop(bob, task.Kill)
				h.eventually(func() bool { return h.task(ann).State == task.Idle })
				if h.task(bob).State == task.Killed && h.unreadIn(sent.Team, bob).Messages > 0 {
					h.replaced(ann, bob, sent)
				} // else bob has taken it before he was stopped
				failed = h.healed(faulty)
			}, with(g.tool("gate")), failsBy(plan, &faulty))
		})
		return failed
	})
}

// proves M5: a thousand messages of many senders go back in bounded commits; each sender is told all of its own once.
func TestManyMessagesGoBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, leftModel(), func(h *house) {
			var peers []string
			for i := range 20 {
				peers = append(peers, fmt.Sprint("peer-", i))
			}
			ids := h.crewOf(peers...)
			bob := h.spawn("busy", mate("bob"))
			<-g.entered
			var all []runtime.Sending
			for i := range mailbox.MaxUnread {
				sender := ids[i%len(ids)]
				all = append(all, h.post(runtime.SendRequest{Sender: sender, To: "bob", Text: fmt.Sprint("mail ", i)}))
			}
			h.must(h.stopTask(bob, task.Kill))
			h.spawn("hello", mate("bob"))
			h.errandsDone(all[0].Team)
			for _, sent := range all {
				if r := h.receipt(sent, bob); r.Fate != mailbox.Undeliverable {
					h.t.Fatalf("receipt: %+v", r)
				}
			}
			for _, id := range ids {
				if back := h.noticesIn(all[0].Team, id, task.Returned); len(back) != 1 || !strings.Contains(back[0], "30 more") {
					h.t.Errorf("%s was told %q", id, back)
				}
			}
			if inbox := h.noticesIn(all[0].Team, mailbox.LeaderBox, task.Returned); len(inbox) != 3 {
				h.t.Errorf("the leader was told %d times", len(inbox))
			}
			if n := h.unreadIn(all[0].Team, bob); n != (mailbox.Unread{}) {
				h.t.Errorf("unread in a dead box: %+v", n)
			}
		}, with(g.tool("gate")))
	})
}

// proves W2, D6: a revival that fails keeps the message and is tried again; after three it is parked, and the mail goes back
// with the reason. One that succeeds before that delivers it.
func TestRevivalThatFails(t *testing.T) {
	for _, repaired := range []bool{true, false} {
		bubble(t, echo, func(h *house) {
			ids := h.crewOf("ann", "bob")
			ann, bob := ids[0], ids[1]
			h.must(h.stopTask(bob, task.Kill))
			h.must(os.Rename(h.workspace, h.workspace+"-away"))
			sent, err := h.sup.Send(context.Background(), runtime.SendRequest{Team: h.teamName(bob), To: "bob", Text: "come back"})
			h.must(err)
			synctest.Wait()
			if repaired {
				h.must(os.Rename(h.workspace+"-away", h.workspace))
				h.untilSaid(bob, "come back", task.Idle)
				return
			}
			h.ended2(bob, task.Failed, task.CrashLoop)
			h.errandsDone(sent.Team)
			r := h.receipt(sent, bob)
			if r.Fate != mailbox.Undeliverable || !strings.Contains(r.Reason, h.workspace) || !r.Woke {
				h.t.Errorf("receipt: %+v", r)
			}
			if inbox := h.noticesIn(sent.Team, mailbox.LeaderBox, task.Returned); len(inbox) != 1 {
				h.t.Errorf("the leader was told %q", inbox)
			}
			if back := h.noticesIn(sent.Team, ann, task.Returned); len(back) != 0 {
				h.t.Errorf("who did not send it was told %q", back)
			}
			h.must(os.Rename(h.workspace+"-away", h.workspace))
		})
	}
}

// teamName is the name of a task's team.
func (h *house) teamName(id task.ID) string {
	h.t.Helper()
	in, err := h.journal.Team(context.Background(), h.task(id).Team)
	h.must(err)
	return in.Name
}

// ended2 waits for the end of a teammate's second life.
func (h *house) ended2(id task.ID, state task.State, reason task.Reason) {
	h.t.Helper()
	h.until(id, reason.String(), func(t task.Task, _ []task.Entry) bool {
		return t.Incarnation == 2 && t.State == state && t.Reason == reason
	})
}

// proves W3: mail that waited for a whole life which ended before it was taken does not open the next one, but goes back: a
// loop that panics at once is not started again and again.
func TestMailThatIsNeverTakenGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fatal atomic.Value
		bent := &tap{get: func(key string) {
			if key == fatal.Load() {
				panic("for the test")
			}
		}}
		inside(t, echo, func(h *house) {
			ann := h.crewOf("ann")[0]
			h.must(h.stopTask(ann, task.Kill))
			fatal.Store("spec/" + string(ann)) // which only its loop reads
			sent := h.post(runtime.SendRequest{To: "ann", Text: "come back"})
			h.until(ann, "PANIC", func(t task.Task, _ []task.Entry) bool { return t.Reason == task.Panic && t.Incarnation == 3 })
			h.errandsDone(sent.Team)
			if r := h.receipt(sent, ann); r.Fate != mailbox.Undeliverable {
				h.t.Errorf("receipt: %+v", r)
			}
		}, tapped(bent))
	})
}
