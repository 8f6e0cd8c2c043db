package runtime_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/store"
)

// proves T1: WRAP_UP lets the step finish and asks for the report.
func TestWrapUpFinishesTheStepAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			if len(req.Tools) == 0 {
				return text("what there is"), nil
			}
			return call("gate", `{"n":`+itoa(len(req.Messages))+`}`), nil
		}, inBubble, with(g.tool("gate")))
		id := h.spawn("x")
		<-g.entered
		stopped := make(chan error)
		go func() { stopped <- h.stopTask(id, task.WrapUp) }()
		h.untilState(id, task.Stopping)
		close(g.open)
		h.must(<-stopped)
		if r := h.ended(id, task.Killed, task.StoppedByClient); r.Summary != "what there is" || r.Usage.Steps != 2 {
			t.Errorf("result: %+v", r)
		}
		if r := h.results(id)["c00000001"]; r.Text != "through" {
			t.Errorf("the step was not finished: %+v", r)
		}
	})
}

// proves T1, O5: CANCEL keeps the text that had come.
// case OUT-4: what was stopped gives its id, its partial output and its usage.
func TestCancelKeepsPartialText(t *testing.T) {
	said := make(chan bool, 1)
	h := newHouse(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		sink(&model.TextDelta{Text: "void"})
		sink(&model.Retrying{Attempt: 2})
		sink(&model.TextDelta{Text: "half a "})
		sink(&model.TextDelta{Text: "thought"})
		said <- true
		return hang(ctx, req, sink)
	})
	id := h.spawn("x")
	<-said
	h.must(h.stopTask(id, task.Cancel))
	if r := h.ended(id, task.Killed, task.StoppedByClient); r.TaskID != id || r.Summary != "half a thought" {
		t.Errorf("result: %+v", r)
	}
	entries := h.entries(id)
	if a, ok := entries[len(entries)-2].Body.(*task.Assistant); !ok || !a.Partial || a.Text != "half a thought" {
		t.Errorf("entry: %+v", entries[len(entries)-2].Body)
	}
	if u := h.result(id).Usage; u.InputTokens == 0 || u.OutputTokens != model.EstimateTokens(len("half a thought")) {
		t.Errorf("a call that was cut short is not counted: %+v", u)
	}
}

// proves T1, O5: CANCEL ends a shell and keeps its output; what had not started is answered so.
func TestCancelKeepsPartialOutput(t *testing.T) {
	h := newHouse(t, play(call("bash", `{"command":"echo began; touch began; exec sleep 600"}`, "write", `{"path":"b","content":"x"}`)))
	id := h.spawn("x")
	for { // a real process
		if _, err := os.Stat(filepath.Join(h.workspace, "began")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	h.must(h.stopTask(id, task.Cancel))
	h.ended(id, task.Killed, task.StoppedByClient)
	results := h.results(id)
	if r := results["c00000001"]; !strings.HasPrefix(r.Text, "began\n") || !strings.Contains(r.Text, "interrupted") || !r.IsError {
		t.Errorf("the shell: %+v", r)
	}
	if r := results["c00000002"]; !strings.Contains(r.Text, string(tool.NotStarted)) {
		t.Errorf("the call behind it: %+v", r)
	}
}

// deaf is a tool that does not hear its ctx.
func (g *gate) deaf(name string) prop {
	return prop{name: name, run: func(_ context.Context, c tool.Call) (tool.Answer, error) {
		g.entered <- c.ID
		<-g.open
		return tool.Answer{Text: "at last"}, nil
	}}
}

// proves T1: each level escalates at its deadline, so that a stop ends within a bound. A goroutine that does not return
// is counted, holds no slot, and can commit nothing more.
func TestStopOfADeafToolEscalates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, cast(map[string]modelFunc{"deaf": play(call("deaf", "{}"), text("never")), "next": play(text("done"))}),
			inBubble, slots(1), with(g.deaf("deaf")))
		id := h.spawn("deaf")
		<-g.entered
		began := time.Now()
		var levels []task.StopLevel
		req := runtime.StopRequest{TaskID: id, Level: task.WrapUp, WrapUp: 3 * time.Second, Cancel: 2 * time.Second}
		h.must(h.sup.Stop(context.Background(), req, func(p runtime.StopProgress) error {
			levels = append(levels, p.Level)
			return nil
		}))
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
		// KILL is told once or twice: while the record still lives, if the watch is that quick, and with its end.
		if got := slices.Compact(levels); !slices.Equal(got, []task.StopLevel{task.WrapUp, task.Cancel, task.Kill}) {
			t.Errorf("levels told: %v", got)
		}
		h.ended(id, task.Killed, task.StoppedByClient)
		h.counts(0, 0) // it may still return
		time.Sleep(5 * time.Second)
		if queued, running, stuck := h.sup.Counts(); queued != 0 || running != 0 || stuck != 1 {
			t.Errorf("counts: %d queued, %d running, %d stuck", queued, running, stuck)
		}
		h.ended(h.spawn("next"), task.Completed, task.Done)
		before := len(h.entries(id))
		close(g.open)
		synctest.Wait()
		if after := len(h.entries(id)); after != before {
			t.Errorf("the killed loop wrote %d entries more", after-before)
		}
		if _, _, stuck := h.sup.Counts(); stuck != 0 {
			t.Errorf("%d stuck after its return", stuck)
		}
	})
}

