package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// comeBack puts a task on its way when its backoff is over.
func (s *Supervisor) comeBack(ctx context.Context, t task.Task) error {
	live, err := s.cfg.Journal.Live(ctx, t.Team, t.ID)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if live.Value.Restarts < maxRestarts {
		s.enqueue(t.Team, t.ID)
		return nil
	}
	select {
	case s.suspects <- t.ID:
	case <-ctx.Done():
	}
	return nil
}

// resumeSuspects resumes one suspect at a time (D6).
func (s *Supervisor) resumeSuspects(ctx context.Context) {
	for {
		select {
		case <-s.draining:
			return
		case id := <-s.suspects:
			if err := s.resumeAlone(ctx, id); err != nil {
				s.cfg.Log.Error("suspect was not resumed; the next start tries again", "task", id, "error", err)
			}
		}
	}
}

// aloneFor bounds how long all others wait for a suspect. One that took the daemon down each time mostly does so at once; one
// whose model does not answer must not hold everybody up.
const aloneFor = 30 * time.Second

// errNotAlone ends the loop of a suspect that has been alone for long enough: it starts anew, beside the others.
var errNotAlone = errors.New("the task has been alone for long enough")

// resumeAlone starts a suspect when every loop under way has shown since its start that it is none, and lets no other
// task start until the suspect has committed a step or its loop has ended: if the daemon goes down meanwhile, it is
// known who did it. When that takes too long the suspect runs beside the others, and is a suspect still. Beside such a one
// nobody is alone, and nobody waits for that.
func (s *Supervisor) resumeAlone(ctx context.Context, id task.ID) error {
	team, err := s.cfg.Journal.TeamOf(ctx, id)
	if err != nil {
		return err
	}
	if hangs, err := s.suspectHangs(ctx); hangs || err != nil {
		if err == nil {
			s.enqueue(team, id)
		}
		return err
	}
	ctx, over := context.WithTimeout(ctx, aloneFor)
	defer over()
	s.hold(true)
	defer s.hold(false)
	for _, l := range s.running() {
		if err := s.awaitStep(ctx, l); err != nil && ctx.Err() == nil {
			return err
		}
	}
	alone := ctx.Err() == nil
	s.cfg.Log.Warn("task is resumed: the daemon went down each time it ran", "task", id, "alone", alone)
	s.mu.Lock()
	if s.loops[id] != nil || s.stopped {
		s.mu.Unlock()
		return nil
	}
	l := s.startLoop(team, id, alone)
	s.mu.Unlock()
	err = s.awaitStep(ctx, l)
	if ctx.Err() == nil {
		return err
	}
	if alone {
		s.cfg.Log.Warn("the task has done nothing so far; the others go on beside it", "task", id)
		err = s.notAlone(context.WithoutCancel(ctx), id)
		l.cancel(errNotAlone)
		s.wake(team, id)
	}
	return err
}

// notAlone takes back on disk that a task runs alone, before the others go on: it is not to blame for what they do. The loop that
// it has can commit nothing more.
func (s *Supervisor) notAlone(ctx context.Context, id task.ID) error {
	row, live, err := s.living(ctx, id)
	if errors.Is(err, agent.ErrGone) {
		return nil // it has ended, or rests
	}
	if err != nil {
		return err
	}
	live.Value.Alone = false
	b := s.cfg.Journal.Batch(row.Value.Team)
	b.GuardLive(id, live.Rev)
	b.PutLive(id, live.Value)
	return s.commit(ctx, b)
}

// hold says whether queued tasks have to wait, although there may be slots.
func (s *Supervisor) hold(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
	s.dispatchAll()
}

// running lists the loops under way.
func (s *Supervisor) running() []*loop {
	s.mu.Lock()
	defer s.mu.Unlock()
	loops := slices.Collect(maps.Keys(s.stuck))
	for _, l := range s.loops {
		loops = append(loops, l)
	}
	return loops
}

// awaitStep waits until a loop's task has committed something of a step since its newest start, or waits, or has ended, or
// the loop has, or the daemon stops. A task whose record is lost has nothing to show; a group and a shell, which is never
// resumed, are not to blame.
func (s *Supervisor) awaitStep(ctx context.Context, l *loop) error {
	if !l.id.Kind().IsAgent() {
		return nil
	}
	err := s.persist(ctx, func() error { return s.awaitStepOnce(ctx, l) })
	if journal.IsLost(err) {
		return nil
	}
	return err
}

func (s *Supervisor) awaitStepOnce(ctx context.Context, l *loop) error {
	team, err := s.cfg.Journal.TeamOf(ctx, l.id)
	if err != nil {
		return err
	}
	bell := s.cfg.Journal.Bell()
	defer bell.Close()
	bell.Transcript(team, l.id)
	for {
		if _, shown, err := s.shown(ctx, team, l.id); shown || err != nil {
			return err
		}
		select {
		case <-bell.Rings():
		case <-l.done:
			return nil
		case <-s.draining:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// shown tells whether a task that has a loop has shown since its newest start that it is innocent, and its live record, if it has
// one.
func (s *Supervisor) shown(ctx context.Context, team string, id task.ID) (journal.Live, bool, error) {
	row, err := s.cfg.Journal.Task(ctx, id)
	if err != nil {
		return journal.Live{}, false, err
	}
	live, err := s.cfg.Journal.Live(ctx, team, id)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return journal.Live{}, true, nil // it has ended, or rests
	}
	if err != nil {
		return journal.Live{}, false, err
	}
	if row.Value.State == task.Waiting && live.Value.Start == row.Value.Start {
		return live.Value, true, nil // it does nothing that could take the daemon down, and may wait for what has yet to start
	}
	stepped, err := s.stepped(ctx, row.Value, task.Seq(live.Rev))
	return live.Value, stepped, err
}

// suspectHangs tells whether a suspect runs that has been alone for long enough and has shown nothing.
func (s *Supervisor) suspectHangs(ctx context.Context) (hangs bool, err error) {
	err = s.persist(ctx, func() error {
		for _, l := range s.running() {
			if !l.id.Kind().IsAgent() {
				continue
			}
			live, shown, err := s.shown(ctx, l.team, l.id)
			if err != nil && !journal.IsLost(err) {
				return err
			}
			hangs = hangs || err == nil && !shown && live.Restarts >= maxRestarts
		}
		return nil
	})
	return hangs, err
}
