package journal

import (
	"bytes"
	"context"
	"io"
	"iter"
	"strings"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// Task reads a task; TaskNotFound when there is none.
func (j *Journal) Task(ctx context.Context, id task.ID) (Row[task.Task], error) {
	var out Row[task.Task]
	team, err := j.TeamOf(ctx, id)
	if err != nil {
		return out, err
	}
	row := &storev1.TaskRow{}
	out.Rev, err = j.get(ctx, part(team), taskKey(id), row)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		err = taskNotFound(id)
	}
	out.Value = taskOf(team, row)
	return out, err
}

// Live reads the live record; RecordNotFound when the task has ended.
func (j *Journal) Live(ctx context.Context, team string, id task.ID) (Row[Live], error) {
	row := &storev1.LiveRow{}
	rev, err := j.get(ctx, part(team), liveKey(id), row)
	return Row[Live]{Rev: rev, Value: Live{
		Start: int(row.GetStart()), Restarts: int(row.GetRestarts()), Alone: row.GetAlone(),
		FailedResumes: int(row.GetFailedResumes()),
	}}, err
}

// Working yields the ids of a team's tasks that have work, in no order: all that live but the idle ones.
func (j *Journal) Working(ctx context.Context, team string) iter.Seq2[task.ID, error] {
	return j.idsBelow(ctx, team, "live")
}

// livingPasses bounds how often Living reads anew because teammates change sides all the time.
const livingPasses = 5

// Living yields the ids of a team's living tasks, each once, in no order. Those that rest and wake meanwhile are read again
// until nobody has, so that none escapes by changing sides.
func (j *Journal) Living(ctx context.Context, team string) iter.Seq2[task.ID, error] {
	return func(yield func(task.ID, error) bool) {
		seen := map[task.ID]bool{}
		for range livingPasses {
			before, unread := j.Work(ctx, team)
			for _, prefix := range []string{"idle", "live"} {
				for id, err := range j.idsBelow(ctx, team, prefix) {
					if err == nil && seen[id] {
						continue
					}
					seen[id] = true
					if !yield(id, err) {
						return
					}
				}
			}
			if now, err := j.Work(ctx, team); err == nil && unread == nil && now == before {
				return
			}
		}
	}
}

// Children yields the ids of a task's children, living and ended, in no order.
func (j *Journal) Children(ctx context.Context, team string, id task.ID) iter.Seq2[task.ID, error] {
	return j.idsBelow(ctx, team, "child/"+string(id))
}

// IsChild tells whether a task has come into being below a parent, also when its record is lost.
func (j *Journal) IsChild(ctx context.Context, team string, parent, id task.ID) (bool, error) {
	_, err := j.get(ctx, part(team), childKey(parent, id), &storev1.ChildRow{})
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound):
		return false, nil
	case errdefs.Is(err, errdefs.RecordCorrupt):
		return true, nil
	}
	return err == nil, err
}

// idsBelow yields the last segments of the keys below prefix.
func (j *Journal) idsBelow(ctx context.Context, team, prefix string) iter.Seq2[task.ID, error] {
	return func(yield func(task.ID, error) bool) {
		for rec, err := range j.st.Scan(ctx, part(team), prefix) {
			if !yield(task.ID(rec.Key[strings.LastIndexByte(rec.Key, '/')+1:]), err) {
				return
			}
		}
	}
}

// Created yields a team's tasks in the order of their creation, after a position.
func (j *Journal) Created(ctx context.Context, team string, after store.Pos) iter.Seq2[Row[task.ID], error] {
	return func(yield func(Row[task.ID], error) bool) {
		for e, err := range j.st.Read(ctx, part(team), "created", after) {
			row := &storev1.CreatedRow{}
			if err == nil {
				err = decode("created", e.Value, row)
			}
			if !yield(Row[task.ID]{Value: task.ID(row.GetTaskId()), Rev: e.Pos}, err) {
				return
			}
		}
	}
}

// Usage reads what a task and those below it consumed.
func (j *Journal) Usage(ctx context.Context, team string, id task.ID) (task.Usage, error) {
	v, _, err := j.vector(ctx, team, usageKey(id))
	return task.UsageOf(v), err
}

// vector reads an Add record; a missing one is zero. What a damaged one counted is lost: it reads as nothing, as it does to
// what is added next.
func (j *Journal) vector(ctx context.Context, team, key string) ([]int64, store.Pos, error) {
	rec, err := j.st.Get(ctx, part(team), key)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound):
		return nil, 0, nil
	case errdefs.Is(err, errdefs.RecordCorrupt):
		return nil, store.Damaged, nil
	case err != nil:
		return nil, 0, err
	}
	v, err := store.DecodeVector(rec.Value)
	return v, rec.Rev, err
}

// Result reads what an ended task left; RecordNotFound while it lives.
func (j *Journal) Result(ctx context.Context, team string, id task.ID) (task.Conclusion, error) {
	row := &storev1.ResultRow{}
	_, err := j.get(ctx, part(team), resultKey(id), row)
	return conclusionOf(row), err
}

