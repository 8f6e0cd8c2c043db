package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// parallel is the option of a spawn that runs agents side by side.
func parallel(prompts ...string) func(*task.Assignment) {
	return func(a *task.Assignment) {
		a.Group = &task.GroupSpec{}
		for _, prompt := range prompts {
			a.Group.Items = append(a.Group.Items, task.AgentSpec{Prompt: prompt})
		}
	}
}

// atOnce is the option of how many of them run at once.
func atOnce(n int) func(*task.Assignment) {
	return func(a *task.Assignment) { a.Group.MaxConcurrency = n }
}

// children are the tasks of a group that there are, in order.
func (h *house) children(group task.ID) []task.ID {
	h.t.Helper()
	row, err := h.journal.Task(context.Background(), group)
	h.must(err)
	var ids []task.ID
	for id, err := range h.journal.Children(context.Background(), row.Value.Team, group) {
		h.must(err)
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b task.ID) int { return int(a.Number()) - int(b.Number()) })
	return ids
}

// news are the notices in a group's transcript, one line each.
func (h *house) news(group task.ID) []string {
	h.t.Helper()
	var lines []string
	for _, e := range h.entries(group) {
		if n, ok := e.Body.(*task.Notice); ok {
			if !strings.HasPrefix(n.Text, string(n.TaskID)+" ") {
				h.t.Errorf("notice about %s: %q", n.TaskID, n.Text)
			}
			lines = append(lines, fmt.Sprintf("%s %s", n.TaskID, n.State))
		}
	}
	return lines
}

// toldOnce checks that a group's transcript tells of each of its tasks' ends once, as the last thing about it.
func (h *house) toldOnce(group task.ID) {
	h.t.Helper()
	ends := map[task.ID]int{}
	for _, e := range h.entries(group) {
		n, ok := e.Body.(*task.Notice)
		switch {
		case ok && ends[n.TaskID] > 0:
			h.t.Errorf("%s: %q after the end was told", group, n.Text)
		case ok && n.State.Terminal():
			ends[n.TaskID]++
		}
	}
	for _, id := range h.children(group) {
		if ends[id] != 1 {
			h.t.Errorf("%s: the end of %s was told %d times: %v", group, id, ends[id], h.news(group))
		}
	}
}

// inTurn checks that texts stand in a text in their order.
func inTurn(t testing.TB, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("%q is missing, or not in its place, in:\n%s", part, text)
			return
		}
		rest = after
	}
}

// finder reports a finding and more under the name in its prompt, after a time that is given there.
func finder(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
	var name string
	var seconds int
	_, _ = fmt.Sscanf(req.Messages[1].Text, "find %s %d", &name, &seconds)
	time.Sleep(time.Duration(seconds) * time.Second)
	return call("report", fmt.Sprintf(`{"summary":"found %[1]s","findings":[{"title":"%[1]s"}],"claims":["%[1]s"],
		"artifacts":[{"path":"%[1]s"}]}`, name)), nil
}

// proves R1, S1, S4: results come in the order asked, whoever is first; the group's stream tells of each change.
func TestParallelGivesResultsInTheOrderAsked(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{"find": finder}), func(h *house) {
		id := h.spawn("", parallel("find a 3", "find b 2", "find c 1"))
		if id.Kind() != task.Group {
			h.t.Fatalf("the group is %s", id)
		}
		synctest.Wait()
		if got := h.task(id).Activity; got != "0 of 3 done, 3 running" {
			h.t.Errorf("it does: %q", got)
		}
		time.Sleep(2500 * time.Millisecond)
		if got := h.task(id).Activity; got != "2 of 3 done, 1 running" {
			h.t.Errorf("it does: %q", got)
		}
		r := h.ended(id, task.Completed, task.Done)
		ids := h.children(id)
		if !slices.Equal(r.Children, ids) || len(ids) != 3 || r.Error != "" {
			h.t.Errorf("result: %+v", r)
		}
		inTurn(h.t, r.Summary, string(ids[0])+" COMPLETED", "found a", string(ids[1])+" COMPLETED", "found b", string(ids[2]), "found c")
		for i, name := range []string{"a", "b", "c"} {
			if len(r.Findings) != 3 || r.Findings[i].Title != name || r.Claims[i] != name || r.Artifacts[i].Path != name {
				h.t.Errorf("result: %+v", r)
			}
			if c := h.task(ids[i]); c.Description != fmt.Sprintf("find %s %d", name, 3-i) || c.Parent != id {
				h.t.Errorf("child %d: %+v", i, c.Task)
			}
		}
		news := strings.Join(h.news(id)[3:], ", ")
		if want := fmt.Sprintf("%s COMPLETED, %s COMPLETED, %s COMPLETED", ids[2], ids[1], ids[0]); news != want {
			h.t.Errorf("news: %s", news)
		}
		if used := h.task(id).Usage; used.Steps != 3 || used.Turns != 3 || used != r.Usage {
			h.t.Errorf("usage: %+v", used)
		}
		if d := h.task(id).Description; d != "parallel of 3: find a 3" {
			h.t.Errorf("description: %q", d)
		}
		h.toldOnce(id)
		h.counts(0, 0)
	})
}

