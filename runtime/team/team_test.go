package team_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
	"github.com/agentd-dev/agentd/store/bolt"
)

// camp is a team in a real store.
type camp struct {
	t    *testing.T
	j    *journal.Journal
	post *team.Post
	team string
}

func newCamp(t *testing.T) *camp {
	t.Helper()
	st, err := bolt.Open(context.Background(), bolt.Options{Path: filepath.Join(t.TempDir(), "agentd.db")})
	if err != nil {
		t.Fatal(err)
	}
	c := &camp{t: t}
	t.Cleanup(func() { c.must(st.Close()) })
	c.j, err = journal.Open(context.Background(), st, time.Now, slog.New(slog.DiscardHandler))
	c.must(err)
	in, err := c.j.CreateTeam(context.Background(), "camp", t.TempDir())
	c.must(err)
	c.team, c.post = in.ID, team.NewPost(c.j)
	return c
}

func (c *camp) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *camp) want(err error, reason errdefs.Reason) {
	c.t.Helper()
	if !errdefs.Is(err, reason) {
		c.t.Errorf("the error is %v, want %s", err, reason)
	}
}

// spawn makes a queued task; a name makes it a teammate.
func (c *camp) spawn(kind task.Kind, name string) (task.ID, error) {
	ctx := context.Background()
	n, err := c.j.NextID(ctx, c.team)
	c.must(err)
	t := task.Task{
		ID: task.NewID(kind, n), Team: c.team, Kind: kind, Name: name, State: task.Queued, Incarnation: 1, Created: time.Now(),
	}
	b := c.j.Batch(c.team)
	if name != "" {
		if err := c.post.Spawner.Enlist(ctx, b, &t); err != nil {
			return "", err
		}
	}
	b.CreateTask(task.Draft{Task: t}, "")
	return t.ID, c.j.Commit(ctx, b)
}

func (c *camp) mate(name string) task.ID {
	c.t.Helper()
	id, err := c.spawn(task.Teammate, name)
	c.must(err)
	return id
}

// apply changes a task as a loop or the supervisor does.
func (c *camp) apply(id task.ID, change task.Change) {
	c.t.Helper()
	ctx := context.Background()
	row, err := c.j.Task(ctx, id)
	c.must(err)
	b := c.j.Batch(c.team)
	after, err := task.Apply(row.Value, change, b.Now())
	c.must(err)
	switch {
	case after.State.Terminal():
		c.must(c.post.End(ctx, b, row, after, task.Conclusion{}))
	case after.State == task.Idle:
		b.RestTask(row, after, false)
		c.must(c.post.Rested(ctx, b, row.Value, "what it said", 0))
	default:
		b.ChangeTask(row, after)
	}
	c.must(c.j.Commit(ctx, b))
}

func (c *camp) end(id task.ID, state task.State, reason task.Reason) {
	c.t.Helper()
	c.apply(id, task.Finish{State: state, Reason: reason})
}

// deliver sends a message as somebody.
func (c *camp) deliver(to string, m mailbox.Message) (woke bool, err error) {
	ctx := context.Background()
	found, err := c.post.Registry.Find(ctx, c.team, to)
	if err != nil {
		return false, err
	}
	b := c.j.Batch(c.team)
	if m.ID == "" {
		m.ID, m.Text = "m-1", "hi"
	}
	if woke, err = c.post.Deliver(ctx, b, found, m); err != nil {
		return woke, err
	}
	return woke, c.j.Commit(ctx, b)
}

// task reads a task.
func (c *camp) task(id task.ID) task.Task {
	c.t.Helper()
	row, err := c.j.Task(context.Background(), id)
	c.must(err)
	return row.Value
}

// inbox lists the leader inbox.
func (c *camp) inbox() string {
	c.t.Helper()
	var all []string
	for m, err := range c.j.Mail(context.Background(), c.team, mailbox.LeaderBox, 0) {
		c.must(err)
		all = append(all, fmt.Sprintf("%s:%d:%s:%v", m.To, m.Kind, m.About, m.Quiet))
	}
	return strings.Join(all, " ")
}

