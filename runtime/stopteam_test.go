package runtime_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/task"
)

// stopTeam stops the team of a task and gives what progress was told.
func (h *house) stopTeam(of task.ID, more ...func(*runtime.StopTeamRequest)) (told []runtime.StopProgress, err error) {
	h.t.Helper()
	req := runtime.StopTeamRequest{Caller: "test", Team: h.task(of).TeamName, Level: task.Cancel}
	for _, m := range more {
		m(&req)
	}
	err = h.sup.StopTeam(context.Background(), req, func(p runtime.StopProgress) error {
		told = append(told, p)
		return nil
	})
	return told, err
}

func under(parent task.ID) func(*task.Assignment) {
	return func(a *task.Assignment) { a.Parent = parent }
}

// elsewhere is another workspace, and so another team.
func elsewhere(h *house) func(*task.Assignment) {
	dir, err := filepath.EvalSymlinks(h.t.TempDir())
	h.must(err)
	return func(a *task.Assignment) { a.Workspace = dir }
}

// proves T1, T2: all tasks of a team end, running and queued ones and those below them, and nobody else's.
// case STP-3
func TestStopTeamEndsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, hang, inBubble, slots(3))
		top := h.spawn("top")
		child := h.spawn("child", under(top))
		grandchild := h.spawn("grandchild", under(child))
		group := h.spawn("", func(a *task.Assignment) {
			a.AgentSpec = task.AgentSpec{}
			a.Group = &task.GroupSpec{Items: []task.AgentSpec{{Prompt: "one"}, {Prompt: "two"}}}
		})
		queued := h.spawn("queued")
		other := h.spawn("other", elsewhere(h))
		synctest.Wait()
		told, err := h.stopTeam(top, func(r *runtime.StopTeamRequest) { r.Reason = "closing time" })
		h.must(err)
		if told[0].Remaining == 0 || told[len(told)-1].Remaining != 0 {
			t.Errorf("progress: %+v", told)
		}
		for _, p := range told[:len(told)-1] {
			if p.Remaining == 0 {
				t.Errorf("nothing remains before the end: %+v", told)
			}
		}
		for _, id := range []task.ID{top, group, queued} {
			if r := h.ended(id, task.Killed, task.StoppedByClient); r.Error != "closing time" {
				t.Errorf("%s ended with %q", id, r.Error)
			}
		}
		below := append(h.children(group), child, grandchild)
		if len(below) != 4 {
			t.Errorf("below are %v", below)
		}
		for _, id := range below {
			h.ended(id, task.Killed, task.ParentEnded)
		}
		if state := h.task(other).State; state.Terminal() {
			t.Errorf("another team's task is %s", state)
		}
	})
}

// proves T1: what does not answer is killed at the deadlines, however many there are, and the rest does not wait.
func TestStopTeamIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, play(call("deaf", "{}")), inBubble, slots(64), with(g.deaf("deaf")))
		var ids []task.ID
		for range 2*32 + 5 {
			ids = append(ids, h.spawn("deaf"))
		}
		for range 64 {
			<-g.entered
		}
		began := time.Now()
		told, err := h.stopTeam(ids[0], func(r *runtime.StopTeamRequest) {
			r.Level, r.WrapUp, r.Cancel = task.WrapUp, 3*time.Second, 2*time.Second
		})
		h.must(err)
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("it took %v", took)
		}
		var levels []task.StopLevel
		for _, p := range told {
			levels = append(levels, p.Level)
		}
		if got := slices.Compact(levels); !slices.Equal(got, []task.StopLevel{task.WrapUp, task.Cancel, task.Kill}) {
			t.Errorf("levels told: %v", got)
		}
		for _, id := range ids {
			h.ended(id, task.Killed, task.StoppedByClient)
		}
		close(g.open)
	})
}

