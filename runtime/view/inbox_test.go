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
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// errSeen ends a stream that has shown what it should.
var errSeen = errors.New("seen")

// slips notes an inbox in short.
type slips struct {
	mu   sync.Mutex
	text []string
	pos  []uint64
	last view.InboxMessage
}

func (s *slips) note(i view.InboxItem) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i.Message == nil {
		s.text = append(s.text, "beat")
		return nil
	}
	text := i.Message.ID
	if i.Message.Taken {
		text += " taken"
	}
	if i.Message.Acked {
		text += " acked"
	}
	s.text, s.pos, s.last = append(s.text, text), append(s.pos, i.Message.Pos), *i.Message
	return nil
}

// String is what was noted so far.
func (s *slips) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.text, ", ")
}

// inbox reads until the end.
func (d *desk) inbox(req view.InboxRequest) *slips {
	d.t.Helper()
	s := &slips{}
	d.must(d.v.Inbox(context.Background(), req, s.note))
	return s
}

// TestInbox: the leader inbox is an ordered log; each message says how far the lead and the user have come with it, and
// looking changes nothing. proves M10 as far as reading goes
// case MSG-8
func TestInbox(t *testing.T) {
	d := newDesk(t).sound()
	team := d.team("main")
	lead := d.idler(team, task.LeadName)
	send := func(box task.ID, to string) { d.letter(team, box, mailbox.Sent{To: to}) }
	send(mailbox.LeaderBox, task.LeadName)
	send(mailbox.UserBox, mailbox.User)
	send(mailbox.LeaderBox, task.LeadName)
	send(mailbox.LeaderBox, task.LeadName)
	all := d.inbox(view.InboxRequest{Team: team})
	ids := strings.Split(all.String(), ", ")
	want := func(req view.InboxRequest, format string) {
		t.Helper()
		req.Team = team
		want := format
		for n, id := range ids {
			want = strings.ReplaceAll(want, fmt.Sprintf("#%d", n), id)
		}
		for range 2 { // the first changed nothing
			if got := d.inbox(req).String(); got != want {
				t.Errorf("%+v: %s, want %s", req, got, want)
			}
		}
	}
	want(view.InboxRequest{Unread: true}, "#0, #1, #2, #3")
	d.take(team, mailbox.LeaderBox, lead, ids[0], ids[1]) // the pump passes over what is for the user
	d.take(team, mailbox.UserBox, "", ids[2])
	want(view.InboxRequest{Unread: true}, "#0 taken, #1, #3")
	d.take(team, mailbox.UserBox, "", ids[0])
	want(view.InboxRequest{}, "#0 taken acked, #1, #2 acked, #3")
	d.take(team, mailbox.UserBox, "", ids[1])
	for range 2 {
		want(view.InboxRequest{}, "#0 taken acked, #1 taken acked, #2 acked, #3")
		want(view.InboxRequest{Unread: true}, "#3")
		want(view.InboxRequest{After: all.pos[1]}, "#2 acked, #3")
		want(view.InboxRequest{After: all.pos[3]}, "")
		want(view.InboxRequest{Tail: 2}, "#2 acked, #3")
		want(view.InboxRequest{Tail: 2, Unread: true}, "#3")
		want(view.InboxRequest{Tail: view.MaxTail}, "#0 taken acked, #1 taken acked, #2 acked, #3")
		d.reopen()
	}
	for _, req := range []view.InboxRequest{{Tail: -1}, {Tail: view.MaxTail + 1}, {Tail: 1, After: 1}} {
		d.want(d.v.Inbox(context.Background(), req, nil), errdefs.BadArgument)
	}
	empty := d.inbox(view.InboxRequest{Team: d.team("empty"), Tail: 3})
	if empty.String() != "" {
		t.Errorf("an empty inbox has %s", empty)
	}
}

// TestFollowInbox: any number of readers follow, each gets each message once, in order, and a heartbeat in silence.
// case MSG-8
func TestFollowInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		team := d.team("main")
		gone := errors.New("hung up")
		ctx, cancel := context.WithCancelCause(t.Context())
		var readers sync.WaitGroup
		var all [3]slips
		d.letter(team, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
		for i := range all {
			readers.Go(func() {
				if err := d.v.Inbox(ctx, view.InboxRequest{Team: team, Follow: true, Unread: i == 1}, all[i].note); !errors.Is(err, gone) {
					t.Error(err)
				}
			})
		}
		for range 20 {
			d.letter(team, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
			d.letter(team, mailbox.UserBox, mailbox.Sent{})
		}
		synctest.Wait()
		whole := d.inbox(view.InboxRequest{Team: team}).String()
		time.Sleep(15*time.Second + time.Millisecond)
		synctest.Wait()
		for i := range all {
			if got := all[i].String(); got != whole+", beat" {
				t.Errorf("reader %d: %s, want %s", i, got, whole)
			}
		}
		cancel(gone)
		readers.Wait()
	})
}

// TestInboxStreams: a backlog is read as it is sent, not before.
func TestInboxStreams(t *testing.T) {
	d := newDesk(t)
	m := d.metered()
	team := d.team("main")
	for range 50 {
		d.letter(team, mailbox.LeaderBox, mailbox.Sent{To: task.LeadName})
	}
	m.count("mail/leader")
	err := d.v.Inbox(context.Background(), view.InboxRequest{Team: team}, func(view.InboxItem) error { return errSeen })
	if n := m.count("mail/leader"); !errors.Is(err, errSeen) || n != 1 {
		t.Errorf("%v after %d messages were read", err, n)
	}
}

// TestNotices: a notice is a pointer, whose text is that of the turn, or of the end, that it is about.
func TestNotices(t *testing.T) {
	d := newDesk(t)
	team := d.team("main")
	ann := d.mate(team, "ann")
	d.apply(ann, task.Start{})
	d.append(ann, &task.Assistant{Step: 1, Text: "of no matter"})
	first, err := d.j.LastEntries(context.Background(), team, ann, 1)
	d.must(err)
	begun := first[0].Seq
	notice := func(kind task.MessageKind, about task.ID, after task.Seq) view.InboxMessage {
		d.post(team, mailbox.Sent{Recipient: mailbox.LeaderBox}, mailbox.Message{
			ID: "notice", From: mailbox.Daemon, Kind: kind, About: about, After: after,
		})
		return d.inbox(view.InboxRequest{Team: team, Tail: 1}).last
	}
	last := func() task.Seq {
		entries, err := d.j.LastEntries(context.Background(), team, ann, 1)
		d.must(err)
		return entries[0].Seq
	}
	d.append(ann, &task.Assistant{Step: 1, Text: "it is 4"})
	d.apply(ann, task.Rest{})
	rested := last()
	d.turn(ann, "another turn")
	if got := notice(task.WentIdle, ann, begun); got.From != "ann" || got.Text != "it is 4" || got.TaskID != ann || got.Seq != rested {
		t.Errorf("%+v", got)
	}
	d.apply(ann, done())
	if got := notice(task.Ended, ann, 0); got.From != mailbox.Daemon || got.Text != "all done" || got.Seq != last() {
		t.Errorf("%+v", got)
	}
	d.apply(ann, task.Reopen{})
	if got := notice(task.Ended, ann, 0); got.Text != "all done" || got.Seq != 0 {
		t.Errorf("revived: %+v", got)
	}
	if got := notice(task.Ended, "tm-999", 0); got.TaskID != "tm-999" || got.Text != "" {
		t.Errorf("lost: %+v", got)
	}
}
