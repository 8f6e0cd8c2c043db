package view_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// tape notes items in short.
type tape struct {
	mu   sync.Mutex
	text []string
	seqs []task.Seq
	rest task.Seq // where the teammate went idle
}

func (p *tape) note(i view.Item) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case i.Task != nil:
		p.text = append(p.text, "task "+i.Task.State.String())
	case i.Entry != nil:
		p.seqs = append(p.seqs, i.Entry.Seq)
		p.text = append(p.text, short(i.Entry.Body))
	case i.Delta != nil:
		p.text = append(p.text, fmt.Sprintf("~%d %s", i.Delta.Step, i.Delta.Text))
	case i.Idle != nil:
		p.text = append(p.text, fmt.Sprintf("idle %q", i.Idle.Text))
		p.rest = i.Idle.Seq
	case i.Outcome != nil:
		p.text = append(p.text, "outcome "+i.Outcome.State.String())
	default:
		p.text = append(p.text, "beat")
	}
	return nil
}

// String is what was noted so far.
func (p *tape) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.text, ", ")
}

func short(b task.Body) string {
	switch e := b.(type) {
	case *task.Notice:
		return e.Text
	case *task.Assistant:
		return fmt.Sprintf("step %d", e.Step)
	case *task.StateChange:
		return ">" + e.To.String()
	case *task.CallStarted:
		return "HIDDEN"
	}
	return fmt.Sprintf("%T", b)
}

// output reads until the end, in vain after a while.
func (d *desk) output(req view.OutputRequest) (*tape, error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p := &tape{}
	return p, d.v.Output(ctx, req, p.note)
}

func notice(text string) task.Body { return &task.Notice{Text: text} }

// story writes a task that has ended, with hidden entries in a row.
func (d *desk) story() (task.ID, []task.Seq) {
	d.t.Helper()
	id := d.spawn(d.team("main"), "")
	d.append(id, notice("a"))
	d.apply(id, task.Start{})
	d.append(id, notice("b"))
	for range 9 {
		d.append(id, &task.CallStarted{Label: "bash"})
	}
	d.append(id, notice("c"))
	d.apply(id, done())
	p, err := d.output(view.OutputRequest{TaskID: id})
	d.must(err)
	return id, p.seqs
}

// TestRead reads an ended task from everywhere, also after a restart. proves O1
func TestRead(t *testing.T) {
	d := newDesk(t).sound()
	id, seqs := d.story()
	const whole = "task COMPLETED, a, >RUNNING, b, c, >COMPLETED, outcome COMPLETED"
	tests := []struct {
		name string
		req  view.OutputRequest
		want string
	}{
		{"all", view.OutputRequest{}, whole},
		{"all, to its end", view.OutputRequest{Follow: true, Deltas: true}, whole},
		{"all, at its end", view.OutputRequest{Terminal: true, Timeout: time.Hour}, whole},
		{"from the first", view.OutputRequest{From: seqs[0]}, whole},
		{"from before the first", view.OutputRequest{From: 1}, whole},
		{"from the third", view.OutputRequest{From: seqs[2]}, "task COMPLETED, b, c, >COMPLETED, outcome COMPLETED"},
		{"from a gap", view.OutputRequest{From: seqs[2] + 1}, "task COMPLETED, c, >COMPLETED, outcome COMPLETED"},
		{"from the last", view.OutputRequest{From: seqs[4]}, "task COMPLETED, >COMPLETED, outcome COMPLETED"},
		{"beyond, following", view.OutputRequest{From: seqs[4] + 1, Follow: true}, "task COMPLETED, outcome COMPLETED"},
		{"the last", view.OutputRequest{Tail: 1}, "task COMPLETED, >COMPLETED, outcome COMPLETED"},
		{"behind hidden ones", view.OutputRequest{Tail: 3}, "task COMPLETED, b, c, >COMPLETED, outcome COMPLETED"},
		{"a tail of all", view.OutputRequest{Tail: 5}, whole},
		{"a longer tail", view.OutputRequest{Tail: view.MaxTail}, whole},
	}
	for _, restarted := range []bool{false, true} {
		if restarted {
			d.must(d.st.Close())
			d.open()
		}
		for _, tt := range tests {
			tt.req.TaskID = id
			if got, err := d.output(tt.req); err != nil || got.String() != tt.want {
				t.Errorf("%s: %v, %v; want %s", tt.name, got, err, tt.want)
			}
		}
		for _, terminal := range []bool{false, true} {
			p, err := d.output(view.OutputRequest{TaskID: id, From: seqs[4] + 1, Terminal: terminal})
			d.want(err, errdefs.SeqOutOfRange)
			if p.String() != "" {
				t.Errorf("%s comes before the refusal", p)
			}
		}
	}
}

