package view_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// roster gives the names of a roster, page by page.
func (d *desk) roster(f view.TeammateFilter) string {
	d.t.Helper()
	var names []string
	for range 100 {
		page, next, err := d.v.Teammates(context.Background(), f)
		d.must(err)
		if f.PageSize > 0 && len(page) > f.PageSize {
			d.t.Errorf("a page has %d teammates", len(page))
		}
		for _, m := range page {
			names = append(names, m.Name)
		}
		if next == "" {
			return strings.Join(names, " ")
		}
		f.PageToken = next
	}
	d.t.Fatal("the roster has no end")
	return ""
}

// TestRoster: the lead first, then by creation, at every size of a page; the living alone if they are asked for.
func TestRoster(t *testing.T) {
	d := newDesk(t).sound()
	team, other := d.team("main"), d.team("other")
	zoe, ann := d.idler(team, "Zoe"), d.idler(team, "ann")
	lead := d.idler(team, task.LeadName)
	bob := d.mate(team, "bob")
	d.idler(other, "ann")
	d.apply(ann, done())
	check := func(living bool, want string) {
		t.Helper()
		for size := range 6 {
			if got := d.roster(view.TeammateFilter{Team: team, Living: living, PageSize: size}); got != want {
				t.Errorf("living %v by %d: %s, want %s", living, size, got, want)
			}
		}
	}
	check(false, "team-lead Zoe ann bob")
	check(true, "team-lead Zoe bob")
	d.idler(team, "ANN") // has the name now
	d.apply(lead, done())
	check(false, "team-lead Zoe bob ANN")
	check(true, "Zoe bob ANN")
	for _, id := range []task.ID{zoe, bob} {
		d.apply(id, task.Finish{State: task.Killed, Reason: task.StoppedByClient})
	}
	check(true, "ANN")
}

// TestRosterReadsLivingTasksOnly: of the living roster no task is read that has ended.
func TestRosterReadsLivingTasksOnly(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	for n := range 20 {
		id := d.idler(team, fmt.Sprintf("gone%d", n))
		d.apply(id, done())
	}
	d.idler(team, "ann")
	m := d.metered()
	if got := d.roster(view.TeammateFilter{Team: team, Living: true}); got != "ann" {
		t.Errorf("%s", got)
	}
	if n := m.count("get task"); n > 1 {
		t.Errorf("%d tasks were read", n)
	}
}

func TestBadRosterRequests(t *testing.T) {
	ctx := context.Background()
	d := newDesk(t)
	team, other := d.team("main"), d.team("other")
	d.idler(team, "ann")
	d.idler(team, "bob")
	_, next, err := d.v.Teammates(ctx, view.TeammateFilter{Team: team, PageSize: 1})
	d.must(err)
	for _, f := range []view.TeammateFilter{
		{Team: team, PageToken: "x"}, {Team: other, PageToken: next}, {Team: team, PageSize: -1},
		{Team: team, PageSize: view.MaxPage + 1},
	} {
		_, _, err := d.v.Teammates(ctx, f)
		d.want(err, errdefs.BadArgument)
	}
	_, _, err = d.v.Teammates(ctx, view.TeammateFilter{Team: "t-99"})
	d.want(err, errdefs.TeamNotFound)
	for _, name := range []string{"an", task.LeadName, mailbox.User, "sub-1", "", "a/b"} {
		_, err := d.v.Teammate(ctx, team, name)
		d.want(err, errdefs.RecipientNotFound)
	}
}

