package runtime_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/store"
)

// shell starts a shell task as a client does.
func (h *house) shell(command string, more ...func(*task.Assignment)) task.ID {
	h.t.Helper()
	return h.spawn("", append([]func(*task.Assignment){func(a *task.Assignment) {
		a.Prompt, a.Shell = "", &task.ShellSpec{Command: command}
	}}, more...)...)
}

// output is what a shell's transcript has of a stream, 0 for both, after checking that its pieces fit together: offsets
// leave no gap but what was dropped, and nothing is too large.
func (h *house) output(id task.ID, stream task.Stream) string {
	h.t.Helper()
	var all bytes.Buffer
	var next int64
	for _, e := range h.entries(id) {
		out, ok := e.Body.(*task.Output)
		if !ok {
			continue
		}
		if out.Offset != next+out.Dropped || len(out.Data) == 0 || len(out.Data) > 256<<10 {
			h.t.Errorf("%s: output at %d after %d, dropped %d, %d bytes", id, out.Offset, next, out.Dropped, len(out.Data))
		}
		next = out.Offset + int64(len(out.Data))
		if stream == 0 || out.Stream == stream {
			all.Write(out.Data)
		}
	}
	return all.String()
}

// notices are the notices of a transcript, in one text.
func (h *house) notices(id task.ID) string {
	h.t.Helper()
	var all []string
	for _, e := range h.entries(id) {
		if n, ok := e.Body.(*task.Notice); ok {
			all = append(all, n.Text)
		}
	}
	return strings.Join(all, "\n")
}

// noRecord waits until no process is on record, which may be a moment after the end of a task.
func (h *house) noRecord() {
	h.t.Helper()
	var left []string
	for range 500 {
		left = nil
		teams, err := h.journal.Teams(context.Background())
		h.must(err)
		for _, team := range teams {
			for p, err := range h.journal.Processes(context.Background(), team.ID) {
				left = append(left, fmt.Sprintf("%+v, %v", p, err))
			}
		}
		if left == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Errorf("on record: %s", left)
}

// made waits for a file in the workspace.
func (h *house) made(name string) string {
	h.t.Helper()
	for range 3000 {
		if b, err := os.ReadFile(filepath.Join(h.workspace, name)); err == nil && len(b) > 0 {
			return strings.TrimSpace(string(b))
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.t.Fatalf("%s was not made", name)
	return ""
}

// gone checks that the processes whose pids are in a file of the workspace have ended.
func (h *house) gone(name string) {
	h.t.Helper()
	for pid := range strings.FieldsSeq(h.made(name)) {
		n, err := strconv.Atoi(pid)
		h.must(err)
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n))
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			h.t.Errorf("process %d lives: %s", n, stat)
		}
	}
}

// proves O4, S2
func TestShellEnds(t *testing.T) {
	h := newHouse(t, play())
	for _, tt := range []struct {
		command          string
		state            task.State
		reason           task.Reason
		code             int
		errText, out, on string
	}{
		{"echo out; echo no >&2", task.Completed, task.Done, 0, "", "out\n", "no\n"},
		{"echo half; exit 3", task.Failed, task.ExitNonzero, 3, "exit code 3", "half\n", ""},
		{"kill -SEGV $$", task.Failed, task.ExitNonzero, -1, "ended by signal SIGSEGV", "", ""},
		{"cat; echo end", task.Completed, task.Done, 0, "", "end\n", ""}, // nobody writes to stdin
		{"echo $GREETING $PWD >&2", task.Completed, task.Done, 0, "", "", "hello " + h.workspace + "\n"},
	} {
		id := h.shell(tt.command, func(a *task.Assignment) { a.Shell.Env = []string{"GREETING=hello"} })
		r := h.ended(id, tt.state, tt.reason)
		if r.Error != tt.errText || r.ExitCode == nil || *r.ExitCode != tt.code {
			t.Errorf("%s: %+v", tt.command, r)
		}
		if out, on := h.output(id, task.Stdout), h.output(id, task.Stderr); out != tt.out || on != tt.on {
			t.Errorf("%s: wrote %q and %q", tt.command, out, on)
		}
		how := "exit code " + strconv.Itoa(tt.code)
		if tt.code < 0 {
			how = tt.errText
		}
		if !strings.HasPrefix(r.Summary, how) || r.WallTime <= 0 || r.Usage != (task.Usage{}) {
			t.Errorf("%s: %+v", tt.command, r)
		}
		if wrote := tt.out + tt.on; wrote != "" && (!strings.Contains(r.Summary, "agentctl output "+string(id)) ||
			!strings.HasSuffix(r.Summary, tt.on) && !strings.HasSuffix(r.Summary, tt.out)) {
			t.Errorf("%s: summary %q", tt.command, r.Summary)
		}
		if s := h.states(id); s != "QUEUED RUNNING "+tt.state.String() {
			t.Errorf("%s: %s", tt.command, s)
		}
	}
	h.noRecord()
}

