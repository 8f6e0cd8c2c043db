package view_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// stub is a receipt in short: who, how far, where, why and what.
func stub(r mailbox.Receipt) string {
	words := map[mailbox.State]string{
		mailbox.Accepted: "accepted", mailbox.Waking: "waking", mailbox.Delivered: "delivered", mailbox.Answered: "answered",
		mailbox.Undeliverable: "undeliverable", mailbox.Expired: "expired", mailbox.Superseded: "superseded",
	}
	text := r.Recipient + " " + words[r.State]
	if r.Seq != 0 {
		text += " there"
	}
	for _, more := range []string{r.Reason, r.Text, r.ControlID} {
		if more != "" {
			text += ": " + more
		}
	}
	return text
}

// ask gives the receipts of a message, in short.
func (d *desk) ask(team, message string, until mailbox.State) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var got []string
	d.check(d.v.Receipts(ctx, team, message, until, func(r mailbox.Receipt) error {
		if r.MessageID != message {
			d.t.Errorf("a receipt of %q", r.MessageID)
		}
		got = append(got, stub(r))
		return nil
	}))
	return strings.Join(got, ", ")
}

// await asks while steps happen, each when the receipt before it, in short, has come. It gives all.
func (d *desk) await(team, message string, steps map[string]func()) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var got []string
	var doing sync.WaitGroup
	defer doing.Wait()
	d.must(d.v.Receipts(ctx, team, message, mailbox.Answered, func(r mailbox.Receipt) error {
		got = append(got, stub(r))
		if do := steps[stub(r)]; do != nil {
			delete(steps, stub(r))
			doing.Go(do) // a moment later, or before the next look: both must do
		}
		return nil
	}))
	return strings.Join(got, ", ")
}

func (d *desk) wantReceipts(got, want string) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("the receipts are\n%s, want\n%s", got, want)
	}
}

// newest gives the newest receipts of a message, in short.
func (d *desk) newest(message string) string {
	d.t.Helper()
	all, err := d.v.MessageReceipts(context.Background(), message)
	d.must(err)
	var got []string
	for _, r := range all {
		got = append(got, stub(r))
	}
	return strings.Join(got, ", ")
}

// TestReceiptsOfATask: mail to a subagent is accepted, delivered and answered, or undeliverable at once when it ends; asked
// late, and after a restart, the answer is the same. proves M4
func TestReceiptsOfATask(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	id := d.spawn(team, "")
	d.apply(id, task.Start{})
	to := mailbox.Sent{To: string(id)}
	first, second := d.letter(team, id, to), d.letter(team, id, to)
	d.wantReceipts(d.ask(team, first, mailbox.Accepted), "sub-1 accepted")
	d.wantReceipts(d.ask(team, first, 0), "sub-1 accepted")
	got := d.await(team, first, map[string]func(){
		"sub-1 accepted": func() {
			d.append(id, &task.Input{From: "user", Text: "another", MessageID: "m-9"})
			d.take(team, id, id, first)
		},
		"sub-1 delivered there": func() {
			d.append(id, &task.Assistant{Step: 1, Text: "so be it"})
			d.append(id, &task.Assistant{Step: 2}) // silent
			d.apply(id, done())
		},
	})
	d.wantReceipts(got, "sub-1 accepted, sub-1 delivered there, sub-1 answered there: so be it")
	const why = "task sub-1 ended COMPLETED/DONE before it took the message"
	d.fate(team, second, id, mailbox.Undeliverable, "in other words") // the daemon sees to it later: the receipt stays
	for range 2 {
		d.wantReceipts(d.ask(team, first, mailbox.Answered), got)
		d.wantReceipts(d.ask(team, first, mailbox.Delivered), "sub-1 accepted, sub-1 delivered there")
		d.wantReceipts(d.newest(first), "sub-1 answered there: so be it")
		d.wantReceipts(d.ask(team, second, mailbox.Delivered), "sub-1 accepted, sub-1 undeliverable: "+why)
		d.wantReceipts(d.newest(second), "sub-1 undeliverable: "+why)
		d.reopen()
	}
}

