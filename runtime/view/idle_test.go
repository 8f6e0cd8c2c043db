package view_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// turn is a turn of an idle teammate.
func (d *desk) turn(id task.ID, text string) {
	d.t.Helper()
	d.apply(id, task.Wake{})
	d.append(id, &task.Assistant{Step: 1, Text: text})
	d.apply(id, task.Rest{})
}

// TestFollowOverTurns: a follower of an idle teammate goes on when that wakes, to its end. proves O1 for teammates
func TestFollowOverTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ann := d.idler(d.team("main"), "ann")
		p := &tape{}
		var follower sync.WaitGroup
		follower.Go(func() {
			d.check(d.v.Output(t.Context(), view.OutputRequest{TaskID: ann, Follow: true, From: 1}, p.note))
		})
		synctest.Wait()
		first := "task IDLE, >RUNNING, step 1, >IDLE"
		if p.String() != first {
			t.Errorf("%s", p)
		}
		d.turn(ann, "again")
		synctest.Wait()
		if p.String() != first+", >RUNNING, step 1, >IDLE" {
			t.Errorf("%s", p)
		}
		d.apply(ann, task.Finish{State: task.Killed, Reason: task.StoppedByClient})
		follower.Wait()
		if p.String() != first+", >RUNNING, step 1, >IDLE, >KILLED, outcome KILLED" {
			t.Errorf("%s", p)
		}
	})
}

// TestTranscriptOverLives: a transcript has all lives of a teammate, and its end while it has ended. proves O1 and W1 as far as
// reading goes
func TestTranscriptOverLives(t *testing.T) {
	d := newDesk(t)
	ann := d.idler(d.team("main"), "ann")
	read := func(want string) {
		t.Helper()
		p := &tape{}
		d.must(d.v.Transcript(t.Context(), ann, p.note))
		if p.String() != want {
			t.Errorf("%s, want %s", p, want)
		}
	}
	const first = ">RUNNING, step 1, >IDLE"
	read("task IDLE, " + first)
	d.apply(ann, done())
	read("task COMPLETED, " + first + ", >COMPLETED, outcome COMPLETED")
	d.apply(ann, task.Reopen{})
	read("task QUEUED, " + first + ", >COMPLETED, >QUEUED")
	_, err := d.v.Result(t.Context(), ann)
	d.want(err, errdefs.RecordNotFound) // it lives
	d.apply(ann, task.Start{})
	d.apply(ann, done())
	d.reopen()
	read("task COMPLETED, " + first + ", >COMPLETED, >QUEUED, >RUNNING, >COMPLETED, outcome COMPLETED")
	d.want(d.v.Transcript(t.Context(), "tm-999", nil), errdefs.TaskNotFound)
}

// TestWaitForIdle: nothing but heartbeats comes before a teammate rests, with nothing to wake for; then its turn, up to there.
func TestWaitForIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		team := d.team("main")
		ann := d.mate(team, "ann")
		d.apply(ann, task.Start{})
		wait := func(req view.OutputRequest) *tape {
			req.TaskID, req.Idle = ann, true
			p := &tape{}
			d.must(d.v.Output(t.Context(), req, p.note))
			return p
		}
		want := func(p *tape, want string) {
			t.Helper()
			if p.String() != want {
				t.Errorf("%s, want %s", p, want)
			}
		}
		want(wait(view.OutputRequest{Timeout: time.Second}), "task RUNNING, task RUNNING")
		time.AfterFunc(time.Second, func() {
			d.append(ann, &task.Assistant{Step: 1, Text: "ready"})
			d.append(ann, notice("silence"))
			d.apply(ann, task.Rest{})
		})
		p := wait(view.OutputRequest{})
		want(p, `task RUNNING, >RUNNING, step 1, silence, >IDLE, idle "ready"`)
		if p.rest != p.seqs[len(p.seqs)-1] {
			t.Errorf("idle at %d, the turn ends at %d", p.rest, p.seqs[len(p.seqs)-1])
		}
		want(wait(view.OutputRequest{Tail: 1}), `task IDLE, >IDLE, idle "ready"`)
		want(wait(view.OutputRequest{Follow: true, From: 1 << 40}), `task IDLE, idle "ready"`)

		b := d.j.Batch(team) // mail that wakes it is on disk, but it has no slot yet
		_, err := d.j.Rouse(t.Context(), b, ann)
		d.must(err)
		d.must(d.j.Commit(t.Context(), b))
		shown, err := d.v.Task(t.Context(), ann)
		d.must(err)
		if shown.Activity != "waits for a slot" {
			t.Errorf("it %s", shown.Activity)
		}
		want(wait(view.OutputRequest{Timeout: time.Second}), "task IDLE, task IDLE")
		time.AfterFunc(time.Second, func() { d.apply(ann, done()) })
		want(wait(view.OutputRequest{Tail: 1}), "task IDLE, >COMPLETED, outcome COMPLETED")
	})
}

