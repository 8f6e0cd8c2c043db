package runtime_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// proves T2: who is stopped alone, running or queued, does not stop the others.
func TestChildStoppedAlone(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{"find": finder, "hang": hang}), func(h *house) {
		id := h.spawn("", parallel("hang", "find a 100", "find b 1", "find c 1"), atOnce(2))
		synctest.Wait()
		ids := h.children(id)
		h.must(h.stopTask(ids[0], task.Cancel))
		h.must(h.stopTask(ids[3], task.Cancel)) // never ran
		r := h.ended(id, task.Failed, task.StoppedByClient)
		for i, state := range []task.State{task.Killed, task.Completed, task.Completed, task.Killed} {
			if got := h.task(ids[i]).State; got != state {
				h.t.Errorf("%s is %s", ids[i], got)
			}
		}
		if got := h.states(ids[3]); got != "QUEUED KILLED" {
			h.t.Errorf("the queued one: %s", got)
		}
		if h.states(id) != "QUEUED RUNNING FAILED" || !strings.HasPrefix(r.Error, "2 of 4 did not complete: ") {
			h.t.Errorf("%s, %q", h.states(id), r.Error)
		}
		h.toldOnce(id)
	})
}

// proves T1, T2, N4
// case STP-3: a stop of a group reaches all of its agents; those that are queued never start.
func TestStopOfAGroup(t *testing.T) {
	wrapUp := func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if len(req.Tools) == 0 {
			return text("what there is"), nil
		}
		time.Sleep(time.Second)
		return forever(ctx, req, sink)
	}
	for _, level := range []task.StopLevel{task.WrapUp, task.Cancel, task.Kill} {
		for name, restarted := range map[string]bool{"": false, ", and a restart": true} {
			t.Run(level.String()+name, func(t *testing.T) {
				bubble(t, cast(map[string]modelFunc{"work": wrapUp, "hang": hang}), func(h *house) {
					id := h.spawn("", parallel("work", "hang", "work", "work"), atOnce(2))
					time.Sleep(500 * time.Millisecond)
					synctest.Wait()
					ids := h.children(id)
					stopped := make(chan error)
					go func() { stopped <- h.stopTask(id, level) }()
					synctest.Wait()
					if restarted {
						h.restart()
					}
					if err := <-stopped; err != nil && !restarted {
						t.Error(err)
					}
					r := h.ended(id, task.Killed, task.StoppedByClient)
					for _, child := range ids {
						h.ended(child, task.Killed, task.ParentEnded)
					}
					if h.states(ids[2]) != "QUEUED KILLED" || h.states(ids[3]) != "QUEUED KILLED" {
						t.Errorf("the queued ones: %s, %s", h.states(ids[2]), h.states(ids[3]))
					}
					if level == task.WrapUp {
						inTurn(t, r.Summary, "what there is", "KILLED")
					}
					h.toldOnce(id)
					for _, state := range []string{"QUEUED", "RUNNING", "STOPPING"} {
						if strings.Contains(r.Summary, state) {
							t.Errorf("it has ended, and tells of one that is %s: %q", state, r.Summary)
						}
					}
					if inTime := r.WallTime < time.Minute; !inTime {
						t.Errorf("it took %v", r.WallTime)
					}
					h.counts(0, 0)
				})
			})
		}
	}
}

// proves N4, T2: what ends an agent ends the groups below it, and all below those.
func TestGroupEndsWithItsParent(t *testing.T) {
	for name, stopped := range map[string]bool{"end": false, "stop": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				inside(t, cast(map[string]modelFunc{
					"top": play(call("gate", "{}"), text("done")), "item": hang, "child": hang,
				}), func(h *house) {
					top := h.spawn("top")
					<-g.entered
					group := h.spawn("", parallel("item", "item", "item"), atOnce(1), below(top))
					steps := h.spawn("", chain("item", "item"), below(top))
					synctest.Wait()
					child := h.spawn("child", below(h.children(group)[0]))
					synctest.Wait()
					if stopped {
						h.must(h.stopTask(top, task.Cancel))
						h.ended(top, task.Killed, task.StoppedByClient)
					} else {
						close(g.open)
						h.ended(top, task.Completed, task.Done)
					}
					all := slices.Concat([]task.ID{group, steps, child}, h.children(group), h.children(steps))
					for _, id := range all {
						h.ended(id, task.Killed, task.ParentEnded)
					}
					if len(all) != 7 {
						t.Errorf("there are %v", all)
					}
					h.counts(0, 0)
				}, with(g.tool("gate")))
			})
		})
	}
}