// proves R7: a group has no more at once than it may, takes them in order, and needs no slot for itself.
func TestParallelIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var now, most atomic.Int32
		one := make(chan bool)
		inside(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-one:
			case <-g.open:
			}
			return text("done"), nil
		}, func(h *house) {
			id := h.spawn("", parallel("a", "b", "c", "d", "e"), atOnce(2))
			ids := h.children(id)
			for done := range 4 {
				synctest.Wait()
				for i, child := range ids {
					running := h.task(child).State == task.Running
					if ended := h.task(child).State.Terminal(); !ended && running != (i < done+2) {
						t.Errorf("after %d ends %s is %s", done, child, h.task(child).State)
					}
				}
				want := fmt.Sprintf("%d of 5 done, %d running", done, min(2, 5-done))
				if done < 3 {
					want += fmt.Sprintf(", %d queued", 3-done)
					if got := h.task(ids[4]).Activity; got != "waits for its turn in "+string(id) {
						t.Errorf("the last one: %q", got)
					}
				}
				if got := h.task(id).Activity; got != want {
					t.Errorf("it does: %q, not %q", got, want)
				}
				one <- true // whichever
				synctest.Wait()
			}
			close(g.open)
			h.ended(id, task.Completed, task.Done)
			if most.Load() != 2 {
				t.Errorf("%d ran at once", most.Load())
			}
		}, slots(8))
	})
}

// proves S3: one that fails does not end the others. The group fails for the reason of the first, in order.
func TestFailureKeepsTheOthers(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{
		"find": finder, "bad": fails(model.Auth), "late": hang, "panic": panics,
	}), func(h *house) {
		id := h.spawn("", parallel("find a 100", "late", "bad", "find b 200", "panic"), func(a *task.Assignment) {
			a.Group.Items[1].Budget.WallTime = time.Minute
		})
		r := h.ended(id, task.Failed, task.Timeout)
		ids := h.children(id)
		if want := fmt.Sprintf("3 of 5 did not complete: %s TIMEOUT, %s MODEL_ERROR, %s PANIC", ids[1], ids[2], ids[4]); r.Error != want {
			h.t.Errorf("error: %q", r.Error)
		}
		inTurn(h.t, r.Summary, "COMPLETED", "found a", "FAILED TIMEOUT", "FAILED MODEL_ERROR", "the provider says no", "found b", "FAILED PANIC")
		h.ended(ids[0], task.Completed, task.Done)
		h.ended(ids[3], task.Completed, task.Done)
		h.toldOnce(id)
	})
}

// proves R4: what the agents of a group, and those below them, consume counts against all above.
func TestUsageBelowAGroupCountsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, cast(map[string]modelFunc{
			"top": play(call("gate", "{}"), text("never")), "item": play(call("gate", "{}"), text("done")), "child": forever,
		}), func(h *house) {
			top := h.spawn("top", func(a *task.Assignment) { a.Budget.Steps = 10 })
			group := h.spawn("", parallel("item", "item"), below(top))
			for range 3 {
				<-g.entered
			}
			item := h.children(group)[0]
			child := h.spawn("child", below(item))
			if depth := h.task(child).Depth(); depth != 2 {
				t.Errorf("depth: %d", depth)
			}
			r := h.ended(child, task.Failed, task.BudgetExceeded)
			if r.Usage.Steps != 7 { // the three others made one call each
				t.Errorf("the child: %+v", r.Usage)
			}
			for id, steps := range map[task.ID]int64{item: 8, group: 9, top: 10} {
				if used := h.task(id).Usage; used.Steps != steps {
					t.Errorf("%s has used %d steps, not %d", id, used.Steps, steps)
				}
			}
			close(g.open)
			h.result(group)
		}, with(g.tool("gate")))
	})
}

