package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Set is the tools that an agent sees, in the order of their names.
type Set struct{ tools []Tool }

// NewSet makes a set. Of tools of the same name the first counts.
func NewSet(tools ...Tool) Set {
	sorted := slices.Clone(tools)
	slices.SortStableFunc(sorted, func(a, b Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
	return Set{slices.CompactFunc(sorted, func(a, b Tool) bool { return a.Spec().Name == b.Spec().Name })}
}

// Lookup finds a tool by its name.
func (s Set) Lookup(name string) (Tool, bool) {
	i := slices.IndexFunc(s.tools, func(t Tool) bool { return t.Spec().Name == name })
	if i < 0 {
		return nil, false
	}
	return s.tools[i], true
}

// Filter is the set without the tools that names does not list. Names of no tool are ignored.
func (s Set) Filter(names []string) Set {
	var kept []Tool
	for _, t := range s.tools {
		if slices.Contains(names, t.Spec().Name) {
			kept = append(kept, t)
		}
	}
	return Set{kept}
}

// Names are the names of the tools, sorted.
func (s Set) Names() []string {
	names := make([]string, 0, len(s.tools))
	for _, t := range s.tools {
		names = append(names, t.Spec().Name)
	}
	return names
}

// Specs describe the tools, sorted by name.
func (s Set) Specs() []Spec {
	specs := make([]Spec, 0, len(s.tools))
	for _, t := range s.tools {
		specs = append(specs, t.Spec())
	}
	return specs
}

// Run runs the tool of that name, if it exists and the call's grant allows it (P1). Whatever the model can correct is an
// answer (P4); an error is ctx's own or a fault of the daemon, and the answer beside it is what had come until then.
func (s Set) Run(ctx context.Context, name string, call Call) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	granted := s.Filter(call.Scope.Grant.Tools).Names()
	t, ok := s.Lookup(name)
	if !ok {
		return Fail(Error{Reason: UnknownTool, Subject: name, Allowed: granted,
			Message: fmt.Sprintf("there is no tool %q", name)}), nil
	}
	if !call.Scope.Grant.AllowsTool(name) {
		return Fail(Error{Reason: NotGranted, Subject: name, Allowed: granted,
			Message: fmt.Sprintf("the tool %s is not granted to you", name)}), nil
	}
	if _, err := object(call.Arguments); err != nil {
		return answered(Answer{}, err)
	}
	return t.Run(ctx, call)
}
