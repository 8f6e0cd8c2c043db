package runtime_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/store"
	"github.com/agentd-dev/agentd/store/storetest"
)

// abreast is how many steps of a walk run side by side: most of the time they wait for the disk or for a process.
const abreast = 8

// walk runs a test with n = 1, 2 and so on, each in a house of its own, until one tells that all was over before the n-th
// commit. That many commits there must be at least.
func walk(t *testing.T, least int64, test func(t *testing.T, n int) (over bool)) {
	t.Helper()
	var last, short atomic.Int64
	var over atomic.Bool
	var steps sync.WaitGroup
	for range abreast {
		steps.Go(func() {
			for !over.Load() && !t.Failed() {
				n := last.Add(1)
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					defer func() {
						if t.Skipped() { // and so would be the next
							over.Store(true)
						}
					}()
					if !test(t, int(n)) {
						return
					}
					over.Store(true)
					if n < least {
						short.Store(n)
					}
				})
			}
		})
	}
	steps.Wait()
	if n := short.Load(); n > 0 {
		t.Errorf("only %d commits were walked over", n)
	}
}

// sized is a number of a long test: the full one, or with the race detector, which makes all several times as slow, another one.
func sized(full, race int) int {
	if raceDetector {
		return race
	}
	return full
}

// walkFaults is walk for the n-th commit after the start of a house failing, and the one behind it, in each way to fail. The
// test tells whether a commit failed. With the race detector it goes by twos, so that each commit still fails in each way.
func walkFaults(t *testing.T, least int64, test func(t *testing.T, plan storetest.Plan) (failed bool)) {
	t.Helper()
	for name, mode := range map[string]storetest.Mode{
		"refused": storetest.Refused, "landed": storetest.Landed, "lost": storetest.Lost,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stride := sized(1, 2)
			walk(t, least/int64(stride), func(t *testing.T, n int) (over bool) {
				first := 2 + (n-1)*stride // the journal's start is one commit
				return !test(t, storetest.Plan{From: first, Count: 2, Mode: mode})
			})
		})
	}
}

// failsBy is the option of a store whose commits fail by a plan.
func failsBy(plan storetest.Plan, faulty **storetest.Faulty) func(*house) {
	return func(h *house) {
		h.wrap = func(st store.Store) store.Store {
			*faulty = storetest.Wrap(st, plan)
			return *faulty
		}
	}
}

// healed tells whether a commit failed. None does from now on: the end of the house is not part of the run.
func (h *house) healed(faulty *storetest.Faulty) bool {
	faulty.Heal()
	for h.journal.Stalled() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	return faulty.Failed() > 0
}
