package runtime_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// between is a store in which something happens right before one commit.
type between struct {
	store.Store
	once sync.Once
	is   []store.Op // what that commit does, without values; names are prefixes
	do   func()
}

func (b *between) Commit(ctx context.Context, batch store.Batch) (store.Committed, error) {
	found := 0
	for _, want := range b.is {
		if slices.ContainsFunc(batch.Ops, func(op store.Op) bool {
			return op.Kind == want.Kind && strings.HasPrefix(op.Name, want.Name)
		}) {
			found++
		}
	}
	if b.do != nil && found == len(b.is) {
		b.once.Do(b.do)
	}
	return b.Store.Commit(ctx, batch)
}

// put is the option of a house with such a store.
func put(b *between) func(*house) {
	return func(h *house) { h.wrap = func(st store.Store) store.Store { b.Store = st; return b } }
}

// proves M2: mail that is accepted right before the commit of the end keeps the task going.
func TestMailRightBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &between{is: []store.Op{{Kind: store.Delete, Name: "live/"}}}
		h := newHouse(t, play(text("the end?"), text("the end")), inBubble, put(b))
		b.do = func() { h.must(h.send("sub-1", "wait")) }
		id := h.spawn("x")
		r := h.ended(id, task.Completed, task.Done)
		if got := strings.Join(h.inputs(id), ","); got != "x,wait" || r.Summary != "the end" || r.Usage.Turns != 1 {
			t.Errorf("inputs %s, %+v", got, r)
		}
	})
}

// proves S1, T1: a stop that comes right before the commit of a start, or of a resume, ends the task as a stop does.
func TestStopRightBeforeTheStart(t *testing.T) {
	for name, resume := range map[string]bool{"start": false, "resume": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &between{is: []store.Op{{Kind: store.Put, Name: "live/"}, {Kind: store.Delete, Name: "due/"}}}
				h := newHouse(t, hang, inBubble, put(b))
				stop := func() {
					go func() { h.must(h.stopTask("sub-1", task.Cancel)) }()
					h.until("sub-1", "the stop", func(t task.Task, _ []task.Entry) bool { return t.Stop != nil || t.State.Terminal() })
					synctest.Wait() // the loop is cut
				}
				if !resume {
					b.do = stop
				}
				id := h.spawn("x")
				if resume {
					synctest.Wait()
					h.kill()
					b.do = stop
					h.start()
				}
				began := time.Now()
				h.ended(id, task.Killed, task.StoppedByClient)
				if took := time.Since(began); took > time.Millisecond {
					t.Errorf("it took %v", took) // it was put off as one that can't be resumed
				}
			})
		})
	}
}

// proves M2, W4: mail that is accepted right before the commit of a teammate's rest, in whichever of its mailboxes, begins its
// next turn.
func TestMailRightBeforeTheRest(t *testing.T) {
	background := call("subagent", `{"task":"child","background":true}`)
	for name, c := range map[string]struct {
		as   func(*task.Assignment)
		play modelFunc
		do   func(h *house)
		kind task.MessageKind
	}{
		"teammate":           {mate("ann"), play(text("rest?"), text("rest")), func(h *house) { h.wants("ann", "wait") }, task.Text},
		"the leader inbox":   {lead, play(text("rest?"), text("rest")), func(h *house) { h.wants("team-lead", "wait") }, task.Text},
		"the lead's own box": {lead, play(background, text("rest?"), text("rest")), endOfChild, task.Ended},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &between{is: []store.Op{{Kind: store.Put, Name: "idle/"}}}
				h := newHouse(t, cast(map[string]modelFunc{"agent": c.play, "child": hang}), inBubble, put(b))
				b.do = func() { c.do(h) }
				id := h.spawn("agent", c.as)
				h.untilTook(id, c.kind, 1, task.Idle)
				synctest.Wait()
				if got := h.states(id); got != "QUEUED RUNNING IDLE RUNNING IDLE" {
					t.Errorf("states: %s", got)
				}
			})
		})
	}
}

// endOfChild ends the only child there is.
func endOfChild(h *house) { h.must(h.stopTask("sub-2", task.Kill)) }

// proves M5, W3: mail that is accepted right before the commit of a teammate's end, in whichever of its mailboxes, revives it
// when it may.
func TestMailRightBeforeATeammatesEnd(t *testing.T) {
	for name, as := range map[string]func(*task.Assignment){"ann": mate("ann"), "team-lead": lead} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &between{is: []store.Op{{Kind: store.Put, Name: "result/"}}}
				h := newHouse(t, func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
					if strings.Contains(req.Messages[len(req.Messages)-1].Text, "wait") {
						return text("again"), nil
					}
					return endedBy(model.FinishFilter, text("bad")), nil
				}, inBubble, put(b))
				b.do = func() { h.wants(name, "wait") }
				id := h.spawn("agent", as)
				h.untilSaid(id, "again", task.Idle)
				if n := h.task(id).Incarnation; n != 2 {
					t.Errorf("it lives for the %d. time", n)
				}
			})
		})
	}
}
