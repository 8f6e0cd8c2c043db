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

// stopWatch tells one caller how the stop of some tasks and of those below them comes along.
type stopWatch struct {
	s     *Supervisor
	team  string
	roots map[task.ID]bool
	again map[task.ID]bool         // of them: teammates that have ended and live again, which no stop is about
	over  map[task.ID]bool         // of them: those that were read when they had ended
	begun bool                     // the stops are on disk
	level task.StopLevel           // hardest of the roots' stops, and at least the one asked for
	alive []journal.Row[task.Task] // the roots that live, and the living below them, as last seen
	loops map[*loop]bool           // of all that were seen alive; they count the killed
}

func (s *Supervisor) watchStop(team string, roots []task.ID, level task.StopLevel) *stopWatch {
	w := &stopWatch{
		s: s, team: team, roots: map[task.ID]bool{}, again: map[task.ID]bool{}, over: map[task.ID]bool{}, level: level,
		loops: map[*loop]bool{},
	}
	for _, id := range roots {
		w.roots[id] = true
	}
	return w
}

// look reads who lives. A root that has ended is read once: what it costs to look does not grow with how many there were.
func (w *stopWatch) look(ctx context.Context) error {
	var living []journal.Row[task.Task]
	clear(w.again)
	for id, err := range w.s.cfg.Journal.Living(ctx, w.team) {
		if err != nil {
			return err
		}
		row, err := w.s.cfg.Journal.Task(ctx, id)
		if journal.IsLost(err) {
			continue
		}
		if err != nil {
			return err
		}
		if !row.Value.State.Terminal() {
			living = append(living, row)
			w.meet(row.Value)
		}
	}
	for id := range w.roots {
		if w.over[id] {
			continue
		}
		row, err := w.s.cfg.Journal.Task(ctx, id)
		if err != nil && !journal.IsLost(err) {
			return err
		}
		if w.over[id] = err != nil || row.Value.State.Terminal(); err == nil {
			w.meet(row.Value)
		}
	}
	w.alive = slices.DeleteFunc(living, func(row journal.Row[task.Task]) bool { return !w.covers(row.Value) })
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	for _, row := range w.alive {
		if l := w.s.loops[row.Value.ID]; l != nil {
			w.loops[l] = true
		}
	}
	return nil
}

// meet takes up what a root's record says of its stop.
func (w *stopWatch) meet(t task.Task) {
	switch {
	case !w.roots[t.ID]:
	case t.Stop != nil:
		w.level = max(w.level, t.Stop.Level)
	case w.begun && !t.State.Terminal():
		w.again[t.ID] = true
	}
}

// covers tells whether a task is one of the roots or below one. Of those that live again it is what their end still stops.
func (w *stopWatch) covers(t task.Task) bool {
	of := func(id task.ID) bool { return w.roots[id] && (!w.again[id] || t.Stop != nil) }
	return of(t.ID) || slices.ContainsFunc(t.Ancestors, of)
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

// awaitEnd tells progress until all are terminal. The stops are on disk, and look was called before them.
func (w *stopWatch) awaitEnd(ctx context.Context, progress func(StopProgress) error) error {
	w.begun = true
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
	bell := w.s.cfg.Journal.Bell()
	defer bell.Close()
	bell.Transcript(w.team, was.Value.ID)
	enough := time.After(progressEvery)
	for {
		row, err := w.s.cfg.Journal.Task(ctx, was.Value.ID)
		if err != nil || row.Rev != was.Rev {
			return err
		}
		select {
		case <-bell.Rings():
		case <-enough:
			return nil
		case <-w.s.draining:
			return notServing() // what is left goes on at the next start
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