// proves S2: what can't be started never claims to run.
func TestShellThatCannotStart(t *testing.T) {
	h := newHouse(t, play())
	dir := filepath.Join(h.workspace, "here")
	h.must(os.Mkdir(dir, 0o755))
	blockers := []task.ID{}
	for range 4 {
		blockers = append(blockers, h.shell("until [ -e go ]; do sleep 0.01; done"))
	}
	id := h.shell("echo never", func(a *task.Assignment) { a.Shell.Dir = dir })
	if p := h.sup.QueuePosition(id); p != 1 || h.task(id).State != task.Queued { // proves R7
		t.Errorf("the fifth of four is %s at %d", h.task(id).State, p)
	}
	for _, b := range blockers {
		h.untilState(b, task.Running)
	}
	if queued, running, _ := h.sup.Counts(); queued != 1 || running != 4 {
		t.Errorf("%d queued, %d running", queued, running)
	}
	h.must(os.Remove(dir))
	h.must(os.WriteFile(dir, []byte("no directory"), 0o600))
	h.must(os.WriteFile(filepath.Join(h.workspace, "go"), []byte("x"), 0o600))
	for _, b := range blockers {
		h.ended(b, task.Completed, task.Done)
	}
	r := h.ended(id, task.Failed, task.SpawnFailed)
	if s := h.states(id); s != "QUEUED FAILED" || r.ExitCode != nil || !strings.Contains(r.Error, dir) {
		t.Errorf("%s: %+v", s, r)
	}
	h.noRecord()
}

// proves T3: what a command leaves running, with its pipes in hand, does not hold up its end.
func TestShellEndsWithItsMainProcess(t *testing.T) {
	h := newHouse(t, play())
	id := h.shell(`
	stay='echo $$ >> pids; exec sleep 1000'
	sh -c "$stay" & nohup sh -c "$stay" & setsid sh -c "$stay" & (setsid nohup sh -c "$stay" &)
	until [ "$(wc -l < pids)" = 4 ]; do sleep 0.01; done; echo built`)
	h.ended(id, task.Completed, task.Done)
	if out := h.output(id, task.Stdout); out != "built\n" {
		t.Errorf("wrote %q", out)
	}
	h.gone("pids")
	h.noRecord()
}

func TestShellTimeout(t *testing.T) {
	h := newHouse(t, play())
	id := h.shell("echo $$ > pids; echo begun; sleep 1000", func(a *task.Assignment) { a.Budget.WallTime = 500 * time.Millisecond })
	r := h.ended(id, task.Failed, task.Timeout)
	if !strings.Contains(r.Summary, "SIGKILL") || h.output(id, task.Stdout) != "begun\n" {
		t.Errorf("%+v", r)
	}
	h.gone("pids")
}

// case OUT-6, proves O4: runes of all lengths stay whole wherever the reads and the pieces cut them.
func TestShellCutsNoRune(t *testing.T) {
	const runes = "a\u00e9\u6f22\U0001F600e\u0301"
	h := newHouse(t, play())
	file := filepath.Join(h.workspace, "runes")
	h.must(os.WriteFile(file, []byte(strings.Repeat(runes, 60_000)), 0o600))
	drip := "" // each byte on its own
	for _, b := range []byte(runes) {
		drip += fmt.Sprintf("printf '\\%03o'; sleep 0.002; ", b)
	}
	for name, tt := range map[string]struct{ command, want string }{
		"byte by byte":   {strings.Repeat(drip, 2), runes + runes},
		"shifted blocks": {"printf x; dd if=runes bs=4093 2>/dev/null", "x" + strings.Repeat(runes, 60_000)},
		"never whole":    {`printf 'a\303'`, "a\xc3"},
		"both streams":   {`printf '\303'; printf '\346' >&2; sleep 0.3; printf '\251'; sleep 0.3; printf '\274\242' >&2`, "\u00e9\u6f22"},
	} {
		id := h.shell(tt.command)
		h.ended(id, task.Completed, task.Done)
		if h.output(id, 0) != tt.want {
			t.Errorf("%s: %d bytes differ", name, len(tt.want))
		}
		for _, e := range h.entries(id) {
			if out, ok := e.Body.(*task.Output); ok && name != "never whole" && !utf8.Valid(out.Data) {
				t.Errorf("%s: a rune is cut at %d", name, out.Offset)
			}
		}
		if s := h.result(id).Summary; name != "never whole" && (!utf8.ValidString(s) || len(s) > 4<<10+200) {
			t.Errorf("%s: summary of %d bytes", name, len(s))
		}
	}
}

