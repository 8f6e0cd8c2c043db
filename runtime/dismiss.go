package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// DismissRequest ends a teammate for good.
type DismissRequest struct {
	RequestID string // makes a retry return the first outcome; empty: no retry
	Caller    string // scope of RequestID
	Team      string // name of the team; empty: that of the workspace
	Workspace string
	Name      string
	Level     task.StopLevel // of the stop; 0: WrapUp
	Reason    string         // why, for people; at most 1 KiB
}

// Dismiss makes it durable that no message revives a teammate any more (W3), in one commit with its stop, and waits for its
// end and that of all below it, which has a bound (T1). Its name is free then; what it has not read goes back. One that was
// dismissed before stays so.
func (s *Supervisor) Dismiss(ctx context.Context, req DismissRequest) error {
	stop := StopRequest{RequestID: req.RequestID, Level: req.Level, Reason: req.Reason}
	if err := stop.check(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	in, err := s.FindTeam(ctx, req.Team, req.Workspace)
	if err != nil {
		return err
	}
	body := req
	body.RequestID, body.Caller = "", ""
	r := newRequest(req.Caller, req.RequestID, body)
	id, err := s.dismiss(context.WithoutCancel(ctx), in.ID, req.Name, stop.order(), r)
	if err != nil {
		return err
	}
	watch := s.watchStop(in.ID, []task.ID{id}, stop.order().Level)
	return watch.awaitEnd(ctx, func(StopProgress) error { return nil })
}

// dismiss commits it, once, and gives the teammate's task.
func (s *Supervisor) dismiss(
	ctx context.Context, in, name string, order task.StopOrder, r *requestRow,
) (task.ID, error) {
	for {
		found, known, err := s.first(ctx, in, r)
		if err != nil || known {
			return found.TaskID, err
		}
		to, err := s.namesake(ctx, in, name)
		if err != nil {
			return "", err
		}
		if err = s.dismissOnce(ctx, to, order, r); !errdefs.Is(err, errdefs.Conflict) {
			return to.Task.Value.ID, err
		}
	}
}

// namesake finds the teammate that has a name, living or ended.
func (s *Supervisor) namesake(ctx context.Context, in, name string) (team.Recipient, error) {
	to, err := s.post.Registry.Find(ctx, in, name)
	if err == nil && to.Member.Value.TaskID == "" {
		err = errdefs.New(errdefs.NotFound, errdefs.RecipientNotFound, name, "there is no teammate %q", name)
	}
	return to, err
}

// dismissOnce writes the dismissal with the stop of one that lives. Conflict when its standing has changed meanwhile.
func (s *Supervisor) dismissOnce(ctx context.Context, to team.Recipient, order task.StopOrder, r *requestRow) error {
	t := to.Task.Value
	if r != nil {
		r.outcome.TaskID = t.ID
	}
	dismissed := func(b *journal.Batch) {
		if m := to.Member.Value; !m.Dismissed {
			m.Dismissed = true
			b.PutMember(m, to.Member.Rev, roster.Dismissed)
		}
		r.put(b)
	}
	switch {
	case !t.State.Terminal():
		return s.halt(ctx, to.Task, order, dismissed)
	case to.Member.Value.Dismissed:
		return s.record(ctx, t.Team, r)
	}
	b := s.cfg.Journal.Batch(t.Team)
	b.GuardTask(to.Task) // a message that revives it comes before or after
	dismissed(b)
	unread, err := s.cfg.Journal.CountUnread(ctx, t.Team, t.ID)
	if err != nil {
		return err
	}
	if unread > 0 {
		b.LeaveMail(t.ID)
	}
	return s.commit(ctx, b)
}
