package journal

import (
	"time"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// Batch collects typed operations on one team's partition, for one Commit. A fault in one of them is kept and answered
// by Commit.
type Batch struct {
	team   string
	now    time.Time
	ops    []store.Op
	guards []store.Guard
	feed   []*storev1.FeedRow // stamped by Commit
	err    error
}

// Batch starts a batch on a team's partition.
func (j *Journal) Batch(team string) *Batch { return &Batch{team: team, now: j.now()} }

// Now is the time that the batch's rows carry.
func (b *Batch) Now() time.Time { return b.now }

func (b *Batch) op(kind store.OpKind, name string, row proto.Message) {
	value, err := proto.Marshal(row)
	if err != nil && b.err == nil {
		b.err = errdefs.Wrap(err, errdefs.InvalidArgument, errdefs.BadArgument, name, "row %s can't be encoded", name)
	}
	b.ops = append(b.ops, store.Op{Kind: kind, Name: name, Value: value})
}

func (b *Batch) raw(kind store.OpKind, name string, value []byte) {
	b.ops = append(b.ops, store.Op{Kind: kind, Name: name, Value: value})
}

func (b *Batch) guard(key string, rev store.Pos) {
	for _, g := range b.guards {
		if g.Key == key && g.Rev == rev {
			return
		}
	}
	b.guards = append(b.guards, store.Guard{Key: key, Rev: rev})
}

// CreateTask registers a task (S2): its record, its place among the creations, its parent's list, the feed, its
// specification and its opening from a sender.
func (b *Batch) CreateTask(d task.Draft, from string) {
	t := d.Task
	b.guard(taskKey(t.ID), 0)
	b.op(store.Put, taskKey(t.ID), taskRow(t))
	b.op(store.Put, liveKey(t.ID), &storev1.LiveRow{})
	b.op(store.Append, "created", &storev1.CreatedRow{TaskId: string(t.ID)})
	if t.Parent != "" {
		b.op(store.Put, childKey(t.Parent, t.ID), &storev1.ChildRow{})
	}
	b.stateChange(t.ID, 0, t.State, t.Reason)
	if row := specRow(d.Spec); proto.Size(row) > 0 {
		b.op(store.Put, specKey(t.ID), row)
	}
	if d.Opening != "" {
		b.Append(t.ID, &task.Input{From: from, Text: d.Opening})
	}
}

// PutItem keeps the n-th step of a chain, from 0, until it becomes a task.
func (b *Batch) PutItem(group task.ID, n int, d task.Draft) {
	b.op(store.Put, itemKey(group, n), &storev1.ItemRow{
		Task: taskRow(d.Task), Spec: specRow(d.Spec), Opening: d.Opening,
	})
}

// ChangeTask writes what task.Apply made of the row, guarded by it. A change of state stands in the transcript and in
// the feed.
func (b *Batch) ChangeTask(row Row[task.Task], after task.Task) {
	b.GuardTask(row)
	b.op(store.Put, taskKey(after.ID), taskRow(after))
	if after.State != row.Value.State {
		b.stateChange(after.ID, row.Value.State, after.State, after.Reason)
	}
}

// EndTask is ChangeTask for a terminal change: with what it leaves, and without what only living tasks have. It takes the
// live record away, so that a loop of this life can commit nothing more (T1), and tells the agent that spawned it (R6).
func (b *Batch) EndTask(row Row[task.Task], after task.Task, left task.Conclusion) {
	b.ChangeTask(row, after)
	b.op(store.Put, resultKey(after.ID), resultRow(left))
	if after.CallID != "" {
		b.accept(after.Parent, mailbox.Message{
			ID: "end-" + string(after.ID), From: mailbox.FromDaemon, Sent: b.now, About: after.ID,
		})
	}
	b.raw(store.Delete, liveKey(after.ID), nil)
	for _, kind := range dueKinds() {
		b.raw(store.Delete, dueKey(after.ID, kind), nil)
	}
}

func (b *Batch) stateChange(id task.ID, from, to task.State, reason task.Reason) {
	if from != 0 {
		b.Append(id, &task.StateChange{From: from, To: to, Reason: reason})
	}
	b.feed = append(b.feed, &storev1.FeedRow{
		TaskId: string(id),
		Event: &storev1.FeedRow_State{State: &storev1.StateRow{
			From: uint32(from), To: uint32(to), Reason: uint32(reason),
		}},
	})
}

// GuardTask makes the batch fail with Conflict when the task changed since the row was read.
func (b *Batch) GuardTask(row Row[task.Task]) { b.guard(taskKey(row.Value.ID), row.Rev) }

// GuardLive makes the batch fail with Conflict when the task ended or got another loop since the row was read.
func (b *Batch) GuardLive(id task.ID, rev store.Pos) { b.guard(liveKey(id), rev) }

// GuardInbox makes the batch fail with Conflict when mail was accepted or taken since the revision was read.
func (b *Batch) GuardInbox(id task.ID, rev store.Pos) { b.guard(inboxKey(id), rev) }

// PutLive writes the live record of a new start.
func (b *Batch) PutLive(id task.ID, l Live) {
	b.op(store.Put, liveKey(id), &storev1.LiveRow{
		Start: int32(l.Start), Restarts: int32(l.Restarts), Alone: l.Alone, FailedResumes: int32(l.FailedResumes),
	})
}

// Append adds entries to a task's transcript.
func (b *Batch) Append(id task.ID, bodies ...task.Body) {
	for _, body := range bodies {
		b.op(store.Append, entryLog(string(id)), entryRow(b.now, body))
	}
}

// AddUsage counts for the task and all above it (R4).
func (b *Batch) AddUsage(t task.Task, u task.Usage) {
	value := store.EncodeVector(u.Vector())
	b.raw(store.Add, usageKey(t.ID), value)
	for _, id := range t.Ancestors {
		b.raw(store.Add, usageKey(id), value)
	}
}

// pieceSize is the size of one piece of a call's whole output, within the store's bound of a value.
const pieceSize = 256 << 10

// PutOutput keeps the whole output of a call. Writing it again replaces it: the first short piece ends it, so that
// pieces of a longer one before do not count.
func (b *Batch) PutOutput(id task.ID, callID string, output []byte) {
	for n := 0; ; n++ {
		size := min(pieceSize, len(output))
		b.raw(store.Put, pieceKey(id, callID, n), output[:size])
		if size < pieceSize {
			return
		}
		output = output[size:]
	}
}

// PutProcess records a process tree before it is let loose (T3).
func (b *Batch) PutProcess(id task.ID, callID string, p task.Process) {
	b.op(store.Put, processKey(id, callID), &storev1.ProcessRow{
		Pid: int32(p.PID), StartTime: p.StartTime, BootId: p.BootID,
	})
}

// DeleteProcess forgets a process tree that is gone.
func (b *Batch) DeleteProcess(id task.ID, callID string) {
	b.raw(store.Delete, processKey(id, callID), nil)
}

// Send accepts mail for a living task, whose live revision guards it, and tells the feed.
func (b *Batch) Send(to task.ID, live store.Pos, m mailbox.Message) {
	b.GuardLive(to, live)
	b.accept(to, m)
	b.feed = append(b.feed, &storev1.FeedRow{
		TaskId: string(to), Event: &storev1.FeedRow_MessageId{MessageId: m.ID},
	})
}

// accept puts a message into a mailbox.
func (b *Batch) accept(to task.ID, m mailbox.Message) {
	b.op(store.Append, mailLog(to), &storev1.MailRow{
		Id: m.ID, From: m.From, Text: m.Text, Sent: m.Sent.UnixNano(), About: string(m.About),
	})
	counts := m.Counts()
	b.raw(store.Add, inboxKey(to), store.EncodeVector([]int64{counts.Messages, counts.Bytes}))
}

// Take moves mail from the mailbox into the transcript, as the inputs that it became (D2).
func (b *Batch) Take(id task.ID, box Row[mailbox.Box], mail []mailbox.Message, next mailbox.Box, inputs []task.Body) {
	b.Settle(id, box, mail, next)
	b.Append(id, inputs...)
}

// Settle takes mail from the mailbox that the recipient need not be given.
func (b *Batch) Settle(id task.ID, box Row[mailbox.Box], mail []mailbox.Message, next mailbox.Box) {
	b.guard(mailboxKey(id), box.Rev)
	b.op(store.Put, mailboxKey(id), &storev1.MailboxRow{Low: next.Low, Taken: next.Taken})
	taken := []int64{0, 0}
	for _, m := range mail {
		counts := m.Counts()
		taken[0], taken[1] = taken[0]-counts.Messages, taken[1]-counts.Bytes
	}
	b.raw(store.Add, inboxKey(id), store.EncodeVector(taken))
}

// PutRequest keeps the first outcome of a request id (N7). The batch fails with Conflict when there is one already.
func (b *Batch) PutRequest(key string, r Request) {
	name := requestKey(key)
	b.guard(name, 0)
	b.op(store.Put, name, &storev1.RequestRow{
		Body: r.Body, Time: b.now.UnixNano(), TaskId: string(r.TaskID), MessageId: r.MessageID,
	})
	b.op(store.Append, "requests", &storev1.RequestSeenRow{Hash: key, Time: b.now.UnixNano()})
}

// PutDue writes a deadline (D10).
func (b *Batch) PutDue(d Due) {
	b.op(store.Put, dueKey(d.TaskID, d.Kind), &storev1.DueRow{
		At: d.At.UnixNano(), TaskId: string(d.TaskID), Kind: uint32(d.Kind),
	})
}

// DeleteDue takes a deadline away.
func (b *Batch) DeleteDue(id task.ID, kind DueKind) { b.raw(store.Delete, dueKey(id, kind), nil) }
