package runtime_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// boss is a lead that plays some answers, and then ends each turn with what woke it.
func boss(answers ...model.Response) modelFunc {
	return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if n := stepsOf(req); n < len(answers) {
			return answers[n], nil
		}
		return echo(ctx, req, sink)
	}
}

// idleTexts are the idle notices that a lead was given.
func (h *house) idleTexts(id task.ID) (texts []string) {
	h.t.Helper()
	for _, e := range h.entries(id) {
		if in, ok := e.Body.(*task.Input); ok && in.Kind == task.WentIdle {
			texts = append(texts, in.From+": "+in.Text)
		}
	}
	return texts
}

// untilTook waits until a task was given so many messages of a kind and stands as given.
func (h *house) untilTook(id task.ID, kind task.MessageKind, n int, state task.State) {
	h.t.Helper()
	h.until(id, "enough mail", func(t task.Task, entries []task.Entry) bool {
		took := 0
		for _, e := range entries {
			if in, ok := e.Body.(*task.Input); ok && in.Kind == kind {
				took++
			}
		}
		return took >= n && t.State == state
	})
}

// proves N4: a lead starts teammates and goes on at once. Their parent is the team, their grant is a part of the lead's, and a
// wait for one is over with its turn.
func TestLeadStartsATeammate(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{
		"lead": boss(
			call("subagent", `{"task":"ann","name":"Ann","team_name":"","color":"red","tools":["read"],"max_steps":7}`),
			call("task_output", `{"task_id":"ann","block":true}`),
			call("task_output", `{"task_id":"tm-2"}`),
			text("done")),
		"ann": echo,
	}), func(h *house) {
		id := h.spawn("lead", lead, func(a *task.Assignment) { a.Grant.Tools = []string{"read", "grep"} })
		h.untilTook(id, task.WentIdle, 1, task.Idle)
		in, err := h.journal.Team(context.Background(), h.task(id).Team)
		h.must(err)
		first := h.results(id)["c00000001"].Text
		if want := `{"task_id":"tm-2","agent_id":"Ann@` + in.Name + `","status":"running"}`; first != want {
			h.t.Errorf("%s, not %s", first, want)
		}
		ann := h.task("tm-2")
		if ann.Parent != "" || ann.SpawnedBy != id || ann.Color != "red" || ann.Budget.MaxSteps != 7 || ann.State != task.Idle {
			h.t.Errorf("%+v", ann.Task)
		}
		if want := []string{"read", "send_message"}; !slices.Equal(ann.Grant.Tools, want) {
			h.t.Errorf("granted %v", ann.Grant.Tools)
		}
		for n, want := range map[int]string{2: "its turn is over", 3: ""} {
			if got := h.told(id, n); got.Status != "idle" || got.Output != "heard: ann" || !strings.Contains(got.Message, want) {
				h.t.Errorf("call %d told %+v", n, got)
			}
		}
		if got := h.idleTexts(id); !slices.Equal(got, []string{"Ann: heard: ann"}) {
			h.t.Errorf("notices: %q", got)
		}
	})
}

// proves N4, P1: what a lead can't have is an answer: a name that is taken, reserved or none, another team, more than it is
// granted, and a teammate in the background or in a group.
func TestTeammatesThatALeadDoesNotGet(t *testing.T) {
	wrong := []struct{ arguments, reason, subject string }{
		{`{"task":"ann","name":"ANN"}`, "NAME_TAKEN", "Ann"},
		{`{"task":"x","name":"team-lead"}`, "INVALID_ARGUMENTS", "name"},
		{`{"task":"x","name":"tm-7"}`, "INVALID_ARGUMENTS", "name"},
		{`{"task":"x","name":"bob","team_name":"elsewhere"}`, "NOT_GRANTED", "team_name"},
		{`{"task":"x","name":"bob","tools":["edit"]}`, "NOT_GRANTED", "edit"},
		{`{"task":"x","name":"bob","background":true}`, "INVALID_ARGUMENTS", "background"},
		{`{"tasks":[{"task":"x"}],"name":"bob"}`, "INVALID_ARGUMENTS", "name"},
		{`{"task":"x","team_name":"here"}`, "INVALID_ARGUMENTS", "name"},
		{`{"task":"x","color":"red"}`, "INVALID_ARGUMENTS", "color"},
		{`{"task":"x","name":"bob","color":"#f00"}`, "INVALID_ARGUMENTS", "color"},
	}
	answers := []model.Response{call("subagent", `{"task":"ann","name":"Ann"}`)}
	for _, w := range wrong {
		answers = append(answers, call("subagent", w.arguments))
	}
	bubble(t, cast(map[string]modelFunc{"lead": boss(answers...), "ann": echo}), func(h *house) {
		id := h.spawn("lead", lead, func(a *task.Assignment) { a.Grant.Tools = []string{"read"} })
		h.untilTook(id, task.WentIdle, 1, task.Idle)
		for i, w := range wrong {
			text := h.results(id)[callID(i+2)].Text
			if !strings.Contains(text, `"reason":"`+w.reason+`"`) || !strings.Contains(text, `"subject":"`+w.subject+`"`) {
				h.t.Errorf("%s was answered %s", w.arguments, text)
			}
		}
		if _, err := h.journal.Task(context.Background(), "tm-3"); !errdefs.Is(err, errdefs.TaskNotFound) {
			h.t.Errorf("there is another teammate: %v", err)
		}
	})
}

