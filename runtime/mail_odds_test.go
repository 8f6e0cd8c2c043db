package runtime_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// proves M4: the time to live of a message to all counts for each recipient: who takes it in time has it, for who does not it
// is over, and so it is for those to whom it was not even handed on.
func TestMessageToAllExpires(t *testing.T) {
	for _, handedOn := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			inside(t, cast(map[string]modelFunc{"hello": echo, "busy": play(call("gate", "{}"), text("done"))}), func(h *house) {
				ann, bob := h.crewOf("ann")[0], h.spawn("busy", mate("bob"))
				<-g.entered
				if !handedOn {
					h.cut.after(1)
				}
				sent := h.post(runtime.SendRequest{To: "*", Text: "soon gone", TTL: time.Minute})
				if !handedOn {
					h.kill()
					time.Sleep(time.Hour)
					h.start()
				}
				h.errandsDone(sent.Team)
				time.Sleep(time.Hour)
				if handedOn {
					close(g.open)
				}
				h.untilSteps(bob, 2, task.Idle)
				for id, took := range map[task.ID]bool{ann: handedOn, bob: false} {
					if r := h.receipt(sent, id); h.heard(id, "soon gone") == 1 != took || (r.Fate == mailbox.Expired) == took {
						h.t.Errorf("handed on %v: %s heard it %d times, %+v", handedOn, id, h.heard(id, "soon gone"), r)
					}
				}
				for due, err := range h.journal.Dues(context.Background(), sent.Team) {
					h.t.Errorf("left: %+v, %v", due, err)
				}
			}, with(g.tool("gate")))
		})
	}
}

// proves M3: a client interrupts all with one message: those that work drop it, those that rest wake. An agent may not.
func TestInterruptAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, cast(map[string]modelFunc{"hello": echo, "busy": play(call("gate", "{}"), text("stopped"))}), func(h *house) {
			ann, bob, cem := h.crewOf("ann")[0], h.spawn("busy", mate("bob")), h.spawn("busy", mate("cem"))
			<-g.entered
			<-g.entered
			_, err := h.sup.Send(context.Background(), runtime.SendRequest{Sender: ann, To: "*", Text: "x", Delivery: mailbox.Interrupt})
			if !errdefs.Is(err, errdefs.Denied) {
				h.t.Errorf("a peer interrupts all: %v", err)
			}
			h.post(stopIt("*"))
			h.untilSaid(ann, "stop it", task.Idle)
			for _, id := range []task.ID{bob, cem} {
				h.untilSaid(id, "stopped", task.Idle)
				if r := h.results(id)["c00000001"]; !strings.HasPrefix(r.Text, "half way") || !r.IsError || h.heard(id, "stop it") != 1 {
					h.t.Errorf("%s: %+v, heard it %d times", id, r, h.heard(id, "stop it"))
				}
			}
		}, with(g.tool("gate")))
	})
}

// proves T5, M12: a request to shut down reaches a teammate wherever it stands: queued, resting and about to wake, waiting for a
// child in the foreground, or planning. What it started ends with it.
func TestShutdownOfOneThatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		as    func(*task.Assignment)
		to    string
		begin func(h *house, id task.ID)
		more  []model.Response // before it hears of the request
	}{
		"queued":   {as: mate("ann"), to: "ann"},
		"rousing":  {as: mate("ann"), to: "ann", begin: func(h *house, id task.ID) { h.untilState(id, task.Idle) }},
		"planning": {as: planner, to: "ann", begin: func(h *house, id task.ID) { h.untilState(id, task.Idle) }},
		"waiting": {
			as: lead, to: "team-lead", begin: func(h *house, id task.ID) { h.untilBusy(id) },
			more: []model.Response{call("subagent", `{"task":"hang"}`)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, cast(map[string]modelFunc{"hang": hang, "agent": func(
				ctx context.Context, req model.Request, sink func(model.Event),
			) (model.Response, error) {
				if n := stepsOf(req); n < len(c.more) {
					return c.more[n], nil
				}
				return polite("true")(ctx, req, sink)
			}}), func(h *house) {
				var id task.ID
				if c.begin != nil {
					id = h.spawn("agent", c.as)
					c.begin(h, id)
				}
				busy := h.spawn("hang") // has the slot, if there is one
				if c.begin == nil {
					h.untilState(busy, task.Running)
					id = h.spawn("agent", c.as)
				}
				synctest.Wait()
				h.askShutdown(c.to)
				synctest.Wait()
				h.must(h.stopTask(busy, task.Kill))
				h.ended(id, task.Completed, task.Shutdown)
				h.nothingLeft(id)
				if n := h.took(id, task.ShutdownRequest); n != 1 {
					h.t.Errorf("it was asked %d times", n)
				}
			}, slots(map[bool]int{true: 3, false: 1}[name == "waiting"]))
		})
	}
}

