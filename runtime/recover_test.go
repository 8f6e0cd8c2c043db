package runtime_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// poison counts the calls of a model that answers none, as one whose task takes the daemon down.
func poison(calls *tally) modelFunc {
	return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		calls.add("calls")
		return hang(ctx, req, sink)
	}
}

// proves D6: what ran at three crashes without a step is resumed alone after a backoff, and parked when the daemon goes
// down once more. Who committed steps beside it is not blamed.
func TestCrashLoopIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		g := newGate()
		h := newHouse(t, cast(map[string]modelFunc{
			"bad": poison(&calls),
			"good": func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
				return call("gate", `{"n":`+itoa(len(req.Messages))+`}`), nil
			},
		}), inBubble, with(g.tool("gate")))
		bad, good := h.spawn("bad"), h.spawn("good")
		for life := 1; life <= 3; life++ {
			synctest.Wait()
			if n := calls.get("calls"); n != life {
				t.Fatalf("in life %d it was called %d times", life, n)
			}
			<-g.entered
			h.restart()
		}
		synctest.Wait()
		if n := calls.get("calls"); n != 3 {
			t.Fatalf("the suspect was resumed at once")
		}
		<-g.entered // the good one was
		time.Sleep(time.Second)
		synctest.Wait()
		if n := calls.get("calls"); n != 4 {
			t.Fatalf("the suspect was called %d times after its backoff", n)
		}
		waits := h.spawn("good")
		synctest.Wait()
		if s := h.task(waits).State; s != task.Queued {
			t.Errorf("another task is %s beside the suspect", s)
		}
		h.restart()
		h.ended(bad, task.Failed, task.CrashLoop)
		synctest.Wait()
		for _, id := range []task.ID{good, waits} {
			if s := h.task(id).State; s != task.Running {
				t.Errorf("%s is %s", id, s)
			}
		}
	})
}

// proves D6: a suspect that commits a step when it is alone is none; it and the others go on.
func TestSuspectIsCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		h := newHouse(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			if calls.add("calls") <= 3 {
				return hang(ctx, req, sink)
			}
			return text("survived"), nil
		}, inBubble)
		id := h.spawn("x")
		for range 3 {
			synctest.Wait()
			h.restart()
		}
		began := time.Now()
		h.ended(id, task.Completed, task.Done)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("it was resumed after %v", waited)
		}
		h.ended(h.spawn("y"), task.Completed, task.Done)
	})
}

// proves D6: however many suspects hang, the others wait for 30 seconds in all.
func TestManySuspectsHoldNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		h := newHouse(t, cast(map[string]modelFunc{"bad": poison(&calls), "good": play(text("fine")), "fair": play(text("fine"))}), inBubble)
		const many = 5
		for range many {
			h.spawn("bad")
		}
		for range 3 {
			synctest.Wait()
			h.restart()
		}
		time.Sleep(time.Second) // their backoff
		synctest.Wait()
		began := time.Now()
		h.ended(h.spawn("good"), task.Completed, task.Done)
		synctest.Wait()
		h.ended(h.spawn("fair"), task.Completed, task.Done)
		if waited := time.Since(began); waited > 31*time.Second {
			t.Errorf("the others waited for %v", waited)
		}
		if n := calls.get("calls"); n != 3*many+1+many {
			t.Errorf("the suspects were called %d times", n)
		}
	})
}

// proves D6: a suspect whose model does not answer holds the others up for half a minute; then it runs beside them, and is
// a suspect at the next crash.
func TestSuspectThatHangsHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		h := newHouse(t, cast(map[string]modelFunc{"bad": poison(&calls), "good": play(text("fine"))}), inBubble)
		bad := h.spawn("bad")
		for range 3 {
			synctest.Wait()
			h.restart()
		}
		time.Sleep(time.Second) // its backoff
		synctest.Wait()
		began := time.Now()
		h.ended(h.spawn("good"), task.Completed, task.Done)
		if waited := time.Since(began); waited > time.Minute {
			t.Errorf("the other one waited for %v", waited)
		}
		synctest.Wait()
		if s := h.task(bad).State; s != task.Running || calls.get("calls") != 5 {
			t.Errorf("the suspect is %s, and was called %d times", s, calls.get("calls"))
		}
		h.restart()
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := h.task(bad).State; s != task.Running {
			t.Errorf("after a crash beside others it is %s", s)
		}
	})
}

// proves D6: nor is a suspect to blame for a crash after its half minute whose loop has not even returned by then.
func TestSuspectThatDoesNotReturnIsNotAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		deaf := func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
			<-open
			return text("at last"), nil
		}
		h := newHouse(t, cast(map[string]modelFunc{"bad": deaf, "good": hang}), inBubble)
		defer close(open)
		bad := h.spawn("bad")
		for range 3 {
			synctest.Wait()
			h.restart()
		}
		time.Sleep(time.Second) // its backoff
		synctest.Wait()
		good := h.spawn("good")
		time.Sleep(time.Minute)
		h.untilState(good, task.Running)
		h.restart()
		synctest.Wait()
		if s := h.task(bad).State; s != task.Running {
			t.Errorf("after a crash beside others it is %s", s)
		}
	})
}