// TestUndeliverableAtOnce: who waits for a receipt learns of the recipient's end when it comes. proves M4
func TestUndeliverableAtOnce(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	id := d.spawn(team, "")
	d.apply(id, task.Start{})
	message := d.letter(team, id, mailbox.Sent{To: "sub-1"})
	d.wantReceipts(d.await(team, message, map[string]func(){"sub-1 accepted": func() { d.apply(id, done()) }}),
		"sub-1 accepted, sub-1 undeliverable: task sub-1 ended COMPLETED/DONE before it took the message")
}

// TestReceiptsOfATeammate: a message wakes a teammate and is answered by the turn that takes it, not by one before or after.
// proves M4
func TestReceiptsOfATeammate(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	ann := d.idler(team, "ann")
	message := d.letter(team, ann, mailbox.Sent{To: "ann", Woke: true})
	got := d.await(team, message, map[string]func(){
		"ann waking": func() {
			d.apply(ann, task.Wake{})
			d.take(team, ann, ann, message)
		},
		"ann delivered there": func() {
			d.append(ann, &task.Assistant{Step: 1, Text: "thinking"})
			d.append(ann, &task.Assistant{Step: 2, Text: "it is 4"})
			d.apply(ann, task.Rest{})
			d.apply(ann, task.Wake{})
			d.append(ann, &task.Assistant{Step: 1, Text: "of another turn"})
			d.apply(ann, task.Rest{})
		},
	})
	want := "ann accepted, ann waking, ann delivered there, ann answered there: it is 4"
	d.wantReceipts(got, want)
	d.reopen()
	d.wantReceipts(d.ask(team, message, mailbox.Answered), want)
	d.wantReceipts(d.ask(team, message, mailbox.Waking), "ann accepted, ann waking")
}

// TestReceiptOutlivesALife: a teammate ends with a message unread; it is delivered in the next life, and who waits for that
// is not left waiting. proves M12 and M4
func TestReceiptOutlivesALife(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	ann := d.idler(team, "ann")
	message := d.letter(team, ann, mailbox.Sent{To: "ann"})
	got := d.await(team, message, map[string]func(){
		"ann accepted": func() {
			d.apply(ann, task.Finish{State: task.Killed, Reason: task.StoppedByClient})
			d.wantReceipts(d.newest(message), "ann accepted")
			d.apply(ann, task.Reopen{})
			d.apply(ann, task.Start{})
			d.take(team, ann, ann, message)
			d.append(ann, &task.Assistant{Step: 1, Text: "alive"})
			d.apply(ann, task.Finish{State: task.Failed, Reason: task.MaxSteps})
		},
	})
	d.wantReceipts(got, "ann accepted, ann delivered there, ann answered there: alive")
}

// TestFates: a message that ends in no transcript says how and why, to who waits and to who asks later. proves M4 and M6 as
// far as reading goes
func TestFates(t *testing.T) {
	for state, word := range map[mailbox.State]string{
		mailbox.Undeliverable: "undeliverable", mailbox.Expired: "expired", mailbox.Superseded: "superseded",
	} {
		d := newDesk(t)
		team := d.team("main")
		ann := d.idler(team, "ann")
		message := d.letter(team, ann, mailbox.Sent{To: "ann", ControlID: "c-7"})
		got := d.await(team, message, map[string]func(){
			"ann accepted: c-7": func() { d.fate(team, message, ann, state, "because") },
		})
		want := fmt.Sprintf("ann accepted: c-7, ann %s: because: c-7", word)
		d.wantReceipts(got, want)
		d.reopen()
		d.wantReceipts(d.ask(team, message, mailbox.Delivered), want)
	}
}