// proves T2, N4
// case STP-3: a stop reaches children and theirs, running and queued; what is spawned meanwhile is refused or stopped.
func TestStopCascades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, hang, inBubble, slots(3))
		below := func(parent task.ID) func(*task.Assignment) { return func(a *task.Assignment) { a.Parent = parent } }
		top := h.spawn("top")
		child := h.spawn("child", below(top))
		grandchild := h.spawn("grandchild", below(child))
		synctest.Wait()
		queued := h.spawn("queued", below(top))
		var more []task.ID
		var mu sync.Mutex
		var spawners sync.WaitGroup
		for range 20 {
			spawners.Go(func() {
				id, err := h.sup.Spawn(context.Background(), task.Assignment{
					From: "user", Workspace: h.workspace, AgentSpec: task.AgentSpec{Prompt: "meanwhile"}, Parent: child,
				})
				if errdefs.Is(err, errdefs.TaskStopping) || errdefs.Is(err, errdefs.TaskEnded) {
					return
				}
				h.must(err)
				mu.Lock()
				defer mu.Unlock()
				more = append(more, id)
			})
		}
		h.must(h.stopTask(top, task.Cancel))
		spawners.Wait()
		h.ended(top, task.Killed, task.StoppedByClient)
		for _, id := range append(more, child, grandchild, queued) {
			h.ended(id, task.Killed, task.ParentEnded)
		}
		if got := h.states(queued); got != "QUEUED KILLED" {
			t.Errorf("the queued one: %s", got)
		}
		h.counts(0, 0)
	})
}

// proves T4
// case STA-3: the stop of what has ended is a success, also after a restart.
func TestStopOfAnEndedTask(t *testing.T) {
	h := newHouse(t, play(text("done")))
	id := h.spawn("x")
	h.ended(id, task.Completed, task.Done)
	for _, level := range []task.StopLevel{task.WrapUp, task.Cancel, task.Kill} {
		h.must(h.stopTask(id, level))
	}
	h.restart()
	h.must(h.stopTask(id, task.Kill))
	h.ended(id, task.Completed, task.Done)
	if err := h.stopTask("sub-999999", task.Kill); !errdefs.Is(err, errdefs.TaskNotFound) {
		t.Errorf("stop of nothing: %v", err)
	}
}