// proves D6: an orderly stop counts against nobody, and a committed step resets the count.
func TestInnocentRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		h := newHouse(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			if calls.add("calls") == 9 {
				return call("ls", `{"path":"."}`), nil // one step
			}
			return hang(ctx, req, sink)
		}, inBubble)
		id := h.spawn("x")
		for range 6 {
			synctest.Wait()
			h.stop() // in order
			h.start()
		}
		for range 5 { // two without a step, one with, two without
			synctest.Wait()
			h.restart()
		}
		synctest.Wait()
		if n := calls.get("calls"); n != 13 {
			t.Errorf("called %d times in 12 lives, one of them with a step", n)
		}
		row, err := h.journal.Task(context.Background(), id)
		h.must(err)
		live, err := h.journal.Live(context.Background(), row.Value.Team, id)
		h.must(err)
		if live.Value.Restarts != 2 {
			t.Errorf("restarts: %d", live.Value.Restarts)
		}
	})
}

// proves D6: a suspect is not blamed for crashes while it waits, nor for an orderly stop while it is alone.
func TestWaitingSuspectIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		h := newHouse(t, poison(&calls), inBubble)
		id := h.spawn("x")
		for range 3 {
			synctest.Wait()
			h.restart()
		}
		h.restart() // within the backoff
		h.restart()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := calls.get("calls"); n != 4 {
			t.Fatalf("called %d times", n)
		}
		h.stop() // alone, in order
		h.start()
		time.Sleep(time.Second)
		synctest.Wait()
		if s := h.task(id).State; s != task.Running || calls.get("calls") != 5 {
			t.Errorf("%s, called %d times", s, calls.get("calls"))
		}
	})
}

// proves D6: a task that can't be resumed is tried three times, and then parked; nobody waits for it.
func TestFailedResumes(t *testing.T) {
	for name, crashes := range map[string]int{"innocent": 1, "suspect": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, cast(map[string]modelFunc{"bad": hang, "other": play(text("done"))}), inBubble)
				dir := filepath.Join(h.workspace, "gone")
				h.must(os.Mkdir(dir, 0o700))
				id := h.spawn("bad", func(a *task.Assignment) { a.Workspace = dir })
				for range crashes - 1 {
					synctest.Wait()
					h.restart()
				}
				synctest.Wait()
				h.must(os.Remove(dir))
				h.restart()
				h.ended(h.spawn("other"), task.Completed, task.Done)
				r := h.ended(id, task.Failed, task.CrashLoop)
				if r.Error == "" {
					t.Error("nothing says why")
				}
				h.ended(h.spawn("other"), task.Completed, task.Done)
			})
		})
	}
}

// proves D6: steps that a task committed between two resumes that failed reset their count, whether the daemon went down
// or the store failed.
func TestStepsResetFailedResumes(t *testing.T) {
	for _, crash := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) { stepBetweenFailedResumes(t, crash) })
	}
}

func stepBetweenFailedResumes(t *testing.T, crash bool) {
	var calls tally
	var fault atomic.Bool
	g := newGate()
	h := newHouse(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		if calls.add("calls") == 1 {
			return hang(ctx, req, sink)
		}
		return play(call("gate", "{}"), text("done"))(ctx, req, sink)
	}, inBubble, with(g.tool("gate")), tapped(&tap{
		commit: func(_ store.Batch, commit func() (store.Committed, error)) (store.Committed, error) {
			if fault.CompareAndSwap(true, false) {
				return store.Committed{}, errdefs.New(errdefs.Unavailable, errdefs.StoreStalled, "", "made to fail")
			}
			return commit()
		},
	}))
	dir := filepath.Join(h.workspace, "comes and goes")
	h.must(os.Mkdir(dir, 0o700))
	id := h.spawn("x", in(dir))
	synctest.Wait()
	h.must(os.Remove(dir))
	h.restart()
	time.Sleep(1500 * time.Millisecond) // two resumes fail
	h.must(os.Mkdir(dir, 0o700))
	<-g.entered // the third does not, and a step is made
	h.must(os.Remove(dir))
	if crash {
		h.restart()
	} else {
		fault.Store(true)
		close(g.open)
	}
	time.Sleep(500 * time.Millisecond)
	if s := h.task(id).State; s.Terminal() {
		t.Errorf("it is %s", s)
	}
	h.must(os.Mkdir(dir, 0o700))
	h.ended(id, task.Completed, task.Done)
}