// TestReceiptsOfLeads: leads follow each other, and a client reads the inbox between them: each message is where it was
// taken. proves M4 and M10 as far as reading goes
// case MSG-9
func TestReceiptsOfLeads(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	lead := func() task.ID {
		id := d.mate(team, task.LeadName)
		d.apply(id, task.Start{})
		return id
	}
	send := func() string { return d.letter(team, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName}) }
	say := func(id task.ID, text string) { d.append(id, &task.Assistant{Step: 1, Text: text}) }

	first := lead()
	toFirst, unread := send(), send()
	d.take(team, mailbox.LeaderBox, first, toFirst)
	say(first, "first")
	d.apply(first, done())
	toClient, toSecond := send(), send()
	second := lead()
	got := d.await(team, unread, map[string]func(){
		"team-lead accepted": func() {
			d.take(team, mailbox.LeaderBox, second, unread, toSecond)
			say(second, "second")
			d.apply(second, task.Rest{})
			d.apply(second, done())
		},
	})
	answered := "team-lead accepted, team-lead delivered there, team-lead answered there: "
	d.wantReceipts(got, answered+"second")
	d.take(team, mailbox.LeaderBox, "", toClient)
	third := lead()
	say(third, "not asked")
	waiting := send()
	for range 2 {
		d.wantReceipts(d.ask(team, toFirst, mailbox.Answered), answered+"first")
		d.wantReceipts(d.ask(team, toSecond, mailbox.Answered), answered+"second")
		d.wantReceipts(d.ask(team, toClient, mailbox.Answered), "team-lead accepted, team-lead delivered")
		d.wantReceipts(d.newest(waiting), "team-lead accepted")
		d.reopen()
	}
	d.wantReceipts(d.await(team, waiting, map[string]func(){
		"team-lead accepted": func() { // as a commit writes it that acknowledges
			d.fate(team, waiting, mailbox.LeaderBox, mailbox.Delivered, "")
		},
	}), "team-lead accepted, team-lead delivered")
}

