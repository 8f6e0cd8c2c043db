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
	"github.com/agentd-dev/agentd/runtime/roster"
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

func TestTeamComesBack(t *testing.T) {
	team := filled[roster.Team]()
	team.Budget.MaxSteps, team.Budget.WallTime = 0, 0 // which are no team's
	row := &storev1.TeamRow{}
	onDisk(t, teamRow(team), row)
	same(t, teamOf(row), team)
}

func TestSpecComesBack(t *testing.T) {
	spec := filled[task.Spec]()
	row := &storev1.SpecRow{}
	onDisk(t, specRow(spec), row)
	same(t, specOf(row), spec)
}

// TestOldRows: what was written before there were teammates reads as it was meant.
func TestOldRows(t *testing.T) {
	second := int64(time.Second)
	for _, tt := range []struct {
		row  *storev1.TaskRow
		want time.Duration
	}{
		{&storev1.TaskRow{Id: "sub-1", State: uint32(task.Queued), Kind: uint32(task.Subagent)}, 0},
		{&storev1.TaskRow{Id: "sub-1", State: uint32(task.Running), Kind: uint32(task.Subagent), Started: 5 * second}, 4 * time.Second},
		{&storev1.TaskRow{
			Id: "sh-1", State: uint32(task.Completed), Kind: uint32(task.Shell), Started: 5 * second, Ended: 7 * second,
		}, 2 * time.Second},
		{&storev1.TaskRow{Id: "sub-1", State: uint32(task.Killed), Kind: uint32(task.Subagent), Ended: 7 * second}, 0},
		{&storev1.TaskRow{ // a teammate has rows of today: it rests, and its first turn took no time
			Id: "tm-1", State: uint32(task.Idle), Kind: uint32(task.Teammate), Started: 5 * second,
		}, 0},
	} {
		at := taskOf("t-1", tt.row)
		if got := at.WallTime(time.Unix(9, 0)); got != tt.want {
			t.Errorf("%s, %s: it worked for %v, want %v", at.ID, at.State, got, tt.want)
		}
	}
	notice := mailOf(&storev1.MailRow{Id: "end-sub-1-1", From: mailbox.Daemon, About: "sub-1"})
	if notice.Kind != task.Ended || !notice.IsNotice() {
		t.Errorf("a notice of old is %+v", notice)
	}
	if mail := mailOf(&storev1.MailRow{Id: "m-1", From: "user", Text: "hi"}); mail.IsNotice() || mail.Counts().Messages != 1 {
		t.Errorf("mail of old is %+v", mail)
	}
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
	member, control, sent, errand := filled[roster.Member](), filled[Control](), filled[mailbox.Sent](), filled[Errand]()
	member.Name, sent.MessageID, errand.ID, errand.Mail.Pos = "Ann", "m-9", "m-8", 0
	sent.Recipient = id
	report, changes, usage := filled[task.Report](), []string{"/a", "/b"}, filled[task.Usage]()
	row := read(t, j, id)

	b := j.Batch(team)
	liveRow, err := j.Live(ctx, team, id)
	must(t, err)
	b.GuardLive(id, liveRow.Rev)
	b.Accept(id, mail)
	b.PutMember(member, 0, roster.Dismissed)
	b.PutControl(id, 0, control)
	b.PutSent(sent)
	b.PutErrand(errand, 0)
	b.PutLive(id, live)
	b.PutDue(due)
	b.PutRequest(RequestKey("uid:1", "r"), request)
	b.PutProcess(id, "call1", process)
	b.AddUsage(row.Value, usage)
	commit(t, j, b)

	b = j.Batch(team)
	b.Settle(id, Row[mailbox.Box]{}, nil, box)
	commit(t, j, b)

	gotLive, err := j.Live(ctx, team, id)
	must(t, err)
	same(t, gotLive.Value, live)
	gotDue, err := j.Due(ctx, team, id, DueReattach)
	must(t, err)
	same(t, gotDue.Value, due)
	gotMember, err := j.Member(ctx, team, "aNN")
	must(t, err)
	same(t, gotMember.Value, member)
	gotControl, err := j.Control(ctx, team, id)
	must(t, err)
	same(t, gotControl.Value, control)
	gotSent, err := j.SentTo(ctx, team, "m-9", id)
	must(t, err)
	same(t, gotSent.Value, sent)
	errands, err := j.Errands(ctx, team)
	must(t, err)
	same(t, errands[0].Value, errand)
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
