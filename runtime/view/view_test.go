package view_test

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/store"
)

// pages lists all, page by page; between is called after each.
func (d *desk) pages(f view.Filter, between func()) []task.ID {
	d.t.Helper()
	var ids []task.ID
	for range 100 {
		page, token, err := d.v.List(context.Background(), f)
		d.must(err)
		if f.PageSize > 0 && len(page) > f.PageSize {
			d.t.Errorf("a page has %d tasks", len(page))
		}
		for _, t := range page {
			ids = append(ids, t.ID)
		}
		if token == "" {
			return ids
		}
		f.PageToken = token
		between()
	}
	d.t.Fatal("the pages have no end")
	return nil
}

func nothing() {}

// TestList pages through tasks of two teams by every filter, at every size of a page.
func TestList(t *testing.T) {
	d := newDesk(t).sound()
	a, b := d.team("Alpha"), d.team("beta")
	var all []task.ID
	for range 4 {
		all = append(all, d.spawn(a, "first"))
	}
	child := d.spawn(a, "child", all[0])
	all = append(all, child)
	for range 3 {
		all = append(all, d.spawn(b, "second"))
	}
	d.apply(all[1], task.Start{})
	d.apply(all[2], task.Start{})
	d.apply(all[2], done())
	d.apply(all[6], task.Finish{State: task.Killed, Reason: task.StoppedByClient})

	living := slices.DeleteFunc(slices.Clone(all), func(id task.ID) bool { return id == all[2] || id == all[6] })
	tests := []struct {
		name   string
		filter view.Filter
		want   []task.ID
	}{
		{"all", view.Filter{}, all},
		{"a team, in another case", view.Filter{Team: "alpha"}, all[:5]},
		{"the other team", view.Filter{Team: "beta"}, all[5:]},
		{"children", view.Filter{Parent: all[0]}, []task.ID{child}},
		{"children in their team", view.Filter{Parent: all[0], Team: "alpha"}, []task.ID{child}},
		{"children in another team", view.Filter{Parent: all[0], Team: "beta"}, nil},
		{"ended children", view.Filter{Parent: all[0], State: task.Killed}, nil},
		{"children of a child", view.Filter{Parent: child}, nil},
		{"children of nobody", view.Filter{Parent: "sub-1/sub 2"}, nil},
		{"a kind", view.Filter{Kind: task.Subagent}, all},
		{"a kind that is not", view.Filter{Kind: 99}, nil},
		{"living", view.Filter{Living: true}, living},
		{"living of a team", view.Filter{Living: true, Team: "beta"}, []task.ID{all[5], all[7]}},
		{"running", view.Filter{State: task.Running}, all[1:2]},
		{"completed", view.Filter{State: task.Completed}, all[2:3]},
		{"killed", view.Filter{State: task.Killed}, all[6:7]},
		{"living and ended", view.Filter{State: task.Killed, Living: true}, nil},
	}
	for _, tt := range tests {
		for size := range len(all) + 2 {
			tt.filter.PageSize = size
			if got := d.pages(tt.filter, nothing); !slices.Equal(got, tt.want) {
				t.Errorf("%s by %d: %v, want %v", tt.name, size, got, tt.want)
			}
		}
	}
}

// TestChildrenAreFoundByTheirParent: a team's other tasks are not looked at, however many there were.
func TestChildrenAreFoundByTheirParent(t *testing.T) {
	d := newDesk(t)
	m := d.metered()
	team := d.team("main")
	parent := d.spawn(team, "")
	var children []task.ID
	for range 3 {
		d.spawn(team, "")
		children = append(children, d.spawn(team, "", parent))
	}
	d.apply(children[1], task.Finish{State: task.Killed, Reason: task.StoppedByClient})
	if got := d.pages(view.Filter{Parent: parent, PageSize: 2}, nothing); !slices.Equal(got, children) {
		t.Errorf("the children are %v, want %v", got, children)
	}
	if n := m.count("created"); n > 0 {
		t.Errorf("%d creations were read", n)
	}
}

// TestPagingWhileTasksChange: what is there from the first page to the last is shown once, whatever else comes and ends.
func TestPagingWhileTasksChange(t *testing.T) {
	for _, living := range []bool{false, true} {
		d := newDesk(t)
		a, b := d.team("a"), d.team("b")
		var all []task.ID
		for range 5 {
			all = append(all, d.spawn(a, ""))
		}
		for range 5 {
			all = append(all, d.spawn(b, ""))
		}
		ending := []task.ID{all[0], all[3], all[8]}
		stay := slices.DeleteFunc(slices.Clone(all), func(id task.ID) bool { return slices.Contains(ending, id) })
		got := d.pages(view.Filter{PageSize: 2, Living: living}, func() {
			if len(ending) > 0 {
				d.apply(ending[0], task.Finish{State: task.Killed, Reason: task.StoppedByClient})
				ending = ending[1:]
				d.spawn(a, "new")
			}
		})
		counts := map[task.ID]int{}
		for _, id := range got {
			if counts[id]++; counts[id] > 1 {
				t.Errorf("living %v: %s is shown twice", living, id)
			}
		}
		for _, id := range stay {
			if counts[id] != 1 {
				t.Errorf("living %v: %s was there all the time and is shown %d times", living, id, counts[id])
			}
		}
	}
}

