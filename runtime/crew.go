package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// crew is tool.Crew for one loop of a teammate. What it does carries the call's id as request id, so that a call that runs
// again gives the first outcome (D5).
type crew struct {
	s      *Supervisor
	task   task.Task // the teammate's
	family *family
}

// Send gives a message, or a control message, to somebody.
func (c *crew) Send(ctx context.Context, call tool.Call, l tool.Letter) (tool.Posted, error) {
	if err := c.mayWrite(ctx, l); err != nil {
		return tool.Posted{}, err
	}
	var sent Sending
	var err error
	if l.Kind == task.Text {
		sent, err = c.s.Send(ctx, SendRequest{
			RequestID: call.ID, Caller: string(c.task.ID), Sender: c.task.ID, Hops: call.Hops,
			To: l.To, Text: l.Text, Summary: l.Summary, Delivery: l.Delivery,
		})
	} else {
		sent, err = c.s.Control(ctx, ControlRequest{
			RequestID: call.ID, Caller: string(c.task.ID), Sender: c.task.ID, Hops: call.Hops,
			To: l.To, Kind: l.Kind, ControlID: l.ControlID, Approve: l.Approve, Text: l.Text, Summary: l.Summary,
		})
	}
	if err == nil && l.To == team.Everyone {
		err = c.tellLeadFirst(ctx, sent.Team)
	}
	if err != nil {
		return tool.Posted{}, c.unsent(ctx, err)
	}
	posted := tool.Posted{MessageID: sent.MessageID, ControlID: sent.ControlID}
	posted.Woken, err = c.woke(ctx, sent)
	return posted, err
}

// tellLeadFirst hands on to the lead what the teammate has sent to all, before its turn can end: the notice of that comes
// behind what the turn has said (M9).
func (c *crew) tellLeadFirst(ctx context.Context, in string) error {
	for {
		err := c.s.handFirst(ctx, in, c.task.ID, mailbox.LeaderBox)
		if !errdefs.Is(err, errdefs.Conflict) {
			return err
		}
	}
}

// SubmitPlan asks the leader for the approval of a plan.
func (c *crew) SubmitPlan(ctx context.Context, call tool.Call, plan string) (controlID string, err error) {
	sent, err := c.s.Control(ctx, ControlRequest{
		RequestID: call.ID, Caller: string(c.task.ID), Sender: c.task.ID, Hops: call.Hops, Kind: task.PlanRequest, Text: plan,
	})
	if err != nil {
		return "", c.unsent(ctx, err)
	}
	return sent.ControlID, nil
}

// mayWrite refuses what a teammate may not send: to itself, to what another one started, and an interruption of anybody,
// which is the lead's.
func (c *crew) mayWrite(ctx context.Context, l tool.Letter) error {
	if l.Delivery == mailbox.Interrupt && !c.task.IsLead() {
		return &tool.Error{
			Reason: tool.NotGranted, Subject: "interrupt", Allowed: []string{"step", "turn"},
			Message: "only the lead may interrupt what another agent does",
		}
	}
	if l.To == string(c.task.ID) || strings.EqualFold(l.To, c.task.Name) {
		return &tool.Error{Reason: tool.InvalidArguments, Subject: "to", Message: "to: that is you"}
	}
	if kind, _, isID := task.ParseID(task.ID(l.To)); isID && kind == task.Subagent && !c.task.IsLead() {
		return c.family.own(ctx, task.ID(l.To))
	}
	return nil
}

// woke tells whether a message has woken its recipient.
func (c *crew) woke(ctx context.Context, sent Sending) (bool, error) {
	if sent.MessageID == "" {
		return false, nil
	}
	all, err := c.s.cfg.Journal.Sent(ctx, sent.Team, sent.MessageID)
	for _, row := range all {
		if row.Value.Woke {
			return true, err
		}
	}
	return false, err
}

// refused is the answer to what the supervisor refuses.
func (c *crew) refused(err error) error { return c.family.refused(err) }

// unsent is refused for mail: a recipient that there is not comes with the names that there are.
func (c *crew) unsent(ctx context.Context, err error) error {
	unknown := errdefs.Is(err, errdefs.RecipientNotFound)
	err = c.refused(err)
	fail, ok := errors.AsType[*tool.Error](err)
	if !ok || !unknown {
		return err
	}
	for m, err := range c.s.cfg.Journal.Members(ctx, c.task.Team) {
		if err != nil {
			return err
		}
		if !m.Dismissed && m.TaskID != c.task.ID && m.Name != task.LeadName {
			fail.Allowed = append(fail.Allowed, m.Name)
		}
	}
	slices.Sort(fail.Allowed)
	fail.Allowed = append(fail.Allowed[:min(len(fail.Allowed), maxAllowed)], task.LeadName, mailbox.User, "*")
	return fail
}
