package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/store/storetest"
)

// stopIt is a message that does not wait.
func stopIt(to string) runtime.SendRequest {
	return runtime.SendRequest{RequestID: "stop it", To: to, Text: "stop it", Delivery: mailbox.Interrupt}
}

// proves M3: an interruption drops the model call and keeps its text, without its calls; the turn goes on with the mail.
func TestInterruptDropsTheModelCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan bool, 1)
		inside(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			if last := req.Messages[len(req.Messages)-1].Text; strings.Contains(last, "stop it") {
				return text("stopped"), nil
			}
			sink(&model.TextDelta{Text: "half a thought"})
			said <- true
			return hang(ctx, req, sink)
		}, func(h *house) {
			id := h.spawn("x", mate("ann"))
			<-said
			h.post(stopIt("ann"))
			h.untilSaid(id, "stopped", task.Idle)
			var seen []string
			for _, e := range h.entries(id) {
				switch body := e.Body.(type) {
				case *task.Assistant:
					seen = append(seen, fmt.Sprint(body.Text, " ", body.Partial))
				case *task.Input:
					seen = append(seen, body.Text)
				}
			}
			if want := []string{"x", "half a thought true", "stop it", "stopped false"}; !slices.Equal(seen, want) {
				h.t.Errorf("transcript: %q", seen)
			}
			if states := h.states(id); states != "QUEUED RUNNING IDLE" {
				h.t.Errorf("states: %s", states)
			}
		})
	})
}

// proves M3: an interruption kills running tools, keeps what they gave, and answers calls that had not started so.
func TestInterruptKillsTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, play(call("gate", "{}", "effect", "{}"), text("stopped")), func(h *house) {
			id := h.spawn("x", mate("ann"))
			<-g.entered
			h.post(stopIt("ann"))
			h.untilSaid(id, "stopped", task.Idle)
			answers := h.results(id)
			if r := answers["c00000001"]; !strings.HasPrefix(r.Text, "half way") || !strings.Contains(r.Text, "message") || !r.IsError {
				h.t.Errorf("what ran: %+v", r)
			}
			if r := answers["c00000002"]; !strings.Contains(r.Text, string(tool.NotStarted)) {
				h.t.Errorf("what had not started: %+v", r)
			}
		}, with(g.tool("gate"), effect("effect", &tally{})))
	})
}

// proves M3: a real command is killed, and its output kept.
func TestInterruptKillsACommand(t *testing.T) {
	h := newHouse(t, play(call("bash", `{"command":"echo began; touch began; exec sleep 600"}`), text("stopped")))
	id := h.spawn("x", mate("ann"))
	h.awaitFile("began")
	h.post(stopIt("ann"))
	h.untilSaid(id, "stopped", task.Idle)
	if r := h.results(id)["c00000001"]; !strings.HasPrefix(r.Text, "began\n") || !strings.Contains(r.Text, "interrupted") {
		t.Errorf("the command: %+v", r)
	}
	h.noProcess()
}

// case MSG-7: no other mail ends a tool.
func TestOnlyAnInterruptEndsATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, play(call("gate", "{}"), text("done")), func(h *house) {
			id := h.spawn("x", mate("ann"))
			<-g.entered
			for _, when := range []mailbox.Delivery{mailbox.AtStep, mailbox.AtTurn} {
				h.post(runtime.SendRequest{To: "ann", Text: "by the way", Delivery: when})
			}
			time.Sleep(time.Minute)
			close(g.open)
			h.untilSaid(id, "done", task.Idle)
			if r := h.results(id)["c00000001"]; r.Text != "through" {
				h.t.Errorf("the tool: %+v", r)
			}
		}, with(g.tool("gate")))
	})
}

// proves M3: only the leader and clients interrupt.
func TestPeersDoNotInterrupt(t *testing.T) {
	bubble(t, echo, func(h *house) {
		ann := h.crewOf("ann", "bob")[0]
		req := stopIt("bob")
		req.Sender = ann
		if _, err := h.sup.Send(context.Background(), req); !errdefs.Is(err, errdefs.Denied) {
			h.t.Errorf("from a peer: %v", err)
		}
	})
}