// proves S1
// case STA-4: a stop that races the natural end gives one end, whichever it is.
func TestStopRacesTheEnd(t *testing.T) {
	h := newHouse(t, play(call("ls", `{"path":"."}`), text("done")))
	for i := range 60 {
		id := h.spawn("x")
		h.must(h.stopTask(id, task.StopLevel(i%3+1)))
		r := h.result(id)
		h.endedOnce(id)
		if r.Reason != task.Done && r.Reason != task.StoppedByClient {
			t.Errorf("ended %s/%s", r.State, r.Reason)
		}
	}
}

// proves N7: a stop is retried under its request id; another body under it is refused.
func TestStopRequestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, play(call("deaf", "{}")), inBubble, with(g.deaf("deaf")))
		id := h.spawn("x")
		<-g.entered
		req := runtime.StopRequest{RequestID: "r", Caller: "test", TaskID: id, Level: task.WrapUp}
		done := make(chan error, 2)
		stop := func(req runtime.StopRequest) error {
			return h.sup.Stop(context.Background(), req, func(runtime.StopProgress) error { return nil })
		}
		go func() { done <- stop(req) }()
		h.untilState(id, task.Stopping)
		go func() { done <- stop(req) }()
		other := req
		other.Level = task.Kill
		if err := stop(other); !errdefs.Is(err, errdefs.RequestIDReused) {
			t.Errorf("another body: %v", err)
		}
		close(g.open)
		h.must(<-done)
		h.must(<-done)
		h.ended(id, task.Killed, task.StoppedByClient)
	})
}

// proves N7: of two stops under one request id, with other bodies and at once, one is refused.
func TestStopsRaceUnderOneRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := make(chan bool)
		var came tally
		h := newHouse(t, hang, inBubble, tapped(&tap{commit: func(b store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			if touches(b, "request/") {
				if came.add("stops") == 2 {
					close(both)
				}
				<-both
			}
			return commit()
		}}))
		id := h.spawn("x")
		h.untilState(id, task.Running)
		done := make(chan error, 2)
		for _, level := range []task.StopLevel{task.Cancel, task.Kill} {
			req := runtime.StopRequest{RequestID: "r", Caller: "test", TaskID: id, Level: level}
			go func() {
				done <- h.sup.Stop(context.Background(), req, func(runtime.StopProgress) error { return nil })
			}()
		}
		one, other := <-done, <-done
		if one == nil {
			one, other = other, one
		}
		if !errdefs.Is(one, errdefs.RequestIDReused) || other != nil {
			t.Errorf("%v and %v", one, other)
		}
		h.ended(id, task.Killed, task.StoppedByClient)
	})
}

// proves N7, T4: a stop that changes nothing is kept under its request id too.
func TestStopThatChangesNothingIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, cast(map[string]modelFunc{"ended": play(text("done")), "stopping": play(call("deaf", "{}"))}),
			inBubble, with(g.deaf("deaf")))
		ended, stopping := h.spawn("ended"), h.spawn("stopping")
		h.ended(ended, task.Completed, task.Done)
		<-g.entered
		go func() { _ = h.stopTask(stopping, task.Cancel) }()
		h.untilState(stopping, task.Stopping)
		for _, id := range []task.ID{ended, stopping} {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			req := runtime.StopRequest{RequestID: "r" + string(id), Caller: "test", TaskID: id, Level: task.WrapUp}
			_ = h.sup.Stop(ctx, req, func(runtime.StopProgress) error { return nil })
			req.Level = task.Kill
			err := h.sup.Stop(context.Background(), req, func(runtime.StopProgress) error { return nil })
			if !errdefs.Is(err, errdefs.RequestIDReused) {
				t.Errorf("%s: another body: %v", id, err)
			}
		}
		close(g.open)
		h.ended(stopping, task.Killed, task.StoppedByClient)
	})
}

