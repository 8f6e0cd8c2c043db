package runtime

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// maxConclusion is how much of a step's conclusion the next one is given, in bytes.
const maxConclusion = 32 << 10

// nextStep is the number of the step, from 0, that is to come into being: that of a chain whose steps before it have
// completed.
func (g *group) nextStep(all members) (n int, ok bool) {
	if !g.formation.Chain {
		return 0, false
	}
	for n, row := range all {
		if row.Value.State != task.Completed {
			return n, row.Value.State == 0
		}
	}
	return 0, false
}

// makeStep makes the n-th step of a chain a task, with the conclusion of the step before. It holds only while the group
// stays as it is, so a stop that comes between finds the step or refuses it (T2): Conflict.
func (g *group) makeStep(ctx context.Context, own journal.Row[task.Task], n int) error {
	d, err := g.s.cfg.Journal.Item(ctx, g.task.Team, g.task.ID, n)
	if journal.IsLost(err) || errdefs.Is(err, errdefs.RecordNotFound) {
		return g.s.finish(ctx, own, task.Finish{
			State: task.Failed, Reason: task.SpawnFailed,
			Error: fmt.Sprintf("step %s can't be read any more", g.formation.Children[n]),
		}, nil)
	}
	if err != nil {
		return err
	}
	if d.Opening, err = g.fill(ctx, d.Opening, n); err != nil {
		return err
	}
	b := g.s.cfg.Journal.Batch(g.task.Team)
	b.GuardTask(own)
	d.Task.Created = b.Now()
	b.CreateTask(d, g.from())
	return g.s.cfg.Journal.Commit(ctx, b)
}

// from is whose words a step's prompt are.
func (g *group) from() string {
	if g.task.CallID != "" {
		return string(g.task.Parent)
	}
	return mailbox.User
}

// fill puts the conclusion of the step before the n-th into what that one is told. The first of all stays as it is.
func (g *group) fill(ctx context.Context, opening string, n int) (string, error) {
	steps := append(append([]task.ID{}, g.formation.Kept...), g.formation.Children[:n]...)
	if len(steps) == 0 {
		return opening, nil
	}
	before := steps[len(steps)-1]
	left, err := g.s.cfg.Journal.Result(ctx, g.task.Team, before)
	if journal.IsLost(err) || errdefs.Is(err, errdefs.RecordNotFound) {
		err = nil
	}
	previous := startOf(cmp.Or(left.Output, left.Summary, task.NoSummary), maxConclusion, before)
	return strings.ReplaceAll(opening, task.Previous, previous), err
}

// startOf cuts a text to its start, of limit bytes together with a mark that says whose result has the whole.
func startOf(text string, limit int, id task.ID) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	mark := func(left int) string {
		return fmt.Sprintf("\n[... %d bytes left out: task_output %s has the whole]", left, id)
	}
	room := max(0, limit-len(mark(len(text))))
	start := strings.ToValidUTF8(text[:room], "") // drops the rune that the cut went through
	return start + mark(len(text)-len(start))
}