func TestBadListRequests(t *testing.T) {
	d := newDesk(t)
	d.spawn(d.team("main"), "")
	tokens := []string{"x", "!", "MQ", "MTox", "OjE", "MTotMQ", "MToxeA", "MToyOjM", "KzE6Mg", "IDE6Mg"}
	for _, token := range tokens {
		_, _, err := d.v.List(context.Background(), view.Filter{PageToken: token})
		if token == "MTox" { // 1:1 is well formed
			d.must(err)
			continue
		}
		d.want(err, errdefs.BadArgument)
		if e := errdefs.As(err); e != nil && e.Field != "page_token" {
			t.Errorf("token %q: field %q", token, e.Field)
		}
	}
	for _, size := range []int{-1, view.MaxPage + 1} {
		_, _, err := d.v.List(context.Background(), view.Filter{PageSize: size})
		d.want(err, errdefs.BadArgument)
	}
	_, _, err := d.v.List(context.Background(), view.Filter{Team: "nobody"})
	d.want(err, errdefs.TeamNotFound)
}

// TestTask shows what follows from a task's other rows.
func TestTask(t *testing.T) {
	d := newDesk(t)
	team := d.team("Main")
	id := d.spawn(team, "what")
	show := func() view.Task {
		t.Helper()
		got, err := d.v.Task(context.Background(), id)
		d.must(err)
		return got
	}
	if got := show(); got.TeamName != "Main" || got.Description != "what" || got.Activity != "waits for a slot" ||
		got.LastSeq != 0 || got.WallTime != 0 {
		t.Errorf("queued: %+v", got)
	}
	steps := []struct {
		do   func()
		want string
	}{
		{func() { d.apply(id, task.Start{}) }, "asks the model"},
		{func() { d.append(id, &task.Assistant{Step: 1, Calls: []task.ToolCall{{ID: "c", Name: "bash"}}}) }, "settles bash"},
		{func() { d.append(id, &task.CallStarted{CallIDs: []string{"c"}, Label: "bash: make"}) }, "bash: make"},
		{func() { d.apply(id, task.Wait{}) }, "waits: bash: make"},
		{func() { d.apply(id, task.Proceed{}) }, "bash: make"},
		{func() { d.append(id, &task.ToolResult{CallID: "c"}) }, "asks the model"},
		{func() { d.apply(id, task.Wait{}) }, "waits for the model provider"},
		{func() {
			d.apply(id, task.Stop{Order: task.StopOrder{Level: task.Cancel, State: task.Killed, Reason: task.StoppedByClient}})
		}, "is stopping"},
		{func() { d.apply(id, task.Finish{State: task.Killed, Reason: task.StoppedByClient}) }, ""},
	}
	var seq task.Seq
	for _, step := range steps {
		step.do()
		got := show()
		if got.Activity != step.want || got.LastSeq <= seq {
			t.Errorf("%s: %q at %d, want %q after %d", got.State, got.Activity, got.LastSeq, step.want, seq)
		}
		seq = got.LastSeq
	}
	_, err := d.v.Task(context.Background(), "sub-99")
	d.want(err, errdefs.TaskNotFound)
}

// TestResult: the result of a killed task has what there is. proves O5, R1
func TestResult(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	id := d.spawn(team, "")
	second, first := d.spawn(team, "", id), d.spawn(team, "", id)
	_, err := d.v.Result(context.Background(), id)
	d.want(err, errdefs.RecordNotFound)
	d.apply(id, task.Start{})
	row, err := d.j.Task(context.Background(), id)
	d.must(err)
	b := d.j.Batch(team)
	b.AddUsage(row.Value, task.Usage{Steps: 2, InputTokens: 5})
	d.must(d.j.Commit(context.Background(), b))
	d.apply(id, task.Finish{State: task.Killed, Reason: task.StoppedByClient, Error: "why"})
	got, err := d.v.Result(context.Background(), id)
	d.must(err)
	if got.State != task.Killed || got.Reason != task.StoppedByClient || got.Error != "why" || got.Summary != "all done" ||
		!slices.Equal(got.Changes, []string{"/ws/a"}) || got.Usage != (task.Usage{Steps: 2, InputTokens: 5}) ||
		!slices.Equal(got.Children, []task.ID{second, first}) {
		t.Errorf("%+v", got)
	}
}

// TestDamage: the record of one task and the usage of another are damaged on disk: the rest is listed.
// case OUT-8
func TestDamage(t *testing.T) {
	d := newDesk(t)
	const rare = 0x5eed5eed5eed5eed
	team := d.team("main")
	first, lost, third := d.spawn(team, "whole"), d.spawn(team, "DAMAGED-RECORD"), d.spawn(team, "whole")
	row, err := d.j.Task(context.Background(), third)
	d.must(err)
	b := d.j.Batch(team)
	b.AddUsage(row.Value, task.Usage{InputTokens: rare})
	d.must(d.j.Commit(context.Background(), b))
	d.must(d.st.Close())

	file, err := os.ReadFile(d.path)
	d.must(err)
	for _, needle := range [][]byte{[]byte("DAMAGED-RECORD"), store.EncodeVector([]int64{rare})} {
		if !bytes.Contains(file, needle) {
			t.Fatalf("%q is not in the file", needle)
		}
		file = bytes.ReplaceAll(file, needle, append([]byte{needle[0] ^ 1}, needle[1:]...))
	}
	d.must(os.WriteFile(d.path, file, 0o600))
	d.open()

	for _, f := range []view.Filter{{}, {Living: true}, {Team: "main"}} {
		if got := d.pages(f, nothing); !slices.Equal(got, []task.ID{first, third}) {
			t.Errorf("%+v lists %v", f, got)
		}
	}
	_, err = d.v.Task(context.Background(), lost)
	d.want(err, errdefs.RecordCorrupt)
	d.apply(third, task.Start{}) // and works
	if d.st.Quarantined() == 0 {
		t.Error("nobody is told")
	}
}
