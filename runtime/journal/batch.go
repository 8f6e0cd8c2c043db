package journal

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
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
	roused []task.ID          // tasks that are to get a loop
	posted bool               // the outbox has more
	last   store.Pos          // of its last operation, once it is on disk
	err    error
}

// Batch starts a batch on a team's partition.
func (j *Journal) Batch(team string) *Batch { return &Batch{team: team, now: j.now()} }

// Now is the time that the batch's rows carry.
func (b *Batch) Now() time.Time { return b.now }

// Last is the position of the last thing that a committed batch wrote: what comes later is behind it.
func (b *Batch) Last() task.Seq { return task.Seq(b.last) }

func (b *Batch) op(kind store.OpKind, name string, row proto.Message) {
	value, err := proto.Marshal(row)
	if err != nil && b.err == nil {
		b.err = errdefs.Wrap(err, errdefs.InvalidArgument, errdefs.BadArgument, name, "row %s can't be encoded", name)
	}
	b.ops = append(b.ops, store.Op{Kind: kind, Name: name, Value: value})
}

func (b *Batch) raw(kind store.OpKind, name string, value []byte) {
	if kind == store.Add && b.merge(name, value) {
		return
	}
	b.ops = append(b.ops, store.Op{Kind: kind, Name: name, Value: value})
}

// merge adds a vector to what the batch adds to the same record already; false when it adds nothing there yet.
func (b *Batch) merge(name string, value []byte) bool {
	at := slices.IndexFunc(b.ops, func(op store.Op) bool { return op.Kind == store.Add && op.Name == name })
	if at < 0 {
		return false
	}
	sum, err := store.DecodeVector(b.ops[at].Value)
	more, err2 := store.DecodeVector(value)
	if err := errors.Join(err, err2); err != nil {
		b.err = cmp.Or(b.err, err)
		return true
	}
	for i, n := range more {
		if i == len(sum) {
			sum = append(sum, 0)
		}
		sum[i] += n
	}
	b.ops[at].Value = store.EncodeVector(sum)
	return true
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
	if t.Parent == "" {
		b.guardOpen() // those that have one are stopped with it
	}
	b.op(store.Put, taskKey(t.ID), taskRow(t))
	b.op(store.Put, liveKey(t.ID), &storev1.LiveRow{})
	if t.Root().Kind() == task.Teammate {
		b.raw(store.Add, workKey, store.EncodeVector([]int64{1}))
	}
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
// live record away, so that a loop of this life can commit nothing more (T1).
func (b *Batch) EndTask(row Row[task.Task], after task.Task, left task.Conclusion) {
	b.ChangeTask(row, after)
	b.op(store.Put, resultKey(after.ID), resultRow(left))
	b.stopWork(after)
	if after.Kind == task.Teammate {
		b.raw(store.Delete, idleKey(after.ID), nil)
	}
	for _, kind := range dueKinds() {
		b.raw(store.Delete, dueKey(after.ID, kind), nil)
	}
}

// RestTask is ChangeTask for the end of a teammate's turn. Without more to do it takes the live record away, so that the
// teammate is nothing but its rows; with more, mail that came meanwhile, a loop takes it up again.
func (b *Batch) RestTask(row Row[task.Task], after task.Task, more bool) {
	b.ChangeTask(row, after)
	b.DeleteDue(after.ID, DueTimeout)
	if row.Value.CancelOnDisconnect && !after.CancelOnDisconnect {
		b.DeleteDue(after.ID, DueReattach)
	}
	if more {
		b.PutLive(after.ID, Live{})
		b.roused = append(b.roused, after.ID)
		return
	}
	b.stopWork(after)
	b.op(store.Put, idleKey(after.ID), &storev1.IdleRow{})
}

// ReopenTask is ChangeTask for the next incarnation of a teammate: it is to get a loop again.
func (b *Batch) ReopenTask(row Row[task.Task], after task.Task) {
	b.ChangeTask(row, after)
	b.guardOpen()
	b.guard(liveKey(after.ID), 0)
	b.startWork(after.ID, Live{})
	b.roused = append(b.roused, after.ID)
}

// startWork and stopWork write that a task has work, and that it has none any more. The record `work` changes with it when
// the task is a teammate's or below one.
func (b *Batch) startWork(id task.ID, l Live) {
	b.PutLive(id, l)
	if id.Kind() == task.Teammate {
		b.raw(store.Add, workKey, store.EncodeVector([]int64{1}))
	}
}

func (b *Batch) stopWork(t task.Task) {
	b.raw(store.Delete, liveKey(t.ID), nil)
	if t.Root().Kind() == task.Teammate {
		b.raw(store.Add, workKey, store.EncodeVector([]int64{-1}))
	}
}

// GuardWork makes the batch fail with Conflict when a teammate, or a task below one, got work or ran out of it, or there was an
// errand, since the revision was read.
func (b *Batch) GuardWork(rev store.Pos) { b.guard(workKey, rev) }

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

// AddUsage counts for the task, all above it, and its team (R4, N4).
func (b *Batch) AddUsage(t task.Task, u task.Usage) {
	value := store.EncodeVector(u.Vector())
	b.raw(store.Add, usageKey(t.ID), value)
	for _, id := range t.Ancestors {
		b.raw(store.Add, usageKey(id), value)
	}
	b.raw(store.Add, usageKey(task.ID(t.Team)), value)
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

// Team is the team whose partition the batch writes.
func (b *Batch) Team() string { return b.team }