// proves T2, S1: a stop of a group that was never started ends its agents with it.
func TestStopOfAQueuedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &between{is: []store.Op{{Kind: store.Put, Name: "live/grp-"}, {Kind: store.Delete, Name: "due/"}}}
		h := newHouse(t, hang, inBubble, put(b))
		var id task.ID
		b.do = func() { h.must(h.stopTask("grp-1", task.Cancel)) }
		id = h.spawn("", parallel("a", "b"))
		r := h.ended(id, task.Killed, task.StoppedByClient)
		inTurn(t, r.Summary, "sub-2 did not run", "sub-3 did not run")
		for _, child := range h.children(id) {
			h.ended(child, task.Killed, task.ParentEnded)
			if got := h.states(child); got != "QUEUED KILLED" {
				t.Errorf("%s: %s", child, got)
			}
		}
		h.counts(0, 0)
	})
}

// proves S1: a stop that comes right before the group's end is that end.
func TestStopRightBeforeTheEndOfAGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &between{is: []store.Op{{Kind: store.Put, Name: "result/grp-"}}}
		h := newHouse(t, play(text("done")), inBubble, put(b))
		b.do = func() {
			go func() { h.must(h.stopTask("grp-1", task.WrapUp)) }()
			h.until("grp-1", "the stop", func(t task.Task, _ []task.Entry) bool { return t.Stop != nil })
		}
		id := h.spawn("", parallel("a", "b"))
		h.ended(id, task.Killed, task.StoppedByClient)
		for _, child := range h.children(id) {
			h.ended(child, task.Completed, task.Done)
		}
	})
}

// proves T1, S3: the wall time of a group ends it and its agents.
func TestTimeoutOfAGroup(t *testing.T) {
	bubble(t, cast(map[string]modelFunc{"find": finder, "hang": hang}), func(h *house) {
		id := h.spawn("", parallel("find a 60", "hang", "hang"), atOnce(2), func(a *task.Assignment) { a.Budget.WallTime = time.Hour })
		r := h.ended(id, task.Failed, task.Timeout)
		ids := h.children(id)
		h.ended(ids[0], task.Completed, task.Done)
		h.ended(ids[1], task.Killed, task.ParentEnded)
		h.ended(ids[2], task.Killed, task.ParentEnded)
		if r.WallTime < time.Hour || r.WallTime > time.Hour+time.Minute || r.Error == "" {
			h.t.Errorf("result: %+v", r)
		}
		inTurn(h.t, r.Summary, "found a", "KILLED PARENT_ENDED")
	})
}

// proves S1, T1: what a group has to tell when it is killed comes too late.
func TestKillOfAGroupThatIsAboutToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *house
		var news tally
		bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			if touches(b, "entry/grp-") && !touches(b, "task/grp-") && news.add("") == 1 {
				go func() { h.must(h.stopTask("grp-1", task.Kill)) }()
				h.until("grp-1", "the end", func(t task.Task, _ []task.Entry) bool { return t.State.Terminal() })
			}
			return commit()
		}}
		h = newHouse(t, hang, inBubble, tapped(bent))
		id := h.spawn("", parallel("a", "b"))
		h.ended(id, task.Killed, task.StoppedByClient)
		synctest.Wait()
		h.endedOnce(id)
		h.counts(0, 0)
	})
}

// proves T1: what a group tells while the end that a KILL writes of it is on its way is told by one of the two.
func TestKillOfAGroupThatTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *house
		var commits tally
		ends, told := make(chan bool), make(chan bool)
		bent := &tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			switch {
			case touches(b, "result/grp-") && commits.add("end") == 1:
				close(ends)
				<-told
			case touches(b, "entry/grp-") && !touches(b, "task/grp-") && commits.add("news") == 1:
				go func() { h.must(h.stopTask("grp-1", task.Kill)) }()
				<-ends
				defer close(told)
			}
			return commit()
		}}
		h = newHouse(t, hang, inBubble, tapped(bent))
		id := h.spawn("", parallel("a", "b"))
		h.ended(id, task.Killed, task.StoppedByClient)
		synctest.Wait() // until the stop has seen that, too
		h.toldOnce(id)
		times := map[string]int{}
		for _, text := range h.news(id) {
			if times[text]++; times[text] > 1 {
				t.Errorf("told again: %q", text)
			}
		}
	})
}
