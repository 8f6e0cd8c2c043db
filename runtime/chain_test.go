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
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// chain is the option of a spawn that runs agents one after the other.
func chain(prompts ...string) func(*task.Assignment) {
	return func(a *task.Assignment) {
		parallel(prompts...)(a)
		a.Group.Chain = true
	}
}

// resume is the option of a chain that goes on with an ended one.
func resume(from task.ID, prompts ...string) func(*task.Assignment) {
	return func(a *task.Assignment) {
		chain(prompts...)(a)
		a.Group.ResumeFrom = from
	}
}

// A step is told what the one before concluded, in one pass: what that says is not read as a prompt.
func TestChainGivesTheConclusionOn(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{
		"one": play(text("{previous} and {braces} $1 \\1")), "two": echoInputs, "three": echoInputs,
	}), func(h *house) {
		id := h.spawn("", chain("one", "two {previous}; {previous}", "three {prev} {previous}"), func(a *task.Assignment) {
			a.Group.Items[1].Inputs = []task.NamedText{{Name: "again", Text: "{previous}"}}
		})
		r := h.ended(id, task.Completed, task.Done)
		ids := h.children(id)
		said := "{previous} and {braces} $1 \\1"
		two := "two " + said + "; " + said + "\n\n## again\n\n" + said
		for i, want := range []string{"one", two, "three {prev} " + two} {
			if got := h.inputs(ids[i]); len(got) != 1 || got[0] != want {
				h.t.Errorf("step %d was told %q, not %q", i+1, got, want)
			}
		}
		inTurn(h.t, r.Summary, string(ids[0]), "{previous}", string(ids[1]), "## again", string(ids[2]))
		if d := h.task(id).Description; d != "chain of 3: one" {
			h.t.Errorf("description: %q", d)
		}
		h.toldOnce(id)
	})
}

// With a schema a step is told the output of the one before; of a long one the start, and where the rest is.
func TestChainGivesTheOutputOn(t *testing.T) {
	long := `{"a":"` + strings.Repeat("\u00e9", 20<<10) + `"}`
	bubble(t, cast(map[string]modelFunc{"one": play(text(long)), "two": play(text(`{"b":2}`)), "three": play(text("done"))}), func(h *house) {
		id := h.spawn("", chain("one", "two {previous}{previous}{previous}{previous}", "three {previous}"), func(a *task.Assignment) {
			a.Group.Items[0].Schema, a.Group.Items[1].Schema = `{"type":"object"}`, `{"type":"object"}`
		})
		h.ended(id, task.Completed, task.Done)
		ids := h.children(id)
		got := h.inputs(ids[1])[0]
		if n := len(got) - len("two "); n > 4*32<<10 || n < 4*32<<10-8 || strings.ContainsRune(got, '\uFFFD') {
			h.t.Errorf("it was told %d bytes", n)
		}
		if strings.Count(got, "bytes left out: task_output "+string(ids[0])) != 4 {
			h.t.Errorf("it was not told where the rest is: %q", got[len(got)-200:])
		}
		if got := h.inputs(ids[2])[0]; got != `three {"b":2}` {
			h.t.Errorf("the last one was told %q", got)
		}
		e := h.refusal(errdefs.BadArgument, chain("one", strings.Repeat("{previous}", 5)))
		if e.Field != "items[1].prompt" {
			h.t.Errorf("five times: %+v", e)
		}
	})
}

// proves S3: a chain ends at its first failure, with all before it kept; what comes after it never comes into being.
func TestChainEndsAtTheFirstFailure(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{"find": finder, "bad": fails(model.Auth)}), func(h *house) {
		id := h.spawn("", chain("find a 1", "bad {previous}", "find c 1"))
		synctest.Wait()
		if got := h.task(id).Activity; got != "0 of 3 done, 1 running" {
			h.t.Errorf("it does: %q", got)
		}
		r := h.ended(id, task.Failed, task.ModelError)
		ids := h.children(id)
		if len(ids) != 2 || !slices.Equal(r.Children, ids) {
			h.t.Fatalf("children: %v, %v", ids, r.Children)
		}
		if want := fmt.Sprintf("step 2 of 3 did not complete: %s MODEL_ERROR", ids[1]); r.Error != want {
			h.t.Errorf("error: %q", r.Error)
		}
		inTurn(h.t, r.Summary, "found a", "FAILED MODEL_ERROR", "did not run")
		if len(r.Findings) != 1 || r.Findings[0].Title != "a" {
			h.t.Errorf("result: %+v", r)
		}
		h.toldOnce(id)
		h.counts(0, 0)
	})
}

// proves T1, T2
// case STP-3: a stopped chain makes no further step.
func TestStopOfAChain(t *testing.T) {
	for _, level := range []task.StopLevel{task.WrapUp, task.Cancel, task.Kill} {
		bubble(t, cast(map[string]modelFunc{"find": finder, "hang": hang}), func(h *house) {
			id := h.spawn("", chain("find a 0", "hang", "find c 0"))
			synctest.Wait()
			h.must(h.stopTask(id, level))
			r := h.ended(id, task.Killed, task.StoppedByClient)
			ids := h.children(id)
			if len(ids) != 2 {
				h.t.Fatalf("%s: children %v", level, ids)
			}
			h.ended(ids[0], task.Completed, task.Done)
			h.ended(ids[1], task.Killed, task.ParentEnded)
			inTurn(h.t, r.Summary, "found a", "did not run")
		})
	}
}

