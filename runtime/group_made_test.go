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
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/store"
)

// A group comes before those that it runs, wherever tasks are told in the order in which they came into being.
func TestGroupComesBeforeItsAgents(t *testing.T) {
	bubble(t, play(text("done")), func(h *house) {
		id := h.spawn("", parallel("a", "b"))
		h.ended(id, task.Completed, task.Done)
		want := append([]task.ID{id}, h.children(id)...)

		var listed []task.ID
		tasks, _, err := h.view.List(context.Background(), view.Filter{})
		h.must(err)
		for _, t := range tasks {
			listed = append(listed, t.ID)
		}
		if !slices.Equal(listed, want) {
			h.t.Errorf("the list has %v, want %v", listed, want)
		}

		var told []task.ID
		for e, err := range h.journal.Feed(context.Background(), h.task(id).Team, 0) {
			h.must(err)
			if e.State != nil && e.State.To == task.Queued {
				told = append(told, e.TaskID)
			}
		}
		if !slices.Equal(told, want) {
			h.t.Errorf("the feed has %v, want %v", told, want)
		}
	})
}

// The first step of a chain has none before it, so nothing can stand for {previous}. What an input took over from another
// task is only text.
func TestFirstStepHasNothingBeforeIt(t *testing.T) {
	seen := func(req model.Request) string { return req.Messages[1].Text }
	m := func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		if strings.HasPrefix(seen(req), "say it") {
			return text("it was {previous}"), nil
		}
		return text(seen(req)), nil
	}
	bubble(t, m, func(h *house) {
		input := func(in task.NamedText) func(*task.Assignment) {
			return func(a *task.Assignment) { a.Group.Items[0].Inputs = []task.NamedText{in} }
		}
		for field, spawn := range map[string][]func(*task.Assignment){
			"items[0].prompt":         {chain("{previous}", "two")},
			"items[0].inputs[0].text": {chain("one", "two"), input(task.NamedText{Name: "n", Text: "a {previous}"})},
		} {
			e := h.refusal(errdefs.BadArgument, spawn...)
			if e.Field != field || !strings.Contains(e.Message, "no step before") {
				h.t.Errorf("%s: %s, %q", field, e.Field, e.Message)
			}
		}
		said := h.spawn("say it")
		h.ended(said, task.Completed, task.Done)
		r := h.ended(h.spawn("", chain("one"), input(task.NamedText{Name: "n", TaskID: said})), task.Completed, task.Done)
		inTurn(h.t, r.Summary, "one", "it was {previous}")
	})
}

// proves R4, N6: a step that a new chain takes over is held against the models that there are now.
func TestResumedStepNeedsItsModel(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{"ok": play(text("done")), "bad": fails(model.Auth)}), func(h *house) {
		id := h.spawn("", chain("ok", "bad"), func(a *task.Assignment) { a.Group.Items[1].Budget.Cost = task.Dollar })
		h.ended(id, task.Failed, task.ModelError)
		h.facts = map[string]model.Facts{"test": {}}
		e := h.refusal(errdefs.BadArgument, resume(id))
		if e.Field != "resume_from" || !strings.Contains(e.Message, "step 2 of chain "+string(id)) || !strings.Contains(e.Message, "no price") {
			h.t.Errorf("without a price: %+v", e)
		}
		h.facts = map[string]model.Facts{"test": {Missing: "it is gone"}}
		h.refusal(errdefs.ModelNotConfigured, resume(id))
	}, window(0))
}

// proves D7: a step that ran is not made again when its record has vanished, as after a salvage.
func TestChainWithAVanishedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		var ran tally
		m := cast(map[string]modelFunc{
			"one": func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
				ran.add("one")
				return text("done"), nil
			},
			"two": play(call("gate", "{}"), text("done")),
		})
		inside(t, m, func(h *house) {
			id := h.spawn("", chain("one", "two"))
			<-g.entered
			steps := h.children(id)
			_, err := h.cut.Store.Commit(context.Background(), store.Batch{
				Part: store.Partition(h.task(id).Team),
				Ops:  []store.Op{{Kind: store.Delete, Name: "task/" + string(steps[0])}},
			})
			h.must(err)
			close(g.open)
			r := h.ended(id, task.Failed, task.Interrupted)
			inTurn(t, r.Summary, string(steps[0])+" FAILED", "damaged", string(steps[1])+" COMPLETED")
			if n := ran.get("one"); n != 1 {
				t.Errorf("the first step ran %d times", n)
			}
		}, with(g.tool("gate")))
	})
}
