package runtime_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// lead makes a spawn one of the lead.
func lead(a *task.Assignment) { a.Teammate = &task.TeammateSpec{Name: task.LeadName} }

// control sends a control message of a client, or of an agent, in the workspace's team.
func (h *house) control(req runtime.ControlRequest) (runtime.Sending, error) {
	req.Caller, req.Workspace = "test", h.workspace
	return h.sup.Control(context.Background(), req)
}

// askShutdown asks a teammate to end.
func (h *house) askShutdown(name string) runtime.Sending {
	h.t.Helper()
	sent, err := h.control(runtime.ControlRequest{To: name, Kind: task.ShutdownRequest, Text: "we are done"})
	if err != nil {
		h.t.Fatal(err)
	}
	return sent
}

// controlIn is the id of the last control message of a kind in a history, such as "shutdown-request"; empty: there is none.
func controlIn(req model.Request, tag string) string {
	found := regexp.MustCompile(`<`+tag+` [^>]*control_id="(c-\d+)"`).FindAllStringSubmatch(
		req.Messages[len(req.Messages)-1].Text, -1)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1][1]
}

// polite answers requests to shut down, and nothing else.
func polite(approve string) modelFunc {
	return func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		if id := controlIn(req, "shutdown-request"); id != "" {
			return call("send_message", `{"kind":"shutdown_response","control_id":"`+id+`","approve":`+approve+`,"reason":"so be it"}`), nil
		}
		return text("as before"), nil
	}
}

// handshakes are those of a teammate.
func (h *house) handshakes(id task.ID) journal.Control {
	h.t.Helper()
	row, err := h.journal.Control(context.Background(), h.task(id).Team, id)
	h.must(err)
	return row.Value
}

// fate is how a message ended that is not in its recipient's transcript.
func (h *house) fate(sent runtime.Sending) mailbox.State {
	h.t.Helper()
	rows, err := h.journal.Sent(context.Background(), sent.Team, sent.MessageID)
	h.must(err)
	if len(rows) != 1 {
		h.t.Fatalf("message %s has %d recipients", sent.MessageID, len(rows))
	}
	return rows[0].Value.Fate
}

// took counts the messages of a kind in a transcript.
func (h *house) took(id task.ID, kind task.MessageKind) (n int) {
	h.t.Helper()
	for _, e := range h.entries(id) {
		if in, ok := e.Body.(*task.Input); ok && in.Kind == kind {
			n++
		}
	}
	return n
}

// leaderMail is what the leader inbox of a task's team was given of a kind.
func (h *house) leaderMail(id task.ID, kind task.MessageKind) (all []mailbox.Message) {
	h.t.Helper()
	for m, err := range h.journal.Mail(context.Background(), h.task(id).Team, mailbox.LeaderBox, 0) {
		h.must(err)
		if m.Kind == kind {
			all = append(all, m)
		}
	}
	return all
}

// unread counts the unread messages of a teammate.
func (h *house) unread(id task.ID) int64 { return h.unreadOf(id, id) }

// unreadOf counts the unread messages of a mailbox in a task's team.
func (h *house) unreadOf(id, box task.ID) int64 {
	h.t.Helper()
	row, err := h.journal.Inbox(context.Background(), h.task(id).Team, box)
	h.must(err)
	return row.Value.Messages
}

// proves M6, T5: a teammate that agrees to shut down really ends, without another model call, and its mail waits for the next
// life.
func TestShutdownAgreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps tally
		inside(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			steps.add("ann")
			return polite("true")(ctx, req, sink)
		}, func(h *house) {
			id := h.spawn("ann", mate("Ann"))
			h.untilState(id, task.Idle)
			sent := h.askShutdown("ann")
			h.ended(id, task.Completed, task.Shutdown)
			if n := steps.get("ann"); n != 2 {
				t.Errorf("%d model calls, one of them after its consent", n)
			}
			if c := h.handshakes(id); c.Shutdown.ID != "" {
				t.Errorf("it still waits for %+v", c.Shutdown)
			}
			if got := h.results(id)["c00000001"].Text; !strings.Contains(got, `"note":"you end with this step"`) {
				t.Errorf("told: %s", got)
			}
			if s := h.fate(sent); s != 0 || h.took(id, task.ShutdownRequest) != 1 {
				t.Errorf("fate %d, taken %d times", s, h.took(id, task.ShutdownRequest))
			}
			if _, err := h.write("ann", "come back"); err != nil {
				t.Fatal(err)
			}
			h.untilState(id, task.Idle)
			time.Sleep(2 * time.Hour)
			if s := h.task(id); s.State != task.Idle || s.Incarnation != 2 {
				t.Errorf("the next life is %s, %d", s.State, s.Incarnation)
			}
		})
	})
}