// proves M1, N2
// case MSG-10: by name and by id it is the same recipient.
func TestAddresses(t *testing.T) {
	c := newCamp(t)
	ann := c.mate("Ann")
	sub, err := c.spawn(task.Subagent, "")
	c.must(err)
	shell, err := c.spawn(task.Shell, "")
	c.must(err)
	lead := c.mate(task.LeadName)
	tests := []struct {
		to, name string
		box, of  task.ID
	}{
		{"ann", "Ann", ann, ann},
		{"ANN", "Ann", ann, ann},
		{string(ann), "Ann", ann, ann},
		{string(sub), string(sub), sub, sub},
		{"Team-Lead", task.LeadName, mailbox.LeaderBox, lead},
		{string(lead), task.LeadName, mailbox.LeaderBox, lead},
		{"user", mailbox.User, mailbox.LeaderBox, ""},
		{"USER", mailbox.User, mailbox.LeaderBox, ""},
	}
	for _, tt := range tests {
		r, err := c.post.Registry.Find(context.Background(), c.team, tt.to)
		if err != nil || r.Name != tt.name || r.Box != tt.box || r.Task.Value.ID != tt.of {
			t.Errorf("%s is %s in %s of %s, %v", tt.to, r.Name, r.Box, r.Task.Value.ID, err)
		}
	}
	for to, reason := range map[string]errdefs.Reason{
		"amn": errdefs.RecipientNotFound, "": errdefs.RecipientNotFound, "a/b": errdefs.RecipientNotFound,
		"sub-999999": errdefs.RecipientNotFound, string(shell): errdefs.NotARecipient,
	} {
		_, err := c.post.Registry.Find(context.Background(), c.team, to)
		c.want(err, reason)
		if to == "amn" && !strings.Contains(fmt.Sprint(err), "Ann") {
			t.Errorf("the nearest name is not told: %v", err)
		}
	}
}

// A leader inbox takes mail before there is a lead, and for the user without waking anybody. proves M1, M10
func TestLeaderInboxNeedsNoLead(t *testing.T) {
	c := newCamp(t)
	for _, to := range []string{task.LeadName, mailbox.User} {
		if woke, err := c.deliver(to, mailbox.Message{}); woke || err != nil {
			t.Errorf("%s: %v, %v", to, woke, err)
		}
	}
	lead := c.mate(task.LeadName)
	c.apply(lead, task.Start{})
	c.apply(lead, task.Rest{})
	if woke, err := c.deliver(mailbox.User, mailbox.Message{}); woke || err != nil {
		t.Errorf("mail to the user wakes the lead: %v, %v", woke, err)
	}
	if woke, err := c.deliver(task.LeadName, mailbox.Message{}); !woke || err != nil {
		t.Errorf("mail to the lead does not wake it: %v, %v", woke, err)
	}
}

// reasons of the ends after which any message revives, and only the leader's.
func anyRevives() []task.Reason {
	return []task.Reason{
		task.Done, task.ModelError, task.Timeout, task.Panic, task.Interrupted, task.MaxSteps, task.ContextOverflow,
	}
}

func leaderRevives() []task.Reason {
	return []task.Reason{
		task.Shutdown, task.StoppedByClient, task.NoProgress, task.ContractViolation, task.AcceptanceFailed, task.BudgetExceeded,
	}
}

// proves W1, W3
// case MSG-3: who has ended is revived, or the sender is told why not.
func TestWhoRevivesWhom(t *testing.T) {
	c := newCamp(t)
	peer, client := mailbox.Message{From: "bob", FromTask: "tm-99"}, mailbox.Message{From: mailbox.User, Leader: true}
	for i, reason := range task.Reasons() {
		for _, m := range []mailbox.Message{peer, client} {
			name := fmt.Sprintf("mate-%d-%v", i, m.Leader)
			id := c.mate(name)
			c.apply(id, task.Start{})
			c.end(id, task.Failed, reason)
			wakes := slices.Contains(anyRevives(), reason) || m.Leader && slices.Contains(leaderRevives(), reason) || reason == task.SpawnFailed
			woke, err := c.deliver(name, m)
			now := c.task(id)
			switch {
			case wakes && (!woke || err != nil || now.State != task.Queued || now.Incarnation != 2):
				t.Errorf("%s by %s: %v, %v; it is %s", reason, m.From, woke, err, now.State)
			case !wakes && (woke || !errdefs.Is(err, errdefs.NotRevivable) || now.Incarnation != 1):
				t.Errorf("%s by %s: %v, %v; it is %s", reason, m.From, woke, err, now.State)
			}
		}
	}
}