// case STP-1: tasks that are stuck in `sleep 600` end, agents and shells, their processes are gone and counted.
func TestStopTeamStuckInASleep(t *testing.T) {
	h := newHouse(t, play(call("bash", `{"command":"sleep 600 & sleep 600 & touch $$.began; wait"}`)))
	id := h.spawn("x")
	shell := h.spawn("", func(a *task.Assignment) {
		a.AgentSpec = task.AgentSpec{}
		a.Shell = &task.ShellSpec{Command: "trap '' TERM INT; sleep 600 & sleep 600 & touch $$.began; wait"}
	})
	h.untilBegan(2)
	told, err := h.stopTeam(id, func(r *runtime.StopTeamRequest) { r.Level = task.Kill })
	h.must(err)
	if last := told[len(told)-1]; last.Level != task.Kill || last.Remaining != 0 || last.Reaped < 6 {
		t.Errorf("progress: %+v", last)
	}
	h.ended(id, task.Killed, task.StoppedByClient)
	h.ended(shell, task.Killed, task.StoppedByClient)
	for _, id := range []task.ID{id, shell} {
		if pids := processesOf(h, id); len(pids) > 0 {
			t.Errorf("%s left %v", id, pids)
		}
	}
}

// untilBegan waits for the files of n real processes.
func (h *house) untilBegan(n int) {
	h.t.Helper()
	for {
		began, err := filepath.Glob(filepath.Join(h.workspace, "*.began"))
		h.must(err)
		if len(began) == n {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The stop of a group counts its children and their processes. proves T2
func TestStopOfAGroupCounts(t *testing.T) {
	h := newHouse(t, play(call("bash", `{"command":"sleep 600 & sleep 600 & touch $$.began; wait"}`)))
	group := h.spawn("", func(a *task.Assignment) {
		a.AgentSpec = task.AgentSpec{}
		a.Group = &task.GroupSpec{Items: []task.AgentSpec{{Prompt: "one"}, {Prompt: "two"}}}
	})
	h.untilBegan(2)
	most, last := 0, runtime.StopProgress{}
	h.must(h.sup.Stop(context.Background(), runtime.StopRequest{TaskID: group, Level: task.Kill},
		func(p runtime.StopProgress) error {
			most, last = max(most, p.Remaining), p
			return nil
		}))
	if last.Remaining != 0 || last.Reaped < 6 {
		t.Errorf("the last progress: %+v", last)
	}
	if most > 3 {
		t.Errorf("%d tasks remained", most)
	}
	h.ended(group, task.Killed, task.StoppedByClient)
	for _, id := range h.children(group) {
		h.ended(id, task.Killed, task.ParentEnded)
		if pids := processesOf(h, id); len(pids) > 0 {
			t.Errorf("%s left %v", id, pids)
		}
	}
}

// processesOf lists the living processes that carry the mark of a task.
func processesOf(h *house, id task.ID) (pids []string) {
	mark := fmt.Sprintf("AGENTD_TASK=%s/%s/", h.journal.StoreID(), id)
	all, err := filepath.Glob("/proc/[0-9]*/environ")
	h.must(err)
	for _, path := range all {
		if environ, err := os.ReadFile(path); err == nil && strings.Contains(string(environ), mark) {
			pids = append(pids, path)
		}
	}
	return pids
}

// What clients spawn while a team is being stopped is none of the stop's, and a retry of the stop spares it too. What
// those that are being stopped spawned is. proves N7
func TestStopTeamSparesWhatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		h := newHouse(t, cast(map[string]modelFunc{"deaf": play(call("deaf", "{}")), "later": hang}),
			inBubble, with(g.deaf("deaf")))
		id := h.spawn("deaf")
		<-g.entered
		once := func(r *runtime.StopTeamRequest) { r.RequestID = "once" }
		done := make(chan error, 2)
		stop := func() {
			_, err := h.stopTeam(id, once)
			done <- err
		}
		go stop()
		h.untilState(id, task.Stopping)
		later := h.spawn("later")
		synctest.Wait()
		go stop()
		_, err := h.stopTeam(id, once, func(r *runtime.StopTeamRequest) { r.Level = task.Kill })
		if !errdefs.Is(err, errdefs.RequestIDReused) {
			t.Errorf("another body: %v", err)
		}
		h.must(<-done)
		h.must(<-done)
		h.ended(id, task.Killed, task.StoppedByClient)
		if told, err := h.stopTeam(id, once); err != nil || len(told) != 1 || told[0].Remaining != 0 {
			t.Errorf("a retry after the end: %v, %v", told, err)
		}
		if state := h.task(later).State; state != task.Running {
			t.Errorf("the later task is %s", state)
		}
		if _, err := h.stopTeam(id); err != nil {
			t.Error(err)
		}
		h.ended(later, task.Killed, task.StoppedByClient)
		close(g.open)
	})
}

