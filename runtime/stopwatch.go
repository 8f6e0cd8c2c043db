package runtime

import (
	"context"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// progressEvery is how often a stop looks at all its tasks, although the one it waits for stays as it is.
const progressEvery = time.Second

// stopWatch tells one caller how the stop of a task and of those below it comes along.
type stopWatch struct {
	s     *Supervisor
	root  task.ID
	level task.StopLevel           // of the root's stop; until that is seen, the one asked for
	alive []journal.Row[task.Task] // the root, if it lives, and its living descendants, as last seen
	loops map[*loop]bool           // of all that were seen alive; they count the killed
}

// look reads who lives.
func (w *stopWatch) look(ctx context.Context) error {
	root, err := w.s.cfg.Journal.Task(ctx, w.root)
	if err != nil {
		return err
	}
	if root.Value.Stop != nil {
		w.level = root.Value.Stop.Level
	}
	w.alive = w.alive[:0]
	for id, err := range w.s.cfg.Journal.Living(ctx, root.Value.Team) {
		if err != nil {
			return err
		}
		row, err := w.s.cfg.Journal.Task(ctx, id)
		if isLost(err) {
			continue
		}
		if err != nil {
			return err
		}
		t := row.Value
		if !t.State.Terminal() && (id == w.root || slices.Contains(t.Ancestors, w.root)) {
			w.alive = append(w.alive, row)
		}
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for _, row := range w.alive {
		if l := w.s.loops[row.Value.ID]; l != nil {
			w.loops[l] = true
		}
	}
	return nil
}

// killed counts the processes that were killed so far.
func (w *stopWatch) killed() int {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	n := 0
	for l := range w.loops {
		n += len(l.killed)
	}
	return n
}

// awaitEnd tells progress until the whole subtree is terminal. The stop is on disk, and look was called before it.
func (w *stopWatch) awaitEnd(ctx context.Context, progress func(StopProgress) error) error {
	if len(w.alive) == 0 {
		return nil
	}
	var told StopProgress
	for {
		if err := w.look(ctx); err != nil {
			return err
		}
		now := StopProgress{Level: w.level, Remaining: len(w.alive), Reaped: w.killed()}
		if now != told {
			told = now
			if err := progress(now); err != nil {
				return err
			}
		}
		if now.Remaining == 0 {
			return nil
		}
		if err := w.awaitChange(ctx, w.alive[0]); err != nil {
			return err
		}
	}
}

// awaitChange waits until a task's record is no longer what it was, whatever its transcript gains meanwhile, or a second
// has passed.
func (w *stopWatch) awaitChange(ctx context.Context, was journal.Row[task.Task]) error {
	t := was.Value
	enough := time.After(progressEvery)
	for {
		more := w.s.cfg.Journal.Follow(t.Team, string(t.ID))
		row, err := w.s.cfg.Journal.Task(ctx, t.ID)
		if err == nil && row.Value.State.Terminal() {
			w.s.cfg.Journal.Unfollow(t.Team, string(t.ID))
		}
		if err != nil || row.Rev != was.Rev {
			return err
		}
		select {
		case <-more:
		case <-enough:
			return nil
		case <-w.s.draining:
			return notServing() // what is left goes on at the next start
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