// proves T2: a stop that comes right before a step comes into being refuses it; one that comes right after finds it.
func TestStopRacesTheNextStep(t *testing.T) {
	for name, late := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h *house
				var steps tally
				stop := func() {
					go func() { h.must(h.stopTask("grp-1", task.Cancel)) }()
					h.until("grp-1", "the stop", func(t task.Task, _ []task.Entry) bool { return t.Stop != nil })
				}
				bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
					second := touches(b, "created") && steps.add("") == 3 // the group, the first step, the second
					if second && !late {
						stop()
					}
					done, err := commit()
					if second && late {
						stop()
					}
					return done, err
				}}
				h = newHouse(t, play(text("done")), inBubble, tapped(bent))
				began := time.Now()
				id := h.spawn("", chain("one", "two"))
				h.ended(id, task.Killed, task.StoppedByClient)
				if took := time.Since(began); took > time.Millisecond {
					t.Errorf("it took %v", took) // the group was put off as one that can't be resumed
				}
				ids := h.children(id)
				h.ended(ids[0], task.Completed, task.Done)
				if len(ids) != map[bool]int{false: 1, true: 2}[late] {
					t.Fatalf("children: %v", ids)
				}
				if late {
					h.ended(ids[1], task.Killed, task.ParentEnded)
					if got := h.states(ids[1]); got != "QUEUED KILLED" {
						t.Errorf("the second step: %s", got)
					}
				}
				h.counts(0, 0)
			})
		})
	}
}

// proves D7: a chain whose next step is damaged ends there.
func TestChainWhoseNextStepIsLost(t *testing.T) {
	bent := &tap{}
	bubble(t, play(text("done")), func(h *house) {
		bent.spoil("item/grp-1/1")
		id := h.spawn("", chain("one", "two"))
		r := h.ended(id, task.Failed, task.SpawnFailed)
		if len(r.Children) != 1 || !strings.Contains(r.Error, "can't be read") {
			h.t.Errorf("result: %+v", r)
		}
		e := h.refusal(errdefs.BadArgument, resume(id))
		if e.Field != "resume_from" || !strings.Contains(e.Message, "give the items") {
			h.t.Errorf("resumed: %+v", e)
		}
		h.ended(h.spawn("", resume(id, "one", "two")), task.Completed, task.Done)
	}, tapped(bent))
}

// failedChain is a chain that failed at its second of three steps; from now on that step does not fail.
func failedChain(h *house, fail *tally) task.ID {
	id := h.spawn("", chain("find a 1", "two {previous}", "three {previous}"), func(a *task.Assignment) {
		a.Group.Items[2].Grant = grant.Request{Tools: []string{"ls"}}
		a.Group.Items[2].Budget.MaxSteps = 7
	})
	h.ended(id, task.Failed, task.ModelError)
	fail.add("over")
	return id
}

// failsUntil fails as long as the tally has nothing, and says then what it was told.
func failsUntil(over *tally) modelFunc {
	return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if over.get("over") == 0 {
			return fails(model.Auth)(ctx, req, sink)
		}
		return text("(" + req.Messages[1].Text + ")"), nil
	}
}

// A chain goes on at its failed step: the completed ones are kept and not run again, also by a chain that goes on with
// one that went on.
func TestChainIsResumed(t *testing.T) {
	var over, third tally
	bubble(t, cast(map[string]modelFunc{
		"find": finder, "two": failsUntil(&over), "three": failsUntil(&third), "3": echoInputs,
	}), func(h *house) {
		first := failedChain(h, &over)
		kept := h.children(first)[0]

		second := h.spawn("", resume(first))
		r := h.ended(second, task.Failed, task.ModelError)
		ids := h.children(second)
		if len(ids) != 2 || !slices.Equal(r.Children, ids) {
			h.t.Fatalf("children: %v, %v", ids, r.Children)
		}
		if got := h.inputs(ids[0])[0]; got != "two found a" {
			h.t.Errorf("the first step that ran was told %q", got)
		}
		if want := fmt.Sprintf("step 3 of 3 did not complete: %s MODEL_ERROR", ids[1]); r.Error != want {
			h.t.Errorf("error: %q", r.Error)
		}
		inTurn(h.t, r.Summary, string(kept)+" COMPLETED", "found a", string(ids[0])+" COMPLETED", "(two found a)", string(ids[1])+" FAILED")
		if len(r.Findings) != 1 {
			h.t.Errorf("findings: %+v", r.Findings)
		}
		three := h.task(ids[1])
		if three.Parent != second || !slices.Contains(three.Grant.Tools, "ls") || slices.Contains(three.Grant.Tools, "bash") || three.Budget.MaxSteps != 7 {
			h.t.Errorf("the third step: %+v", three.Task)
		}
		if d := h.task(second).Description; d != h.task(first).Description {
			h.t.Errorf("description: %q", d)
		}

		h.restart()
		third.add("over")
		again := h.spawn("", resume(second))
		r = h.ended(again, task.Completed, task.Done)
		inTurn(h.t, r.Summary, string(kept), string(ids[0]), "(three (two found a))")
		if len(h.children(again)) != 1 {
			h.t.Errorf("children: %v", r.Children)
		}
		changed := h.spawn("", resume(second, "1", "2", "3 with {previous}"))
		r = h.ended(changed, task.Completed, task.Done)
		inTurn(h.t, r.Summary, string(kept), string(ids[0]), "3 with (two found a)")
		if d := h.task(changed).Description; d != "chain of 3: 3 with {previous}" {
			h.t.Errorf("description: %q", d)
		}
	})
}

