package view_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/store"
)

var errEnough = errors.New("enough")

// news watches until enough says so.
func (d *desk) news(team, cursor string, enough func(view.News) bool) []view.News {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var all []view.News
	begun := false
	err := d.v.Watch(ctx, team, cursor, func(n view.News) error {
		if resumed := n.Cursor == cursor && n.Event == nil && n.Gap == ""; resumed && !begun {
			begun = true
			return nil
		}
		if begun = begun || n.Gap != "" || cursor == ""; !begun || n.Cursor == cursor {
			d.t.Errorf("a watch from %s has the item %+v", cursor, n)
		}
		all = append(all, n)
		if enough(n) {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		d.t.Fatalf("the watch ended with %v after %q", err, told(all))
	}
	return all
}

// first is enough of any watch.
func first(view.News) bool { return true }

// of is enough when a task's event comes.
func of(id task.ID) func(view.News) bool {
	return func(n view.News) bool { return n.Event != nil && n.Event.TaskID == id }
}

// now is the cursor of a watch that begins.
func (d *desk) now(team string) string {
	d.t.Helper()
	n := d.news(team, "", first)[0]
	if n.Event != nil || n.Gap != "" || n.Cursor == "" {
		d.t.Fatalf("the first item is %+v", n)
	}
	return n.Cursor
}

// told are the events as text.
func told(all []view.News) []string {
	var texts []string
	for _, n := range all {
		switch e := n.Event; {
		case e == nil:
			texts = append(texts, "gap "+n.Gap)
		case e.State == nil:
			texts = append(texts, fmt.Sprintf("%s %s %s", e.TeamName, e.TaskID, e.MessageID))
		default:
			texts = append(texts, strings.TrimSpace(
				fmt.Sprintf("%s %s %s>%s %s", e.TeamName, e.TaskID, e.State.From, e.State.To, e.State.Reason)))
		}
	}
	return texts
}

func (d *desk) tells(got []view.News, want ...string) {
	d.t.Helper()
	if texts := told(got); !slices.Equal(texts, want) {
		d.t.Errorf("told are\n%q, want\n%q", texts, want)
	}
}

// send gives a task mail.
func (d *desk) send(id task.ID, message string) {
	d.t.Helper()
	row, err := d.j.Task(context.Background(), id)
	d.must(err)
	live, err := d.j.Live(context.Background(), row.Value.Team, id)
	d.must(err)
	b := d.j.Batch(row.Value.Team)
	b.GuardLive(id, live.Rev)
	b.Accept(id, mailbox.Message{ID: message, From: "user", Text: "hi", Sent: b.Now()})
	b.TellMail(id, message)
	d.must(d.j.Commit(context.Background(), b))
}

// Every change of state and accepted mail is told, of one team or of all, those that are new too; each cursor resumes
// exactly after its item, also in another life of the daemon. proves O3
func TestWatchResumesAnywhere(t *testing.T) {
	d := newDesk(t).sound()
	shop := d.team("shop")
	old := d.spawn(shop, "before")
	atShop, atAll := d.now("shop"), d.now("")
	a := d.spawn(shop, "a")
	d.apply(a, task.Start{})
	farm := d.team("farm") // while both are watched
	b := d.spawn(farm, "b")
	d.send(a, "m-1")
	d.apply(b, task.Start{})
	d.apply(a, done())
	d.apply(old, task.Start{})
	end := d.spawn(shop, "last of the shop")
	last := d.spawn(farm, "last of all")

	shops := d.news("shop", atShop, of(end))
	d.tells(shops, "shop "+string(a)+" NONE>QUEUED", "shop "+string(a)+" QUEUED>RUNNING",
		"shop "+string(a)+" m-1", "shop "+string(a)+" RUNNING>COMPLETED DONE", "shop "+string(old)+" QUEUED>RUNNING",
		"shop "+string(end)+" NONE>QUEUED")
	all := d.news("", atAll, of(last))
	var farms []string
	for _, text := range told(all) {
		if strings.HasPrefix(text, "farm") {
			farms = append(farms, text)
		}
	}
	want := []string{
		"farm " + string(b) + " NONE>QUEUED", "farm " + string(b) + " QUEUED>RUNNING", "farm " + string(last) + " NONE>QUEUED",
	}
	if !slices.Equal(farms, want) || len(all) != len(shops)+len(farms) {
		t.Errorf("all teams: %q", told(all))
	}
	for range 2 {
		for i := range len(shops) - 1 {
			d.tells(d.news("shop", shops[i].Cursor, of(end)), told(shops[i+1:])...)
		}
		for i := range len(all) - 1 {
			d.tells(d.news("", all[i].Cursor, of(last)), told(all[i+1:])...)
		}
		d.must(d.st.Close())
		d.open()
	}
}

// A cursor is as small for many teams as for one, and what is told of many is complete, from each cursor on. proves O3
func TestWatchManyTeams(t *testing.T) {
	d := newDesk(t)
	at := d.now("")
	var want []task.ID
	for i := range 50 {
		team := d.team(fmt.Sprint("team", i))
		want = append(want, d.spawn(team, "one"), d.spawn(team, "two"))
	}
	all := d.news("", at, of(want[len(want)-1]))
	for i := 0; i < len(all); i += 9 {
		var got []task.ID
		if len(all[i].Cursor) > 80 {
			t.Fatalf("a cursor of %d bytes", len(all[i].Cursor))
		}
		if i+1 == len(all) {
			break
		}
		for _, n := range d.news("", all[i].Cursor, of(want[len(want)-1])) {
			got = append(got, n.Event.TaskID)
		}
		if !slices.Equal(got, want[i+1:]) {
			t.Fatalf("after item %d: %v", i, got)
		}
	}
}

// A reader that stalls holds nobody up and misses nothing. proves O3
// case OUT-3
func TestWatchOfASlowReader(t *testing.T) {
	d := newDesk(t)
	team := d.team("shop")
	cursor := d.now("")
	begun, more := make(chan struct{}), make(chan struct{})
	watched := make(chan error, 1)
	var got []task.ID
	var last task.ID
	go func() {
		watched <- d.v.Watch(context.Background(), "", cursor, func(n view.News) error {
			if n.Event == nil {
				return nil
			}
			if len(got) == 0 {
				close(begun)
				<-more
			}
			if got = append(got, n.Event.TaskID); n.Event.TaskID == last {
				return errEnough
			}
			return nil
		})
	}()
	var want []task.ID
	for i := range 300 {
		want = append(want, d.spawn(team, "x"))
		if i == 0 {
			<-begun
		}
	}
	last = want[len(want)-1]
	close(more)
	if err := <-watched; !errors.Is(err, errEnough) || !slices.Equal(got, want) {
		t.Errorf("%v: %v", err, got)
	}
}

// A damaged row of a feed is passed over, by who watches and by who prunes. proves D7 as far as feeds go
func TestWatchPassesDamageOver(t *testing.T) {
	d := newDesk(t)
	team := d.team("shop")
	d.spawn(team, "before")
	cursor := d.now("shop")
	one := d.spawn(team, "one")
	_, err := d.st.Commit(context.Background(), store.Batch{
		Part: store.Partition(team), Ops: []store.Op{{Kind: store.Append, Name: "feed", Value: []byte{0xff, 0xff}}},
	})
	d.must(err)
	two := d.spawn(team, "two")
	for range 2 {
		d.tells(d.news("shop", cursor, of(two)),
			"shop "+string(one)+" NONE>QUEUED", "shop "+string(two)+" NONE>QUEUED")
		d.must(d.j.Prune(context.Background(), team))
		d.must(d.st.Close())
		d.open()
	}
}

// The notice of a child's end in its parent's mailbox is no mail that a watch tells of: the end is told already.
func TestWatchTellsOfMailOnly(t *testing.T) {
	d := newDesk(t)
	team := d.team("shop")
	parent := d.spawn(team, "parent")
	cursor := d.now("shop")
	n, err := d.j.NextID(context.Background(), team)
	d.must(err)
	child := task.Task{
		ID: task.NewID(task.Subagent, n), Team: team, Kind: task.Subagent, State: task.Queued, Incarnation: 1,
		Parent: parent, Ancestors: []task.ID{parent}, CallID: "c1", Created: time.Now(),
	}
	b := d.j.Batch(team)
	b.CreateTask(task.Draft{Task: child}, "")
	d.must(d.j.Commit(context.Background(), b))
	d.apply(child.ID, task.Start{})
	d.apply(child.ID, done())
	d.send(parent, "m-1")
	end := d.spawn(team, "last")
	d.tells(d.news("shop", cursor, of(end)), "shop "+string(child.ID)+" NONE>QUEUED",
		"shop "+string(child.ID)+" QUEUED>RUNNING", "shop "+string(child.ID)+" RUNNING>COMPLETED DONE",
		"shop "+string(parent)+" m-1", "shop "+string(end)+" NONE>QUEUED")
}

func TestWatchRefusals(t *testing.T) {
	d := newDesk(t)
	d.team("shop")
	refused := func(team, cursor string) error {
		return d.v.Watch(context.Background(), team, cursor, func(n view.News) error {
			t.Errorf("%q, %q: told is %+v", team, cursor, n)
			return errEnough
		})
	}
	d.want(refused("nobody", ""), errdefs.TeamNotFound)
	for _, cursor := range []string{
		"x", "????", "hello", base64.RawURLEncoding.EncodeToString([]byte("\x02 of a newer daemon")),
		base64.RawURLEncoding.EncodeToString([]byte{1, 2, 3}), d.now("shop") + strings.Repeat("A", 200), d.now(""),
	} {
		err := refused("shop", cursor)
		if e := errdefs.As(err); e.Reason != errdefs.BadArgument || e.Field != "cursor" {
			t.Errorf("%.20q: %v", cursor, err)
		}
	}
}

// A watch ends with its reader, or with its ctx, and leaves nothing behind.
func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan error)
		go func() { ended <- d.v.Watch(ctx, "", "", func(view.News) error { return nil }) }()
		synctest.Wait()
		cancel(errEnough)
		if err := <-ended; !errors.Is(err, errEnough) {
			t.Error(err)
		}
	})
}

// Resuming reads what is behind the cursor, not the whole feed.
func TestWatchReadsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		team := d.team("shop")
		for i := range 15 {
			b := d.j.Batch(team)
			for k := range 30 {
				id := task.NewID(task.Subagent, uint64(1000+30*i+k))
				b.CreateTask(task.Draft{Task: task.Task{ID: id, Kind: task.Subagent, State: task.Queued}}, "")
			}
			d.must(d.j.Commit(context.Background(), b))
		}
		time.Sleep(time.Hour)
		m := d.metered()
		cursor := d.now("shop")
		next := d.spawn(team, "next")
		m.count("feed")
		d.news("shop", cursor, of(next))
		if n := m.count("feed"); n > 100 {
			t.Errorf("%d rows were read", n)
		}
	})
}
