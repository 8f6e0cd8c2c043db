package runtime

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// group is the loop of one group. It keeps nothing that counts: which of its tasks have ended and which is next follows
// from their records, and what its own transcript says of them from that.
type group struct {
	s         *Supervisor
	task      task.Task // as the start's commit left it
	formation task.Formation
	told      map[task.ID]task.State // what the transcript says of its tasks
	admitted  map[task.ID]bool       // those that this loop has let run
}

// members are the rows of a group's own tasks, in order. One without a state has not come into being yet.
type members []journal.Row[task.Task]

// startGroup makes the loop of a group.
func (s *Supervisor) startGroup(ctx context.Context, l *loop, t task.Task, spec task.Spec, alone bool) (work, error) {
	if spec.Group == nil {
		return work{}, errdefs.New(errdefs.DataLoss, errdefs.RecordCorrupt, string(t.ID), "what group %s is to run is lost", t.ID)
	}
	told, err := s.told(ctx, t)
	if err != nil {
		return work{}, err
	}
	g := &group{s: s, formation: *spec.Group, told: told, admitted: map[task.ID]bool{}}
	g.task, _, err = s.commitStart(ctx, l.id, alone)
	return work{task: g.task, run: g.run, close: func() {}}, err
}

// run starts what is next and follows what runs, until the group is terminal (nil) or this loop must not go on: ErrGone,
// ErrDrained, or the store's error. A stop cuts nothing short here: it reaches the group's tasks by itself, and the group
// ends when they have, or is killed.
func (g *group) run(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for {
		if g.s.isDraining() {
			return agent.ErrDrained
		}
		own, all, err := g.look(ctx)
		if err == nil {
			err = g.tell(ctx, own, all)
		}
		if errdefs.Is(err, errdefs.Conflict) {
			continue // the group changed: look again
		}
		if err != nil {
			return err
		}
		more, err := g.advance(ctx, own, all)
		switch {
		case errdefs.Is(err, errdefs.Conflict), err == nil && more: // look again
		case err != nil:
			return err
		case all.living() == 0:
			if err := g.s.finish(ctx, own, g.outcome(own.Value, all), nil); !errdefs.Is(err, errdefs.Conflict) {
				return err
			}
		default:
			if err := g.await(ctx, all); err != nil {
				return err
			}
		}
	}
}

// look reads the group and its tasks as they are now.
func (g *group) look(ctx context.Context) (own journal.Row[task.Task], all members, err error) {
	own, err = g.s.cfg.Journal.Task(ctx, g.task.ID)
	if err == nil && own.Value.State.Terminal() {
		err = agent.ErrGone
	}
	if err != nil {
		return own, nil, err
	}
	all, err = g.s.members(ctx, g.task, g.formation)
	return own, all, err
}

// members reads a group's own tasks. The last one is read first: of two that start meanwhile, the later one in the group
// is not seen without the one before it.
func (s *Supervisor) members(ctx context.Context, group task.Task, formation task.Formation) (members, error) {
	all := make(members, len(formation.Children))
	for i, id := range slices.Backward(formation.Children) {
		var err error
		if all[i], err = s.member(ctx, group, formation, id); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// member reads a task of a group. A step whose turn has not come has no state; a task whose record is lost has failed.
func (s *Supervisor) member(
	ctx context.Context, group task.Task, formation task.Formation, id task.ID,
) (journal.Row[task.Task], error) {
	row, err := s.cfg.Journal.Task(ctx, id)
	if errdefs.Is(err, errdefs.TaskNotFound) && formation.Chain && slices.Contains(formation.Children, id) {
		if made, err := s.cfg.Journal.IsChild(ctx, group.Team, group.ID, id); err != nil || !made {
			return journal.Row[task.Task]{Value: task.Task{ID: id}}, err
		}
	}
	if journal.IsLost(err) {
		row.Value = task.Task{ID: id, State: task.Failed, Reason: task.Interrupted, Error: "its record is damaged"}
		err = nil
	}
	return row, err
}

// living counts those that can still change.
func (m members) living() int {
	n := 0
	for _, row := range m {
		if row.Value.State != 0 && !row.Value.State.Terminal() {
			n++
		}
	}
	return n
}

// advance starts what is next, unless the group is being stopped. It tells whether something came into being.
func (g *group) advance(ctx context.Context, own journal.Row[task.Task], all members) (more bool, err error) {
	if own.Value.Stop != nil {
		return false, nil
	}
	if next, ok := g.nextStep(all); ok {
		return true, g.makeStep(ctx, own, next)
	}
	g.admit(all)
	return false, nil
}

// admit lets queued tasks run, in order, as far as the group may have more at once.
func (g *group) admit(all members) {
	room := g.formation.MaxConcurrency
	for _, row := range all {
		if t := row.Value; t.State != 0 && !t.State.Terminal() && (t.State != task.Queued || g.admitted[t.ID]) {
			room--
		}
	}
	for _, row := range all {
		if t := row.Value; t.State == task.Queued && !g.admitted[t.ID] && room > 0 {
			room--
			g.admitted[t.ID] = true
			g.s.enqueue(t.Team, t.ID)
		}
	}
}

// errChanged says that a record is no longer what it was.
var errChanged = errors.New("the record changed")

// await waits until one of the living is no longer what it was, or the daemon stops. A stop of the group itself need not
// wake it: what the stop does to them will.
func (g *group) await(ctx context.Context, all members) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watches sync.WaitGroup
	for _, row := range all {
		if row.Value.State != 0 && !row.Value.State.Terminal() {
			watches.Go(func() { cancel(g.watch(ctx, row)) })
		}
	}
	watches.Wait()
	if err := context.Cause(ctx); !errors.Is(err, errChanged) {
		return err
	}
	return nil
}

// watch gives errChanged when a record is no longer what it was.
func (g *group) watch(ctx context.Context, was journal.Row[task.Task]) error {
	bell := g.s.cfg.Journal.Bell()
	defer bell.Close()
	bell.Transcript(was.Value.Team, was.Value.ID)
	for {
		row, err := g.s.cfg.Journal.Task(ctx, was.Value.ID)
		switch {
		case journal.IsLost(err), err == nil && row.Rev != was.Rev:
			return errChanged
		case err != nil:
			return err
		}
		select {
		case <-bell.Rings():
		case <-g.s.draining:
			return agent.ErrDrained
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
