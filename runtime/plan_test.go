package runtime_test

import (
	"context"
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
)

// planner makes a spawn one of a teammate that needs an approved plan.
func planner(a *task.Assignment) { a.Teammate = &task.TeammateSpec{Name: "ann", PlanApproval: true} }

// plans tries to act, submits a plan, and acts when it is approved.
func plans(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	switch {
	case stepsOf(req) == 0:
		return call("effect", `{"too":"early"}`, "ls", `{"path":"."}`, "submit_plan", `{"plan":"the first plan"}`), nil
	case last.Role == model.ToolAnswer && strings.Contains(last.Text, "submitted"):
		return text("I wait"), nil
	case strings.Contains(last.Text, `approve="true"`):
		return call("effect", `{"now":true}`), nil
	case strings.Contains(last.Text, `approve="false"`):
		return call("submit_plan", `{"plan":"a better plan"}`), nil
	case last.Role == model.ToolAnswer && strings.Contains(last.Text, "effect done"),
		strings.Contains(last.Text, "OUTCOME_UNKNOWN"):
		return text("I did it"), nil
	}
	return text("heard"), nil
}

// answerPlan is a client's answer to a plan.
func (h *house) answerPlan(controlID string, approve bool) (runtime.Sending, error) {
	return h.control(runtime.ControlRequest{
		To: "ann", Kind: task.PlanResponse, ControlID: controlID, Approve: approve, Text: "so be it",
	})
}

// proves M6, P4: until its plan is approved a teammate may only read, which a restart does not change; a plan that is refused is
// followed by another one, and an approval counts for the plan that was seen.
func TestPlanApproval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var effects tally
		inside(t, plans, func(h *house) {
			id := h.spawn("x", planner)
			h.untilSaid(id, "I wait", task.Idle)
			answers := h.results(id)
			if got := answers["c00000001"].Text; !strings.Contains(got, `"PLAN_REQUIRED"`) || !strings.Contains(got, `"submit_plan"`) {
				t.Errorf("it acted: %s", got)
			}
			if answers["c00000002"].IsError {
				t.Errorf("it may not read: %s", answers["c00000002"].Text)
			}
			first := h.handshakes(id).Plan
			got := h.leaderMail(id, task.PlanRequest)
			if len(got) != 1 || got[0].Text != "the first plan" || got[0].ControlID != first.ID || got[0].From != "ann" {
				t.Fatalf("the leader got %+v", got)
			}
			h.restart()
			if _, err := h.answerPlan(first.ID, false); err != nil {
				t.Fatal(err)
			}
			h.untilSteps(id, 4, task.Idle)
			second := h.handshakes(id).Plan
			for what, stale := range map[string]string{"the first plan": first.ID, "none": "c-999"} {
				if _, err := h.answerPlan(stale, true); !errdefs.Is(err, errdefs.Superseded) {
					t.Errorf("an approval of %s: %v", what, err)
				}
			}
			h.restart()
			if _, err := h.answerPlan(second.ID, true); err != nil {
				t.Fatal(err)
			}
			h.untilSaid(id, "I did it", task.Idle)
			if _, err := h.answerPlan(second.ID, true); !errdefs.Is(err, errdefs.Superseded) {
				t.Errorf("approved twice: %v", err)
			}
			if len(effects.n) != 1 {
				t.Errorf("effects: %v", effects.n)
			}
			h.restart()
			if _, err := h.control(runtime.ControlRequest{Sender: id, Kind: task.PlanRequest, Text: "x"}); !errdefs.Is(err, errdefs.Superseded) {
				t.Errorf("a plan after the approval: %v", err)
			}
		}, with(effect("effect", &effects)))
	})
}

// proves M6: what the model is offered follows from the transcript, also in the loop after a restart and in the next life.
func TestPlanDecidesWhatIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var effects tally
		offered := make(chan []string, 100)
		inside(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			var names []string
			for _, s := range req.Tools {
				names = append(names, s.Name)
			}
			offered <- names
			return plans(ctx, req, sink)
		}, func(h *house) {
			id := h.spawn("x", planner)
			h.untilSaid(id, "I wait", task.Idle)
			want := func(what string, acts bool) {
				for len(offered) > 0 {
					got := <-offered
					if slices.Contains(got, "effect") != acts || slices.Contains(got, "write") != acts {
						t.Errorf("%s: %v", what, got)
					}
					for _, name := range []string{"read", "send_message", "submit_plan"} {
						if !slices.Contains(got, name) {
							t.Errorf("%s: no %s", what, name)
						}
					}
				}
			}
			want("before", false)
			h.restart()
			if _, err := h.write("ann", "hello"); err != nil {
				t.Fatal(err)
			}
			h.untilSaid(id, "heard", task.Idle)
			want("still before", false)
			if _, err := h.answerPlan(h.handshakes(id).Plan.ID, true); err != nil {
				t.Fatal(err)
			}
			h.untilSaid(id, "I did it", task.Idle)
			want("after", true)
			h.must(h.stopTask(id, task.Kill))
			h.restart()
			if _, err := h.write("ann", "again"); err != nil {
				t.Fatal(err)
			}
			h.untilSteps(id, 6, task.Idle)
			want("the next life", true)
		}, with(effect("effect", &effects)))
	})
}

