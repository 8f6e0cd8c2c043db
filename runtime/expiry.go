package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// expire takes a message whose time is over from those who have not taken it (M4).
func (s *Supervisor) expire(ctx context.Context, d journal.Due) error {
	id := string(d.TaskID)
	in, err := s.cfg.Journal.TeamOfMessage(ctx, id)
	if err != nil {
		return err
	}
	due, err := s.cfg.Journal.Due(ctx, in, d.TaskID, journal.DueExpiry)
	if errdefs.Is(err, errdefs.RecordNotFound) || (err == nil && !due.Value.At.Equal(d.At)) {
		return nil
	}
	if err != nil {
		return err
	}
	sent, err := s.cfg.Journal.Sent(ctx, in, id)
	if err != nil {
		return err
	}
	for _, row := range sent {
		if row.Value.Fate != 0 {
			continue
		}
		if err := s.expireAt(ctx, in, row.Value.Recipient, id); err != nil {
			return err
		}
	}
	b := s.cfg.Journal.Batch(in)
	b.DeleteDue(d.TaskID, journal.DueExpiry)
	return s.commit(ctx, b)
}

// expireAt takes the message from one recipient. What is yet to be handed on expires there.
func (s *Supervisor) expireAt(ctx context.Context, in string, recipient task.ID, id string) error {
	for {
		b := s.cfg.Journal.Batch(in)
		expired, err := s.post.Expire(ctx, b, recipient, id)
		if err != nil || !expired {
			return err
		}
		if err := s.commit(ctx, b); !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
	}
}