// case STP-6, proves O4: beyond a quota the head and the last 64 KiB are kept, and how much is missing is said.
func TestShellQuota(t *testing.T) {
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintln(&b, i)
		}
		return b.String()
	}
	const n = 200_000
	all := lines(1, n)
	for name, limits := range map[string]func(*house){
		"the quota of a shell":                  func(h *house) { h.quota = 100_000 },
		"the total quota of all running shells": func(h *house) { h.total = 100_000 },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, play(), limits)
			for range 2 { // what an ended one took is given back
				id := h.shell(fmt.Sprintf("seq %d", n))
				r := h.ended(id, task.Completed, task.Done)
				got, notice := h.output(id, 0), h.notices(id)
				dropped := len(all) - len(got)
				if !strings.HasPrefix(all, got[:100_000]) || !strings.HasSuffix(all, got[100_000:]) || len(got) != 100_000+64<<10 {
					t.Errorf("kept %d bytes", len(got))
				}
				if !strings.Contains(notice, strconv.Itoa(dropped)+" bytes") || !strings.Contains(notice, name) {
					t.Errorf("%d were dropped: %q", dropped, notice)
				}
				if !strings.HasSuffix(r.Summary, lines(n-100, n)) {
					t.Errorf("%q", r.Summary)
				}
			}
			id := h.shell("seq 20000; seq 100 >&2") // beyond the quota by less than what is kept of the end
			h.ended(id, task.Completed, task.Done)
			if got := h.output(id, task.Stdout); got != lines(1, 20_000) || h.output(id, task.Stderr) != lines(1, 100) || h.notices(id) != "" {
				t.Errorf("kept %d bytes, %q", len(got), h.notices(id))
			}
		})
	}
}

// proves O4: the end is kept also where the stream changes with each line, so that it is many small pieces.
func TestShellQuotaOfManyPieces(t *testing.T) {
	h := newHouse(t, play(), func(h *house) { h.quota = 1000 })
	id := h.shell("for i in $(seq 2000); do echo o$i; echo e$i >&2; done")
	h.ended(id, task.Completed, task.Done)
	out, err := h.output(id, task.Stdout), h.output(id, task.Stderr)
	if !strings.HasSuffix(out, "o1999\no2000\n") || !strings.HasSuffix(err, "e1999\ne2000\n") || len(out)+len(err) < 4000 {
		t.Errorf("kept %d and %d bytes: %q", len(out), len(err), out[max(0, len(out)-20):])
	}
	h.output(id, 0) // offsets fit together
}

// case OUT-7: a tail reads about as many entries as it shows.
func TestTailOfALargeOutputIsBounded(t *testing.T) {
	var read tally
	h := newHouse(t, play(), func(h *house) {
		h.quota = 64 << 20
		h.wrap = func(st store.Store) store.Store { return countReads{st, &read} }
	})
	id := h.shell("for i in $(seq 200); do echo out $i; echo err $i >&2; done; seq 6000000")
	h.ended(id, task.Completed, task.Done)
	var tail []task.Entry
	before := read.get("read")
	h.must(h.view.Output(context.Background(), view.OutputRequest{TaskID: id, Tail: 3}, func(i view.Item) error {
		if i.Entry != nil {
			tail = append(tail, *i.Entry)
		}
		return nil
	}))
	if n := read.get("read") - before; len(tail) != 3 || n > 40 || len(h.entries(id)) < 150 {
		t.Errorf("%d entries for a tail of %d of %d", n, len(tail), len(h.entries(id)))
	}
}

// proves O4: what is written within 100 ms is one commit.
func TestSmallWritesArePutTogether(t *testing.T) {
	h := newHouse(t, play())
	id := h.shell("for i in $(seq 2000); do echo $i; done")
	h.ended(id, task.Completed, task.Done)
	if n := len(h.entries(id)); n > 40 {
		t.Errorf("%d entries", n)
	}
}

// countReads counts the entries that are read.
type countReads struct {
	store.Store
	n *tally
}

func (c countReads) Last(ctx context.Context, p store.Partition, log string, n int) ([]store.Entry, error) {
	last, err := c.Store.Last(ctx, p, log, n)
	for range last {
		c.n.add("read")
	}
	return last, err
}

func (c countReads) Read(ctx context.Context, p store.Partition, log string, after store.Pos) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range c.Store.Read(ctx, p, log, after) {
			if c.n.add("read"); !yield(e, err) {
				return
			}
		}
	}
}