// Who is dismissed, was parked or could never be started is revived by nobody, and its name is free. proves W3
// case STA-1
func TestWhoStaysAsleep(t *testing.T) {
	c := newCamp(t)
	client := mailbox.Message{From: mailbox.User, Leader: true}
	never := c.mate("never")
	c.end(never, task.Failed, task.SpawnFailed)
	out := c.mate("out")
	c.end(out, task.Killed, task.StoppedByClient)
	member, err := c.j.Member(context.Background(), c.team, "out")
	c.must(err)
	b := c.j.Batch(c.team)
	b.PutMember(roster.Member{Name: "out", TaskID: out, Dismissed: true}, member.Rev, roster.Dismissed)
	c.must(c.j.Commit(context.Background(), b))
	for _, name := range []string{"never", "out"} {
		_, err := c.deliver(name, client)
		c.want(err, errdefs.NotRevivable)
		if again := c.mate(name); again == never || again == out {
			t.Errorf("%s came back as %s", name, again)
		}
	}
	_, err = c.deliver(string(out), client) // by its id it is not somebody else
	c.want(err, errdefs.NotRevivable)
}

// Of many messages to one that has ended, one revives it. proves W2 as far as commits go
func TestOneRevival(t *testing.T) {
	c := newCamp(t)
	id := c.mate("ann")
	c.end(id, task.Failed, task.ModelError)
	const senders = 16
	woken := make(chan bool, senders)
	for i := range senders {
		go func() {
			for {
				woke, err := c.deliver("ann", mailbox.Message{ID: fmt.Sprint("m-", i), From: "bob", Text: "hi"})
				if errdefs.Is(err, errdefs.Conflict) {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				woken <- woke
				return
			}
		}()
	}
	n := 0
	for range senders {
		if <-woken {
			n++
		}
	}
	unread, err := c.j.Inbox(context.Background(), c.team, id)
	if err != nil || n != 1 || unread.Value.Messages != senders || c.task(id).Incarnation != 2 {
		t.Errorf("%d revived it, %d are unread, it lives for the %d. time; %v", n, unread.Value.Messages, c.task(id).Incarnation, err)
	}
}

// proves N2
// case MSG-5: one of two of the same name wins.
func TestNamesAreTaken(t *testing.T) {
	c := newCamp(t)
	c.mate("Ann")
	_, err := c.spawn(task.Teammate, "aNN")
	c.want(err, errdefs.NameTaken)
	results := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := c.spawn(task.Teammate, "bob")
			results <- err
		}()
	}
	first, second := <-results, <-results
	if first != nil {
		first, second = second, first
	}
	if first != nil || !errdefs.Is(second, errdefs.NameTaken) && !errdefs.Is(second, errdefs.Conflict) {
		t.Errorf("two at once: %v, %v", first, second)
	}
}

// The leader learns of rests and ends; what the turn has told already, or nothing, wakes nobody. proves M9, R6
func TestWhatTheLeaderLearns(t *testing.T) {
	c := newCamp(t)
	ann := c.mate("ann")
	c.apply(ann, task.Start{})
	c.apply(ann, task.Rest{})
	c.end(ann, task.Killed, task.StoppedByClient)
	want := fmt.Sprintf("team-lead:%d:%s:false team-lead:%d:%s:false", task.WentIdle, ann, task.Ended, ann)
	if got := c.inbox(); got != want {
		t.Errorf("the inbox has %q, want %q", got, want)
	}
	bob := c.mate("bob")
	c.apply(bob, task.Start{})
	if _, err := c.deliver(task.LeadName, mailbox.Message{ID: "m-5", FromTask: bob, Text: " what it said\n", Sent: time.Now()}); err != nil {
		t.Fatal(err)
	}
	c.apply(bob, task.Rest{})
	if got := c.inbox(); !strings.HasSuffix(got, fmt.Sprintf(":%d:%s:true", task.WentIdle, bob)) {
		t.Errorf("what was told already wakes the lead: %q", got)
	}
}