// proves T5: a refusal leaves the teammate and goes to who asked.
func TestShutdownRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, polite("false"), func(h *house) {
			id := h.spawn("ann", mate("ann"))
			h.untilState(id, task.Idle)
			sent := h.askShutdown("ann")
			h.untilSteps(id, 3, task.Idle)
			got := h.leaderMail(id, task.ShutdownResponse)
			if len(got) != 1 || got[0].Text != "so be it" || got[0].Approve || got[0].ControlID != sent.ControlID ||
				got[0].To != task.LeadName || got[0].ReplyTo != sent.MessageID || got[0].From != "ann" {
				t.Errorf("who asked got %+v", got)
			}
			boss := h.spawn("boss", lead)
			h.untilState(boss, task.Idle)
			h.askShutdown("ann")
			h.untilSteps(id, 5, task.Idle)
			if got := h.leaderMail(id, task.ShutdownResponse); len(got) != 2 || got[1].To != mailbox.User {
				t.Errorf("the user, who asked while a lead lives, got %+v", got)
			}
			time.Sleep(2 * time.Hour)
			if s := h.task(id).State; s != task.Idle {
				t.Errorf("it is %s, although it refused", s)
			}
		})
	})
}

// untilSteps waits until an agent has given so many answers and stands as given.
func (h *house) untilSteps(id task.ID, n int, state task.State) {
	h.t.Helper()
	h.until(id, "enough answers", func(t task.Task, entries []task.Entry) bool {
		steps := 0
		for _, e := range entries {
			if _, ok := e.Body.(*task.Assistant); ok {
				steps++
			}
		}
		return steps >= n && t.State == state
	})
}

// proves T5: without an answer in time a teammate is ended: one that works, one that rests, one that waits for a slot, and one
// whose time ran out while the daemon was away.
func TestShutdownForced(t *testing.T) {
	deaf := func(h *house) (task.ID, func()) { // works
		id := h.spawn("hang", mate("ann"))
		h.untilState(id, task.Running)
		h.askShutdown("ann")
		return id, func() {}
	}
	stubborn := func(h *house) (task.ID, func()) { // rests
		id := h.spawn("echo", mate("ann"))
		h.untilState(id, task.Idle)
		h.askShutdown("ann")
		h.untilSaid(id, "shutdown-request", task.Idle)
		return id, func() {}
	}
	waiting := func(h *house) (task.ID, func()) {
		busy := h.spawn("hang", mate("bob"))
		h.untilState(busy, task.Running)
		id := h.spawn("echo", mate("ann"))
		h.askShutdown("ann")
		return id, func() { h.must(h.stopTask(busy, task.Kill)) }
	}
	away := func(h *house) (task.ID, func()) {
		id, after := deaf(h)
		h.kill()
		time.Sleep(time.Hour)
		h.start()
		return id, after
	}
	for name, begin := range map[string]func(h *house) (task.ID, func()){
		"works": deaf, "rests": stubborn, "waits for a slot": waiting, "daemon away": away,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inside(t, cast(map[string]modelFunc{"hang": hang, "echo": echo}), func(h *house) {
					id, after := begin(h)
					r := h.ended(id, task.Killed, task.Shutdown)
					if !strings.Contains(r.Error, "in time") {
						t.Errorf("result: %+v", r)
					}
					if _, err := h.control(runtime.ControlRequest{
						Sender: id, Kind: task.ShutdownResponse, ControlID: h.handshakes(id).Shutdown.ID + "c-1", Approve: true,
					}); !errdefs.Is(err, errdefs.Superseded) {
						t.Errorf("a late answer: %v", err)
					}
					after()
				}, slots(1))
			})
		})
	}
}

