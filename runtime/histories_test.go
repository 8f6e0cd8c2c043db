package runtime_test

import (
	"context"
	"iter"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// readCounter counts the entries of transcripts that are read.
type readCounter struct {
	store.Store
	n atomic.Int64
}

func (c *readCounter) Read(ctx context.Context, p store.Partition, log string, after store.Pos) iter.Seq2[store.Entry, error] {
	all := c.Store.Read(ctx, p, log, after)
	if !strings.HasPrefix(log, "entry/") {
		return all
	}
	return func(yield func(store.Entry, error) bool) {
		for e, err := range all {
			c.n.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

// TestALivelyTeammateReadsOnlyWhatIsNew: the turn after a rest folds what stands behind the one before, and the model gets
// what it would get of the whole transcript. A few seconds later the history is gone from memory. proves W4
func TestALivelyTeammateReadsOnlyWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turns = 30
		var reads readCounter
		var asked []model.Message
		h := newHouse(t, func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
			asked = append([]model.Message(nil), req.Messages...)
			return text("heard " + itoa(stepsOf(req))), nil
		}, inBubble, func(h *house) {
			h.wrap = func(st store.Store) store.Store {
				reads.Store = st
				return &reads
			}
		})
		id := h.spawn("first", mate("ann"))
		h.untilState(id, task.Idle)
		readBy := func(text string) int64 {
			before := reads.n.Load()
			h.must(second(h.sup.Send(t.Context(), sendTo(id, text))))
			synctest.Wait()
			return reads.n.Load() - before
		}
		for range turns {
			if n := readBy("next"); n > 8 {
				t.Fatalf("a lively teammate read %d entries for a turn", n)
			}
		}
		lively := asked
		time.Sleep(time.Minute)
		if n := readBy("after a while"); n < turns {
			t.Errorf("after a minute of rest it read %d entries: its history was kept", n)
		}
		if len(asked) != len(lively)+2 || !reflect.DeepEqual(asked[:len(lively)], lively) {
			t.Errorf("the model got another history from memory than from the store:\n%v\n%v", lively, asked)
		}
	})
}

func second[T any](_ T, err error) error { return err }
