package view_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/store"
)

// crowd lets each of some writers register n tasks in each team, all at once, and gives their ids.
func (d *desk) crowd(teams []string, writers, n int) map[task.ID]bool {
	var mu sync.Mutex
	made := map[task.ID]bool{}
	var crowd sync.WaitGroup
	for range writers {
		crowd.Go(func() {
			for range n {
				for _, team := range teams {
					id := d.spawn(team, "busy")
					mu.Lock()
					made[id] = true
					mu.Unlock()
				}
			}
		})
	}
	crowd.Wait()
	return made
}

// Watchers that leave in the middle of it, and come back with their last cursor, are told each event once, however many
// commits are on their way at the same time. proves O3
func TestWatchTellsEachEventOnce(t *testing.T) {
	d := newDesk(t)
	names := []string{"a", "b", "c", "d", "e"}
	var teams []string
	for _, name := range names {
		teams = append(teams, d.team(name))
	}
	const patient, fickle = 1 << 30, 7
	var watchers sync.WaitGroup
	seen := map[string]map[task.ID]int{}
	watch := func(team string, stay int) {
		counts := map[task.ID]int{}
		seen[fmt.Sprint(team, stay)] = counts
		cursor := d.now(team)
		watchers.Go(func() {
			err := errEnough
			for errors.Is(err, errEnough) {
				left := stay
				err = d.v.Watch(context.Background(), team, cursor, func(n view.News) error {
					cursor = n.Cursor
					if n.Event == nil {
						return nil
					}
					if n.Event.State.To == task.Running && (team != "" || n.Event.TeamName == "e") {
						return io.EOF // the end, as below
					}
					counts[n.Event.TaskID]++
					if left--; left == 0 {
						return errEnough
					}
					return nil
				})
			}
			if !errors.Is(err, io.EOF) {
				d.check(err)
			}
		})
	}
	for _, team := range []string{"a", "b", ""} {
		watch(team, patient)
		watch(team, fickle)
	}
	made := d.crowd(teams, 8, 12)
	for _, team := range teams {
		d.apply(d.spawn(team, "last"), task.Start{})
	}
	watchers.Wait()
	for who, counts := range seen {
		total := 0
		for id := range made {
			total += min(counts[id], 1)
			if counts[id] > 1 {
				t.Errorf("%s was told %d times of %s", who, counts[id], id)
			}
		}
		want := len(made)
		if strings.HasPrefix(who, "a") || strings.HasPrefix(who, "b") {
			want /= len(names)
		}
		if total != want {
			t.Errorf("%s was told of %d tasks, want %d", who, total, want)
		}
	}
}

// latch is a store that keeps commits waiting.
type latch struct {
	store.Store
	gates   map[string]chan error // by the record that is written; what comes out is the commit's error, nil: it lands
	waiting chan struct{}
}

func (l *latch) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	for _, op := range b.Ops {
		if gate, ok := l.gates[op.Name]; ok {
			l.waiting <- struct{}{}
			if err := <-gate; err != nil {
				return store.Committed{}, err
			}
		}
	}
	return l.Store.Commit(ctx, b)
}

// latched starts a daemon's journal and view on a store that keeps the creation of tasks waiting.
func (d *desk) latched(ids ...task.ID) *latch {
	d.t.Helper()
	l := &latch{Store: d.st, gates: map[string]chan error{}, waiting: make(chan struct{})}
	for _, id := range ids {
		l.gates["task/"+string(id)] = make(chan error)
	}
	var err error
	d.j, err = journal.Open(context.Background(), l, time.Now, slog.New(slog.DiscardHandler))
	d.must(err)
	d.v = view.New(d.j, d.live, noQueue, time.Now)
	return l
}

// begin commits a task's creation until it waits.
func (l *latch) begin(d *desk, team string, id task.ID) {
	go func() {
		b := d.j.Batch(team)
		b.CreateTask(task.Draft{Task: task.Task{ID: id, Kind: task.Subagent, State: task.Queued}}, "")
		_ = d.j.Commit(context.Background(), b) // as the gate says
	}()
	<-l.waiting
}

// end lets a creation land, or fail.
func (l *latch) end(id task.ID, err error) {
	l.gates["task/"+string(id)] <- err
	synctest.Wait()
}

// What was stamped before another event but lands after it is told all the same, and one that never lands holds nothing
// back. proves O3
func TestWatchWaitsForWhatIsOnItsWay(t *testing.T) {
	for _, fail := range []error{nil, errdefs.New(errdefs.Aborted, errdefs.Conflict, "", "it changed")} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t)
			slow, quick := d.team("slow"), d.team("quick")
			l := d.latched("sub-901")
			var got []string
			ctx, cancel := context.WithCancel(context.Background())
			var watching sync.WaitGroup
			watching.Go(func() {
				_ = d.v.Watch(ctx, "", "", func(n view.News) error {
					got = append(got, told([]view.News{n})...)
					return nil
				})
			})
			synctest.Wait()
			l.begin(d, slow, "sub-901")
			other := d.spawn(quick, "overtakes")
			synctest.Wait()
			if len(got) != 1 {
				t.Errorf("told are %q while another commit is on its way", got)
			}
			l.end("sub-901", fail)
			cancel()
			watching.Wait()
			want := []string{"gap ", "slow sub-901 NONE>QUEUED", "quick " + string(other) + " NONE>QUEUED"}
			if fail != nil {
				want = slices.Delete(want, 1, 2)
			}
			if !slices.Equal(got, want) {
				t.Errorf("told are %q, want %q", got, want)
			}
		})
	}
}

// Rows of one team that land in another order than they were stamped in are all told, once. proves O3
func TestWatchOfRowsOutOfOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		team := d.team("shop")
		l := d.latched("sub-901", "sub-902", "sub-903")
		var got []task.ID
		ctx, cancel := context.WithCancel(context.Background())
		var watching sync.WaitGroup
		watching.Go(func() {
			_ = d.v.Watch(ctx, "shop", d.now("shop"), func(n view.News) error {
				if n.Event != nil {
					got = append(got, n.Event.TaskID)
				}
				return nil
			})
		})
		synctest.Wait()
		for _, id := range []task.ID{"sub-901", "sub-902", "sub-903"} {
			l.begin(d, team, id)
			time.Sleep(time.Millisecond)
		}
		l.end("sub-903", nil)
		l.end("sub-901", nil)
		if !slices.Equal(got, []task.ID{"sub-901"}) {
			t.Errorf("told are %v while one in the middle is on its way", got)
		}
		l.end("sub-902", nil)
		cancel()
		watching.Wait()
		if !slices.Equal(got, []task.ID{"sub-901", "sub-903", "sub-902"}) {
			t.Errorf("told are %v", got)
		}
	})
}