// proves D6: who only waits for a slot when the daemon goes down is not blamed.
func TestWaitingForASlotIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, hang, inBubble, slots(2))
		h.spawn("ahead")
		time.Sleep(time.Second)
		id := h.spawn("behind")
		synctest.Wait()
		h.stop() // in order
		h.running = 1
		h.start()
		synctest.Wait()
		h.restart()
		row, err := h.journal.Task(context.Background(), id)
		h.must(err)
		live, err := h.journal.Live(context.Background(), row.Value.Team, id)
		h.must(err)
		if live.Value.Restarts != 0 {
			t.Errorf("restarts: %d", live.Value.Restarts)
		}
	})
}

// proves D7: damaged deadlines and request ids keep no daemon from starting, and no task from going on.
func TestDamageDoesNotKeepFromStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		damaged := &tap{}
		h := newHouse(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
			if calls.add("calls") == 1 {
				return hang(ctx, req, sink)
			}
			return text("done"), nil
		}, inBubble, tapped(damaged))
		id := h.spawn("x")
		synctest.Wait()
		h.kill()
		damaged.spoil("due/"+string(id)+"/resume", "requests", "feed")
		h.start()
		h.ended(id, task.Completed, task.Done)
	})
}

// proves D6, D7: a suspect is resumed although the record of a task that runs beside it is lost, and after a fault of the
// store.
func TestSuspectIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls tally
		damaged := &tap{}
		h := newHouse(t, cast(map[string]modelFunc{"bad": poison(&calls), "lost": hang}), inBubble, tapped(damaged))
		h.spawn("bad")
		for range 3 {
			synctest.Wait()
			h.restart()
		}
		lost := h.spawn("lost")
		synctest.Wait()
		damaged.spoil("task/" + string(lost))
		time.Sleep(time.Second)
		synctest.Wait()
		if n := calls.get("calls"); n != 4 {
			t.Errorf("the suspect was called %d times", n)
		}
		damaged.spoil()
	})
}

// proves D10: a deadline that passed while the daemon was down fires at the next start.
func TestOverdueDeadlineFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, hang, inBubble)
		id := h.spawn("x", func(a *task.Assignment) { a.Budget.WallTime = time.Hour })
		later := h.spawn("y", func(a *task.Assignment) { a.Budget.WallTime = 5 * time.Hour })
		synctest.Wait()
		h.kill()
		time.Sleep(2 * time.Hour)
		h.start()
		began := time.Now()
		h.ended(id, task.Failed, task.Timeout)
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		if r := h.ended(later, task.Failed, task.Timeout); r.WallTime != 5*time.Hour {
			t.Errorf("the other one ended after %v", r.WallTime)
		}
	})
}

// proves D10, T1: a stop goes on where the daemon died, and escalates in time.
func TestStopGoesOnAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			return call("deaf", `{"n":`+itoa(len(req.Messages))+`}`), nil
		}, inBubble, with(g.deaf("deaf")))
		id := h.spawn("x")
		<-g.entered
		began := time.Now()
		go func() { _ = h.stopTask(id, task.WrapUp) }() // it ends with this life of the daemon
		h.untilState(id, task.Stopping)
		h.restart()
		h.ended(id, task.Killed, task.StoppedByClient)
		if took := time.Since(began); took > 40*time.Second {
			t.Errorf("it took %v", took)
		}
		close(g.open)
	})
}

// proves T6: a disconnect cancels only what was spawned so; after a restart its client has 60 s to come back.
func TestCancelOnDisconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, hang, inBubble)
		bound := func(request string) func(*task.Assignment) {
			return func(a *task.Assignment) { a.CancelOnDisconnect, a.RequestID = true, request }
		}
		free, left, back, away := h.follow("free"), h.follow("left", bound("l")), h.spawn("back", bound("b")), h.spawn("away", bound("a"))
		if again := h.follow("left", bound("l")); again != left { // two clients follow left
			t.Fatalf("the second client got %s, not %s", again, left)
		}
		synctest.Wait()
		broken := func(id task.ID) error { return h.sup.Detach(context.Background(), id, true) }
		h.must(broken(free))
		h.must(broken(left))
		synctest.Wait()
		if s := h.task(left).State; s != task.Running {
			t.Errorf("it is %s although one client is still attached", s)
		}
		h.must(broken(left))
		h.ended(left, task.Killed, task.StoppedByClient)
		h.restart()
		time.Sleep(59 * time.Second)
		if again := h.spawn("back", bound("b")); again != back {
			t.Errorf("the client came back to %s, not %s", again, back)
		}
		began := time.Now()
		h.ended(away, task.Killed, task.StoppedByClient)
		if took := time.Since(began); took != time.Second {
			t.Errorf("it was canceled %v after 59 s", took)
		}
		time.Sleep(time.Hour)
		for _, id := range []task.ID{free, back} {
			if s := h.task(id).State; s != task.Running {
				t.Errorf("%s is %s", id, s)
			}
		}
		if err := broken("sub-999999"); !errdefs.Is(err, errdefs.TaskNotFound) {
			t.Errorf("a stream of nothing: %v", err)
		}
	})
}