// TestTeammate: a teammate is found by its name in any case, and its line says whether a message revives it, and what it was
// asked. proves N2, W3 and M6 as far as reading goes
func TestTeammate(t *testing.T) {
	ctx := context.Background()
	d := newDesk(t)
	team := d.team("main")
	look := func(name string) view.Teammate {
		t.Helper()
		m, err := d.v.Teammate(ctx, team, name)
		d.must(err)
		return m
	}
	planner := d.idler(team, "planner")
	control := func(c journal.Control) {
		row, err := d.j.Control(ctx, team, planner)
		d.must(err)
		b := d.j.Batch(team)
		b.PutControl(planner, row.Rev, c)
		d.must(d.j.Commit(ctx, b))
	}
	short := func(m view.Teammate) string {
		return fmt.Sprintf("%v %v %q %q", m.PlanApproval, m.PlanApproved, m.PlanControlID, m.ShutdownControlID)
	}
	want := func(want string) {
		t.Helper()
		if got := short(look("Planner")); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	want(`true false "" ""`)
	both := journal.Control{Plan: journal.Handshake{ID: "c-1", Incarnation: 1}, Shutdown: journal.Handshake{ID: "c-2", Incarnation: 1}}
	control(both)
	want(`true false "c-1" "c-2"`)
	both.Plan.Approved = true
	control(both)
	want(`true true "" "c-2"`)
	d.apply(planner, done())
	want(`true true "" ""`)
	d.apply(planner, task.Reopen{})
	want(`true true "" ""`) // the request was another life's
	if got := look(string(planner)); got.Name != "planner" || got.TaskID != planner || got.Task.ID != planner || got.Task.TeamName != "main" {
		t.Errorf("%+v", got)
	}

	ends := map[string]task.Finish{
		"ann": done(), "bob": {State: task.Killed, Reason: task.StoppedByClient}, task.LeadName: done(),
		"cid": {State: task.Failed, Reason: task.CrashLoop},
	}
	asleep := map[string]string{
		"ann": "", "bob": "only the leader or a client", task.LeadName: "only a client's message", "cid": "parked",
	}
	for name, end := range ends {
		id := d.idler(team, name)
		if got := look(name); got.Asleep != "" {
			t.Errorf("%s lives and %s", name, got.Asleep)
		}
		d.apply(id, end)
		got := look(strings.ToUpper(name)).Asleep
		if part := asleep[name]; !strings.Contains(got, part) || (part == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, part)
		}
	}
	row, err := d.j.Member(ctx, team, "ann")
	d.must(err)
	row.Value.Dismissed = true
	b := d.j.Batch(team)
	b.PutMember(row.Value, row.Rev, roster.Dismissed)
	d.must(d.j.Commit(ctx, b))
	if got := look("ann"); !got.Dismissed || !strings.Contains(got.Asleep, "dismissed") {
		t.Errorf("%+v", got)
	}
}

// TestTeams: what teams have used, who lives in them, and what is unread, page by page.
func TestTeams(t *testing.T) {
	ctx := context.Background()
	d := newDesk(t)
	first, second := d.team("first"), d.team("second")
	d.team("third")
	lead, ann := d.idler(first, task.LeadName), d.idler(first, "ann")
	d.apply(d.idler(first, "bob"), done())
	d.spawn(first, "a subagent is no teammate")
	d.apply(d.idler(second, task.LeadName), done())
	row, err := d.j.Task(ctx, ann)
	d.must(err)
	b := d.j.Batch(first)
	b.AddUsage(row.Value, task.Usage{Steps: 3})
	d.must(d.j.Commit(ctx, b))
	d.letter(first, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
	d.letter(first, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
	d.letter(first, mailbox.UserBox, mailbox.Sent{To: mailbox.User})
	want := []string{fmt.Sprintf("first 3 2 %s 2 1", lead), "second 0 0  0 0", "third 0 0  0 0"}
	for size := range 5 {
		var got []string
		for token := "-"; token != ""; {
			page, next, err := d.v.Teams(ctx, size, strings.TrimPrefix(token, "-"))
			d.must(err)
			if size > 0 && len(page) > size {
				t.Errorf("a page has %d teams", len(page))
			}
			for _, team := range page {
				got = append(got, fmt.Sprintf("%s %d %d %s %d %d", team.Name, team.Usage.Steps, team.Teammates, team.Lead,
					team.UnreadLeader, team.UnreadUser))
			}
			token = next
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %d: %q, want %q", size, got, want)
		}
	}
	for _, unread := range []int{2, 0} { // the inbox is the lead's while it lives
		if shown, err := d.v.Task(ctx, lead); err != nil || shown.Unread != unread {
			t.Errorf("%d unread, want %d; %v", shown.Unread, unread, err)
		}
		if unread > 0 {
			d.apply(lead, done())
		}
	}
	_, _, err = d.v.Teams(ctx, -1, "")
	d.want(err, errdefs.BadArgument)
	_, _, err = d.v.Teams(ctx, 0, "x")
	d.want(err, errdefs.BadArgument)
}

// TestWatchRoster: a watch tells who has joined a roster, and who was dismissed. proves O3 as far as rosters go
func TestWatchRoster(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d := newDesk(t)
	team := d.team("main")
	var got []string
	err := d.v.Watch(ctx, "main", "", func(n view.News) error {
		switch {
		case n.Event == nil:
			id := d.mate(team, "Ann")
			b := d.j.Batch(team)
			row, err := d.j.Member(ctx, team, "ann")
			d.must(err)
			b.PutMember(roster.Member{Name: "Ann", TaskID: id, Dismissed: true}, row.Rev, roster.Dismissed)
			d.must(d.j.Commit(ctx, b))
		case n.Event.Roster != nil:
			change := n.Event.Roster
			got = append(got, fmt.Sprintf("%s %s %d", n.Event.TaskID, change.Name, change.Event))
			if change.Event == roster.Dismissed {
				return errSeen
			}
		}
		return nil
	})
	if !errors.Is(err, errSeen) || !slices.Equal(got, []string{"tm-1 Ann 1", "tm-1 Ann 2"}) {
		t.Errorf("%q, %v", got, err)
	}
}
