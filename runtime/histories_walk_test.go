package runtime_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team/wire"
)

// moody does what the last message says.
func moody(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	does := func(word string) bool {
		asked := strings.LastIndex(last.Text, "please ")
		return last.Role == model.User && asked >= 0 && strings.HasPrefix(last.Text[asked:], "please "+word)
	}
	switch {
	case asksForSummary(req):
		return reads(50, text("all was well")), nil
	case does("hang"):
		sink(&model.TextDelta{Text: "let me"})
		return hang(ctx, req, sink)
	case does("panic"):
		panic("as it was told")
	case does("fail"):
		return model.Response{}, &model.Error{Class: model.InvalidRequest, Message: "as it was told"}
	case does("gate"):
		return call("ls", `{"path":"."}`, "gate", "{}", "gate", "{}"), nil
	case does("work"):
		return call("ls", `{"path":"."}`, "read", `{"path":"none"}`), nil
	case does("break off"):
		cut := text("once upon ")
		cut.Finish = model.FinishLength
		return cut, nil
	case does("fill"):
		return reads(38_000, text(strings.Repeat("full ", 200))), nil
	}
	return text(fmt.Sprint("a time ", len(req.Messages))), nil
}

// sameFold compares two histories, also what is hidden in them.
func sameFold(a, b *agent.History) string {
	addresses := regexp.MustCompile(`\b0x[0-9a-f]+`)
	x := addresses.ReplaceAllString(fmt.Sprintf("%+v", *a), "")
	y := addresses.ReplaceAllString(fmt.Sprintf("%+v", *b), "")
	if x != y || !reflect.DeepEqual(a.Known, b.Known) {
		return fmt.Sprintf("kept:  %s\nfresh: %s", x, y)
	}
	return ""
}

// checkFold compares the history that is kept for a teammate with what the whole transcript folds to, and tells whether one was
// kept. It is kept again.
func (h *house) checkFold(id task.ID) bool {
	h.t.Helper()
	kept := h.sup.TakeHistory(id)
	if kept.History == nil {
		return false
	}
	ctx, t, format := context.Background(), h.task(id).Task, wire.Protocol().Whole().Format
	now, err := agent.Load(ctx, h.journal, t, kept, "system", format)
	h.must(err)
	fresh, err := agent.Load(ctx, h.journal, t, agent.Folded{}, "system", format)
	h.must(err)
	if diff := sameFold(now, fresh); diff != "" {
		h.t.Fatalf("the kept history is another one:\n%s", diff)
	}
	all := h.entries(id)
	h.sup.KeepHistory(id, agent.Folded{History: now, Last: all[len(all)-1].Seq})
	return true
}

// TestKeptHistoriesAreWhatTheTranscriptSays: whatever a teammate goes through (calls, interruptions, stops, failures, panics,
// summaries, kills of the daemon), the history that is kept of it is what its transcript folds to.
func TestKeptHistoriesAreWhatTheTranscriptSays(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			rnd, kept := rand.New(rand.NewPCG(seed, 4)), 0
			g := newGate()
			inside(t, moody, func(h *house) {
				id := h.spawn("please work", mate("ann"))
				for range 40 {
					h.goThrough(id, rnd, g)
					if rnd.IntN(2) == 0 && h.checkFold(id) {
						kept++
					}
				}
			}, window(40_000), with(g.tool("gate")))
			if kept < 5 {
				t.Errorf("seed %d: only %d histories were kept", seed, kept)
			}
		})
	}
}

// goThrough lets something happen to a teammate and waits until it rests or has ended.
func (h *house) goThrough(id task.ID, rnd *rand.Rand, g *gate) {
	words := []string{"hang", "panic", "fail", "gate", "gate", "work", "work", "break off", "fill", "talk", "talk", "talk"}
	word := words[rnd.IntN(len(words))]
	send := func(text string, d mailbox.Delivery) {
		req := runtime.SendRequest{Caller: "test", To: string(id), Text: text, Delivery: d}
		h.must(second(h.sup.Send(context.Background(), req)))
	}
	send("please "+word, mailbox.AtStep)
	if rnd.IntN(3) > 0 {
		synctest.Wait()
	}
	switch rnd.IntN(8) {
	case 0:
		send("please talk", mailbox.Interrupt)
	case 1:
		send("please work", mailbox.AtStep)
		send("please talk", mailbox.AtTurn)
	case 2:
		h.must(h.stopTask(id, task.Cancel))
	case 3:
		h.restart()
	case 4:
		time.Sleep(time.Minute)
	}
	for synctest.Wait(); h.task(id).State == task.Running; synctest.Wait() {
		switch {
		case rnd.IntN(4) == 0:
			h.must(h.stopTask(id, task.StopLevel(1+rnd.IntN(3))))
		case len(g.entered) > 0 && rnd.IntN(2) == 0:
			<-g.entered
			select {
			case g.open <- struct{}{}:
			default:
			}
		default:
			send("please talk", mailbox.Interrupt)
		}
	}
}
