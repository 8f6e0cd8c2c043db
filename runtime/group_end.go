package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Bounds of what a group concludes, in bytes, so that it fits its row and the context of who reads it.
const (
	maxSections  = 16 << 10  // of the summary
	sectionsRest = 512       // of it, for what is said about what is left out
	maxLists     = 256 << 10 // of findings, artifacts, claims and evidence together
	maxPaths     = 64 << 10  // of the changed paths together
)

// outcome is the end that a stop or the group's tasks have led to.
func (g *group) outcome(own task.Task, all members) task.Finish {
	if own.Stop != nil {
		return own.Stop.Finish()
	}
	finish := task.Finish{State: task.Completed, Reason: task.Done}
	total, first := len(g.formation.Kept)+len(all), 0
	var failed []string
	for n, row := range all {
		t := row.Value
		if t.State == task.Completed || t.State == 0 {
			continue
		}
		if len(failed) == 0 {
			finish, first = task.Finish{State: task.Failed, Reason: t.Reason}, len(g.formation.Kept)+n+1
		}
		failed = append(failed, fmt.Sprintf("%s %s", t.ID, t.Reason))
	}
	switch {
	case len(failed) == 0:
	case g.formation.Chain:
		finish.Error = fmt.Sprintf("step %d of %d did not complete: %s", first, total, failed[0])
	default:
		finish.Error = fmt.Sprintf("%d of %d did not complete: %s", len(failed), total, strings.Join(failed, ", "))
	}
	return finish
}

// part is what one item of a group has come to.
type part struct {
	task task.Task
	left task.Conclusion
}

// concludeGroup gives what a group's tasks, and those that it kept from an earlier chain, concluded so far.
func (s *Supervisor) concludeGroup(ctx context.Context, t task.Task) (task.Conclusion, error) {
	spec, err := s.cfg.Journal.Spec(ctx, t.Team, t.ID)
	if err != nil || spec.Group == nil {
		return task.Conclusion{Report: task.Report{Summary: task.NoSummary}}, err
	}
	var parts []part
	var problems []error
	for _, id := range slices.Concat(spec.Group.Kept, spec.Group.Children) {
		row, err := s.member(ctx, t, *spec.Group, id)
		p := part{task: row.Value}
		if err == nil && p.task.State.Terminal() {
			p.left, err = s.cfg.Journal.Result(ctx, t.Team, id)
		}
		if err != nil && !errdefs.Is(err, errdefs.RecordNotFound) {
			problems = append(problems, err)
		}
		p.task.ID = id // also of one that can't be read now
		parts = append(parts, p)
	}
	return together(parts), errors.Join(problems...)
}

// together is one conclusion of several, in their order.
func together(parts []part) task.Conclusion {
	var c task.Conclusion
	lists, paths := room{left: maxLists}, room{left: maxPaths}
	changed := map[string]bool{}
	for _, p := range parts {
		left := p.left
		take(&lists, &c.Findings, left.Findings, func(f task.Finding) int { return len(f.Title) + len(f.Detail) + len(f.Path) })
		take(&lists, &c.Artifacts, left.Artifacts, func(a task.Artifact) int { return len(a.Path) + len(a.Description) })
		take(&lists, &c.Claims, left.Claims, func(claim string) int { return len(claim) })
		take(&lists, &c.Evidence, left.Evidence, func(e task.Evidence) int { return len(e.Command) + len(e.Output) })
		for _, path := range left.Changes {
			changed[path] = true
		}
	}
	take(&paths, &c.Changes, slices.Sorted(maps.Keys(changed)), func(path string) int { return len(path) })
	c.Summary = sections(parts)
	if lists.over > 0 {
		c.Summary += fmt.Sprintf("\n\n[agentd] %d more findings, artifacts, claims and checks stand in the results of these tasks.", lists.over)
	}
	if paths.over > 0 {
		c.Summary += fmt.Sprintf("\n\n[agentd] %d more paths were changed; the results of these tasks have them.", paths.over)
	}
	return c
}

// room is what a list may still take.
type room struct {
	left int // bytes
	over int // items that were too many
}

// take adds what fits.
func take[T any](r *room, to *[]T, from []T, size func(T) int) {
	const overhead = 32 // of an item in its row
	for _, item := range from {
		if n := size(item) + overhead; n <= r.left {
			r.left -= n
			*to = append(*to, item)
		} else {
			r.over++
		}
	}
}

// sections is the summary: what each has come to and said, the long ones cut to a fair share of the whole.
func sections(parts []part) string {
	left := maxSections - sectionsRest
	heads, bodies := make([]string, len(parts)), make([]string, len(parts))
	var sizes []int
	for i, p := range parts {
		heads[i] = fmt.Sprintf("## %s %s\n\n", p.task.ID, standing(p.task))
		bodies[i] = body(p)
		left -= len(heads[i]) + len("\n\n")
		sizes = append(sizes, len(bodies[i]))
	}
	limit := fairLimit(sizes, left)
	var all []string
	for i, p := range parts {
		all = append(all, heads[i]+startOf(bodies[i], limit, p.task.ID))
	}
	return strings.Join(all, "\n\n")
}

// standing is a task's state, and why it did not complete.
func standing(t task.Task) string {
	switch {
	case !ran(t):
		return "did not run"
	case t.State.Terminal() && t.State != task.Completed:
		return t.State.String() + " " + t.Reason.String()
	}
	return t.State.String()
}

// ran tells whether a task of a group that ends has run: one that is still queued then never will.
func ran(t task.Task) bool { return t.State != 0 && t.State != task.Queued }

func body(p part) string {
	if !ran(p.task) {
		return ""
	}
	text := cmp.Or(p.left.Summary, task.NoSummary)
	if p.task.Error != "" {
		text = p.task.Error + "\n\n" + text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// fairLimit is the size that each may have at most so that all fit: what the short ones do not need goes to the long
// ones.
func fairLimit(sizes []int, room int) int {
	sizes = slices.Sorted(slices.Values(sizes))
	for i, size := range sizes {
		if share := room / (len(sizes) - i); size > share {
			return share
		}
		room -= size
	}
	return math.MaxInt
}
