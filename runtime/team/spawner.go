package team

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Spawner makes tasks teammates.
type Spawner struct{ Journal *journal.Journal }

// colors are what teammates get in turn.
func colors() []string {
	return []string{"blue", "green", "yellow", "magenta", "cyan", "red", "orange", "purple"}
}

// Enlist writes a new teammate into the roster, with its identity, in the batch that makes its task. NameTaken when one of that name lives. The
// name of one that has ended goes to the new one, and what mail waits for the old one goes back (W3).
func (s Spawner) Enlist(ctx context.Context, b *journal.Batch, t *task.Task) error {
	before, err := s.Journal.Member(ctx, t.Team, t.Name)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound):
	case err != nil:
		return err
	default:
		if err := s.replace(ctx, b, before.Value); err != nil {
			return err
		}
	}
	if t.Color == "" {
		t.Color = colors()[int(t.ID.Number()%uint64(len(colors())))]
	}
	b.PutMember(roster.Member{Name: t.Name, TaskID: t.ID}, before.Rev, roster.Joined)
	return nil
}

// replace sees to the one that had the name before.
func (s Spawner) replace(ctx context.Context, b *journal.Batch, m roster.Member) error {
	row, err := s.Journal.Task(ctx, m.TaskID)
	if journal.IsLost(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !row.Value.State.Terminal() {
		return errdefs.New(errdefs.AlreadyExists, errdefs.NameTaken, m.Name,
			"there is a teammate named %s already, task %s, which is %s; choose another name, or send it a message",
			m.Name, m.TaskID, row.Value.State)
	}
	b.GuardTask(row) // a message that revives it comes before or after
	unread, err := s.Journal.CountUnread(ctx, row.Value.Team, m.TaskID)
	if err == nil && unread > 0 {
		b.LeaveMail(m.TaskID)
	}
	return err
}
