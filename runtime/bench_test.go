package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// quick is a house without what only tests need: the store commits in groups.
func quick(h *house) {
	h.wrap = func(st store.Store) store.Store { return st.(*cutStore).Store }
	h.trusts = true
}

// commitTime is the median of n commits of one record each, one after the other: what the disk takes.
func (h *house) commitTime(n int) time.Duration {
	took := make([]time.Duration, n)
	value := make([]byte, 300)
	for i := range took {
		begun := time.Now()
		_, err := h.cut.Commit(context.Background(), store.Batch{Part: "bench", Ops: []store.Op{
			{Kind: store.Put, Name: "task/1", Value: value}, {Kind: store.Append, Name: "log/1", Value: value},
		}})
		h.must(err)
		took[i] = time.Since(begun)
	}
	return median(took)
}

func median(of []time.Duration) time.Duration {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// BenchmarkTurns wakes sixteen teammates again and again, each when its turn before is over: the message, the start, the
// take and the rest are on disk. It gives turns a second, and how many commits' time a turn takes of one teammate.
func BenchmarkTurns(b *testing.B) {
	const teammates = 16
	h := newHouse(b, done, quick)
	ids := make([]task.ID, teammates)
	for i := range ids {
		ids[i] = h.spawn("first", mate(fmt.Sprint("mate-", i)))
		h.untilState(ids[i], task.Idle)
	}
	commit := h.commitTime(200)
	b.ResetTimer()
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			for n := i; n < b.N; n += teammates {
				h.turn(id, "next")
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "turns/s")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)*teammates/float64(commit), "commits/turn")
}

// BenchmarkLongTeammate gives one teammate message after message, and compares how fast its turns are at the 5,000th with how
// fast they were at the 100th, and at the start: nothing of a turn may grow with what came before.
func BenchmarkLongTeammate(b *testing.B) {
	const early, late, span = 100, 5000, 200
	for b.Loop() {
		h := newHouse(b, done, quick)
		id := h.spawn("first", mate("mate"))
		h.untilState(id, task.Idle)
		rate := func(from int) float64 {
			begun := time.Now()
			for range span {
				h.turn(id, "a message of some length, as people write them")
			}
			b.Logf("at message %d: %.0f turns/s", from, span/time.Since(begun).Seconds())
			return span / time.Since(begun).Seconds()
		}
		for range early {
			h.turn(id, "a message of some length, as people write them")
		}
		first := rate(early)
		for range late - early - span {
			h.turn(id, "a message of some length, as people write them")
		}
		b.ReportMetric(rate(late)/first, "late/early")
		h.stop()
	}
}

// BenchmarkSendToStep is the way of a message from its sender into the request that an idle teammate makes of it, against
// the two commits that it needs at least.
func BenchmarkSendToStep(b *testing.B) {
	asked := make(chan time.Time, 1)
	h := newHouse(b, func(context.Context, model.Request, func(model.Event)) (model.Response, error) {
		asked <- time.Now()
		return text("done"), nil
	}, quick)
	id := h.spawn("first", mate("mate"))
	<-asked
	h.untilState(id, task.Idle)
	commit := h.commitTime(200)
	var took []time.Duration
	for b.Loop() {
		begun := time.Now()
		h.turn(id, "next")
		took = append(took, (<-asked).Sub(begun))
	}
	b.ReportMetric(float64(median(took).Microseconds()), "us-p50")
	b.ReportMetric(float64(median(took))/float64(2*commit), "two-commits")
}

// done ends each turn at once.
func done(context.Context, model.Request, func(model.Event)) (model.Response, error) {
	return text("done"), nil
}

// turn sends a message to a teammate at rest and waits until it rests again.
func (h *house) turn(id task.ID, text string) {
	ctx := context.Background()
	before, err := h.journal.Task(ctx, id)
	if err == nil {
		_, err = h.sup.Send(ctx, sendTo(id, text))
	}
	bell := h.journal.Bell()
	defer bell.Close()
	bell.Transcript(before.Value.Team, id)
	for err == nil {
		now, readErr := h.journal.Task(ctx, id)
		if err = readErr; now.Value.Start > before.Value.Start && now.Value.State == task.Idle {
			return
		}
		<-bell.Rings()
	}
	h.t.Error(err)
}