// proves M3, R6: a child that is waited for goes on in the background, and its end is told once.
func TestInterruptLeavesChildrenRunning(t *testing.T) {
	for _, name := range []string{"ann", task.LeadName} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			inside(t, cast(map[string]modelFunc{
				"parent": play(call("subagent", `{"task":"child"}`, "effect", "{}"), text("stopped"), text("I see")),
				"child":  play(call("gate", "{}"), text("the child's work")),
			}), func(h *house) {
				id := h.spawn("parent", mate(name))
				<-g.entered
				h.untilState(id, task.Waiting)
				h.post(stopIt(name))
				h.untilSaid(id, "stopped", task.Idle)
				child := h.firstChild(id)
				if r := h.results(id)["c00000001"]; !strings.Contains(r.Text, "still running as "+string(child)) {
					h.t.Errorf("the wait: %+v", r)
				}
				if r := h.results(id)["c00000002"]; !strings.Contains(r.Text, string(tool.NotStarted)) {
					h.t.Errorf("the call behind it: %+v", r)
				}
				if h.task(child).State != task.Running {
					h.t.Errorf("the child is %s", h.task(child).State)
				}
				close(g.open)
				h.untilSaid(id, "I see", task.Idle)
				h.wantToldOnce(id, 1)
			}, with(g.tool("gate"), effect("effect", &tally{})))
		})
	}
}

// proves M3: what comes while no tool and no model is under way interrupts nothing twice: the message is simply taken.
func TestInterruptOfWhoRests(t *testing.T) {
	bubble(t, echo, func(h *house) {
		id := h.crewOf("ann")[0]
		h.post(stopIt("ann"))
		h.untilSaid(id, "stop it", task.Idle)
		for _, e := range h.entries(id) {
			if a, ok := e.Body.(*task.Assistant); ok && a.Partial {
				h.t.Errorf("a call was dropped: %+v", a)
			}
		}
	})
}

// swayed works in a loop until it is told to stop.
func swayed(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	for _, m := range req.Messages {
		if m.Role == model.User && strings.Contains(m.Text, "stop it") {
			return text("stopped"), nil
		}
	}
	return call("slow", `{"n":`+itoa(len(req.Messages))+`}`, "ls", `{"path":"."}`), nil
}

// slow is a tool that takes a minute.
func slow(entered chan bool) prop {
	return prop{name: "slow", run: func(ctx context.Context, _ tool.Call) (tool.Answer, error) {
		select {
		case entered <- true:
		default:
		}
		select {
		case <-time.After(time.Minute):
			return tool.Answer{Text: "done"}, nil
		case <-ctx.Done():
			return tool.Answer{Text: "half way"}, context.Cause(ctx)
		}
	}}
}

// checkSwayed checks what must hold when the message that does not wait was taken.
func checkSwayed(h *house, id task.ID) {
	h.t.Helper()
	h.untilSaid(id, "stopped", task.Idle)
	h.results(id)
	if n := h.heard(id, "stop it"); n != 1 {
		h.t.Errorf("it was taken %d times", n)
	}
}

// proves M3, D4, D5: killed right after the n-th commit, for all n, the message is taken once, and each call has one answer.
func TestInterruptKilledAfterEachCommit(t *testing.T) {
	walk(t, 4, func(t *testing.T, n int) (over bool) {
		synctest.Test(t, func(t *testing.T) {
			entered := make(chan bool, 1)
			inside(t, swayed, func(h *house) {
				id := h.spawn("x", mate("ann"))
				<-entered
				h.cut.after(n)
				req := stopIt("ann")
				req.Caller, req.Workspace = "test", h.workspace
				_, _ = h.sup.Send(context.Background(), req) // a client that is not answered asks again
				over = h.eventually(func() bool { return h.task(id).State == task.Idle })
				h.restart()
				client{h}.postAs(req.RequestID, req)
				checkSwayed(h, id)
			}, with(slow(entered)))
		})
		return over
	})
}

// proves M3, D8: with the n-th commit failing, for all n and all ways to fail, the message is taken once.
func TestInterruptEveryCommitFails(t *testing.T) {
	walkFaults(t, 6, func(t *testing.T, plan storetest.Plan) (failed bool) {
		synctest.Test(t, func(t *testing.T) {
			var faulty *storetest.Faulty
			entered := make(chan bool, 1)
			inside(t, swayed, func(h *house) {
				c := client{h}
				id := c.spawnAs("ann", task.Assignment{
					Teammate: &task.TeammateSpec{Name: "ann"}, AgentSpec: task.AgentSpec{Prompt: "x"},
				})
				<-entered
				req := stopIt("ann")
				c.postAs(req.RequestID, req)
				checkSwayed(h, id)
				failed = h.healed(faulty)
			}, with(slow(entered)), failsBy(plan, &faulty))
		})
		return failed
	})
}
