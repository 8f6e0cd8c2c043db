package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// comeBack puts a task on its way when its backoff is over.
func (s *Supervisor) comeBack(ctx context.Context, t task.Task) error {
	live, err := s.cfg.Journal.Live(ctx, t.Team, t.ID)
	if err != nil {
		return err
	}
	if live.Value.Restarts < maxRestarts {
		s.enqueue(t.ID)
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
			if err := s.persist(ctx, func() error { return s.resumeAlone(ctx, id) }); err != nil {
				s.cfg.Log.Error("suspect was not resumed; the next start tries again", "task", id, "error", err)
			}
		}
	}
}

// resumeAlone starts a suspect when every loop under way has shown since its start that it is none, and lets no other
// task start until the suspect has committed a step or ended: if the daemon goes down meanwhile, it is known who did it.
func (s *Supervisor) resumeAlone(ctx context.Context, id task.ID) error {
	s.mu.Lock()
	s.held = true
	var others []task.ID
	for other := range s.loops {
		others = append(others, other)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = false
		s.dispatch()
	}()
	for _, other := range others {
		if err := s.awaitStep(ctx, other); err != nil {
			return err
		}
	}
	s.cfg.Log.Warn("task is resumed alone: the daemon went down each time it ran", "task", id)
	s.mu.Lock()
	if s.loops[id] == nil && !s.stopped {
		s.startLoop(id, true)
	}
	s.mu.Unlock()
	return s.awaitAlone(ctx, id)
}

// awaitAlone waits until the suspect's new start has committed a step or ended. Its older starts do not count.
func (s *Supervisor) awaitAlone(ctx context.Context, id task.ID) error {
	for {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil {
			return err
		}
		more := s.cfg.Journal.Follow(row.Value.Team, string(id))
		live, err := s.cfg.Journal.Live(ctx, row.Value.Team, id)
		switch {
		case errdefs.Is(err, errdefs.RecordNotFound):
			return nil
		case err != nil:
			return err
		case live.Value.Alone:
			return s.awaitStep(ctx, id)
		}
		if !s.await(ctx, more) {
			return nil
		}
	}
}

// awaitStep waits until a task has committed something of a step since its newest start, or has ended.
func (s *Supervisor) awaitStep(ctx context.Context, id task.ID) error {
	for {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil {
			return err
		}
		more := s.cfg.Journal.Follow(row.Value.Team, string(id))
		live, err := s.cfg.Journal.Live(ctx, row.Value.Team, id)
		if errdefs.Is(err, errdefs.RecordNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		stepped, err := s.stepped(ctx, row.Value, task.Seq(live.Rev))
		if stepped || err != nil {
			return err
		}
		if !s.await(ctx, more) {
			return nil
		}
	}
}

// await waits for more; false when the daemon stops first.
func (s *Supervisor) await(ctx context.Context, more <-chan struct{}) bool {
	select {
	case <-more:
		return true
	case <-s.draining:
	case <-ctx.Done():
	}
	return false
}
