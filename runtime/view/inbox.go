package view

import (
	"cmp"
	"context"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// InboxRequest says what of a leader inbox is wanted.
type InboxRequest struct {
	Team   string // id
	After  uint64 // position; 0: from the start
	Unread bool   // only what the user has not acknowledged
	Follow bool   // go on with what comes
	Tail   int    // of the last so many instead, 1 to MaxTail; 0: After
}

// InboxItem is one item of a leader inbox: exactly one field is set.
type InboxItem struct {
	Message   *InboxMessage
	Heartbeat time.Time
}

// InboxMessage is a message of a leader inbox, as it stands when it is read.
type InboxMessage struct {
	mailbox.Message
	Taken  bool     // by the lead, or by a client while no lead lived; mail to the user: by a client
	Acked  bool     // the user has acknowledged it
	TaskID task.ID  // that a notice is about
	Seq    task.Seq // of the end that a notice tells, in that task's transcript; 0: it has no place there any more
	Text   string   // of a notice the text of the turn, or the summary of the task, that it is about
}

// Inbox sends a team's leader inbox to send, each message once, in order. It only looks: no cursor moves, for any number of
// readers (M10). It returns send's error, ctx's cause, or why the request can't be served.
func (v *View) Inbox(ctx context.Context, req InboxRequest, send func(InboxItem) error) error {
	switch {
	case req.Tail < 0 || req.Tail > MaxTail:
		return errdefs.BadField("tail", "must be 1 to %d", MaxTail)
	case req.Tail > 0 && req.After > 0:
		return errdefs.BadField("tail", "can't be combined with after; set one of them")
	}
	r := &inboxReader{view: v, req: req, sink: send, cursor: req.After, beat: time.NewTimer(heartbeatEvery), bell: v.journal.Bell()}
	defer r.beat.Stop()
	defer r.bell.Close()
	r.bell.Mail(req.Team, mailbox.LeaderBox)
	if req.Tail > 0 {
		last, err := v.journal.LastMail(ctx, req.Team, mailbox.LeaderBox, req.Tail)
		if err != nil {
			return err
		}
		if len(last) > 0 {
			r.cursor = last[0].Pos - 1
		}
	}
	for {
		if err := r.read(ctx); err != nil || !req.Follow {
			return err
		}
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
}

// inboxReader is one reader of a leader inbox.
type inboxReader struct {
	view   *View
	req    InboxRequest
	sink   func(InboxItem) error
	cursor uint64 // position of the newest message that was seen
	beat   *time.Timer
	bell   *journal.Bell
}

// send gives an item to the reader and puts the next heartbeat off.
func (r *inboxReader) send(i InboxItem) error {
	r.beat.Reset(heartbeatEvery)
	return r.sink(i)
}

// read sends what is behind the cursor. One message at a time is in memory, however many there are.
func (r *inboxReader) read(ctx context.Context) error {
	j := r.view.journal
	lead, err := j.Mailbox(ctx, r.req.Team, mailbox.LeaderBox)
	if err != nil {
		return err
	}
	user, err := j.Mailbox(ctx, r.req.Team, mailbox.UserBox)
	if err != nil {
		return err
	}
	if r.req.Unread {
		r.cursor = max(r.cursor, user.Value.Low)
	}
	for m, err := range j.Mail(ctx, r.req.Team, mailbox.LeaderBox, r.cursor) {
		if err != nil {
			return err
		}
		r.cursor = m.Pos
		acked := user.Value.Has(m.Pos)
		if r.req.Unread && acked {
			continue
		}
		shown := InboxMessage{Message: m, Taken: lead.Value.Has(m.Pos), Acked: acked, TaskID: m.About, Text: m.Text}
		if m.To == mailbox.User {
			shown.Taken = acked
		}
		if err := r.view.resolve(ctx, &shown); err != nil {
			return err
		}
		if err := r.send(InboxItem{Message: &shown}); err != nil {
			return err
		}
	}
	return nil
}

// wait waits until there may be more.
func (r *inboxReader) wait(ctx context.Context) error {
	for {
		select {
		case <-r.bell.Rings():
			return nil
		case <-r.beat.C:
			if err := r.send(InboxItem{Heartbeat: r.view.now()}); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// resolve adds what a notice points to. Of a task whose rows are lost it says what is left.
func (v *View) resolve(ctx context.Context, m *InboxMessage) error {
	if m.Kind != task.Ended && m.Kind != task.WentIdle {
		return nil
	}
	row, err := v.journal.Task(ctx, m.About)
	if journal.IsLost(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if m.Kind == task.WentIdle {
		m.From = row.Value.Name
		turn, err := v.journal.TurnEnd(ctx, row.Value, m.After)
		m.Seq, m.Text = turn.Seq, turn.Text
		return err
	}
	left, err := v.journal.Result(ctx, row.Value.Team, row.Value.ID)
	if err != nil && !journal.IsLost(err) && !errdefs.Is(err, errdefs.RecordNotFound) {
		return err
	}
	m.Text = cmp.Or(left.Summary, row.Value.Error)
	if !row.Value.State.Terminal() {
		return nil
	}
	last, err := v.journal.LastEntries(ctx, row.Value.Team, row.Value.ID, 1)
	if len(last) > 0 {
		m.Seq = last[0].Seq
	}
	return err
}