func callID(n int) string { return "c" + strings.Repeat("0", 8-len(itoa(n))) + itoa(n) }

// proves N4, P2: nobody but the lead starts teammates, whatever tools it has, and no client's teammate has another parent.
func TestOnlyTheLeadStartsTeammates(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{"agent": boss(call("subagent", `{"task":"x","name":"bob"}`))}), func(h *house) {
		id := h.spawn("agent")
		h.ended(id, task.Completed, task.Done)
		if got := h.results(id)["c00000001"].Text; !strings.Contains(got, `"reason":"NOT_GRANTED"`) {
			h.t.Errorf("answered %s", got)
		}
		hung := h.spawn("agent", mate("ann"))
		h.untilState(hung, task.Idle)
		if h.task(hung).Grant.AllowsTool("subagent") {
			if got := h.results(hung)["c00000001"].Text; !strings.Contains(got, `"reason":"NOT_GRANTED"`) {
				h.t.Errorf("answered %s", got)
			}
		}
		_, err := h.sup.Spawn(context.Background(), task.Assignment{
			Caller: "test", Parent: hung, AgentSpec: task.AgentSpec{Prompt: "agent"}, Teammate: &task.TeammateSpec{Name: "bob"},
		})
		if e := errdefs.As(err); err == nil || e.Field != "parent_task_id" {
			h.t.Errorf("a teammate below a teammate: %v", err)
		}
	})
}

// proves R9, R6: a lead looks after all of its team, by name too: it waits for another's subagent, stops a teammate, and is told
// of each end once. To wait for itself is a circle, and to stop itself is refused.
// case STA-11
func TestLeadLooksAfterItsTeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, cast(map[string]modelFunc{
			"lead": boss(
				call("subagent", `{"task":"hang","name":"ann"}`),
				call("task_output", `{"task_id":"team-lead","block":true}`),
				call("task_stop", `{"task_id":"team-lead"}`),
				call("task_output", `{"task_id":"nobody"}`),
				call("gate", "{}"),
				call("task_stop", `{"task_id":"Ann","level":"kill"}`),
				call("task_stop", `{"task_id":"sub-3","level":"kill"}`),
				text("done")),
			"hang": hang,
		}), func(h *house) {
			id := h.spawn("lead", lead)
			<-g.entered
			client := h.spawn("hang")
			close(g.open)
			h.untilState(id, task.Idle)
			if got := h.told(id, 2); got.Reason != "WAIT_CIRCLE" || !strings.Contains(got.Message, "tm-1 waits for tm-1") {
				h.t.Errorf("to wait for itself: %+v", got)
			}
			if got := h.told(id, 3); got.Reason != "NOT_GRANTED" {
				h.t.Errorf("to stop itself: %+v", got)
			}
			if got := h.told(id, 4); got.Reason != "NOT_FOUND" || !slices.Equal(got.Allowed, []string{"tm-2"}) {
				h.t.Errorf("an unknown name: %+v", got)
			}
			h.ended("tm-2", task.Killed, task.StoppedByClient)
			h.ended(client, task.Killed, task.StoppedByClient)
			if got := h.envelopes(id); len(got) != 0 {
				h.t.Errorf("told again: %q", got)
			}
		}, with(g.tool("gate")))
	})
}