// proves T5
// case STP-1: a teammate that is stuck in `sleep 600` never hears of the request; at the deadline it is ended, with its
// processes, and its team can be deleted.
func TestShutdownOfOneThatSleeps(t *testing.T) {
	h := newHouse(t, play(call("bash", `{"command":"sleep 600"}`)))
	id := h.spawn("ann", mate("ann"))
	h.untilBusy(id)
	if _, err := h.control(runtime.ControlRequest{
		To: "ann", Kind: task.ShutdownRequest, Deadline: 200 * time.Millisecond,
	}); err != nil {
		t.Fatal(err)
	}
	h.ended(id, task.Killed, task.Shutdown)
	h.noProcess()
	in, err := h.journal.Team(context.Background(), h.task(id).Team)
	h.must(err)
	h.must(h.sup.DeleteTeam(context.Background(), runtime.DeleteTeamRequest{Caller: "test", Team: in.Name}))
}

// proves M6: a newer request replaces one that waits; the older one is never seen any more.
func TestShutdownReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			if stepsOf(req) == 0 {
				return call("gate", "{}"), nil
			}
			return polite("true")(ctx, req, sink)
		}, func(h *house) {
			id := h.spawn("ann", mate("ann"))
			<-g.entered
			first := h.askShutdown("ann")
			time.Sleep(50 * time.Second)
			second := h.askShutdown("ann")
			if h.fate(first) != mailbox.Superseded || h.unread(id) != 1 {
				t.Errorf("the first one: %d; %d unread", h.fate(first), h.unread(id))
			}
			if got := h.handshakes(id).Shutdown; got.ID != second.ControlID || got.ID == first.ControlID {
				t.Errorf("waits for %+v", got)
			}
			time.Sleep(50 * time.Second) // the first one's deadline has passed
			if s := h.task(id).State; s != task.Running {
				t.Errorf("it is %s", s)
			}
			close(g.open)
			h.ended(id, task.Completed, task.Shutdown)
			if n := h.took(id, task.ShutdownRequest); n != 1 {
				t.Errorf("it was asked %d times", n)
			}
		}, with(g.tool("gate")))
	})
}

// proves M6: who may ask and answer, and that nothing but the waiting request is answered, once.
func TestShutdownIsCheckedForSenderAndState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, cast(map[string]modelFunc{"hang": hang, "boss": echo, "lone": hang, "echo": echo}), func(h *house) {
			ann, bob := h.spawn("hang", mate("ann")), h.spawn("echo", mate("bob"))
			boss, lone := h.spawn("boss", lead), h.spawn("lone")
			h.untilState(ann, task.Running)
			h.untilState(bob, task.Idle)
			asked := h.askShutdown("ann")
			yes := runtime.ControlRequest{Sender: ann, Kind: task.ShutdownResponse, ControlID: asked.ControlID, Approve: true}
			ask := runtime.ControlRequest{To: "bob", Kind: task.ShutdownRequest}
			from := func(id task.ID, req runtime.ControlRequest) runtime.ControlRequest { req.Sender = id; return req }
			to := func(name string, req runtime.ControlRequest) runtime.ControlRequest { req.To = name; return req }
			wrong := yes
			wrong.ControlID = "c-999"
			for what, c := range map[string]struct {
				req  runtime.ControlRequest
				want errdefs.Reason
			}{
				"a wrong id":              {wrong, errdefs.Superseded},
				"somebody else's answer":  {from(bob, yes), errdefs.Superseded},
				"a client's answer":       {from("", yes), errdefs.Denied},
				"a peer asks":             {from(ann, ask), errdefs.Denied},
				"the lead asks itself":    {from(boss, to(task.LeadName, ask)), errdefs.Denied},
				"a subagent is asked":     {to(string(lone), ask), errdefs.NotARecipient},
				"the user is asked":       {to(mailbox.User, ask), errdefs.NotARecipient},
				"nobody is asked":         {to("bop", ask), errdefs.RecipientNotFound},
				"no name":                 {to("", ask), errdefs.BadArgument},
				"too long a time":         {runtime.ControlRequest{To: "bob", Kind: task.ShutdownRequest, Deadline: 2 * time.Hour}, errdefs.BadArgument},
				"invalid UTF-8":           {runtime.ControlRequest{To: "bob", Kind: task.ShutdownRequest, Text: "\xff"}, errdefs.BadArgument},
				"a text is no control":    {runtime.ControlRequest{To: "bob", Kind: task.Text, Text: "x"}, errdefs.BadArgument},
				"a plan of one that acts": {runtime.ControlRequest{Sender: bob, Kind: task.PlanRequest, Text: "x"}, errdefs.Denied},
			} {
				if _, err := h.control(c.req); !errdefs.Is(err, c.want) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if s, n := h.task(ann).State, h.unread(ann); s != task.Running || n != 1 {
				t.Errorf("something had an effect: %s, %d unread", s, n)
			}
			no := yes
			no.Approve, no.Text = false, "not yet"
			if _, err := h.control(no); err != nil {
				t.Error(err)
			}
			if _, err := h.control(no); !errdefs.Is(err, errdefs.Superseded) {
				t.Errorf("answered twice: %v", err)
			}
			if sent, err := h.control(from(boss, ask)); err != nil || h.fate(sent) != 0 {
				t.Errorf("the lead asks: %v", err)
			}
			if _, err := h.control(to(task.LeadName, ask)); err != nil {
				t.Errorf("a client asks the lead: %v", err)
			}
		})
	})
}

