package runtime_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// damage flips a bit in each of some records of the first team on disk, between two lives of the daemon. What is none is a
// text that stands in an entry of a log.
func (h *house) damage(names ...string) {
	h.t.Helper()
	h.kill()
	path := filepath.Join(h.dir, "agentd.db")
	file, err := os.ReadFile(path)
	h.must(err)
	for _, name := range names {
		if !flipRecord(file, "t-1\x00"+name) && !flipAll(file, name) {
			h.t.Fatalf("there is no %s", name)
		}
	}
	h.must(os.WriteFile(path, file, 0o600))
	h.start()
}

// flipRecord flips a bit of a record's checksum, which follows its key. Its revision comes then, which is small: that tells it
// from the key in the page of an index.
func flipRecord(file []byte, key string) (found bool) {
	for at := 0; ; {
		n := bytes.Index(file[at:], []byte(key))
		if n < 0 || at+n+len(key)+9 > len(file) {
			return found
		}
		at += n + len(key)
		if bytes.Equal(file[at+4:at+9], make([]byte, 5)) {
			file[at] ^= 1
			found = true
		}
	}
}

// flipAll flips a bit of a text wherever it stands.
func flipAll(file []byte, text string) (found bool) {
	for at := 0; ; {
		n := bytes.Index(file[at:], []byte(text))
		if n < 0 {
			return found
		}
		at += n
		file[at] ^= 1
		found = true
	}
}

// wants sends a client's message that must be accepted.
func (h *house) wants(to, text string) {
	h.t.Helper()
	if _, err := h.write(to, text); err != nil {
		h.t.Fatalf("to %s: %v", to, err)
	}
}

// proves D7: whatever row of its mail is damaged, a teammate at rest takes mail, is asked to end, is stopped, revived and
// dismissed, and its name is given anew. It reads nothing twice.
func TestDamagedTeammate(t *testing.T) {
	for _, row := range []string{
		"inbox/tm-1", "idle/tm-1", "mailbox/tm-1", "control/tm-1", "member/ann", "inbox/leader", "work", "sent/m-2/tm-1",
	} {
		t.Run(row, func(t *testing.T) {
			bubble(t, polite("false"), func(h *house) {
				id := h.spawn("first", mate("Ann"))
				h.untilState(id, task.Idle)
				h.wants("ann", "second")
				h.untilSteps(id, 2, task.Idle)
				h.askShutdown("ann")
				h.untilSteps(id, 4, task.Idle)
				h.damage(row)
				h.wants("ann", "third")
				h.untilSteps(id, 5, task.Idle)
				h.askShutdown("ann")
				h.untilSteps(id, 7, task.Idle)
				h.must(h.stopTask(id, task.Kill))
				h.wants("ann", "fourth")
				h.untilSteps(id, 8, task.Idle)
				if got := h.inputs(id); !slices.Equal(got, []string{"first", "second", "we are done", "third", "we are done", "fourth"}) {
					h.t.Errorf("it read %q", got)
				}
				h.must(h.dismiss("ann"))
				if _, err := h.write("ann", "fifth"); !errdefs.Is(err, errdefs.NotRevivable) {
					h.t.Errorf("a dismissed one: %v", err)
				}
				next := h.spawn("another", mate("ann"))
				h.untilState(next, task.Idle)
			})
		})
	}
}

// proves D7, D2: rows and a message are damaged while mail waits in a mailbox: what is left of it is read once and in order,
// when it lives on and when it is killed, and what nobody will read goes back.
func TestDamagedWithMailWaiting(t *testing.T) {
	for _, rows := range [][]string{{"inbox/tm-1"}, {"mailbox/tm-1"}, {"inbox/tm-1", "mailbox/tm-1"}, {"the lost one"}} {
		for _, ends := range []bool{false, true} {
			t.Run(strings.Join(rows, ","), func(t *testing.T) {
				bubble(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
					if strings.HasSuffix(req.Messages[len(req.Messages)-1].Text, "wait\n</teammate-message>") {
						return hang(ctx, req, sink)
					}
					return text("fine"), nil
				}, func(h *house) {
					id := h.spawn("first", mate("ann"))
					h.untilState(id, task.Idle)
					h.wants("ann", "wait")
					h.untilTook(id, task.Text, 1, task.Running)
					h.wants("ann", "the lost one")
					sent := h.post(runtime.SendRequest{To: "ann", Text: "the last"})
					if ends {
						h.must(h.stopTask(id, task.Kill))
					}
					h.damage(rows...)
					want := []string{"first", "wait", "the lost one", "the last"}
					if rows[0] == "the lost one" {
						want = slices.Delete(want, 2, 3)
					}
					if ends {
						h.must(h.dismiss("ann"))
						h.errandsDone(sent.Team)
						if r := h.receipt(sent, id); r.Fate != mailbox.Undeliverable {
							h.t.Errorf("it ended %+v", r)
						}
						want = want[:2]
					} else {
						h.untilState(id, task.Idle)
					}
					if got := h.inputs(id); !slices.Equal(got, want) {
						h.t.Errorf("it read %q, want %q", got, want)
					}
				})
			})
		}
	}
}