// proves T1: a stop tells of the processes that were killed, those below it included, with nothing remaining at last.
func TestStopTellsWhatItKilled(t *testing.T) {
	for _, level := range []task.StopLevel{task.Cancel, task.Kill} {
		h := newHouse(t, play(call("bash", `{"command":"sleep 600 & sleep 600 & : > up-$$; wait"}`)))
		top := h.spawn("top")
		child := h.spawn("child", func(a *task.Assignment) { a.Parent = top })
		for { // real processes
			if up, _ := filepath.Glob(filepath.Join(h.workspace, "up-*")); len(up) == 2 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		var last runtime.StopProgress
		h.must(h.sup.Stop(context.Background(), runtime.StopRequest{TaskID: top, Level: level}, func(p runtime.StopProgress) error {
			last = p
			return nil
		}))
		if want := (runtime.StopProgress{Level: level, Reaped: 6}); last != want {
			t.Errorf("last: %+v, not %+v", last, want)
		}
		h.ended(child, task.Killed, task.ParentEnded)
		h.stop()
	}
}

// proves N4: a parent's end, for whatever reason, stops its children.
func TestParentsEndStopsChildren(t *testing.T) {
	for name, end := range map[string]modelFunc{
		"done": play(call("gate", "{}"), text("done")), "error": after(fails(model.Auth)), "panic": after(panics),
		"max steps": func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			return call("gate", `{"n":`+itoa(len(req.Messages))+`}`), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				h := newHouse(t, cast(map[string]modelFunc{"parent": end, "child": hang}), inBubble, with(g.tool("gate")))
				parent := h.spawn("parent", steps(3))
				<-g.entered
				child := h.spawn("child", func(a *task.Assignment) { a.Parent = parent })
				synctest.Wait()
				close(g.open)
				h.ended(child, task.Killed, task.ParentEnded)
				if r := h.result(parent); len(r.Children) != 1 || r.Children[0] != child {
					t.Errorf("children: %v", r.Children)
				}
			})
		})
	}
}

// after plays m behind a call of the gate.
func after(m modelFunc) modelFunc {
	return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if len(req.Messages) == 2 {
			return call("gate", "{}"), nil
		}
		return m(ctx, req, sink)
	}
}

// proves N4, D4
// case STA-2: whichever commit of a parent's end the daemon dies after, the next start stops the orphan.
func TestOrphansAreStoppedAfterACrash(t *testing.T) {
	for n := 1; n <= 5; n++ {
		synctest.Test(t, func(t *testing.T) {
			g := newGate()
			h := newHouse(t, cast(map[string]modelFunc{"parent": play(call("gate", "{}"), text("done")), "child": hang}),
				inBubble, with(g.tool("gate")))
			parent := h.spawn("parent")
			<-g.entered
			child := h.spawn("child", func(a *task.Assignment) { a.Parent = parent })
			synctest.Wait()
			h.cut.after(n)
			close(g.open)
			synctest.Wait()
			h.restart()
			h.ended(parent, task.Completed, task.Done)
			h.ended(child, task.Killed, task.ParentEnded)
		})
	}
}

// proves D4, T2: a daemon that dies while it kills a tree comes up again, and ends the rest of the tree.
func TestKillOfATreeOutlivesACrash(t *testing.T) {
	for n := 1; n <= 6; n++ {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, hang, inBubble)
			below := func(parent task.ID) func(*task.Assignment) { return func(a *task.Assignment) { a.Parent = parent } }
			top := h.spawn("top")
			child := h.spawn("child", below(top))
			grandchild := h.spawn("grandchild", below(child))
			synctest.Wait()
			h.cut.after(n)
			go func() { _ = h.stopTask(top, task.Kill) }() // it fails when the daemon dies
			synctest.Wait()
			h.restart()
			for _, id := range []task.ID{top, child, grandchild} {
				if r := h.result(id); r.State != task.Killed {
					t.Errorf("killed after %d commits: %s is %s/%s", n, id, r.State, r.Reason)
				}
				h.endedOnce(id)
			}
		})
	}
}
