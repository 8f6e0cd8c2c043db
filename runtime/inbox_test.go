package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/task"
)

// writes sends n messages of a client to a name.
func (h *house) writes(to string, n int) (all []runtime.Sending) {
	h.t.Helper()
	for i := range n {
		sent, err := h.write(to, fmt.Sprintf("%s %d", to, i+1))
		if err != nil {
			h.t.Fatal(err)
		}
		all = append(all, sent)
	}
	return all
}

// inbox is the leader inbox of the workspace's team.
func (h *house) inbox() (mail []mailbox.Message) {
	h.t.Helper()
	in, err := h.sup.FindTeam(context.Background(), "", h.workspace)
	h.must(err)
	for m, err := range h.journal.Mail(context.Background(), in.ID, mailbox.LeaderBox, 0) {
		h.must(err)
		mail = append(mail, m)
	}
	return mail
}

// ack acknowledges the leader inbox and gives what is left for the user.
func (h *house) ack(upTo uint64) int {
	h.t.Helper()
	left, err := h.sup.AckInbox(context.Background(), runtime.AckRequest{Caller: "test", Workspace: h.workspace, UpTo: upTo})
	h.must(err)
	return left
}

// wantLeft checks how much of the leader inbox is left for the lead and for the user.
func (h *house) wantLeft(lead, user int64) {
	h.t.Helper()
	in, err := h.sup.FindTeam(context.Background(), "", h.workspace)
	h.must(err)
	for box, want := range map[task.ID]int64{mailbox.LeaderBox: lead, mailbox.UserBox: user} {
		got, err := h.journal.Inbox(context.Background(), in.ID, box)
		h.must(err)
		if got.Value.Messages != want || (want == 0) != (got.Value.Bytes == 0) {
			h.t.Errorf("%s has %+v left, not %d", box, got.Value, want)
		}
	}
}

// spawnTeam makes the workspace's team.
func (h *house) spawnTeam() {
	h.t.Helper()
	h.ended(h.spawn("first"), task.Completed, task.Done)
}

// proves M10: without a lead an acknowledgement moves both cursors, never back and not beyond the end, and delivers what it
// passes. A new lead reads the rest, in order.
func TestAckWithoutALead(t *testing.T) {
	bubble(t, echo, func(h *house) {
		h.spawnTeam()
		leads, users := h.writes("team-lead", 3), h.writes("user", 2)
		h.wantLeft(3, 2)
		mail := h.inbox()
		if left := h.ack(mail[1].Pos); left != 2 {
			h.t.Errorf("%d left", left)
		}
		h.wantLeft(1, 2)
		h.ack(mail[0].Pos) // back
		if left := h.ack(mail[3].Pos - 1); left != 2 {
			h.t.Errorf("%d left", left)
		}
		h.wantLeft(0, 2)
		for i, sent := range leads {
			if got := h.fate(sent); got != mailbox.Delivered {
				h.t.Errorf("message %d to the lead is %d", i+1, got)
			}
		}
		late := h.writes("team-lead", 1)
		if left := h.ack(mail[3].Pos); left != 1 {
			h.t.Errorf("%d left", left)
		}
		if got := []mailbox.State{h.fate(users[0]), h.fate(users[1]), h.fate(late[0])}; !slices.Equal(got, []mailbox.State{mailbox.Delivered, 0, 0}) {
			h.t.Errorf("fates: %v", got)
		}
		id := h.spawn("lead", lead)
		h.untilTook(id, task.Text, 1, task.Idle)
		if got := h.inputs(id); !slices.Equal(got, []string{"lead", "team-lead 1"}) {
			h.t.Errorf("the lead read %q", got)
		}
		if left := h.ack(1 << 60); left != 0 {
			h.t.Errorf("%d left", left)
		}
		h.writes("user", 1) // behind the end of then
		h.wantLeft(0, 1)
	})
}

// proves M10: while a lead lives an acknowledgement is the user's alone: the lead reads its mail all the same, and what of it the
// user has passed while the lead lived is still to be read when there is none.
func TestAckBesideALead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, boss(call("gate", "{}")), func(h *house) {
			id := h.spawn("lead", lead)
			<-g.entered
			leads, users := h.writes("team-lead", 2), h.writes("user", 1)
			end := h.inbox()[2].Pos
			if left := h.ack(end); left != 0 {
				h.t.Errorf("%d left", left)
			}
			h.wantLeft(2, 0)
			if got := []mailbox.State{h.fate(leads[0]), h.fate(users[0])}; !slices.Equal(got, []mailbox.State{0, mailbox.Delivered}) {
				h.t.Errorf("fates: %v", got)
			}
			close(g.open)
			h.untilTook(id, task.Text, 2, task.Idle)
			h.wantLeft(0, 0)
			h.must(h.stopTask(id, task.Kill))
			h.ack(end)
			h.wantLeft(0, 0)
		}, with(g.tool("gate")))
	})
}

