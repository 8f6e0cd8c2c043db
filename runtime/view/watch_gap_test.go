package view_test

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// A cursor that can't be served gets a gap, and the watch goes on from now. proves O3
func TestWatchGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		team := d.team("shop")
		d.spawn(team, "lost")
		stale := d.now("")
		d.spawn(team, "lost")
		time.Sleep(7*24*time.Hour - time.Minute)
		d.must(d.j.Prune(context.Background(), team))
		kept := d.spawn(team, "kept")
		if got := told(d.news("", stale, of(kept))); len(got) != 2 {
			t.Errorf("before the 7 days are over: %q", got)
		}
		time.Sleep(2 * time.Minute)
		d.must(d.j.Prune(context.Background(), team))

		other := newDesk(t)
		foreign := other.now("")
		raw, err := base64.RawURLEncoding.DecodeString(d.now(""))
		d.must(err)
		raw[len(raw)-1] ^= 1
		forged := base64.RawURLEncoding.EncodeToString(raw)
		for name, cursor := range map[string]string{"is older": stale, "is not of this": foreign, "is not of": forged} {
			got := d.news("", cursor, func(n view.News) bool { return n.Gap != "" })
			if len(got) != 1 || !strings.Contains(got[0].Gap, name) || got[0].Event != nil {
				t.Errorf("%s: %q", name, told(got))
			}
			next := d.spawn(team, "next")
			d.tells(d.news("", got[0].Cursor, of(next)), "shop "+string(next)+" NONE>QUEUED")
		}
	})
}

// A watcher to whom nothing happens for days gets new cursors meanwhile, and can resume from the last. proves O3
func TestWatchOfAQuietTeam(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		team := d.team("shop")
		ctx, cancel := context.WithCancel(context.Background())
		var got []view.News
		var watching sync.WaitGroup
		watching.Go(func() {
			_ = d.v.Watch(ctx, "", "", func(n view.News) error {
				got = append(got, n)
				return nil
			})
		})
		time.Sleep(20*24*time.Hour + time.Minute)
		synctest.Wait()
		if len(got) != 20*24+1 {
			t.Errorf("%d items", len(got))
		}
		one := d.spawn(team, "one")
		synctest.Wait()
		if n := got[len(got)-1]; n.Event == nil || n.Event.TaskID != one {
			t.Errorf("after 20 days: %+v", n)
		}
		cancel()
		watching.Wait()
		for _, n := range got[:len(got)-1] {
			if n.Event != nil || n.Gap != "" {
				t.Errorf("meanwhile: %+v", n)
			}
		}
		d.tells(d.news("", got[len(got)-2].Cursor, of(one)), "shop "+string(one)+" NONE>QUEUED")
	})
}

// A reader that stalls for longer than events are kept is told of a gap. proves O3
func TestWatchOfAReaderThatStallsForDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		team := d.team("shop")
		cursor := d.now("")
		d.spawn(team, "told, then it stalls")
		for range 3 {
			time.Sleep(time.Second)
			d.spawn(team, "lost")
		}
		stalled := false
		var got []view.News
		watched := make(chan error, 1)
		go func() {
			watched <- d.v.Watch(context.Background(), "", cursor, func(n view.News) error {
				got = append(got, n)
				if n.Event != nil && !stalled {
					stalled = true
					time.Sleep(8 * 24 * time.Hour)
				}
				if n.Event != nil && n.Event.State.To == task.Running {
					return errEnough
				}
				return nil
			})
		}()
		time.Sleep(7*24*time.Hour + time.Hour)
		d.must(d.j.Prune(context.Background(), team))
		d.spawn(team, "lost in the gap")
		time.Sleep(2 * 24 * time.Hour)
		d.apply(d.spawn(team, "last"), task.Start{})
		if err := <-watched; !errors.Is(err, errEnough) {
			t.Error(err)
		}
		gaps := 0
		for _, n := range got {
			if n.Gap != "" {
				gaps++
			}
		}
		if gaps != 1 {
			t.Errorf("told are %q", told(got))
		}
	})
}

// After the clock was set back, cursors of before tell of a time to come: what happens now could be taken for told.
func TestWatchAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.spawn(d.team("shop"), "x")
		time.Sleep(48 * time.Hour)
		late := d.now("")
		back := func() time.Time { return time.Now().Add(-24 * time.Hour) }
		j, err := journal.Open(context.Background(), d.st, back, slog.New(slog.DiscardHandler))
		d.must(err)
		d.j, d.v = j, view.New(j, d.live, noQueue, back)
		early := d.now("")
		d.spawn(d.team("site"), "y")
		for range 2 { // also when that time has come after all
			if got := d.news("", late, first); !strings.Contains(got[0].Gap, "clock") {
				t.Errorf("told is %q", told(got))
			}
			if got := d.news("", early, first); got[0].Gap != "" {
				t.Errorf("a cursor of after is told %q", told(got))
			}
			time.Sleep(25 * time.Hour)
		}
	})
}
