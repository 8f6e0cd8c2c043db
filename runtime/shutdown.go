package runtime

import (
	"cmp"
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// askShutdown asks a teammate to end: the message, what it waits for and its deadline are one commit. It replaces an earlier
// request. One that has ended, or is ending, is not asked: the message is superseded from the start.
func (c control) askShutdown(ctx context.Context) (Sending, error) {
	to, err := c.mayAsk(ctx)
	if err != nil {
		return Sending{}, err
	}
	t := to.Task.Value
	to.Box = t.ID // also the lead's: a lead to come never sees it
	b := c.s.cfg.Journal.Batch(c.in)
	m, err := c.message(ctx, b)
	if err != nil {
		return Sending{}, err
	}
	b.GuardTask(to.Task)
	if t.State.Terminal() || t.Stop != nil {
		b.PutSent(mailbox.Sent{
			MessageID: m.ID, Recipient: to.Box, To: to.Name, From: m.From, FromTask: m.FromTask, ControlID: m.ControlID,
			Time: b.Now(), Fate: mailbox.Superseded, Reason: "the teammate has ended, or is ending",
		})
		return c.commit(ctx, b, t.ID, m)
	}
	m.Incarnation = t.Incarnation
	if err := c.expect(ctx, b, t, m); err != nil {
		return Sending{}, err
	}
	due := journal.Due{
		At: b.Now().Add(cmp.Or(c.req.Deadline, DefaultShutdownDeadline)), TaskID: t.ID, Kind: journal.DueShutdown,
	}
	b.PutDue(due)
	if err := c.s.put(ctx, b, to, m); err != nil {
		return Sending{}, err
	}
	sent, err := c.commit(ctx, b, t.ID, m)
	if err == nil {
		c.s.due.add(due)
	}
	return sent, err
}

// expect writes that a shutdown request waits for its answer, instead of the one that waited before.
func (c control) expect(ctx context.Context, b *journal.Batch, t task.Task, m mailbox.Message) error {
	row, err := c.s.cfg.Journal.Control(ctx, c.in, t.ID)
	if err != nil {
		return err
	}
	now := row.Value
	if pending(now.Shutdown, t) {
		if err := c.s.post.Withdraw(ctx, b, t.ID, now.Shutdown.MessageID, "a newer request has replaced it"); err != nil {
			return err
		}
	}
	now.Shutdown = journal.Handshake{ID: m.ControlID, Incarnation: t.Incarnation, From: m.From, MessageID: m.ID}
	b.PutControl(t.ID, row.Rev, now)
	return nil
}

// mayAsk finds the teammate that is asked to end, if the sender may ask it.
func (c control) mayAsk(ctx context.Context) (team.Recipient, error) {
	leads, err := c.leads(ctx)
	if err != nil {
		return team.Recipient{}, err
	}
	if !leads {
		return team.Recipient{}, c.denied(c.req.To, "only the leader may ask a teammate to shut down; ask team-lead to do it")
	}
	to, err := c.teammate(ctx)
	if err == nil && to.Task.Value.IsLead() && c.req.Sender != "" {
		err = c.denied(task.LeadName, "only a client may ask the lead to shut down; end your turn when there is nothing left to do")
	}
	return to, err
}

// answerShutdown is a teammate's answer. Its consent stops it in that commit; the loop ends at its next boundary. Its refusal
// goes to who asked.
func (c control) answerShutdown(ctx context.Context) (Sending, error) {
	if c.req.Sender == "" {
		return Sending{}, c.denied(c.req.ControlID, "only the teammate that was asked to shut down can answer that")
	}
	row, err := c.s.cfg.Journal.Task(ctx, c.req.Sender)
	if err != nil {
		return Sending{}, err
	}
	before, err := c.s.cfg.Journal.Control(ctx, c.in, row.Value.ID)
	if err != nil {
		return Sending{}, err
	}
	asked := before.Value.Shutdown
	atWork := row.Value.State == task.Running || row.Value.State == task.Waiting
	if asked.ID != c.req.ControlID || !pending(asked, row.Value) || !atWork {
		return Sending{}, c.superseded("the shutdown request")
	}
	answered := before.Value
	answered.Shutdown = journal.Handshake{}
	if c.req.Approve {
		order := task.StopOrder{
			Level: task.WrapUp, State: task.Completed, Reason: task.Shutdown,
			WrapUpTimeout: task.DefaultWrapUpTimeout, CancelTimeout: task.DefaultCancelTimeout,
		}
		return Sending{Team: c.in, ControlID: asked.ID}, c.s.halt(ctx, row, order, func(b *journal.Batch) {
			b.PutControl(row.Value.ID, before.Rev, answered)
			b.DeleteDue(row.Value.ID, journal.DueShutdown)
			c.row.put(b)
		})
	}
	return c.refuseShutdown(ctx, row.Value, before.Rev, answered, asked)
}

func (c control) refuseShutdown(
	ctx context.Context, t task.Task, before journal.Rev, answered journal.Control, asked journal.Handshake,
) (Sending, error) {
	to, err := c.s.post.Registry.Find(ctx, c.in, asked.From)
	if err != nil {
		return Sending{}, err
	}
	b := c.s.cfg.Journal.Batch(c.in)
	m, err := c.message(ctx, b)
	if err != nil {
		return Sending{}, err
	}
	m.ReplyTo = asked.MessageID
	b.PutControl(t.ID, before, answered)
	b.DeleteDue(t.ID, journal.DueShutdown)
	if err := c.s.put(ctx, b, to, m); err != nil {
		return Sending{}, err
	}
	return c.commit(ctx, b, to.Task.Value.ID, m)
}

// forceShutdown ends a teammate that has not answered in time, if it still has not: whichever of the two is first on disk
// counts (T5).
func (s *Supervisor) forceShutdown(ctx context.Context, id task.ID) error {
	for {
		row, err := s.cfg.Journal.Task(ctx, id)
		if err != nil || row.Value.State.Terminal() {
			return err
		}
		before, err := s.cfg.Journal.Control(ctx, row.Value.Team, id)
		if err != nil {
			return err
		}
		due, err := s.cfg.Journal.Due(ctx, row.Value.Team, id, journal.DueShutdown)
		over := err == nil && !due.Value.At.After(s.cfg.Now()) // no newer request has replaced it
		switch {
		case err != nil && !errdefs.Is(err, errdefs.RecordNotFound):
			return err
		case !over || !pending(before.Value.Shutdown, row.Value):
			return nil
		}
		order := task.StopOrder{
			Level: task.Cancel, State: task.Killed, Reason: task.Shutdown, CancelTimeout: task.DefaultCancelTimeout,
			Message: "it did not answer the request to shut down in time",
		}
		after := before.Value
		after.Shutdown = journal.Handshake{}
		err = s.halt(ctx, row, order, func(b *journal.Batch) { b.PutControl(id, before.Rev, after) })
		if !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
	}
}