// A team with nothing living is stopped at once; one that there is not can't be. proves T4
func TestStopTeamOfNothing(t *testing.T) {
	h := newHouse(t, play(text("done")))
	id := h.spawn("x")
	h.ended(id, task.Completed, task.Done)
	for range 2 {
		told, err := h.stopTeam(id)
		if err != nil || !slices.Equal(told, []runtime.StopProgress{{Level: task.Cancel}}) {
			t.Errorf("progress %+v, %v", told, err)
		}
	}
	h.ended(id, task.Completed, task.Done)
	for name, reason := range map[string]errdefs.Reason{"nobody": errdefs.TeamNotFound, "": errdefs.BadArgument} {
		_, err := h.stopTeam(id, func(r *runtime.StopTeamRequest) { r.Team = name })
		if !errdefs.Is(err, reason) {
			t.Errorf("team %q: %v", name, err)
		}
	}
	_, err := h.stopTeam(id, func(r *runtime.StopTeamRequest) { r.WrapUp = 2 * time.Hour })
	if !errdefs.Is(err, errdefs.BadArgument) || errdefs.As(err).Field != "wrap_up_timeout" {
		t.Errorf("too long a timeout: %v", err)
	}
}

// proves T1, D4: when the first progress is told, the stops of all are on disk, and outlive the daemon.
func TestStopTeamOutlivesTheDaemon(t *testing.T) {
	synctest.Test(t, stopTeamOutlives)
}

func stopTeamOutlives(t *testing.T) {
	g := newGate()
	h := newHouse(t, play(call("gate", "{}"), text("went on")), inBubble, with(g.tool("gate")))
	var ids []task.ID
	for range 5 {
		ids = append(ids, h.spawn("x"))
	}
	for range 5 {
		<-g.entered
	}
	began := make(chan bool)
	stopped := make(chan error, 1)
	team := h.task(ids[0]).TeamName
	go func() {
		first := true
		stopped <- h.sup.StopTeam(context.Background(), runtime.StopTeamRequest{Team: team, Level: task.WrapUp, WrapUp: time.Hour},
			func(runtime.StopProgress) error {
				if first {
					close(began)
				}
				first = false
				return nil
			})
	}()
	<-began
	h.kill()
	if err := <-stopped; err == nil {
		t.Error("the stop ended well with the daemon")
	}
	close(g.open)
	h.start()
	for _, id := range ids {
		h.ended(id, task.Killed, task.StoppedByClient)
	}
}

// Every task of a team whose stop met a fault of the store can be stopped by a retry: the request is kept last.
func TestStopTeamIsRetriedAfterAFault(t *testing.T) {
	synctest.Test(t, stopTeamRetried)
}

func stopTeamRetried(t *testing.T) {
	h := newHouse(t, hang, inBubble)
	var ids []task.ID
	for range 4 {
		ids = append(ids, h.spawn("x"))
	}
	for _, id := range ids {
		h.untilState(id, task.Running)
	}
	once := func(r *runtime.StopTeamRequest) { r.RequestID = "once" }
	h.cut.after(2) // two stops
	if _, err := h.stopTeam(ids[0], once); !errdefs.Is(err, errdefs.StoreStalled) {
		t.Errorf("the stop: %v", err)
	}
	h.restart()
	_, err := h.stopTeam(ids[0], once)
	h.must(err)
	for _, id := range ids {
		h.ended(id, task.Killed, task.StoppedByClient)
	}
}