// Spec reads what a task was given beside its record.
func (j *Journal) Spec(ctx context.Context, team string, id task.ID) (task.Spec, error) {
	row := &storev1.SpecRow{}
	_, err := j.get(ctx, part(team), specKey(id), row)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		err = nil
	}
	return specOf(row), err
}

// Item reads the n-th step of a chain, from 0; RecordNotFound when it has none.
func (j *Journal) Item(ctx context.Context, team string, group task.ID, n int) (task.Draft, error) {
	row := &storev1.ItemRow{}
	_, err := j.get(ctx, part(team), itemKey(group, n), row)
	return task.Draft{Task: taskOf(team, row.GetTask()), Spec: specOf(row.GetSpec()), Opening: row.GetOpening()}, err
}

// Entries yields a transcript after a position.
func (j *Journal) Entries(ctx context.Context, team string, id task.ID, after task.Seq) iter.Seq2[task.Entry, error] {
	return func(yield func(task.Entry, error) bool) {
		for e, err := range j.st.Read(ctx, part(team), entryLog(string(id)), store.Pos(after)) {
			entry, known, err := readEntry(e, err)
			if err == nil && !known {
				continue
			}
			if !yield(entry, err) {
				return
			}
		}
	}
}

// readEntry decodes an entry; known is false for a kind that this binary does not know.
func readEntry(e store.Entry, err error) (entry task.Entry, known bool, _ error) {
	row := &storev1.EntryRow{}
	if err == nil {
		err = decode("entry", e.Value, row)
	}
	entry = entryOf(e, row)
	return entry, entry.Body != nil, err
}

// LastEntries gives the last n entries of a transcript, oldest first.
func (j *Journal) LastEntries(ctx context.Context, team string, id task.ID, n int) ([]task.Entry, error) {
	raw, err := j.st.Last(ctx, part(team), entryLog(string(id)), n)
	if err != nil {
		return nil, err
	}
	entries := make([]task.Entry, 0, len(raw))
	for _, e := range raw {
		entry, known, err := readEntry(e, nil)
		if err != nil {
			return nil, err
		}
		if known {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// Request reads the first outcome of a request id, by its RequestKey; RecordNotFound when it is new.
func (j *Journal) Request(ctx context.Context, team, key string) (Request, error) {
	row := &storev1.RequestRow{}
	_, err := j.get(ctx, part(team), requestKey(key), row)
	return Request{Body: row.GetBody(), TaskID: task.ID(row.GetTaskId()), MessageID: row.GetMessageId()}, err
}

// Due reads one deadline; RecordNotFound when it was taken away.
func (j *Journal) Due(ctx context.Context, team string, id task.ID, kind DueKind) (Row[Due], error) {
	row := &storev1.DueRow{}
	rev, err := j.get(ctx, part(team), dueKey(id, kind), row)
	return Row[Due]{Rev: rev, Value: dueOf(row)}, err
}

// Dues yields a team's deadlines, in no order.
func (j *Journal) Dues(ctx context.Context, team string) iter.Seq2[Due, error] {
	return scan(ctx, j, team, "due", func(_ string, row *storev1.DueRow) Due { return dueOf(row) })
}

func dueOf(row *storev1.DueRow) Due {
	return Due{At: timeOf(row.GetAt()), TaskID: task.ID(row.GetTaskId()), Kind: DueKind(row.GetKind())}
}

// LooseProcess is a process tree that may still run, with the call it belongs to.
type LooseProcess struct {
	Team    string
	TaskID  task.ID
	CallID  string
	Process task.Process
}

// Processes yields the process trees of a team that were let loose and not seen to end.
func (j *Journal) Processes(ctx context.Context, team string) iter.Seq2[LooseProcess, error] {
	return scan(ctx, j, team, "process", func(key string, row *storev1.ProcessRow) LooseProcess {
		names := strings.Split(key, "/")
		return LooseProcess{
			Team: team, TaskID: task.ID(names[1]), CallID: names[2],
			Process: task.Process{PID: int(row.GetPid()), StartTime: row.GetStartTime(), BootID: row.GetBootId()},
		}
	})
}

// scan yields the decoded records below a prefix.
func scan[R any, P interface {
	*R
	proto.Message
}, T any](ctx context.Context, j *Journal, team, prefix string, convert func(string, P) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for rec, err := range j.st.Scan(ctx, part(team), prefix) {
			row := P(new(R))
			if err == nil {
				err = decode(rec.Key, rec.Value, row)
			}
			var item T
			if err == nil {
				item = convert(rec.Key, row)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// Output opens what a call kept of its whole output; RecordNotFound when it kept nothing.
func (j *Journal) Output(ctx context.Context, team string, id task.ID, callID string) (io.ReadCloser, error) {
	var pieces []io.Reader
	for n := 0; ; n++ {
		rec, err := j.st.Get(ctx, part(team), pieceKey(id, callID, n))
		if errdefs.Is(err, errdefs.RecordNotFound) && n == 0 {
			return nil, errdefs.New(errdefs.NotFound, errdefs.RecordNotFound, callID, "call %s kept no output", callID)
		}
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, bytes.NewReader(rec.Value))
		if len(rec.Value) < pieceSize {
			return io.NopCloser(io.MultiReader(pieces...)), nil
		}
	}
}
