package journal

import (
	"context"
	"errors"
	"go/parser"
	"go/token"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	storev1 "github.com/agentd-dev/agentd/gen/agentd/store/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/store"
)

// drawn is a line of the drawing in the package comment.
type drawn struct {
	part, name, kind, row string
}

// drawing reads the package comment.
func drawing(t *testing.T) []drawn {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "journal.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	must(t, err)
	var lines []drawn
	part := ""
	for line := range strings.Lines(file.Doc.Text()) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "\t  "):
			lines = append(lines, drawn{part, fields[0], fields[1], fields[2]})
		case strings.HasPrefix(line, "\t"):
			part = fields[0]
		}
	}
	return lines
}

// matches tells whether a name has the drawn form: words in upper case stand for any segment.
func (d drawn) matches(part store.Partition, kind, name string) bool {
	if (d.part == "daemon") != (part == daemonPart) || d.kind != kind {
		return false
	}
	want, got := strings.Split(d.name, "/"), strings.Split(name, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && want[i] != strings.ToUpper(want[i]) {
			return false
		}
	}
	return true
}

// holds tells whether a value is a row of the drawn type.
func (d drawn) holds(t *testing.T, value []byte) bool {
	t.Helper()
	switch d.row {
	case "-":
		return len(value) == 0
	case "bytes":
		return true
	case "vector":
		_, err := store.DecodeVector(value)
		return err == nil
	}
	desc := storev1.File_agentd_store_v1_rows_proto.Messages().ByName(protoreflect.Name(d.row))
	if desc == nil {
		t.Fatalf("the drawing names a row %s that does not exist", d.row)
	}
	row := dynamicpb.NewMessage(desc)
	return proto.Unmarshal(value, row) == nil && len(row.GetUnknown()) == 0
}

// written is what a commit wrote.
type written struct {
	part store.Partition
	op   store.Op
}

// recorder notes what is written to a real store.
type recorder struct {
	store.Store
	mu      sync.Mutex
	written []written
}

func (r *recorder) Commit(ctx context.Context, b store.Batch) (store.Committed, error) {
	done, err := r.Store.Commit(ctx, b)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, op := range b.Ops {
			r.written = append(r.written, written{b.Part, op})
		}
	}
	return done, err
}

// TestDrawing writes a row of every kind and compares what is in the store with the drawing in the package comment.
func TestDrawing(t *testing.T) {
	st := &recorder{Store: newStore(t)}
	j := newJournal(t, st)
	writeEverything(t, j)
	lines := drawing(t)
	found := make([]bool, len(lines))
	for _, w := range st.written {
		if w.op.Kind == store.Delete {
			continue
		}
		kind := "record"
		if w.op.Kind == store.Append {
			kind = "log"
		}
		known := false
		for i, line := range lines {
			if line.matches(w.part, kind, w.op.Name) {
				known, found[i] = true, true
				if !line.holds(t, w.op.Value) {
					t.Errorf("%s is not a %s", w.op.Name, line.row)
				}
			}
		}
		if !known {
			t.Errorf("the drawing lacks the %s %s of %s", kind, w.op.Name, w.part)
		}
	}
	for i, line := range lines {
		if !found[i] {
			t.Errorf("the drawing has a %s %s in %s that is never written", line.kind, line.name, line.part)
		}
	}
	// What the recorder says is what the file holds.
	for _, p := range []store.Partition{daemonPart, "t-1"} {
		for rec, err := range st.Scan(context.Background(), p, "") {
			must(t, err)
			known := false
			for _, line := range lines {
				known = known || line.matches(p, "record", rec.Key) && line.holds(t, rec.Value)
			}
			if !known {
				t.Errorf("the drawing lacks the record %s of %s", rec.Key, p)
			}
		}
	}
}