// proves M10: the mail that a lead has left is the client's when the lead has ended, although the user had passed it before.
func TestAckAfterALead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		inside(t, boss(call("gate", "{}")), func(h *house) {
			id := h.spawn("lead", lead)
			<-g.entered
			leads := h.writes("team-lead", 2)
			end := h.inbox()[1].Pos
			h.ack(end)
			h.must(h.stopTask(id, task.Kill))
			h.wantLeft(2, 0)
			h.ack(end)
			h.wantLeft(0, 0)
			if got := h.fate(leads[1]); got != mailbox.Delivered {
				h.t.Errorf("it is %d", got)
			}
		}, with(g.tool("gate")))
	})
}

// proves M2, M10: what a lead has read no later lead reads again, although the user acknowledges less than that.
func TestAckBehindALead(t *testing.T) {
	bubble(t, echo, func(h *house) {
		id := h.spawn("lead", lead)
		h.untilState(id, task.Idle)
		h.writes("team-lead", 3)
		h.untilTook(id, task.Text, 3, task.Idle)
		h.must(h.stopTask(id, task.Kill))
		for _, m := range h.inbox()[:2] {
			h.ack(m.Pos)
			h.wantLeft(0, 0)
		}
		h.writes("team-lead", 1)
		h.untilTook(id, task.Text, 4, task.Idle)
		if got := h.inputs(id); len(got) != 5 {
			h.t.Errorf("the lead read %q", got)
		}
	})
}

// proves N7, D2: an acknowledgement of a long inbox that is killed after each of its commits, and is repeated, has passed all
// once; what it did not pass the next lead reads.
func TestAckKilledAfterEachCommit(t *testing.T) {
	const all, read = 230, 220
	walk(t, 2, func(t *testing.T, n int) (over bool) {
		h := newHouse(t, echo)
		h.spawnTeam()
		var posts sync.WaitGroup
		for range all / 10 {
			posts.Go(func() { h.writes("team-lead", 10) })
		}
		posts.Wait()
		mail := h.inbox()
		req := runtime.AckRequest{RequestID: "ack", Caller: "test", Workspace: h.workspace, UpTo: mail[read-1].Pos}
		h.cut.after(n)
		_, err := h.sup.AckInbox(context.Background(), req)
		over = err == nil && !h.cut.isDead()
		h.restart()
		if _, err := h.sup.AckInbox(context.Background(), req); err != nil {
			t.Error(err)
		}
		h.wantLeft(all-read, 0)
		for i, m := range mail {
			sent, err := h.journal.SentTo(context.Background(), h.task("sub-1").Team, m.ID, mailbox.LeaderBox)
			h.must(err)
			if (sent.Value.Fate == mailbox.Delivered) != (i < read) {
				t.Errorf("message %d is %d", i+1, sent.Value.Fate)
			}
		}
		id := h.spawn("lead", lead)
		h.untilTook(id, task.Text, all-read, task.Idle)
		if got := len(h.inputs(id)); got != 1+all-read {
			t.Errorf("the lead read %d inputs", got)
		}
		return over
	})
}

// proves M10: of a lead that comes while a client reads, each message is read by one of the two.
func TestAckWhileALeadComes(t *testing.T) {
	h := newHouse(t, echo)
	h.spawnTeam()
	sent := h.writes("team-lead", 40)
	end := h.inbox()[39].Pos
	var both sync.WaitGroup
	var id task.ID
	both.Go(func() { h.ack(end) })
	both.Go(func() { id = h.spawn("lead", lead) })
	both.Wait()
	h.untilState(id, task.Idle)
	h.wantLeft(0, 0)
	read := h.inputs(id)
	for i, m := range sent {
		byClient, byLead := h.fate(m) == mailbox.Delivered, slices.Contains(read, fmt.Sprintf("team-lead %d", i+1))
		if byClient == byLead {
			t.Errorf("message %d: read by the client %v, by the lead %v", i+1, byClient, byLead)
		}
	}
}

// An acknowledgement without a position, or of a team that is not there, is refused.
func TestAckRefused(t *testing.T) {
	bubble(t, echo, func(h *house) {
		for _, req := range []runtime.AckRequest{{Workspace: h.workspace}, {Team: "nowhere", UpTo: 1}} {
			_, err := h.sup.AckInbox(context.Background(), req)
			if kind := errdefs.KindOf(err); kind != errdefs.InvalidArgument && kind != errdefs.NotFound {
				h.t.Errorf("%+v: %v", req, err)
			}
		}
	})
}
