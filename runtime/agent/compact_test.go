package agent

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

// shown is a history as one line a message.
func shown(h *History) string {
	var b strings.Builder
	for _, m := range h.Messages {
		text := strings.ReplaceAll(m.Text, summaryNote, "NOTE")
		fmt.Fprintf(&b, "%c %s", "-suat"[m.Role], strings.ReplaceAll(text, "\n\n", "|"))
		for _, c := range m.Calls {
			fmt.Fprintf(&b, " %s=%s", c.ID, c.Name)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// case OUT-5: a summary stands for what came before it, but for the assignment and what the model has not answered yet.
func TestSummaryFolds(t *testing.T) {
	opening, mail := &task.Input{Text: "do it"}, &task.Input{Text: "mail"}
	summary := &task.Compaction{Summary: "sum", Usage: task.Usage{InputTokens: 900, OutputTokens: 9}}
	for _, c := range []struct {
		name   string
		bodies []task.Body
		want   string
	}{
		{"calls and answers", []task.Body{opening, asks(1, "a", "b"), answered(1), answered(2), summary},
			"s system\nu do it|NOTE|sum\n"},
		{"early mail is in the summary", []task.Body{opening, mail, asks(1, "a"), answered(1), mail, asks(2, "a"), answered(2), summary},
			"s system\nu do it|NOTE|sum\n"},
		{"unanswered mail stays whole", []task.Body{opening, asks(1, "a"), answered(1), mail, &task.Notice{Text: "note"}, summary},
			"s system\nu do it|NOTE|sum|mail|note\n"},
		{"what comes after it", []task.Body{opening, asks(1, "a"), answered(1), summary, mail, asks(2, "b"), answered(2)},
			"s system\nu do it|NOTE|sum|mail\na thinking c00000002=b\nt ok\n"},
		{"an answer that was cut may go on", []task.Body{opening, asks(1, "a"), answered(1), &task.Assistant{Text: "half", Cut: true},
			&task.Notice{Text: cutNotice}, summary},
			"s system\nu do it|NOTE|sum\na half\nu " + cutNotice + "\n"},
		{"a second summary", []task.Body{opening, asks(1, "a"), answered(1), summary, asks(2, "b"), answered(2),
			&task.Compaction{Summary: "second"}},
			"s system\nu do it|NOTE|second\n"},
		{"without the lost assignment", []task.Body{asks(1, "a"), answered(1), summary}, "s system\nu NOTE|sum\n"},
		{"answers that the disk has lost", []task.Body{opening, asks(1, "a", "b"), answered(1), summary, answered(2)},
			"s system\nu do it|NOTE|sum\n"},
	} {
		if got := shown(fold(c.bodies...)); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.name, got, c.want)
		}
	}
}

// case OUT-5: what the loop knows beside the messages outlives a summary.
func TestSummaryKeepsWhatIsKnown(t *testing.T) {
	files := &task.ToolResult{CallID: "c00000001", Text: "ok", Files: []task.FileMark{{Path: "/f", Hash: "h", Changed: true}}}
	before := []task.Body{&task.Input{Text: "in"}, asks(1, "edit"), files}
	with := fold(append(before, &task.Compaction{Summary: "sum"})...)
	without := fold(before...)
	if !reflect.DeepEqual(with.Known, without.Known) || !with.changes["/f"] {
		t.Errorf("known: %+v, changes %v", with.Known, with.changes)
	}
	if with.nextCallID(0) != "c00000002" || with.steps != 2 {
		t.Errorf("the next call is %s, after %d steps", with.nextCallID(0), with.steps)
	}
	if with.foldable() || !without.foldable() || fold(before[0]).foldable() {
		t.Error("a summary right after another makes nothing smaller, and neither does one of the assignment")
	}
	if !fold(append(before, &task.Compaction{Summary: "sum"}, asks(2, "a"), answered(2))...).foldable() {
		t.Error("after an answer there is something to fold again")
	}
}

// The size of the next request is what the provider counted and what came since.
func TestTokens(t *testing.T) {
	opening := &task.Input{Text: strings.Repeat("x", 394)} // with the system prompt 400 bytes
	step := &task.Assistant{Text: strings.Repeat("y", 40), Usage: task.Usage{InputTokens: 7000, OutputTokens: 10}}
	for _, c := range []struct {
		bodies []task.Body
		want   int64
	}{
		{[]task.Body{opening}, 100},
		{[]task.Body{opening, step}, 7010},
		{[]task.Body{opening, step, &task.Input{Text: strings.Repeat("z", 400)}}, 7110},
		{[]task.Body{opening, step, &task.Compaction{Summary: strings.Repeat("s", 396-len(summaryNote))}}, 200},
	} {
		if got := fold(c.bodies...).tokens(); got != c.want {
			t.Errorf("%d tokens, want %d", got, c.want)
		}
	}
}

// case OUT-5: the model's own window decides, with room for its answer.
func TestCrowded(t *testing.T) {
	step := func(input int64) *History {
		return fold(&task.Input{Text: "in"}, &task.Assistant{Text: "a", Usage: task.Usage{InputTokens: input}}, &task.Input{Text: "b"})
	}
	wrapping := step(9000)
	wrapping.Add(&task.Notice{Text: "end", WrapUp: task.MaxSteps})
	for _, c := range []struct {
		name  string
		facts model.Facts
		h     *History
		want  bool
	}{
		{"an unknown window", model.Facts{}, step(1 << 40), false},
		{"below", model.Facts{ContextWindow: 10_000}, step(7990), false},
		{"above", model.Facts{ContextWindow: 10_000}, step(8001), true},
		{"no room for the answer", model.Facts{ContextWindow: 10_000, MaxOutput: 5000}, step(5001), true},
		{"a wrap-up", model.Facts{ContextWindow: 10_000}, wrapping, false},
		{"nothing but the assignment", model.Facts{ContextWindow: 10_000}, fold(&task.Input{Text: strings.Repeat("x", 40_000)}), false},
		{"an assignment that fills it", model.Facts{ContextWindow: 10_000}, fold(&task.Input{Text: strings.Repeat("x", 36_000)},
			&task.Assistant{Text: "a", Usage: task.Usage{InputTokens: 9500}}, &task.Input{Text: "b"}), false},
	} {
		a := &Agent{Facts: c.facts, History: c.h}
		if got := a.crowded(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// What is left out of a request are the oldest answers first; roles, calls and the ends stay as they are.
func TestShrink(t *testing.T) {
	long := strings.Repeat("x", 1000)
	bodies := []task.Body{&task.Input{Text: "in" + long}}
	for n := 1; n <= 4; n++ {
		step := asks(n, "a")
		step.Text, step.Calls[0].Arguments = long, `{"a":"`+long+`"}`
		bodies = append(bodies, step, &task.ToolResult{CallID: step.Calls[0].ID, Text: long})
	}
	h := fold(append(bodies, &task.Input{Text: "last" + long})...)
	before := fmt.Sprint(h.Messages)
	whole := sizeOf(h.Messages)
	left := func(most int) string { // what is still there of each message
		short := shrink(h.Messages, most)
		if got := sizeOf(short); got > most && most > 3000 {
			t.Errorf("%d bytes, and %d were the most", got, most)
		}
		var b strings.Builder
		for i, m := range short {
			if m.Role != h.Messages[i].Role || m.CallID != h.Messages[i].CallID || m.Text == "" {
				t.Errorf("message %d became %+v", i, m)
			}
			b.WriteByte("-x"[min(len(m.Text)/900, 1)])
			for _, c := range m.Calls {
				b.WriteByte("-c"[min(len(c.Arguments)/900, 1)])
			}
		}
		return b.String()
	}
	for _, c := range []struct {
		most int
		want string
	}{
		{whole, "-xxcxxcxxcxxcxx"}, {whole - 1, "-xxc-xcxxcxxcxx"}, {whole - 3000, "-xxc-xc-xc-xc-x"},
		{whole - 5000, "-xx--x--xc-xc-x"}, {whole - 9000, "-x------x--x--x"}, {0, "-x------------x"},
	} {
		if got := left(c.most); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.most, whole, got, c.want)
		}
	}
	if fmt.Sprint(h.Messages) != before {
		t.Error("the history itself was changed")
	}
}