// proves P1, P2: a step that is resumed gets no more than there is to be had below its new parent.
func TestResumedStepsAreNarrowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over tally
		g := newGate()
		inside(t, cast(map[string]modelFunc{
			"find": finder, "two": failsUntil(&over), "three": failsUntil(&over), "top": play(call("gate", "{}"), text("done")),
		}), func(h *house) {
			id := failedChain(h, &over)
			top := h.spawn("top", asking(grant.Request{Tools: []string{"read", "gate"}}))
			<-g.entered
			again := h.spawn("", resume(id), below(top))
			h.ended(again, task.Completed, task.Done)
			two := h.task(h.children(again)[0])
			if !slices.Contains(two.Grant.Tools, "read") || slices.Contains(two.Grant.Tools, "write") || two.Depth() != 1 {
				t.Errorf("the second step: %+v", two.Task)
			}
			if three := h.task(h.children(again)[1]); slices.Contains(three.Grant.Tools, "ls") || slices.Contains(three.Grant.Tools, "read") {
				t.Errorf("the third step: %+v", three.Task)
			}

			caller := h.spawn("top")
			<-g.entered
			called := h.spawn("", resume(id), below(caller), func(a *task.Assignment) { a.CallID = "c00000001" })
			h.ended(called, task.Completed, task.Done)
			before, after := h.task(h.children(id)[1]), h.task(h.children(called)[0])
			if !before.Grant.AllowsTool("subagent") || after.Grant.AllowsTool("subagent") || !after.Grant.AllowsTool("bash") {
				t.Errorf("what an agent resumes has %q", after.Grant.Tools)
			}
			close(g.open)
		}, with(g.tool("gate")))
	})
}

// What can't be resumed is refused, and says why.
func TestWhatCanNotBeResumed(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{"ok": play(text("done")), "bad": fails(model.Auth), "hang": hang}), func(h *house) {
		over, failed := h.spawn("", chain("ok", "ok")), h.spawn("", chain("ok", "bad"))
		side, single, runs := h.spawn("", parallel("ok")), h.spawn("ok"), h.spawn("", chain("hang"))
		for _, id := range []task.ID{over, failed, side, single} {
			h.result(id)
		}
		elsewhere := h.t.TempDir()
		other := func(a *task.Assignment) { a.Workspace = elsewhere }
		sameTeam := func(a *task.Assignment) { a.Workspace, a.Team = elsewhere, h.task(failed).TeamName }
		for _, tt := range []struct {
			field, why string
			spawn      []func(*task.Assignment)
		}{
			{"resume_from", "is no chain", []func(*task.Assignment){resume(side)}},
			{"resume_from", "is no chain", []func(*task.Assignment){resume(single, "a")}},
			{"resume_from", "has not ended", []func(*task.Assignment){resume(runs)}},
			{"resume_from", "nothing is left", []func(*task.Assignment){resume(over)}},
			{"resume_from", "nothing is left", []func(*task.Assignment){resume(over, "ok", "ok")}},
			{"resume_from", "another team", []func(*task.Assignment){resume(failed), other}},
			{"resume_from", "resume it there", []func(*task.Assignment){resume(failed), sameTeam}},
			{"resume_from", "only a chain", []func(*task.Assignment){resume(failed), func(a *task.Assignment) { a.Group.Chain = false }}},
			{"items", "2 steps", []func(*task.Assignment){resume(failed, "a")}},
			{"items", "2 steps", []func(*task.Assignment){resume(failed, "a", "b", "c")}},
			{"items", "must not be empty", []func(*task.Assignment){chain()}},
		} {
			e := h.refusal(errdefs.BadArgument, tt.spawn...)
			if e.Field != tt.field || !strings.HasPrefix(e.Message, tt.field+": ") || !strings.Contains(e.Message, tt.why) {
				h.t.Errorf("%s, %s: %s, %q", tt.field, tt.why, e.Field, e.Message)
			}
		}
		h.refusal(errdefs.TaskNotFound, resume("grp-999"))
		h.refusal(errdefs.TaskNotFound, resume("nonsense", "a"))
	})
}
