package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// idleSaid is what the idle notices of a teammate point to: the last text of each turn, marked when it wakes nobody.
func (h *house) idleSaid(id task.ID) (said []string) {
	h.t.Helper()
	for _, m := range h.leaderMail(id, task.WentIdle) {
		end, err := h.journal.TurnEnd(context.Background(), h.task(id).Task, m.After)
		h.must(err)
		if m.Quiet {
			end.Text += " (quiet)"
		}
		said = append(said, end.Text)
	}
	return said
}

// proves M9: the idle notice points to the last text of its turn, however that came about: at once, before a call whose answer
// needed no more words, in two parts because the first was cut, or not at all.
func TestIdleNoticePointsToTheText(t *testing.T) {
	looking := call("ls", `{"path":"."}`)
	looking.Text = "I look"
	cut := func(s string) model.Response { return endedBy(model.FinishLength, text(s)) }
	for want, answers := range map[string][]model.Response{
		"done":        {looking, text("done")},
		"I look":      {looking, text("")},
		"one and two": {looking, cut("one "), text("and two")},
		"one ":        {cut("one "), text("")},
		" (quiet)":    {call("ls", `{"path":"."}`), text("")},
	} {
		bubble(t, play(slices.Concat(answers, answers)...), func(h *house) {
			id := h.spawn("x", mate("ann"))
			h.untilState(id, task.Idle)
			h.wants("ann", "again")
			h.untilSteps(id, 2*len(answers), task.Idle)
			if got := h.idleSaid(id); !slices.Equal(got, []string{want, want}) {
				h.t.Errorf("%q, want %q twice", got, want)
			}
		})
	}
}

// proves R3, M9: a teammate's result is checked at the end of each turn, with as many repairs each time; what an earlier turn
// gave does not count for a later one.
func TestTeammatesResultIsCheckedEachTurn(t *testing.T) {
	answers := []model.Response{
		text("1."), text("2."), text("3."), text(`{"n":1}`), // the first turn
		text("4."), text("5."), endedBy(model.FinishLength, text(`{"n"`)), text(`:2}`), // the second
		text("6."), text("7."), text("8."), text("9."), // the third
	}
	bubble(t, play(answers...), func(h *house) {
		id := h.spawn("x", mate("ann"), schema(numberSchema))
		h.untilState(id, task.Idle)
		h.wants("ann", "again")
		h.untilSteps(id, 8, task.Idle)
		if got := h.idleSaid(id); !slices.Equal(got, []string{`{"n":1}`, `{"n":2}`}) {
			h.t.Errorf("it said %q", got)
		}
		h.wants("ann", "once more")
		r := h.ended(id, task.Failed, task.ContractViolation)
		repairs := h.repairs(id)
		if r.Output != "" || len(repairs) != 8 || strings.Contains(repairs[0], "report") {
			h.t.Errorf("output %q, %d repairs: %q", r.Output, len(repairs), repairs)
		}
	})
}

// proves R2, M9: acceptance commands run at the end of each turn of a teammate; the idle notice tells what it said before.
func TestTeammatesWorkIsCheckedEachTurn(t *testing.T) {
	h := newHouse(t, func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		n := stepsOf(req)
		if n%2 == 0 { // the command fails at the first conclusion of each turn
			return text("hasty"), nil
		}
		return text(fmt.Sprint("well done ", n)), nil
	})
	id := h.spawn("x", mate("ann"), accept(`echo run >> runs; test $(( $(wc -l < runs) % 2 )) = 0`))
	h.untilState(id, task.Idle)
	h.wants("ann", "again")
	h.untilSteps(id, 4, task.Idle)
	if got := h.idleSaid(id); !slices.Equal(got, []string{"well done 1", "well done 3"}) || len(h.repairs(id)) != 2 {
		t.Errorf("it said %q; repairs %q", got, h.repairs(id))
	}
}

// proves M3: an interruption ends the checks of what a teammate has concluded, too, and is read before they run again.
func TestInterruptEndsTheChecks(t *testing.T) {
	h := newHouse(t, echo)
	id := h.spawn("x", mate("ann"), accept("touch runs; sleep 600"))
	h.awaitFile("runs")
	h.post(stopIt("ann"))
	h.untilTook(id, task.Text, 1, task.Running)
	h.untilSaid(id, "stop it", task.Running)
	h.must(h.stopTask(id, task.Kill))
}
