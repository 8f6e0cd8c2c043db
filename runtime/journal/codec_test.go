package journal

import (
	"context"
	"os"
	"reflect"
	"regexp"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// filled makes a value whose every field, and every field of these, differs from zero and from the others: a field that
// a codec forgets, or mixes up, does not come back.
func filled[T any]() T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(string(rune('a'+*n%26)) + "é世" + string(rune('0'+*n%10)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(0, int64(*n))))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic("the test does not know how to fill a " + v.Type().String())
	}
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("came back as\n%+v, was\n%+v", got, want)
	}
}

// onDisk writes a row and reads it.
func onDisk(t *testing.T, row, back proto.Message) {
	t.Helper()
	value, err := proto.Marshal(row)
	must(t, err)
	must(t, decode("row", value, back))
}

func TestTaskComesBack(t *testing.T) {
	at := filled[task.Task]()
	at.Parent = at.Ancestors[0] // which is not written twice
	row := &storev1.TaskRow{}
	onDisk(t, taskRow(at), row)
	same(t, taskOf(at.Team, row), at)

	empty := task.Task{ID: "sub-1"} // no stop, no times, no ancestors
	onDisk(t, taskRow(empty), row)
	same(t, taskOf("", row), empty)
}

func bodies() []task.Body {
	return []task.Body{
		new(filled[task.Input]()), new(filled[task.Assistant]()), new(filled[task.CallStarted]()),
		new(filled[task.ToolResult]()), new(filled[task.StateChange]()), new(filled[task.Notice]()),
		new(filled[task.Output]()), new(filled[task.Compaction]()),
	}
}

func TestEntriesComeBack(t *testing.T) {
	now := time.Unix(0, 12345)
	names := map[string]bool{}
	for _, body := range bodies() {
		names[reflect.TypeOf(body).Elem().Name()] = true
		empty := reflect.New(reflect.TypeOf(body).Elem()).Interface().(task.Body)
		for _, b := range []task.Body{body, empty} {
			row := &storev1.EntryRow{}
			onDisk(t, entryRow(now, b), row)
			same(t, entryOf(store.Entry{Pos: 7}, row), task.Entry{Seq: 7, Time: now, Body: b})
		}
	}
	source, err := os.ReadFile("../task/entry.go")
	must(t, err)
	for _, m := range regexp.MustCompile(`func \(\*(\w+)\) body\(\)`).FindAllStringSubmatch(string(source), -1) {
		if !names[m[1]] {
			t.Errorf("there is a body %s that this test does not know", m[1])
		}
	}
}

// TestUnknownEntry: a kind of entry that a newer agentd wrote is passed over.
func TestUnknownEntry(t *testing.T) {
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	b := j.Batch(team)
	b.op(store.Append, entryLog("sub-1"), &storev1.EntryRow{Time: 1})
	b.Append("sub-1", &task.Notice{Text: "known"})
	commit(t, j, b)
	last, err := j.LastEntries(context.Background(), team, "sub-1", 10)
	must(t, err)
	if got := transcript(t, j, team, "sub-1"); len(got) != 1 || len(last) != 1 {
		t.Errorf("entries %v, last %v", got, last)
	}
}

// TestRowsComeBack writes each of the smaller rows, with every field filled, and reads it.
func TestRowsComeBack(t *testing.T) {
	ctx := context.Background()
	j := newJournal(t, newStore(t))
	team := newTeam(t, j, "main").ID
	id := newTask(t, j, team)
	live, due, request := filled[Live](), filled[Due](), filled[Request]()
	mail, box := filled[mailbox.Message](), filled[mailbox.Box]()
	process := filled[task.Process]()
	due.TaskID, due.Kind = id, DueReattach
	report, changes, usage := filled[task.Report](), []string{"/a", "/b"}, filled[task.Usage]()
	row := read(t, j, id)

	b := j.Batch(team)
	liveRow, err := j.Live(ctx, team, id)
	must(t, err)
	b.Send(id, liveRow.Rev, mail)
	b.PutLive(id, live)
	b.PutDue(due)
	b.PutRequest(RequestKey("uid:1", "r"), request)
	b.PutProcess(id, "call1", process)
	b.AddUsage(row.Value, usage)
	commit(t, j, b)

	b = j.Batch(team)
	b.Take(id, Row[mailbox.Box]{}, nil, box, nil)
	commit(t, j, b)

	gotLive, err := j.Live(ctx, team, id)
	must(t, err)
	same(t, gotLive.Value, live)
	gotDue, err := j.Due(ctx, team, id, DueReattach)
	must(t, err)
	same(t, gotDue.Value, due)
	gotRequest, err := j.Request(ctx, team, RequestKey("uid:1", "r"))
	must(t, err)
	same(t, gotRequest, request)
	gotBox, err := j.Mailbox(ctx, team, id)
	must(t, err)
	same(t, gotBox.Value, box)
	gotUsage, err := j.Usage(ctx, team, id)
	must(t, err)
	same(t, gotUsage, usage)
	for m, err := range j.Mail(ctx, team, id, 0) {
		must(t, err)
		mail.Pos = m.Pos
		same(t, m, mail)
	}
	for p, err := range j.Processes(ctx, team) {
		must(t, err)
		same(t, p, LooseProcess{Team: team, TaskID: id, CallID: "call1", Process: process})
	}

	b = j.Batch(team)
	after, err := task.Apply(read(t, j, id).Value, task.Finish{State: task.Failed, Reason: task.Panic}, b.Now())
	must(t, err)
	code := 3
	left := task.Conclusion{
		Report: report, Changes: changes, Output: "{}", ExitCode: &code,
		Evidence: []task.Evidence{{Command: "true", ExitCode: -1, TimedOut: true, Output: "tail"}},
	}
	b.EndTask(read(t, j, id), after, left)
	commit(t, j, b)
	got, err := j.Result(ctx, team, id)
	must(t, err)
	same(t, got, left)
}