func writeEverything(t *testing.T, j *Journal) {
	t.Helper()
	team := newTeam(t, j, "Main").ID
	parent := newTask(t, j, team)
	child := newTask(t, j, team, parent)
	row := read(t, j, child)
	b := j.Batch(team)
	b.Append(child, bodies()...)
	b.AddUsage(row.Value, task.Usage{Steps: 1})
	b.PutOutput(child, "call1", []byte("output"))
	b.PutProcess(child, "call1", task.Process{PID: 1})
	b.PutRequest(RequestKey("uid:1", "r"), Request{TaskID: child})
	for _, kind := range dueKinds() {
		b.PutDue(Due{At: time.Now(), TaskID: child, Kind: kind})
	}
	b.PutLive(child, Live{Start: 1})
	b.PutItem(parent, 0, task.Draft{Task: row.Value, Opening: "then"})
	b.CreateTask(task.Draft{
		Task: task.Task{ID: "sub-999", Team: team, State: task.Queued}, Spec: task.Spec{Instructions: "care"},
	}, "user")
	mail := mailbox.Message{ID: "m-1", From: "user", Text: "hi", Sent: time.Now()}
	b.Accept(child, mail)
	b.Accept(mailbox.LeaderBox, mailbox.Message{ID: "m-2", To: mailbox.User})
	b.TellMail(child, "m-1")
	b.PutSent(mailbox.Sent{MessageID: "m-1", Recipient: child})
	b.PutErrand(Errand{ID: "m-3", Mail: mail, Recipients: []task.ID{child}}, 0)
	b.LeaveMail(child)
	b.PutControl(child, 0, Control{Plan: Handshake{ID: "c-1"}})
	b.PutDue(Due{At: time.Now(), TaskID: "m-1", Kind: DueExpiry})
	commit(t, j, b)

	b = j.Batch(team)
	b.Settle(child, Row[mailbox.Box]{}, nil, mailbox.Box{Low: 1})
	b.CloseTeam()
	commit(t, j, b)
	b = j.Batch(Daemon)
	b.PutRequest(RequestKey("uid:1", "team"), Request{})
	commit(t, j, b)
	restless := newMate(t, j, newTeam(t, j, "Other").ID, "Ann")
	apply(t, j, restless, task.Start{})
	rest(t, j, restless, false)
	apply(t, j, child, task.Start{})
	apply(t, j, child, done())
	must(t, j.st.probe(context.Background()))
}

// TestMigrations starts a newer agentd on an older store: each step runs once, in order, and is recorded as it is done,
// so that a step that fails is tried again by the next start. proves D7 as far as schemas go
func TestMigrations(t *testing.T) {
	ctx, log := context.Background(), slog.New(slog.DiscardHandler)
	st := newStore(t)
	newTeam(t, newJournal(t, st), "main")

	var ran []uint32
	var broken error
	step := func(from uint32) migration {
		return migration{from, func(ctx context.Context, j *Journal) error {
			ran = append(ran, from)
			b := j.Batch("t-1") // a migration may write to teams, as the start that it is part of
			b.Append("sub-1", &task.Notice{Text: "migrated"})
			if err := j.Commit(ctx, b); err != nil {
				return err
			}
			if from == 2 {
				return broken
			}
			return nil
		}}
	}
	table := []migration{step(1), step(2)}
	broken = errors.New("power failure")
	if _, err := open(ctx, st, time.Now, log, table); !errors.Is(err, broken) {
		t.Fatalf("a migration that failed: %v", err)
	}
	broken = nil
	for range 2 { // the second time there is nothing to do
		j, err := open(ctx, st, time.Now, log, table)
		must(t, err)
		if j.daemon.GetSchema() != 3 {
			t.Errorf("the schema is %d after all", j.daemon.GetSchema())
		}
	}
	if len(ran) != 3 || ran[0] != 1 || ran[1] != 2 || ran[2] != 2 {
		t.Errorf("steps ran from %v", ran)
	}

	// The older agentd refuses what the newer one wrote, and leaves it alone.
	before, err := st.Get(ctx, daemonPart, "daemon")
	must(t, err)
	_, err = Open(ctx, st, time.Now, log)
	want(t, err, errdefs.SchemaTooNew)
	after, err := st.Get(ctx, daemonPart, "daemon")
	must(t, err)
	if after.Rev != before.Rev {
		t.Error("a refused start wrote to the store")
	}
}

// TestMigrationTable: the table has no gap.
func TestMigrationTable(t *testing.T) {
	for i, m := range migrations() {
		if m.From != uint32(i+1) || m.Run == nil {
			t.Errorf("row %d is from %d", i, m.From)
		}
	}
	j := newJournal(t, newStore(t))
	if j.daemon.GetSchema() != newest(migrations()) {
		t.Errorf("a new store has schema %d", j.daemon.GetSchema())
	}
}
