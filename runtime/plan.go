package runtime

import (
	"context"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// submitPlan gives a teammate's plan to the leader for approval. A newer one replaces it: what is approved is the plan that
// the leader saw.
func (c control) submitPlan(ctx context.Context) (Sending, error) {
	t, before, err := c.planner(ctx)
	if err != nil {
		return Sending{}, err
	}
	to, err := c.s.post.Registry.Find(ctx, c.in, task.LeadName)
	if err != nil {
		return Sending{}, err
	}
	b := c.s.cfg.Journal.Batch(c.in)
	m, err := c.message(ctx, b)
	if err != nil {
		return Sending{}, err
	}
	now := before.Value
	if pending(now.Plan, t) {
		err := c.s.post.Withdraw(ctx, b, mailbox.LeaderBox, now.Plan.MessageID, "a newer plan has replaced it")
		if err != nil {
			return Sending{}, err
		}
	}
	now.Plan = journal.Handshake{ID: m.ControlID, Incarnation: t.Incarnation, From: t.Name, MessageID: m.ID}
	b.PutControl(t.ID, before.Rev, now)
	if err := c.s.put(ctx, b, to, m); err != nil {
		return Sending{}, err
	}
	return c.commit(ctx, b, to.Task.Value.ID, m)
}

// planner is the teammate that submits a plan, if it is one that needs an approved plan and has none yet.
func (c control) planner(ctx context.Context) (task.Task, journal.Row[journal.Control], error) {
	var now journal.Row[journal.Control]
	row, err := c.s.cfg.Journal.Task(ctx, c.req.Sender)
	if err != nil {
		return row.Value, now, err
	}
	t := row.Value
	spec, err := c.s.cfg.Journal.Spec(ctx, c.in, t.ID)
	if err == nil && !spec.PlanApproval {
		err = c.denied(t.Name, "your work needs no approved plan; begin")
	}
	if err != nil {
		return t, now, err
	}
	now, err = c.s.cfg.Journal.Control(ctx, c.in, t.ID)
	if plan := now.Value.Plan; err == nil && plan.Approved && plan.Incarnation == t.Incarnation {
		err = errdefs.New(errdefs.FailedPrecondition, errdefs.Superseded, plan.ID,
			"your plan %s is approved already; carry it out", plan.ID)
	}
	return t, now, err
}

// answerPlan approves a plan, or asks for another one. The answer is bound to the life that submitted it.
func (c control) answerPlan(ctx context.Context) (Sending, error) {
	to, before, err := c.planned(ctx)
	if err != nil {
		return Sending{}, err
	}
	t, now := to.Task.Value, before.Value
	b := c.s.cfg.Journal.Batch(c.in)
	m, err := c.message(ctx, b)
	if err != nil {
		return Sending{}, err
	}
	asked := now.Plan.MessageID
	_, err = c.s.post.WithdrawUnread(ctx, b, mailbox.LeaderBox, "it was answered", // by a client, before a lead has read it
		func(m mailbox.Message) bool { return m.ID == asked })
	if err != nil {
		return Sending{}, err
	}
	m.Incarnation, m.ReplyTo = t.Incarnation, asked
	now.Plan.Approved = true
	if !c.req.Approve {
		now.Plan = journal.Handshake{}
	}
	b.GuardTask(to.Task)
	b.PutControl(t.ID, before.Rev, now)
	if err := c.s.put(ctx, b, to, m); err != nil {
		return Sending{}, err
	}
	return c.commit(ctx, b, t.ID, m)
}

// planned finds the teammate whose plan is answered, if the sender may answer it and it waits for that.
func (c control) planned(ctx context.Context) (to team.Recipient, now journal.Row[journal.Control], err error) {
	leads, err := c.leads(ctx)
	if err == nil && !leads {
		err = c.denied(c.req.To, "only the leader answers a plan")
	}
	if err != nil {
		return to, now, err
	}
	if to, err = c.teammate(ctx); err != nil {
		return to, now, err
	}
	now, err = c.s.cfg.Journal.Control(ctx, c.in, to.Task.Value.ID)
	if plan := now.Value.Plan; err == nil && (plan.ID != c.req.ControlID || !pending(plan, to.Task.Value)) {
		err = c.superseded("the plan")
	}
	return to, now, err
}