func TestReadLiving(t *testing.T) {
	d := newDesk(t)
	id := d.spawn(d.team("main"), "")
	if got, err := d.output(view.OutputRequest{TaskID: id}); err != nil || got.String() != "task QUEUED" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := d.output(view.OutputRequest{TaskID: id, Tail: 3}); err != nil || got.String() != "task QUEUED" {
		t.Errorf("%v, %v", got, err)
	}
	_, err := d.output(view.OutputRequest{TaskID: id, From: 1})
	d.want(err, errdefs.SeqOutOfRange)
	_, err = d.output(view.OutputRequest{TaskID: "sub-99"})
	d.want(err, errdefs.TaskNotFound)
	for _, req := range []view.OutputRequest{
		{Tail: -1}, {Tail: view.MaxTail + 1}, {Tail: 1, From: 1}, {Deltas: true}, {Timeout: -1}, {Timeout: time.Second},
	} {
		req.TaskID = id
		_, err := d.output(req)
		d.want(err, errdefs.BadArgument)
	}
	broken := errors.New("the client is gone")
	err = d.v.Output(context.Background(), view.OutputRequest{TaskID: id, Follow: true}, func(view.Item) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// TestExactlyOnce: however many follow, from wherever, while the transcript grows from many hands, each reads each entry
// once, in order, to the outcome. proves O1
func TestExactlyOnce(t *testing.T) {
	d := newDesk(t).sound()
	id := d.spawn(d.team("main"), "")
	d.apply(id, task.Start{})
	var readers, writers sync.WaitGroup
	tapes := make([]*tape, 8)
	for i := range tapes {
		readers.Go(func() {
			p, err := d.output(view.OutputRequest{TaskID: id, Follow: true, Deltas: i%2 == 0, Terminal: i == 7})
			if err != nil {
				t.Error(err)
			}
			tapes[i] = p
		})
	}
	for w := range 4 {
		writers.Go(func() {
			for n := range 25 {
				d.append(id, notice(fmt.Sprintf("%d/%d", w, n)), &task.CallStarted{}, notice("+"))
			}
		})
	}
	writers.Wait()
	d.apply(id, done())
	readers.Wait()
	last, err := d.output(view.OutputRequest{TaskID: id})
	d.must(err)
	if len(last.seqs) != 1+4*25*2+1 || !slices.IsSorted(last.seqs) {
		t.Fatalf("%d entries", len(last.seqs))
	}
	for i, p := range tapes {
		if !slices.Equal(p.seqs, last.seqs) || !strings.HasSuffix(p.String(), ">COMPLETED, outcome COMPLETED") {
			t.Errorf("reader %d read %d entries of %d", i, len(p.seqs), len(last.seqs))
		}
	}
}

// TestDeltas: live text comes between the entries; that of a step whose entry is there is void. proves O2
func TestDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id := d.spawn(d.team("main"), "")
		d.apply(id, task.Start{})
		var followers sync.WaitGroup
		p, plain := &tape{}, &tape{}
		followers.Go(func() {
			d.check(d.v.Output(t.Context(), view.OutputRequest{TaskID: id, Follow: true, Deltas: true}, p.note))
		})
		followers.Go(func() {
			d.check(d.v.Output(t.Context(), view.OutputRequest{TaskID: id, Follow: true}, plain.note))
		})
		say := func(step int, text string) {
			d.live.Publish(id, task.Delta{Step: step, Attempt: 1, Text: text})
			d.live.Publish("sub-other", task.Delta{Step: step, Text: "not mine"})
		}
		synctest.Wait()
		say(1, "one")
		synctest.Wait()
		d.append(id, &task.Assistant{Step: 1})
		say(1, "late")
		say(2, "two")
		synctest.Wait()
		d.append(id, &task.Assistant{Step: 2})
		d.apply(id, done())
		followers.Wait()
		if got := p.String(); got != "task RUNNING, >RUNNING, ~1 one, step 1, ~2 two, step 2, >COMPLETED, outcome COMPLETED" {
			t.Errorf("with deltas: %s", got)
		}
		if got := plain.String(); got != "task RUNNING, >RUNNING, step 1, step 2, >COMPLETED, outcome COMPLETED" {
			t.Errorf("without: %s", got)
		}
	})
}

