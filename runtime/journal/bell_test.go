package journal

import (
	"context"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

func rung(b *Bell) bool {
	select {
	case <-b.Rings():
		return true
	default:
		return false
	}
}

// TestBell: a bell rings for what it listens to alone, as often as that changes, and nothing is left of it when it is closed:
// ten thousand idle teammates that somebody has looked at cost nothing. proves W4 as far as followers go
func TestBell(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	mine, other := newTask(t, j, team), newTask(t, j, team)
	write := func(fill func(*Batch)) {
		t.Helper()
		b := j.Batch(team)
		fill(b)
		commit(t, j, b)
	}
	entry := func(id task.ID) func(*Batch) {
		return func(b *Batch) { b.Append(id, &task.Notice{Text: "more"}) }
	}
	accept := func(id task.ID) func(*Batch) {
		return func(b *Batch) { b.Accept(id, mailbox.Message{ID: "m-1", Sent: b.Now()}) }
	}
	taken := func(id task.ID) func(*Batch) {
		return func(b *Batch) {
			box, err := j.Mailbox(ctx, team, id)
			if err != nil {
				t.Fatal(err)
			}
			b.PutMailbox(id, box, mailbox.Box{Low: box.Value.Low + 1})
		}
	}
	sent := func(message string) func(*Batch) {
		return func(b *Batch) { b.PutSent(mailbox.Sent{MessageID: message, Recipient: mine}) }
	}
	errand := func(message string) func(*Batch) {
		return func(b *Batch) { b.PutErrand(Errand{ID: message}, 0) }
	}
	tests := map[string]struct {
		listen       func(*Bell)
		hears, other []func(*Batch)
	}{
		"a transcript": {
			func(b *Bell) { b.Transcript(team, mine) }, []func(*Batch){entry(mine)}, []func(*Batch){entry(other), accept(mine), taken(mine)},
		},
		"mail": {func(b *Bell) { b.Mail(team, mine) }, []func(*Batch){accept(mine)}, []func(*Batch){accept(other), taken(mine), entry(mine)}},
		"takes": {
			func(b *Bell) { b.Taken(team, mine) }, []func(*Batch){taken(mine)}, []func(*Batch){taken(other), accept(mine), entry(mine)},
		},
		"receipts": {
			func(b *Bell) { b.Sent(team, "m-1") }, []func(*Batch){sent("m-1"), errand("m-1"), sent("m-1")},
			[]func(*Batch){sent("m-10"), errand("m-10"), accept(mine)},
		},
	}
	for name, tt := range tests {
		first, second := j.Bell(), j.Bell()
		for _, bell := range []*Bell{first, second, first} { // twice is once
			tt.listen(bell)
		}
		for _, change := range tt.other {
			write(change)
		}
		if rung(first) {
			t.Errorf("%s: it rang for something else", name)
		}
		for n, change := range tt.hears {
			write(change)
			if !rung(first) || !rung(second) {
				t.Errorf("%s: it did not ring for change %d", name, n)
			}
		}
		b := j.Batch(team)
		tt.hears[0](b)
		b.guard(taskKey(mine), 1<<40)
		want(t, j.Commit(ctx, b), errdefs.Conflict)
		if rung(first) {
			t.Errorf("%s: it rang for a commit that failed", name)
		}
		j.wakeAll() // what an unknown commit landed
		if !rung(first) || rung(first) {
			t.Errorf("%s: it must ring once when nobody knows what landed", name)
		}
		first.Close()
		second.Close()
		write(tt.hears[0])
		if rung(first) || len(j.bells) != 0 {
			t.Errorf("%s: %v are left of closed bells", name, j.bells)
		}
	}
}

// TestTurnEnd: the end of a turn is the next change to idle or to an end, with the last text before it.
func TestTurnEnd(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	row, err := j.Task(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		b := j.Batch(team)
		b.Append(id, &task.Assistant{Text: text})
		commit(t, j, b)
	}
	state := func(to task.State) task.Seq {
		b := j.Batch(team)
		b.Append(id, &task.StateChange{To: to})
		commit(t, j, b)
		return b.Last()
	}
	at := func(after task.Seq, want Ending) {
		t.Helper()
		if got, err := j.TurnEnd(ctx, row.Value, after); err != nil || got != want {
			t.Errorf("after %d: %+v, %v, want %+v", after, got, err, want)
		}
	}
	state(task.Running)
	say("one")
	at(0, Ending{Text: "one"}) // it has not ended
	say("")
	first := state(task.Idle)
	state(task.Running)
	second := state(task.Failed)
	at(0, Ending{Seq: first, State: task.Idle, Text: "one"})
	at(first, Ending{Seq: second, State: task.Failed})
	at(second, Ending{})
}
