package grant_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/runtime/grant"
)

func parent() grant.Grant {
	return grant.Grant{
		Tools: []string{"bash", "ls", "read"}, Readable: []string{"/lib", "/ws"}, Writable: []string{"/ws"}, Network: true, Depth: 2,
	}
}

// proves P1: a request is met as far as the parent goes, and each thing beyond is named.
func TestNarrow(t *testing.T) {
	yes, no, three, one := true, false, 3, 1
	for name, tt := range map[string]struct {
		request grant.Request
		want    grant.Grant
		excess  []string
	}{
		"nothing is asked for": {grant.Request{}, parent(), nil},
		"tools, with one that is not there": {
			grant.Request{Tools: []string{"read", "write", "read"}},
			grant.Grant{Tools: []string{"read"}, Readable: []string{"/lib", "/ws"}, Writable: []string{"/ws"}, Network: true, Depth: 2},
			[]string{"tools: write (allowed: bash, ls, read)"},
		},
		"no tools at all": {
			grant.Request{Tools: []string{}},
			grant.Grant{Readable: []string{"/lib", "/ws"}, Writable: []string{"/ws"}, Network: true, Depth: 2}, nil,
		},
		"tools taken away": {
			grant.Request{Denied: []string{"bash", "never heard of"}},
			grant.Grant{Tools: []string{"ls", "read"}, Readable: []string{"/lib", "/ws"}, Writable: []string{"/ws"}, Network: true, Depth: 2},
			nil,
		},
		"roots": {
			grant.Request{Readable: []string{"/lib/x", "/ws", "/etc"}, Writable: []string{"/ws/out", "/lib", "/wsx"}},
			grant.Grant{
				Tools: []string{"bash", "ls", "read"}, Readable: []string{"/lib/x", "/ws"}, Writable: []string{"/ws/out"},
				Network: true, Depth: 2,
			},
			[]string{
				"readable_roots: /etc (allowed: /lib, /ws)", "writable_roots: /lib (allowed: /ws)",
				"writable_roots: /wsx (allowed: /ws)",
			},
		},
		"one list of roots empties the other": {
			grant.Request{Readable: []string{"/ws"}},
			grant.Grant{Tools: []string{"bash", "ls", "read"}, Readable: []string{"/ws"}, Network: true, Depth: 2}, nil,
		},
		"network and depth": {
			grant.Request{Network: &no, Depth: &one},
			grant.Grant{
				Tools: []string{"bash", "ls", "read"}, Readable: []string{"/lib", "/ws"}, Writable: []string{"/ws"}, Depth: 1,
			}, nil,
		},
		"too much depth": {
			grant.Request{Network: &yes, Depth: &three}, parent(), []string{"depth: 3 (allowed: 2)"},
		},
	} {
		got, excess := parent().Narrow(tt.request)
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		var told []string
		for _, e := range excess {
			told = append(told, e.String())
		}
		if !slices.Equal(told, tt.excess) {
			t.Errorf("%s: excess %q, want %q", name, told, tt.excess)
		}
	}
	closed := parent()
	closed.Network = false
	if got, excess := closed.Narrow(grant.Request{Network: &yes}); got.Network || len(excess) != 1 || excess[0].Field != "network" {
		t.Errorf("network where there is none: %+v, %v", got, excess)
	}
}

// proves P1: whatever is asked for, a child may do nothing that its parent may not.
func TestNarrowNeverWidens(t *testing.T) {
	tools := []string{"bash", "edit", "ls", "read", "subagent"}
	dirs := []string{"/", "/a", "/a/b", "/a/b/c", "/ab", "/x"}
	some := func(t *rapid.T, from []string, label string) []string {
		if rapid.Bool().Draw(t, label+" is nil") {
			return nil
		}
		return rapid.SliceOfN(rapid.SampledFrom(from), 0, 4).Draw(t, label)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := grant.Grant{
			Tools: some(t, tools, "tools"), Readable: some(t, dirs, "readable"), Writable: some(t, dirs, "writable"),
			Network: rapid.Bool().Draw(t, "network"), Depth: rapid.IntRange(0, 5).Draw(t, "depth"),
		}
		network, depth := rapid.Bool().Draw(t, "asked network"), rapid.IntRange(-1, 6).Draw(t, "asked depth")
		child, excess := p.Narrow(grant.Request{
			Tools: some(t, tools, "asked tools"), Denied: some(t, tools, "denied"), Readable: some(t, dirs, "asked readable"),
			Writable: some(t, dirs, "asked writable"), Network: &network, Depth: &depth,
		})
		for _, name := range tools {
			if child.AllowsTool(name) && !p.AllowsTool(name) {
				t.Fatalf("the child has %s: %+v of %+v", name, child, p)
			}
		}
		for _, dir := range dirs {
			if child.ReadableRoot(dir) != "" && p.ReadableRoot(dir) == "" || child.WritableRoot(dir) != "" && p.WritableRoot(dir) == "" {
				t.Fatalf("the child has %s: %+v of %+v", dir, child, p)
			}
		}
		if child.Network && !p.Network || child.Depth > p.Depth || child.Depth < 0 {
			t.Fatalf("%+v of %+v", child, p)
		}
		if again, _ := child.Narrow(grant.Request{}); fmt.Sprint(again) != fmt.Sprint(child) {
			t.Fatalf("nothing asked for: %+v became %+v", child, again)
		}
		if len(excess) == 0 && network && !p.Network {
			t.Fatal("an excess was not told")
		}
	})
}

func TestConfined(t *testing.T) {
	from := parent()
	for name, tt := range map[string]struct {
		change func(*grant.Grant)
		want   bool
	}{
		"the same":           {func(*grant.Grant) {}, false},
		"fewer tools":        {func(g *grant.Grant) { g.Tools = nil }, false},
		"no network":         {func(g *grant.Grant) { g.Network = false }, true},
		"reads less":         {func(g *grant.Grant) { g.Readable = []string{"/ws"} }, true},
		"writes less":        {func(g *grant.Grant) { g.Writable = []string{"/ws/out"} }, true},
		"writes nothing":     {func(g *grant.Grant) { g.Writable = nil }, true},
		"the same, with one": {func(g *grant.Grant) { g.Readable = append(g.Readable, "/ws/more") }, false},
	} {
		g := parent()
		tt.change(&g)
		if got := g.Confined(from); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A grant without a tool is another value: the one that it was made from keeps it.
func TestWithout(t *testing.T) {
	from := parent()
	if g := from.Without("bash", "read"); !slices.Equal(g.Tools, []string{"ls"}) || len(from.Tools) != 3 {
		t.Errorf("%q of %q", g.Tools, from.Tools)
	}
}