// TestIdleThenAwake: who waits for the end of a turn is told of that turn, also when the next one begins while it reads.
func TestIdleThenAwake(t *testing.T) {
	d := newDesk(t)
	ann := d.mate(d.team("main"), "ann")
	d.apply(ann, task.Start{})
	for range 20 { // more than the store reads at once
		d.append(ann, slices.Repeat([]task.Body{notice("x")}, 50)...)
	}
	d.append(ann, &task.Assistant{Step: 1, Text: "ready"})
	d.apply(ann, task.Rest{})
	p, ends := &tape{}, 0
	d.must(d.v.Output(t.Context(), view.OutputRequest{TaskID: ann, Idle: true}, func(i view.Item) error {
		if i.Entry == nil {
			return p.note(i)
		}
		if short(i.Entry.Body) == ">RUNNING" {
			d.turn(ann, "again")
		}
		if short(i.Entry.Body) == ">IDLE" {
			ends++
		}
		return nil
	}))
	if got := p.String(); got != `task IDLE, idle "ready"` || ends != 1 {
		t.Errorf("%s, and %d turns", got, ends)
	}
}

// TestSilentTurn: what a turn says is not what the one before it has said.
func TestSilentTurn(t *testing.T) {
	d := newDesk(t)
	ann := d.idler(d.team("main"), "ann")
	for range 12 { // it stands far behind
		d.append(ann, notice("x"))
	}
	d.turn(ann, "")
	p, err := d.output(view.OutputRequest{TaskID: ann, Idle: true, Tail: 1})
	if err != nil || !strings.HasSuffix(p.String(), `>IDLE, idle ""`) {
		t.Errorf("%s, %v", p, err)
	}
	bob := d.mate(d.team("other"), "bob")
	d.apply(bob, task.Start{})
	d.append(bob, &task.Assistant{Step: 1, Text: "I fail"})
	d.apply(bob, task.Finish{State: task.Failed, Reason: task.MaxSteps})
	d.apply(bob, task.Reopen{})
	d.apply(bob, task.Start{})
	d.apply(bob, task.Rest{})
	p, err = d.output(view.OutputRequest{TaskID: bob, Follow: true, EndIdle: true})
	if err != nil || !strings.HasSuffix(p.String(), `>RUNNING, >IDLE, idle ""`) {
		t.Errorf("%s, %v", p, err)
	}
}

// TestEndIdle: what is followed from the start ends with the first turn, also for who comes late; or with the end.
func TestEndIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		team := d.team("main")
		ann, bob := d.mate(team, "ann"), d.mate(team, "bob")
		follow := func(id task.ID) *tape {
			p := &tape{}
			d.check(d.v.Output(t.Context(), view.OutputRequest{TaskID: id, Follow: true, EndIdle: true, Deltas: true}, p.note))
			return p
		}
		time.AfterFunc(time.Second, func() {
			d.apply(ann, task.Start{})
			d.live.Publish(ann, task.Delta{Step: 1, Text: "rea"})
			d.append(ann, &task.Assistant{Step: 1, Text: "ready"})
			d.live.Publish(ann, task.Delta{Step: 1, Text: "late"})
			d.apply(ann, task.Rest{})
		})
		const first = `>RUNNING, step 1, >IDLE, idle "ready"`
		if got := follow(ann).String(); !strings.HasPrefix(got, "task QUEUED, >RUNNING, ") || !strings.HasSuffix(got, `, step 1, >IDLE, idle "ready"`) {
			t.Errorf("%s", got)
		}
		d.turn(ann, "again")
		if got := follow(ann).String(); got != "task IDLE, "+first {
			t.Errorf("late: %s", got)
		}
		time.AfterFunc(time.Second, func() { d.apply(bob, task.Finish{State: task.Failed, Reason: task.SpawnFailed}) })
		if got := follow(bob).String(); got != "task QUEUED, >FAILED, outcome FAILED" {
			t.Errorf("%s", got)
		}
		_, err := d.output(view.OutputRequest{TaskID: ann, EndIdle: true})
		d.want(err, errdefs.BadArgument)
	})
}

// TestIdleTeammateIsShown: what it does, and what waits for it.
func TestIdleTeammateIsShown(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	ann, lead := d.idler(team, "ann"), d.idler(team, task.LeadName)
	d.letter(team, ann, mailbox.Sent{To: "ann"})
	d.letter(team, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
	d.letter(team, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
	d.letter(team, mailbox.UserBox, mailbox.Sent{To: mailbox.User})
	d.post(team, mailbox.Sent{Recipient: mailbox.LeaderBox}, mailbox.Message{ID: "idle-1", Kind: task.WentIdle, About: ann})
	for id, unread := range map[task.ID]int{ann: 1, lead: 2} {
		got, err := d.v.Task(t.Context(), id)
		d.must(err)
		if got.Activity != "idle" || got.Unread != unread || got.State != task.Idle {
			t.Errorf("%s is %s: %q with %d unread, want %d", got.Name, got.State, got.Activity, got.Unread, unread)
		}
	}
	for _, f := range []view.Filter{{Living: true}, {State: task.Idle}, {Kind: task.Teammate}} {
		if got := d.pages(f, nothing); len(got) != 2 || got[0] != ann || got[1] != lead {
			t.Errorf("%+v lists %v", f, got)
		}
	}
}