// proves D7: whatever row of the lead's mail is damaged, its teammates work on, and it reads of each turn once.
func TestDamagedLead(t *testing.T) {
	for _, row := range []string{
		"inbox/leader", "mailbox/leader", "member/team-lead", "idle/tm-1", "work", "task/tm-1",
	} {
		t.Run(row, func(t *testing.T) {
			bubble(t, cast(map[string]modelFunc{"boss": echo, "ann": echo, "new": echo}), func(h *house) {
				boss := h.spawn("boss", lead)
				h.untilState(boss, task.Idle)
				ann := h.spawn("ann", mate("ann"))
				h.untilTook(boss, task.WentIdle, 1, task.Idle)
				h.wants("team-lead", "well?")
				h.untilTook(boss, task.Text, 1, task.Idle)
				h.damage(row)
				h.wants("ann", "again")
				h.untilSaid(ann, "again", task.Idle)
				if row == "task/tm-1" { // the lead is lost, and there can be another
					boss = h.spawn("new", lead)
					h.untilTook(boss, task.WentIdle, 1, task.Idle)
					return
				}
				h.untilTook(boss, task.WentIdle, 2, task.Idle)
				h.wants("team-lead", "and now?")
				h.untilTook(boss, task.Text, 2, task.Idle)
				if got := len(h.idleTexts(boss)); got != 2 {
					h.t.Errorf("it read of %d turns", got)
				}
				h.must(h.stopTask(boss, task.Kill))
				h.wants("team-lead", "come back")
				h.untilTook(boss, task.Text, 3, task.Idle)
			})
		})
	}
}

// proves D7: of a message to all, a damaged row of one recipient keeps nobody else from it, and only its own receipt is lost;
// what damage has taken of the outbox is lost, and the next message gets through.
func TestDamagedMessageToAll(t *testing.T) {
	for _, row := range []string{"outbox/MESSAGE", "sent/MESSAGE/tm-2", "inbox/tm-2", "mailbox/tm-2", "member/bob", "idle/tm-2"} {
		t.Run(row, func(t *testing.T) {
			bubble(t, echo, func(h *house) {
				ids := h.crewOf("ann", "bob", "cem")
				h.wants("bob", "before")
				h.untilSaid(ids[1], "before", task.Idle)
				h.cut.after(1)
				sent := h.post(runtime.SendRequest{To: "*", Text: "to all"})
				h.damage(strings.ReplaceAll(row, "MESSAGE", sent.MessageID))
				h.wants("bob", "after")
				h.untilSaid(ids[1], "after", task.Idle)
				h.errandsDone(sent.Team)
				for i, id := range ids {
					want := 0
					if lost := strings.HasPrefix(row, "outbox") || strings.HasPrefix(row, "sent") && i == 1; !lost {
						h.untilSaid(id, "to all", task.Idle)
						want = 1
					}
					if n := h.heard(id, "to all"); n != want {
						h.t.Errorf("%s heard it %d times", id, n)
					}
				}
				again := h.post(runtime.SendRequest{To: "*", Text: "once more"})
				h.errandsDone(again.Team)
				for _, id := range ids {
					h.untilSaid(id, "once more", task.Idle)
				}
			})
		})
	}
}

// proves D7: an agent whose live record is damaged has no loop any more; a message gives it one again, and a stop ends it.
func TestDamagedLiveRecord(t *testing.T) {
	for _, as := range []func(*task.Assignment){mate("ann"), func(*task.Assignment) {}} {
		for _, stopped := range []bool{false, true} {
			bubble(t, func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
				if strings.Contains(req.Messages[len(req.Messages)-1].Text, "go on") {
					return text("done"), nil
				}
				return hang(ctx, req, sink)
			}, func(h *house) {
				id := h.spawn("x", as)
				h.untilState(id, task.Running)
				h.damage("live/" + string(id))
				if stopped {
					h.must(h.stopTask(id, task.WrapUp))
					h.ended(id, task.Killed, task.StoppedByClient)
					return
				}
				h.wants(string(id), "go on")
				h.until(id, "the end of its turn", func(t task.Task, _ []task.Entry) bool {
					return t.State == task.Idle || t.State == task.Completed
				})
			})
		}
	}
}
