package runtime

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// Bounds of what one commit does for a message to several, within the store's bounds of a batch: handing it on takes up to
// six operations and two guards a recipient.
const (
	maxAnnounced = 150 // receipts
	maxHandedOn  = 25  // recipients
)

// broadcast accepts a message to all living teammates but the sender (M1): a row of the outbox, from which it is handed on.
// The receipts of all recipients stand before that, so that from its acceptance on each can be asked for; those beyond the
// bounds of the commit are written ahead, under an id that nobody is told unless the message is accepted.
func (s *Supervisor) broadcast(ctx context.Context, in string, req SendRequest, r *requestRow) (Sending, error) {
	to, err := s.audience(ctx, in, req.Sender)
	if err != nil {
		return Sending{}, err
	}
	b := s.cfg.Journal.Batch(in)
	m, err := s.letter(ctx, in, req, b)
	if err != nil {
		return Sending{}, err
	}
	m.To = team.Everyone
	sent := make([]mailbox.Sent, 0, len(to))
	for _, who := range to {
		sent = append(sent, mailbox.Sent{
			MessageID: m.ID, Recipient: who.key, To: who.name, From: m.From, FromTask: m.FromTask, Time: b.Now(),
		})
	}
	for len(sent) > maxAnnounced {
		ahead := s.cfg.Journal.Batch(in)
		putAll(ahead, sent[:maxAnnounced])
		if err := s.commit(ctx, ahead); err != nil {
			return Sending{}, err
		}
		sent = sent[maxAnnounced:]
	}
	putAll(b, sent)
	errand := journal.Errand{ID: m.ID, Mail: m}
	for _, who := range to {
		errand.Recipients = append(errand.Recipients, who.key)
	}
	b.PutErrand(errand, 0)
	return s.accept(ctx, b, m, "", r)
}

func putAll(b *journal.Batch, sent []mailbox.Sent) {
	for _, one := range sent {
		b.PutSent(one)
	}
}

// hearer is one recipient of a message to several.
type hearer struct {
	key  task.ID // what its receipts are kept under: a task's id, or mailbox.LeaderBox for the lead
	name string
}

// audience are a team's living teammates but the sender, in the order of their spawns. RecipientNotFound when there is none.
func (s *Supervisor) audience(ctx context.Context, in string, sender task.ID) ([]hearer, error) {
	living := map[task.ID]bool{}
	for id, err := range s.cfg.Journal.Living(ctx, in) {
		if err != nil {
			return nil, err
		}
		living[id] = id != sender
	}
	var found []roster.Member
	for m, err := range s.cfg.Journal.Members(ctx, in) {
		if err != nil {
			return nil, err
		}
		if living[m.TaskID] {
			found = append(found, m)
		}
	}
	slices.SortFunc(found, func(a, b roster.Member) int { return cmp.Compare(a.TaskID.Number(), b.TaskID.Number()) })
	to := make([]hearer, 0, len(found))
	for _, m := range found {
		one := hearer{m.TaskID, m.Name}
		if m.Name == task.LeadName {
			one.key = mailbox.LeaderBox
		}
		to = append(to, one)
	}
	if len(to) == 0 {
		return nil, errdefs.New(errdefs.NotFound, errdefs.RecipientNotFound, team.Everyone,
			"there is nobody to send it to: no other teammate lives")
	}
	return to, nil
}

// handOn gives a message to the next n of its recipients, at most maxHandedOn, in one commit with what is left of the errand.
// Conflict when the standing of one has changed meanwhile.
func (s *Supervisor) handOn(ctx context.Context, in string, row journal.Row[journal.Errand], n int) error {
	errand := row.Value
	n = min(len(errand.Recipients), n)
	now := errand.Recipients[:n]
	b := s.cfg.Journal.Batch(in)
	var failed []string
	var reached []task.ID
	for _, key := range now {
		name, why, err := s.handTo(ctx, b, key, errand.Mail)
		switch {
		case err != nil:
			return err
		case why != "":
			failed = append(failed, fmt.Sprintf("%s (%s)", name, why))
		default:
			reached = append(reached, key)
		}
	}
	if errand.Recipients = errand.Recipients[n:]; len(errand.Recipients) > 0 {
		b.PutErrand(errand, row.Rev)
	} else {
		b.DeleteErrand(row)
	}
	if len(failed) > 0 {
		id := fmt.Sprintf("back-%s-%d", errand.ID, len(errand.Recipients))
		text := fmt.Sprintf("could not be delivered to %s.", strings.Join(failed, ", "))
		if err := s.giveBack(ctx, b, id, map[task.ID]string{errand.Mail.FromTask: "Your message " + errand.ID + " to all " + text},
			fmt.Sprintf("Message %s of %s to all %s", errand.ID, errand.Mail.From, text)); err != nil {
			return err
		}
	}
	if err := s.commit(ctx, b); err != nil {
		return err
	}
	if errand.Mail.Delivery == mailbox.Interrupt {
		for _, key := range reached {
			s.interrupt(ctx, in, key, errand.ID)
		}
	}
	return nil
}

// handFirst hands on what a sender has sent to all and a recipient has yet to get: it goes before what the sender sends to that
// recipient now (M2). The others get it in their turn, behind what they have yet to get. Conflict when others have handed on
// meanwhile. What can't be handed on keeps nothing waiting.
func (s *Supervisor) handFirst(ctx context.Context, in string, sender, to task.ID) error {
	errands, err := s.errandsOf(ctx, in)
	if err != nil {
		return err
	}
	for _, row := range errands {
		waiting := row.Value.Recipients
		i := slices.Index(waiting, to)
		if i < 0 || row.Value.Mail.FromTask != sender {
			continue
		}
		waiting[0], waiting[i] = waiting[i], waiting[0]
		if err := s.handOn(ctx, in, row, 1); errdefs.Is(err, errdefs.Conflict) || journal.IsFault(err) {
			return err
		}
	}
	return nil
}

// handTo adds what gives one recipient a message to a batch, or how it ends there, and why.
func (s *Supervisor) handTo(
	ctx context.Context, b *journal.Batch, key task.ID, m mailbox.Message,
) (name, why string, err error) {
	sent, err := s.cfg.Journal.SentTo(ctx, b.Team(), m.ID, key)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound), journal.IsLost(err):
		return string(key), "its record is damaged on disk", nil
	case err != nil:
		return "", "", err
	}
	kept := sent.Value
	if m.Expired(b.Now()) {
		fate, reason := m.Lapse(b.Now())
		b.PutFate(sent, fate, reason)
		return kept.To, "", nil
	}
	to, err := s.hearer(ctx, b.Team(), key)
	switch {
	case errdefs.Is(err, errdefs.NotRevivable), journal.IsLost(err):
		why, err = "it has ended", nil
	case err != nil:
		return kept.To, "", err
	default:
		kept.Woke, why, err = s.post.HandOn(ctx, b, to, m)
	}
	if err != nil {
		return kept.To, "", err
	}
	if why != "" {
		b.PutFate(sent, mailbox.Undeliverable, why)
		return kept.To, why, nil
	}
	if kept.After, err = s.lastMail(ctx, b.Team(), to.Box); err != nil {
		return kept.To, "", err
	}
	b.PutSent(kept)
	b.TellMail(to.Box, m.ID)
	return kept.To, "", nil
}

// hearer finds who is meant by the key of a receipt.
func (s *Supervisor) hearer(ctx context.Context, in string, key task.ID) (team.Recipient, error) {
	if key == mailbox.LeaderBox {
		return s.post.Registry.Find(ctx, in, task.LeadName)
	}
	return s.post.Registry.Find(ctx, in, string(key))
}