// proves R9: a wait of a lead ends when a teammate writes, and not for a notice that wakes nobody (M9).
func TestMailEndsALeadsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child, mates := newGate(), newGate()
		inside(t, cast(map[string]modelFunc{
			"lead":  boss(call("subagent", `{"task":"mute","name":"ann"}`, "subagent", `{"task":"child"}`), text("bye")),
			"child": play(call("child", "{}"), text("done")),
			"mute": boss(call("mates", "{}"), text(""), call("mates", `{"n":2}`),
				call("send_message", `{"to":"team-lead","text":"look here"}`), text("")),
		}), func(h *house) {
			id := h.spawn("lead", lead)
			<-child.entered
			<-mates.entered
			mates.open <- struct{}{}
			h.untilState("tm-2", task.Idle)
			synctest.Wait()
			if a := h.task(id); a.State != task.Waiting {
				h.t.Errorf("a quiet notice ended the wait: it is %s", a.State)
			}
			h.must(h.send("tm-2", "go on"))
			<-mates.entered
			mates.open <- struct{}{}
			h.untilTook(id, task.Text, 1, task.Idle)
			if got := h.told(id, 2); got.Status != "running" || !strings.Contains(got.Message, "there is mail for you") {
				h.t.Errorf("told %+v", got)
			}
			close(child.open)
			h.untilTook(id, task.Ended, 1, task.Idle)
		}, with(child.tool("child"), mates.tool("mates")))
	})
}

// proves M9
// case MSG-9: what a teammate sends to the lead is never overtaken by the notice that its turn has ended, also when both are
// taken at once, and the notice wakes nobody when it only repeats it.
func TestResultPrecedesTheIdleNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, cast(map[string]modelFunc{
			"lead": boss(call("subagent", `{"task":"ann","name":"ann"}`), call("gate", "{}"), text("read")),
			"ann":  boss(call("send_message", `{"to":"team-lead","text":"the result"}`), text("I have sent it")),
		}), func(h *house) {
			id := h.spawn("lead", lead)
			<-g.entered
			h.untilState("tm-2", task.Idle)
			close(g.open)
			h.untilTook(id, task.WentIdle, 1, task.Idle)
			got := h.inputs(id)
			if !slices.Equal(got, []string{"lead", "the result", "I have sent it"}) {
				h.t.Errorf("inputs: %q", got)
			}
		}, with(g.tool("gate")))
	})
}

// case STA-7: a child finishes while no client is attached: the idle lead wakes and goes on, also after kill -9.
func TestLeadWakesForAChild(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			inside(t, cast(map[string]modelFunc{
				"lead":  boss(call("subagent", `{"task":"child","background":true}`), text("I wait")),
				"child": play(call("ls", `{"path":"."}`), call("gate", "{}"), text("found it")),
			}), func(h *house) {
				id := h.spawn("lead", lead)
				<-g.entered
				h.untilState(id, task.Idle)
				if killed {
					h.cut.cut()
				}
				close(g.open)
				if killed {
					h.restart()
				}
				h.untilSaid(id, "found it", task.Idle)
				if got := h.envelopes(id); len(got) != 1 {
					h.t.Errorf("told %q", got)
				}
			}, with(readOnly(g.tool("gate"))))
		})
	}
}

// readOnly is a prop that runs again after a crash.
func readOnly(p prop) prop {
	p.readOnly = true
	return p
}

// case OUT-5: whatever a lead's summary says, its living teammates stand in it, by name and id.
func TestSummaryListsTheTeam(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{
		"lead": func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			switch n := len(req.Messages); {
			case asksForSummary(req):
				return text("I forgot them"), nil
			case strings.Contains(req.Messages[1].Text, "I forgot them"):
				return text("done"), nil
			case n == 2:
				return call("subagent", `{"task":"ann\nand more","name":"Ann"}`, "subagent", `{"task":"hang","name":"bob"}`), nil
			}
			return reads(9000, call("task_output", `{"task_id":"ann","block":true}`)), nil
		},
		"ann": echo, "hang": hang,
	}), func(h *house) {
		id := h.spawn("lead", lead)
		h.untilSaid(id, "done", task.Idle)
		all := h.summaries(id)
		want := "I forgot them\n\n[agentd] Living teammates of your team:\n- Ann (tm-2, IDLE): ann\n- bob (tm-3, RUNNING): hang"
		if len(all) != 1 || all[0].Summary != want {
			h.t.Errorf("summaries: %+v", all)
		}
	}, window(10_000))
}

// The prompt of a lead is the same for all of an incarnation, whatever its team is called.
func TestLeadsPromptIsStable(t *testing.T) {
	var prompts []string
	h := newHouse(t, func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		prompts = append(prompts, req.Messages[0].Text)
		if stepsOf(req) == 0 {
			return call("team_create", `{"name":"crew"}`), nil
		}
		return text("ok"), nil
	})
	id := h.spawn("lead", lead)
	h.untilState(id, task.Idle)
	h.restart()
	if _, err := h.write("team-lead", "again"); err != nil {
		t.Fatal(err)
	}
	h.untilTook(id, task.Text, 1, task.Idle)
	if len(prompts) != 3 || len(slices.Compact(prompts)) != 1 {
		t.Errorf("%d prompts, which differ:\n%s", len(prompts), strings.Join(prompts, "\n---\n"))
	}
}
