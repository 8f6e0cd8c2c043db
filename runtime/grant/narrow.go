package grant

import (
	"fmt"
	"slices"
	"strings"
)

// Request asks for a part of a grant. What is nil is not narrowed. Roots are absolute and canonical.
type Request struct {
	Tools    []string // names
	Denied   []string // names that are taken away, whatever Tools says
	Readable []string // with one of the two lists set the other one is empty, not all
	Writable []string // readable too
	Network  *bool
	Depth    *int // levels that may be spawned below
}

// Excess is one thing that was asked for and is not to be had.
type Excess struct {
	Field   string   // of the request: tools, readable_roots, writable_roots, network or depth
	Subject string   // what was asked for
	Allowed []string // what there is
}

// String tells it to people.
func (e Excess) String() string {
	return fmt.Sprintf("%s: %s (allowed: %s)", e.Field, e.Subject, strings.Join(e.Allowed, ", "))
}

// Narrow gives the part of g that the request asks for, and what it asks for beyond: parent ∩ request (P1). The caller
// decides whether an excess is refused or dropped. The outcome never allows what g does not.
func (g Grant) Narrow(r Request) (Grant, []Excess) {
	var excess []Excess
	out := Grant{Network: g.Network, Depth: g.Depth}
	out.Tools, excess = g.narrowTools(r)
	if r.Readable == nil && r.Writable == nil {
		out.Readable, out.Writable = slices.Clone(g.Readable), slices.Clone(g.Writable)
	} else {
		var over []Excess
		out.Readable, over = within(r.Readable, "readable_roots", g.readable(), g.ReadableRoot)
		excess = append(excess, over...)
		out.Writable, over = within(r.Writable, "writable_roots", g.Writable, g.WritableRoot)
		excess = append(excess, over...)
	}
	if r.Network != nil {
		if *r.Network && !g.Network {
			excess = append(excess, Excess{Field: "network", Subject: "true", Allowed: []string{"false"}})
		}
		out.Network = g.Network && *r.Network
	}
	if r.Depth != nil {
		if *r.Depth > g.Depth {
			excess = append(excess, Excess{Field: "depth", Subject: fmt.Sprint(*r.Depth), Allowed: []string{fmt.Sprint(g.Depth)}})
		}
		out.Depth = max(0, min(g.Depth, *r.Depth))
	}
	return out, excess
}

func (g Grant) narrowTools(r Request) (tools []string, excess []Excess) {
	asked := r.Tools
	if asked == nil {
		asked = g.Tools
	}
	for _, name := range asked {
		switch {
		case !g.AllowsTool(name):
			excess = append(excess, Excess{Field: "tools", Subject: name, Allowed: g.Tools})
		case !slices.Contains(tools, name) && !slices.Contains(r.Denied, name):
			tools = append(tools, name)
		}
	}
	slices.Sort(tools)
	return tools, excess
}

// within keeps the roots that lie beneath an allowed one.
func within(roots []string, field string, allowed []string, root func(string) string) (kept []string, excess []Excess) {
	for _, dir := range roots {
		switch {
		case root(dir) == "":
			excess = append(excess, Excess{Field: field, Subject: dir, Allowed: allowed})
		case !slices.Contains(kept, dir):
			kept = append(kept, dir)
		}
	}
	return kept, excess
}

// Confined tells whether g allows less of the disk or the network than from does. A command can't be kept within such a
// grant without the help of the system (P3).
func (g Grant) Confined(from Grant) bool {
	return from.Network && !g.Network ||
		slices.ContainsFunc(from.Readable, func(dir string) bool { return g.ReadableRoot(dir) == "" }) ||
		slices.ContainsFunc(from.Writable, func(dir string) bool { return g.WritableRoot(dir) == "" })
}

// With is the grant with more tools.
func (g Grant) With(tools ...string) Grant {
	g.Tools = slices.Concat(g.Tools, tools)
	slices.Sort(g.Tools)
	g.Tools = slices.Compact(g.Tools)
	return g
}

// Without is g without the tools.
func (g Grant) Without(tools ...string) Grant {
	g.Tools = slices.DeleteFunc(slices.Clone(g.Tools), func(name string) bool { return slices.Contains(tools, name) })
	return g
}