// proves T1, T4: a teammate that rests and is to wake, that waits for a child, or that plans, is stopped at each level, once,
// with all below it; the mail that it has not read waits.
func TestStopOfATeammate(t *testing.T) {
	for _, level := range []task.StopLevel{task.WrapUp, task.Cancel, task.Kill} {
		for name, as := range map[string]func(*task.Assignment){"rousing": mate("ann"), "waiting": lead, "planning": planner} {
			t.Run(name, func(t *testing.T) {
				bubble(t, cast(map[string]modelFunc{
					"hang": hang, "waiting": play(call("subagent", `{"task":"hang"}`), text("over")), "planning": plans, "rousing": echo,
				}), func(h *house) {
					id := h.spawn(name, as)
					synctest.Wait()
					busy := h.spawn("hang")
					synctest.Wait()
					if name != "waiting" {
						h.wants("ann", "wake") // there is no slot for that
						if s := h.task(id).State; s != task.Idle {
							h.t.Errorf("it is %s", s)
						}
					}
					h.must(h.stopTask(id, level))
					r := h.ended(id, task.Killed, task.StoppedByClient)
					if name != "waiting" && h.unread(id) != 1 {
						h.t.Errorf("%d are unread, %+v", h.unread(id), r)
					}
					h.must(h.stopTask(busy, task.Kill))
					synctest.Wait()
					h.nothingLeft(id)
					if s := h.task(id).State; s != task.Killed {
						h.t.Errorf("it has come back: %s", s)
					}
				}, slots(map[bool]int{true: 3, false: 1}[name == "waiting"]))
			})
		}
	}
}

// proves M6: a plan is answered while its teammate goes on reading: from the next step on it may act, or plan anew.
func TestPlanAnsweredWhileItRuns(t *testing.T) {
	for _, approve := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var effects tally
			g := newGate()
			reads := prop{name: "gate", readOnly: true, run: g.tool("gate").run}
			inside(t, play(
				call("submit_plan", `{"plan":"the plan"}`), call("gate", "{}", "effect", `{"early":1}`), call("effect", `{"now":1}`),
			), func(h *house) {
				id := h.spawn("x", planner)
				<-g.entered
				if _, err := h.answerPlan(h.handshakes(id).Plan.ID, approve); err != nil {
					h.t.Fatal(err)
				}
				close(g.open)
				h.untilState(id, task.Idle)
				early, now := h.results(id)["c00000003"], h.results(id)["c00000004"]
				if !strings.Contains(early.Text, "PLAN_REQUIRED") || strings.Contains(now.Text, "PLAN_REQUIRED") == approve {
					h.t.Errorf("approved %v: %s, then %s", approve, early.Text, now.Text)
				}
			}, with(reads, effect("effect", &effects)))
		})
	}
}

// proves M6, N8: the id of a request is the daemon's, whatever the sender makes up; a message answers a message, of whichever
// team, and nothing else.
func TestIDsThatSendersMakeUp(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{
		"hello": echo,
		"lead":  play(call("send_message", `{"to":"ann","kind":"shutdown_request","control_id":"c-1","reason":"x"}`), text("well")),
	}), func(h *house) {
		ann := h.crewOf("ann")[0]
		boss := h.spawn("lead", lead)
		h.untilState(boss, task.Idle)
		if r := h.results(boss)["c00000001"]; !strings.Contains(r.Text, "control_id") || !r.IsError {
			h.t.Errorf("the lead is told %s", r.Text)
		}
		if c := h.handshakes(ann); c.Shutdown.ID != "" {
			h.t.Errorf("it waits for %+v", c.Shutdown)
		}
		for id, ok := range map[string]bool{"m-7": true, "m-07": false, "tm-1": false, "m-" + strings.Repeat("1", 64<<10): false} {
			_, err := h.sup.Send(context.Background(), runtime.SendRequest{Workspace: h.workspace, To: "ann", Text: "x", ReplyTo: id})
			if (err == nil) != ok || !ok && !errdefs.Is(err, errdefs.BadArgument) {
				h.t.Errorf("in reply to %.9s: %v", id, err)
			}
		}
	})
}

// proves M2: a boundary that takes as many messages as it may, and finds more that must not be delivered than one commit can
// settle, in both of a lead's mailboxes, is within the bounds of a batch; and so is the largest message to more than one
// commit hands on.
func TestFullestCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, cast(map[string]modelFunc{"lead": play(call("gate", "{}"), text("done")), "hello": play()}), func(h *house) {
			boss := h.spawn("lead", lead)
			<-g.entered
			in := h.task(boss).Team
			for _, box := range []task.ID{boss, mailbox.LeaderBox} {
				for i := range 80 {
					m := mailbox.Message{ID: "m-9" + string(box[:1]) + itoa(i), From: "ann", Text: "x", Sent: time.Now()}
					if i%4 == 0 {
						m.Expires = time.Now()
					}
					b := h.journal.Batch(in)
					b.Accept(box, m)
					b.PutSent(mailbox.Sent{MessageID: m.ID, Recipient: box, To: "x", From: "ann"})
					h.must(h.journal.Commit(context.Background(), b))
				}
			}
			close(g.open)
			h.untilTook(boss, 0, 120, task.Idle)
			for _, box := range []task.ID{boss, mailbox.LeaderBox} {
				if r := h.receipt(runtime.Sending{Team: in, MessageID: "m-9" + string(box[:1]) + "76"}, box); r.Fate != mailbox.Expired || h.unreadIn(in, box) != (mailbox.Unread{}) {
					h.t.Errorf("%s: the last one ended %+v, %+v are left", box, r, h.unreadIn(in, box))
				}
			}
			var crew []task.ID
			for i := range 30 {
				crew = append(crew, h.crewOf("ann"+itoa(i))...)
			}
			large := strings.Repeat("x", mailbox.MaxText)
			h.errandsDone(h.post(runtime.SendRequest{To: "*", Text: large}).Team)
			synctest.Wait()
			for _, id := range append(crew, boss) {
				if n := h.heard(id, large); n != 1 {
					h.t.Errorf("%s heard it %d times", id, n)
				}
			}
		}, with(g.tool("gate")))
	})
}