// proves R1: what a group concludes is bounded, fair to each item, and says where the rest is.
func TestConclusionOfAGroupIsBounded(t *testing.T) {
	long := strings.Repeat("\u00e9", 8<<10)
	reports := func(summary string, n int) modelFunc {
		findings := strings.Repeat(`{"title":"t","detail":"`+strings.Repeat("d", 4000)+`"},`, n)
		return play(call("report", fmt.Sprintf(`{"summary":%q,"findings":[%s{"title":"last"}]}`, summary, findings)))
	}
	bubble(t, cast(map[string]modelFunc{"short": reports("short", 0), "long": reports(long, 25)}), func(h *house) {
		id := h.spawn("", parallel("long", "short", "long", "long", "short"))
		r := h.ended(id, task.Completed, task.Done)
		ids := h.children(id)
		if n := len(r.Summary); n > 16<<10 || n < 15<<10 || strings.ContainsRune(r.Summary, '\uFFFD') {
			h.t.Errorf("the summary has %d bytes", n)
		}
		sections := strings.Split(r.Summary, "## ")[1:]
		if len(sections) != 5 || len(sections[0]) < 5000 || !strings.HasSuffix(sections[1], "short\n\n") {
			h.t.Errorf("sections: %q", sections)
		}
		inTurn(h.t, r.Summary, "bytes left out: task_output "+string(ids[0]), "short", "task_output "+string(ids[2]), "task_output "+string(ids[3]), "short", "more findings")
		if n := len(r.Findings); n < 60 || n > 70 {
			h.t.Errorf("%d findings", n)
		}
	})
}

// A group is no agent: it takes no mail and has no children but its own.
func TestGroupIsNoAgent(t *testing.T) {
	bubble(t, hang, func(h *house) {
		id := h.spawn("", parallel("a"))
		if err := h.send(id, "x"); !errdefs.Is(err, errdefs.NotARecipient) {
			h.t.Errorf("mail: %v", err)
		}
		_, err := h.sup.Spawn(context.Background(), task.Assignment{
			From: "user", Workspace: h.workspace, Parent: id, AgentSpec: task.AgentSpec{Prompt: "x"},
		})
		if e, ok := errors.AsType[*errdefs.Error](err); !ok || e.Field != "parent_task_id" {
			h.t.Errorf("a child: %v", err)
		}
		h.must(h.send(h.children(id)[0], "x")) // its agents do
	})
}

// What is wrong with an item is named with its place.
func TestWrongItemIsNamed(t *testing.T) {
	bubble(t, hang, func(h *house) {
		wrong := func(change func(*task.AgentSpec)) func(*task.Assignment) {
			return func(a *task.Assignment) {
				parallel("a", "b")(a)
				change(&a.Group.Items[1])
			}
		}
		for field, spawn := range map[string]func(*task.Assignment){
			"items":                         parallel(),
			"items[1].prompt":               parallel("a", " "),
			"max_concurrency":               func(a *task.Assignment) { parallel("a")(a); atOnce(-1)(a) },
			"items[1].grant.writable_roots": wrong(func(i *task.AgentSpec) { i.Grant.Writable = []string{"nowhere"} }),
			"items[1].inputs[0]":            wrong(func(i *task.AgentSpec) { i.Inputs = []task.NamedText{{Name: "n"}} }),
			"resume_from":                   func(a *task.Assignment) { parallel("a")(a); a.Group.ResumeFrom = "grp-999" },
		} {
			e := h.refusal(errdefs.BadArgument, spawn)
			if e.Field != field || !strings.HasPrefix(e.Message, field+": ") {
				h.t.Errorf("%s: %s, %q", field, e.Field, e.Message)
			}
		}
	})
}
