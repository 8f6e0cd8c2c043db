package journal

import (
	"context"
	"iter"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// Accept puts a message into a mailbox and counts it there. It says nothing to the feed and guards nothing: a caller whose
// recipient may end or rest meanwhile adds the guard.
func (b *Batch) Accept(box task.ID, m mailbox.Message) {
	b.op(store.Append, mailLog(box), mailRow(m))
	counts := m.Counts()
	b.raw(store.Add, inboxKey(countedAt(box, m)), store.EncodeVector([]int64{counts.Messages, counts.Bytes}))
}

// countedAt is the box in which an unread message counts: what stands in the leader inbox for the user is not the lead's.
func countedAt(box task.ID, m mailbox.Message) task.ID {
	if box == mailbox.LeaderBox && m.To == mailbox.User {
		return mailbox.UserBox
	}
	return box
}

// TellMail tells the feed that a message was accepted; of the leader inbox without a task.
func (b *Batch) TellMail(box task.ID, messageID string) {
	if box == mailbox.LeaderBox {
		box = ""
	}
	b.feed = append(b.feed, &storev1.FeedRow{TaskId: string(box), Event: &storev1.FeedRow_MessageId{MessageId: messageID}})
}

// Settle takes mail from a mailbox. Who takes it into a transcript appends the inputs that it became to the same batch (D2).
func (b *Batch) Settle(box task.ID, from Row[mailbox.Box], mail []mailbox.Message, next mailbox.Box) {
	b.PutMailbox(box, from, next)
	taken := []int64{0, 0}
	for _, m := range mail {
		counts := m.Counts()
		taken[0], taken[1] = taken[0]-counts.Messages, taken[1]-counts.Bytes
	}
	b.raw(store.Add, inboxKey(box), store.EncodeVector(taken))
}

// PutMailbox writes what was taken, guarded by what was taken before.
func (b *Batch) PutMailbox(box task.ID, from Row[mailbox.Box], next mailbox.Box) {
	b.guard(mailboxKey(box), from.Rev)
	b.op(store.Put, mailboxKey(box), boxRow(next))
}

func boxRow(b mailbox.Box) *storev1.MailboxRow {
	return &storev1.MailboxRow{Low: b.Low, Taken: b.Taken, Seen: b.Seen}
}

// Inbox reads what of a mailbox was not taken. The revision changes with each message that is accepted or taken. After damage it
// is less than there is, never below zero.
func (j *Journal) Inbox(ctx context.Context, team string, box task.ID) (Row[mailbox.Unread], error) {
	v, rev, err := j.vector(ctx, team, inboxKey(box))
	var n [2]int64
	copy(n[:], v)
	return Row[mailbox.Unread]{Rev: rev, Value: mailbox.Unread{Messages: max(n[0], 0), Bytes: max(n[1], 0)}}, err
}

// Mailbox reads what was taken of a mailbox. A damaged record is made anew (D7).
func (j *Journal) Mailbox(ctx context.Context, team string, box task.ID) (Row[mailbox.Box], error) {
	row := &storev1.MailboxRow{}
	rev, err := j.get(ctx, part(team), mailboxKey(box), row)
	if errdefs.Is(err, errdefs.RecordCorrupt) {
		if err = j.remakeMailbox(ctx, team, box); err == nil {
			rev, err = j.get(ctx, part(team), mailboxKey(box), row)
		}
	}
	if errdefs.Is(err, errdefs.RecordNotFound) {
		err = nil
	}
	return Row[mailbox.Box]{Rev: rev, Value: mailbox.Box{Low: row.GetLow(), Taken: row.GetTaken(), Seen: row.GetSeen()}}, err
}

// Mail yields the accepted mail of a mailbox after a position.
func (j *Journal) Mail(ctx context.Context, team string, box task.ID, after uint64) iter.Seq2[mailbox.Message, error] {
	return func(yield func(mailbox.Message, error) bool) {
		for e, err := range j.st.Read(ctx, part(team), mailLog(box), store.Pos(after)) {
			if !yield(readMail(e, err)) {
				return
			}
		}
	}
}

// LastMail gives the last n messages of a mailbox, oldest first, taken or not.
func (j *Journal) LastMail(ctx context.Context, team string, box task.ID, n int) ([]mailbox.Message, error) {
	raw, err := j.st.Last(ctx, part(team), mailLog(box), n)
	if err != nil {
		return nil, err
	}
	mail := make([]mailbox.Message, 0, len(raw))
	for _, e := range raw {
		m, err := readMail(e, nil)
		if err != nil {
			return nil, err
		}
		mail = append(mail, m)
	}
	return mail, nil
}

// Unread gives what of a mailbox was not taken, and the record of it, from its low mark on: what stands there may have been
// taken all the same, as the box says.
func (j *Journal) Unread(ctx context.Context, team string, box task.ID) ([]mailbox.Message, Row[mailbox.Box], error) {
	taken, err := j.Mailbox(ctx, team, box)
	if err != nil {
		return nil, taken, err
	}
	var mail []mailbox.Message
	for m, err := range j.Mail(ctx, team, logOf(box), taken.Value.Low) {
		if err != nil {
			return nil, taken, err
		}
		mail = append(mail, m)
	}
	return mail, taken, nil
}

// logOf is where a mailbox's mail stands: the leader inbox is one log with two cursors (M10).
func logOf(box task.ID) task.ID {
	if box == mailbox.UserBox {
		return mailbox.LeaderBox
	}
	return box
}

// CountUnread counts what of a mailbox was not taken, without notices. Unlike Inbox it is right after damage, too.
func (j *Journal) CountUnread(ctx context.Context, team string, box task.ID) (n int64, err error) {
	mail, taken, err := j.Unread(ctx, team, box)
	for _, m := range mail {
		if !taken.Value.Has(m.Pos) && countedAt(box, m) == box {
			n += m.Counts().Messages
		}
	}
	return n, err
}

func readMail(e store.Entry, err error) (mailbox.Message, error) {
	row := &storev1.MailRow{}
	if err == nil {
		err = decode("mail", e.Value, row)
	}
	m := mailOf(row)
	m.Pos = uint64(e.Pos)
	return m, err
}

func mailRow(m mailbox.Message) *storev1.MailRow {
	return &storev1.MailRow{
		Id: m.ID, From: m.From, FromTask: string(m.FromTask), Leader: m.Leader, To: m.To, Text: m.Text, Summary: m.Summary,
		Color: m.Color, Sent: nanos(m.Sent), Kind: uint32(m.Kind), Delivery: uint32(m.Delivery), ReplyTo: m.ReplyTo,
		Expires: nanos(m.Expires), Hops: int32(m.Hops), ControlId: m.ControlID, Approve: m.Approve,
		Incarnation: int32(m.Incarnation), About: string(m.About), After: uint64(m.After), Quiet: m.Quiet,
	}
}

func mailOf(row *storev1.MailRow) mailbox.Message {
	m := mailbox.Message{
		ID: row.GetId(), From: row.GetFrom(), FromTask: task.ID(row.GetFromTask()), Leader: row.GetLeader(), To: row.GetTo(),
		Text: row.GetText(), Summary: row.GetSummary(), Color: row.GetColor(), Sent: timeOf(row.GetSent()),
		Kind: task.MessageKind(row.GetKind()), Delivery: mailbox.Delivery(row.GetDelivery()), ReplyTo: row.GetReplyTo(),
		Expires: timeOf(row.GetExpires()), Hops: int(row.GetHops()), ControlID: row.GetControlId(), Approve: row.GetApprove(),
		Incarnation: int(row.GetIncarnation()), About: task.ID(row.GetAbout()), After: task.Seq(row.GetAfter()),
		Quiet: row.GetQuiet(),
	}
	if m.Kind == 0 && m.About != "" { // as it was written when there were no other notices
		m.Kind = task.Ended
	}
	return m
}

// PutSent keeps a message for its receipts.
func (b *Batch) PutSent(s mailbox.Sent) {
	b.op(store.Put, sentKey(s.MessageID, s.Recipient), &storev1.SentRow{
		From: s.From, FromTask: string(s.FromTask), To: s.To, ControlId: s.ControlID, Woke: s.Woke, After: uint64(s.After),
		Time: nanos(s.Time), Fate: uint32(s.Fate), Reason: s.Reason,
	})
}

// PutFate writes how a message ended that is in no transcript, and why, guarded by what was known of it before.
func (b *Batch) PutFate(row Row[mailbox.Sent], fate mailbox.State, reason string) {
	b.guard(sentKey(row.Value.MessageID, row.Value.Recipient), row.Rev)
	after := row.Value
	after.Fate, after.Reason = fate, reason
	b.PutSent(after)
}

// Sent reads what is kept of a message, one for each recipient, in no order; none when there is no such message.
func (j *Journal) Sent(ctx context.Context, team, messageID string) ([]Row[mailbox.Sent], error) {
	var all []Row[mailbox.Sent]
	if !isSegment(messageID) {
		return nil, nil
	}
	prefix := "sent/" + messageID
	for rec, err := range j.st.Scan(ctx, part(team), prefix) {
		row := &storev1.SentRow{}
		if err == nil {
			err = decode(rec.Key, rec.Value, row)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Row[mailbox.Sent]{Rev: rec.Rev, Value: sentOf(messageID, task.ID(rec.Key[len(prefix)+1:]), row)})
	}
	return all, nil
}

// SentTo reads what is kept of a message to one recipient; RecordNotFound when there is none.
func (j *Journal) SentTo(ctx context.Context, team, messageID string, recipient task.ID) (Row[mailbox.Sent], error) {
	row := &storev1.SentRow{}
	if !isSegment(messageID) {
		return Row[mailbox.Sent]{}, errdefs.New(errdefs.NotFound, errdefs.RecordNotFound, messageID, "there is no message %q", messageID)
	}
	rev, err := j.get(ctx, part(team), sentKey(messageID, recipient), row)
	return Row[mailbox.Sent]{Rev: rev, Value: sentOf(messageID, recipient, row)}, err
}

func sentOf(messageID string, recipient task.ID, row *storev1.SentRow) mailbox.Sent {
	return mailbox.Sent{
		MessageID: messageID, Recipient: recipient, To: row.GetTo(), From: row.GetFrom(), FromTask: task.ID(row.GetFromTask()),
		ControlID: row.GetControlId(), Woke: row.GetWoke(), After: task.Seq(row.GetAfter()), Time: timeOf(row.GetTime()),
		Fate: mailbox.State(row.GetFate()), Reason: row.GetReason(),
	}
}