// TestExpiredInTheInbox: what a lead passes over because its time is over is not taken for acknowledged.
func TestExpiredInTheInbox(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	message := d.letter(team, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
	d.fate(team, message, mailbox.LeaderBox, mailbox.Expired, "late")
	d.take(team, mailbox.LeaderBox, "", message)
	d.wantReceipts(d.ask(team, message, mailbox.Answered), "team-lead accepted, team-lead expired: late")
	m := d.metered() // it expires while somebody looks for its receipt
	message = d.letter(team, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
	looks := 0
	m.before = func(key string) {
		if key != "mailbox/leader" {
			return
		}
		if looks++; looks == 1 {
			d.fate(team, message, mailbox.LeaderBox, mailbox.Expired, "late")
			d.take(team, mailbox.LeaderBox, "", message)
		}
	}
	d.wantReceipts(d.ask(team, message, mailbox.Answered), "team-lead accepted, team-lead expired: late")
}

// TestReceiptsOfTheUser: mail to the user is delivered when a client acknowledges it, and answered by no turn. proves M10
func TestReceiptsOfTheUser(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	other := d.letter(team, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
	message := d.letter(team, mailbox.UserBox, mailbox.Sent{To: mailbox.User})
	d.wantReceipts(d.await(team, message, map[string]func(){
		"user accepted": func() {
			d.take(team, mailbox.LeaderBox, "", other)
			d.take(team, mailbox.UserBox, "", message)
		},
	}), "user accepted, user delivered")
}

// TestReceiptsOfABroadcast: each recipient has its own receipts, also those to whom the message is yet to be handed on, and
// the stream ends when all have come so far. proves M4
func TestReceiptsOfABroadcast(t *testing.T) {
	ctx := context.Background()
	d := newDesk(t)
	team := d.team("main")
	ann, bob, cid := d.idler(team, "ann"), d.idler(team, "bob"), d.idler(team, "cid")
	message, err := d.j.NextMessageID(ctx, team)
	d.must(err)
	b := d.j.Batch(team)
	mail := mailbox.Message{ID: message, From: mailbox.User, Text: "all", Sent: b.Now(), Kind: task.Text}
	b.PutErrand(journal.Errand{ID: message, Mail: mail, Recipients: []task.ID{ann, bob, cid}}, 0)
	b.PutSent(mailbox.Sent{MessageID: message, Recipient: bob, To: "bob"}) // known ahead, and yet to be handed on
	d.must(d.j.Commit(ctx, b))
	d.wantReceipts(d.newest(message), "ann accepted, bob accepted, cid accepted")

	handOn := func() {
		errands, err := d.j.Errands(ctx, team)
		d.check(err)
		b := d.j.Batch(team)
		for _, to := range []task.ID{ann, bob} { // cid has ended meanwhile
			b.Accept(to, mail)
			b.PutSent(mailbox.Sent{MessageID: message, Recipient: to, To: map[task.ID]string{ann: "ann", bob: "bob"}[to], Woke: to == bob})
		}
		b.DeleteErrand(errands[0])
		d.check(d.j.Commit(ctx, b))
		d.fate(team, message, ann, mailbox.Expired, "late")
		d.apply(bob, task.Wake{})
		d.take(team, bob, bob, message)
		d.append(bob, &task.Assistant{Step: 1, Text: "here"})
		d.apply(bob, task.Rest{})
	}
	got := d.await(team, message, map[string]func(){"cid accepted": handOn})
	if !strings.HasPrefix(got, "ann accepted, bob accepted, cid accepted, ") {
		t.Error(got)
	}
	for _, part := range []string{"ann expired: late", "bob waking", "bob delivered there", "bob answered there: here"} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
	d.wantReceipts(d.newest(message), "ann expired: late, bob answered there: here")
	b = d.j.Batch(team) // what is known of a recipient counts, also while it is on the list
	b.PutErrand(journal.Errand{ID: message, Mail: mail, Recipients: []task.ID{ann}}, 0)
	d.must(d.j.Commit(ctx, b))
	d.wantReceipts(d.newest(message), "ann expired: late, bob answered there: here")
	d.wantReceipts(d.ask(team, message, mailbox.Accepted), "ann accepted, bob accepted")
}

// TestNoSuchMessage: what was never accepted has no receipts.
func TestNoSuchMessage(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	ann := d.idler(team, "ann")
	for _, id := range []string{"m-999", "m-99999", "m-01", "m-", "m-x", "", string(ann), "m-1/tm-1"} {
		_, err := d.v.MessageReceipts(context.Background(), id)
		d.want(err, errdefs.RecordNotFound)
	}
	d.want(d.v.Receipts(context.Background(), team, "m-999", 0, nil), errdefs.RecordNotFound)
}

// TestReceiptsOfWhoLeaves: the end of the caller's ctx, or of its stream, ends the receipts.
func TestReceiptsOfWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		team := d.team("main")
		message := d.letter(team, d.idler(team, "ann"), mailbox.Sent{To: "ann"})
		gone := errors.New("hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		err := d.v.Receipts(ctx, team, message, mailbox.Answered, func(mailbox.Receipt) error { return nil })
		if !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
		err = d.v.Receipts(t.Context(), team, message, mailbox.Answered, func(mailbox.Receipt) error { return gone })
		if !errors.Is(err, gone) {
			t.Errorf("%v", err)
		}
	})
}

// TestReceiptsCostTheSame: however much mail was accepted and taken, and however long the transcript was, before a message.
func TestReceiptsCostTheSame(t *testing.T) {
	d := newDesk(t)
	m := d.metered()
	team := d.team("main")
	ann := d.idler(team, "ann")
	var messages []string
	for range 20 {
		message := d.letter(team, ann, mailbox.Sent{To: "ann"})
		d.take(team, ann, ann, message)
		for range 20 {
			d.append(ann, notice("long"))
		}
		messages = append(messages, message)
	}
	unread := d.letter(team, ann, mailbox.Sent{To: "ann"})
	m.count("mail/" + string(ann))
	m.count("entry/" + string(ann))
	for _, message := range messages {
		d.wantReceipts(d.ask(team, message, mailbox.Delivered), "ann accepted, ann delivered there")
		if mail, entries := m.count("mail/"+string(ann)), m.count("entry/"+string(ann)); mail > 1 || entries > 1 {
			t.Errorf("%s: %d mails and %d entries were read", message, mail, entries)
		}
	}
	d.wantReceipts(d.newest(unread), "ann accepted")
	if mail, entries := m.count("mail/"+string(ann)), m.count("entry/"+string(ann)); mail > 1 || entries > 0 {
		t.Errorf("%d mails and %d entries were read of what is unread", mail, entries)
	}
}