// submit submits a plan of a teammate and gives its control id.
func (h *house) submit(id task.ID, plan string) string {
	h.t.Helper()
	sent, err := h.control(runtime.ControlRequest{Sender: id, Kind: task.PlanRequest, Text: plan})
	if err != nil {
		h.t.Fatal(err)
	}
	return sent.ControlID
}

// proves M6: a plan that is submitted later replaces the one that waits; peers approve nothing, nor does who has seen another
// plan.
func TestPlanIsBoundToWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, cast(map[string]modelFunc{"ann": hang, "bob": echo}), func(h *house) {
			id, bob := h.spawn("ann", planner), h.spawn("bob", mate("bob"))
			h.untilState(id, task.Running)
			first, second := h.submit(id, "one"), h.submit(id, "two")
			if n := h.unreadOf(id, mailbox.LeaderBox); n != 1 {
				t.Errorf("%d plans wait for the leader", n)
			}
			if _, err := h.answerPlan(first, true); !errdefs.Is(err, errdefs.Superseded) {
				t.Errorf("an approval of the first: %v", err)
			}
			if _, err := h.control(runtime.ControlRequest{
				Sender: bob, To: "ann", Kind: task.PlanResponse, ControlID: second, Approve: true,
			}); !errdefs.Is(err, errdefs.Denied) {
				t.Errorf("a peer approves: %v", err)
			}
			if _, err := h.answerPlan(second, true); err != nil {
				t.Error(err)
			}
			if n := h.unreadOf(id, mailbox.LeaderBox); n != 0 {
				t.Error("the plan that was answered still waits for the leader")
			}
		})
	})
}

// proves M6, T5: a stopped wait answers late clients, and an approval that a life has not read is none for the next.
func TestPlanOfAnEarlierLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, play(call("gate", "{}"), call("gate", `{"again":true}`)), func(h *house) {
			id := h.spawn("ann", planner)
			<-g.entered
			sent, err := h.answerPlan(h.submit(id, "one"), true)
			h.must(err)
			h.must(h.stopTask(id, task.Kill)) // before it has read that
			if h.fate(sent) != mailbox.Superseded {
				t.Errorf("the approval that nobody read: %d", h.fate(sent))
			}
			if _, err := h.write("ann", "again"); err != nil {
				t.Fatal(err)
			}
			h.untilState(id, task.Running)
			<-g.entered
			second := h.submit(id, "two")
			stopped := make(chan error)
			go func() { stopped <- h.stopTask(id, task.WrapUp) }()
			h.untilState(id, task.Stopping)
			if _, err := h.answerPlan(second, true); !errdefs.Is(err, errdefs.Superseded) {
				t.Errorf("a client that answers while it stops: %v", err)
			}
			close(g.open)
			h.must(<-stopped)
			if _, err := h.answerPlan(second, true); !errdefs.Is(err, errdefs.Superseded) {
				t.Errorf("a late client: %v", err)
			}
			if n := h.unreadOf(id, mailbox.LeaderBox); n != 0 {
				t.Error("the plan of one that has ended still waits for the leader")
			}
			if n := h.took(id, task.PlanResponse); n != 0 {
				t.Errorf("a later life saw %d answers", n)
			}
		}, with(prop{name: "gate", readOnly: true, run: g.tool("gate").run}))
	})
}

// proves M6, P2: a lead inside the daemon gets the plan as mail, which wakes it, and approves it with its tool.
func TestLeadApprovesThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var effects tally
		boss := func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			if id := controlIn(req, "plan-request"); id != "" {
				return call("send_message", `{"to":"ann","kind":"plan_response","control_id":"`+id+`","approve":true}`), nil
			}
			return text("so what"), nil
		}
		inside(t, cast(map[string]modelFunc{"boss": boss, "ann": plans}), func(h *house) {
			h.untilState(h.spawn("boss", lead), task.Idle)
			id := h.spawn("ann", planner)
			h.untilSaid(id, "I did it", task.Idle)
			if n := h.took(id, task.PlanResponse); n != 1 || len(effects.n) != 1 {
				t.Errorf("%d answers, effects %v", n, effects.n)
			}
		}, with(effect("effect", &effects)))
	})
}

// proves R2: what the daemon checks of a result it does not check of a plan.
func TestPlanIsNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside(t, plans, func(h *house) {
			id := h.spawn("x", planner, schema(`{"type":"object"}`))
			h.untilSaid(id, "I wait", task.Idle)
			if _, err := h.answerPlan(h.handshakes(id).Plan.ID, true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			if s := h.task(id); s.Reason != task.ContractViolation {
				t.Errorf("its result was not checked: %s %s", s.State, s.Reason)
			}
		}, with(effect("effect", &tally{})))
	})
}