// proves M6
// case MSG-6: a request to what has ended does not revive it and is superseded; one that an earlier life has not read is never
// seen by a later one, nor by another teammate of that name, nor by another lead.
func TestShutdownRequestOfAnEarlierLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, cast(map[string]modelFunc{"hang": hang, "echo": echo}), func(h *house) {
			for name, kind := range map[string]func(*task.Assignment){"ann": mate("ann"), task.LeadName: lead} {
				old := h.spawn("hang", kind)
				h.untilState(old, task.Running)
				stale := h.askShutdown(name)
				h.must(h.stopTask(old, task.Kill))
				h.ended(old, task.Killed, task.StoppedByClient)
				if s := h.fate(stale); s != mailbox.Superseded || h.unread(old) != 0 {
					t.Errorf("%s: the request that nobody read: %d; %d unread", name, s, h.unread(old))
				}
				if late := h.askShutdown(name); h.fate(late) != mailbox.Superseded || h.unread(old) != 0 {
					t.Errorf("%s: the request to what has ended: %d, %d unread", name, h.fate(late), h.unread(old))
				}
				if s := h.task(old).State; s != task.Killed {
					t.Errorf("%s: it was revived: %s", name, s)
				}
				fresh := h.spawn("echo", kind)
				h.untilState(fresh, task.Idle)
				time.Sleep(2 * time.Hour)
				if s := h.task(fresh).State; s != task.Idle || h.took(fresh, task.ShutdownRequest) != 0 {
					t.Errorf("%s: the new one is %s", name, s)
				}
			}
		})
		inside(t, cast(map[string]modelFunc{"hang": hang}), func(h *house) {
			id := h.spawn("hang", mate("ann"))
			h.untilState(id, task.Running)
			asked := h.askShutdown("ann")
			h.must(h.stopTask(id, task.Kill))
			if _, err := h.write("ann", "again"); err != nil {
				t.Fatal(err)
			}
			h.untilState(id, task.Running)
			time.Sleep(2 * time.Hour)
			if s := h.task(id); s.State != task.Running || s.Incarnation != 2 || h.took(id, task.ShutdownRequest) != 0 {
				t.Errorf("the next life is %s, %d", s.State, s.Incarnation)
			}
			if _, err := h.control(runtime.ControlRequest{
				Sender: id, Kind: task.ShutdownResponse, ControlID: asked.ControlID, Approve: true,
			}); !errdefs.Is(err, errdefs.Superseded) {
				t.Errorf("an answer to it: %v", err)
			}
		})
	})
}