// TestDeltasStayBehindEntries: a reader that was busy while a step was committed and the next one began gets the entry
// first. proves O2
func TestDeltasStayBehindEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id := d.spawn(d.team("main"), "")
		p, gate, want := &tape{}, make(chan struct{}), "task QUEUED"
		var follower sync.WaitGroup
		follower.Go(func() {
			d.check(d.v.Output(t.Context(), view.OutputRequest{TaskID: id, Follow: true, Deltas: true}, func(i view.Item) error {
				if i.Delta != nil {
					<-gate
				}
				return p.note(i)
			}))
		})
		synctest.Wait()
		d.live.Publish(id, task.Delta{Step: 1, Text: "x"})
		const steps = 20
		for step := 1; step <= steps; step++ {
			synctest.Wait() // it is busy with the step's text
			d.append(id, &task.Assistant{Step: step})
			d.live.Publish(id, task.Delta{Step: step + 1, Text: "x"})
			gate <- struct{}{}
			want += fmt.Sprintf(", ~%d x, step %d", step, step)
		}
		gate <- struct{}{}
		d.apply(id, task.Finish{State: task.Killed, Reason: task.StoppedByClient})
		follower.Wait()
		if want += fmt.Sprintf(", ~%d x, >KILLED, outcome KILLED", steps+1); p.String() != want {
			t.Errorf("%s, want %s", p, want)
		}
	})
}

// TestSlowReader: a reader that stands still holds up neither the loop nor the other readers; it loses live text and not
// one entry. proves O2
// case OUT-3
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		id := d.spawn(d.team("main"), "")
		d.apply(id, task.Start{})
		var followers sync.WaitGroup
		slow, quick, gate := &tape{}, &tape{}, make(chan struct{})
		deltas := func(p *tape) int { return strings.Count(p.String(), "~1") }
		followers.Go(func() {
			d.check(d.v.Output(t.Context(), view.OutputRequest{TaskID: id, Follow: true, Deltas: true}, func(i view.Item) error {
				if i.Entry != nil && short(i.Entry.Body) == "stand" {
					<-gate
				}
				return slow.note(i)
			}))
		})
		followers.Go(func() {
			d.check(d.v.Output(t.Context(), view.OutputRequest{TaskID: id, Follow: true, Deltas: true}, quick.note))
		})
		synctest.Wait()
		d.append(id, notice("stand"))
		synctest.Wait()
		const many = 600
		for range many {
			d.live.Publish(id, task.Delta{Step: 1, Text: "x"}) // returns, or the test hangs
			synctest.Wait()
		}
		for range 300 {
			d.append(id, notice("entry"))
		}
		synctest.Wait()
		if n := deltas(quick); n != many || len(quick.seqs) != 1+1+300 {
			t.Errorf("the quick reader got %d deltas and %d entries", n, len(quick.seqs))
		}
		close(gate)
		synctest.Wait()
		d.apply(id, done())
		followers.Wait()
		if n := deltas(slow); n == 0 || n >= many {
			t.Errorf("the slow reader got %d deltas of %d", n, many)
		}
		if !slices.Equal(slow.seqs, quick.seqs) {
			t.Errorf("the slow reader got %d entries of %d", len(slow.seqs), len(quick.seqs))
		}
	})
}

// TestHeartbeats: after 15 s of silence comes a heartbeat, and nothing that is not sent puts it off.
func TestHeartbeats(t *testing.T) {
	for _, req := range []view.OutputRequest{{Follow: true, Deltas: true}, {Terminal: true}} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			id := d.spawn(d.team("main"), "")
			d.apply(id, task.Start{})
			req.TaskID = id
			p := &tape{}
			var follower sync.WaitGroup
			follower.Go(func() { d.check(d.v.Output(t.Context(), req, p.note)) })
			head := "task RUNNING"
			if req.Follow {
				head += ", >RUNNING"
			}
			for range 3 {
				synctest.Wait()
				if got := p.String(); got != head {
					t.Errorf("%s, want %s", got, head)
				}
				time.Sleep(14 * time.Second)
				d.append(id, &task.CallStarted{}) // not shown
				if req.Terminal {
					d.append(id, notice("not wanted yet"))
				}
				synctest.Wait()
				time.Sleep(time.Second)
				synctest.Wait()
				head += ", beat"
			}
			d.apply(id, done())
			follower.Wait()
			if got := p.String(); !strings.HasPrefix(got, head+", ") || !strings.HasSuffix(got, ", outcome COMPLETED") {
				t.Errorf("%s", got)
			}
		})
	}
}
