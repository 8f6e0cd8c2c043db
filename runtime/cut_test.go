package runtime_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// endedBy makes an answer of which the provider says why it ended.
func endedBy(finish model.Finish, r model.Response) model.Response {
	r.Finish = finish
	return r
}

// An answer that was cut at the provider's limit goes on, once, and is one with what continues it.
func TestAnswerThatWasCutGoesOn(t *testing.T) {
	cut := func(s string) model.Response { return endedBy(model.FinishLength, text(s)) }
	for summary, answers := range map[string][]model.Response{
		"one, two":  {cut("one, "), text("two")},
		"one, cut":  {cut("one, "), cut("cut")}, // and so it ends
		"later":     {cut("one, "), call("ls", `{"path":"."}`), text("later")},
		"3, 4":      {cut("1, "), call("ls", `{"path":"."}`), cut("3, "), text("4")},
		"whole":     {cut(""), text("whole")},
		"one alone": {text("one alone")},
	} {
		bubble(t, play(answers...), func(h *house) {
			r := h.ended(h.spawn("x"), task.Completed, task.Done)
			if r.Summary != summary || r.Usage.Steps != int64(len(answers)) {
				h.t.Errorf("%q: %+v", summary, r)
			}
		})
	}
}

// The history that a restart folds knows that the last answer was cut.
func TestCutAnswerGoesOnAfterARestart(t *testing.T) {
	asked := 0
	again := play(endedBy(model.FinishLength, text("one, ")), text("two"))
	bubble(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if asked++; asked == 2 {
			return hang(ctx, req, sink)
		}
		return again(ctx, req, sink)
	}, func(h *house) {
		id := h.spawn("x")
		synctest.Wait()
		h.restart()
		if r := h.ended(id, task.Completed, task.Done); r.Summary != "one, two" {
			h.t.Errorf("%+v", r)
		}
	})
}

// What the provider's filter ends is no answer, and its calls do not run.
func TestFilteredAnswerFailsTheTask(t *testing.T) {
	answer := endedBy(model.FinishFilter, call("ls", `{"path":"."}`))
	answer.Text = "so far"
	bubble(t, play(answer), func(h *house) {
		id := h.spawn("x")
		r := h.ended(id, task.Failed, task.ModelError)
		if r.Error != "the provider's filter ended the answer" || r.Summary != "so far" || r.Usage.Steps != 1 {
			h.t.Errorf("%+v", r)
		}
		if len(h.results(id)) > 0 {
			h.t.Error("its calls ran")
		}
	})
}

// A task with a single step is done when that gave its whole answer.
func TestSingleStep(t *testing.T) {
	done, cut := text("done"), endedBy(model.FinishLength, text("do"))
	for _, c := range []struct {
		budget task.Budget
		answer model.Response
		state  task.State
		reason task.Reason
	}{
		{task.Budget{MaxSteps: 1}, done, task.Completed, task.Done},
		{task.Budget{Steps: 1}, done, task.Completed, task.Done},
		{task.Budget{MaxSteps: 1}, cut, task.Failed, task.MaxSteps},
		{task.Budget{Steps: 1}, text(""), task.Failed, task.BudgetExceeded},
		{task.Budget{MaxSteps: 1}, call("ls", `{"path":"."}`), task.Failed, task.MaxSteps},
		{task.Budget{Tokens: 1}, done, task.Completed, task.Done}, // nothing was used before the call
	} {
		bubble(t, play(c.answer), func(h *house) {
			h.ended(h.spawn("x", func(a *task.Assignment) { a.Budget = c.budget }), c.state, c.reason)
		})
	}
}
