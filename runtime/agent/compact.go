package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
)

const (
	maxFolded     = 32 << 10 // bytes of a summary
	maxListed     = 100      // children that are listed with it
	maxListedText = 200      // bytes of a child's description there
	summaryTries  = 3        // requests for one summary, each with half of the history of the one before
)

// summaryAsk asks for the summary.
const summaryAsk = `[agentd] The history is getting too long for your context. Everything before this message, except your
assignment, will be replaced by what you answer now; you go on with that alone. You get no tools for this answer. Write a
summary for yourself, complete and without padding, under these headings:
- Assignment: what you were asked, with each later instruction from the user, word for word where wording matters.
- Done: what you did and found, with paths, names, numbers and exact error texts that are still needed.
- Decisions: what you decided and why, and what turned out not to work.
- Files: which you read or changed, and what stands in them that matters.
- Tasks: tasks that you started, by id, what each is to do, and what the ended ones concluded.
- Open: what is left to do, the next step first, and @output/ pointers that are still needed.
Do not go on with the work in this answer.`

// summaryNote stands between the assignment and the summary.
const summaryNote = "[agentd] Your work so far was replaced by your own summary of it, to fit your context. Go on from " +
	"it; do not do again what it says is done, and read files again when you need their text. Outputs under @output/ " +
	"stay readable."

// compact folds a summary: it stands for everything but the system prompt, the assignment, and what has come since the
// last answer. Calls and their answers are all before it.
func (h *History) compact(e *task.Compaction) {
	h.giveUp()
	h.count(e.Usage)
	kept := h.unanswered()
	parts := slices.DeleteFunc([]string{h.opening, summaryNote, e.Summary}, func(s string) bool { return s == "" })
	h.Messages = []model.Message{h.Messages[0], {Role: model.User, Text: strings.Join(parts, "\n\n")}}
	for _, m := range kept {
		if m.Role == model.User {
			h.addUser(m.Text)
			continue
		}
		h.Messages = append(h.Messages, m)
	}
	h.asked = 0
	h.last = task.Usage{InputTokens: model.EstimateTokens(sizeOf(h.Messages)), OutputTokens: e.Usage.OutputTokens}
}

// unanswered is what the model has not answered yet, other than the assignment: mail and notices, with an answer that was
// cut and may go on.
func (h *History) unanswered() []model.Message {
	last := len(h.Messages) - 1
	if last < 2 || h.Messages[last].Role != model.User {
		return nil
	}
	if h.cut {
		last--
	}
	return slices.Clone(h.Messages[last:])
}

// foldable tells whether a summary could make the history smaller: the model has answered since the start, or since the
// last summary.
func (h *History) foldable() bool { return h.asked > 0 }

// tokens is how large the next request is, about: what the provider counted for the last one, and what has come since.
func (h *History) tokens() int64 {
	if h.asked == 0 {
		return model.EstimateTokens(sizeOf(h.Messages))
	}
	return h.last.InputTokens + model.EstimateTokens(sizeOf(h.Messages[h.asked:]))
}

// tokens is History.tokens with the tools, which a provider that has counted has counted too.
func (a *Agent) tokens() int64 {
	n := a.History.tokens()
	if a.History.foldable() {
		return n
	}
	for _, s := range a.specs {
		n += model.EstimateTokens(len(s.Name) + len(s.Description) + len(s.Parameters))
	}
	return n
}

// room is how many tokens a request may have before the history is summarised; 0: nobody knows.
func (a *Agent) room() int64 {
	window := a.Facts.ContextWindow
	return min(window/10*8, window-a.Facts.MaxOutput)
}

// crowded tells whether the history must be summarised before the next step. What an answer has not added an eighth to
// is not worth a summary: then the assignment itself is what fills the context.
func (a *Agent) crowded() bool {
	room, h := a.room(), a.History
	if room <= 0 || h.wrapUp != 0 || !h.foldable() || a.tokens() <= room {
		return false
	}
	return a.tokens()-model.EstimateTokens(sizeOf(h.Messages[:min(2, len(h.Messages))])) >= room/8
}

// tooLong says why a history that can't be made smaller fits no request; empty when it may fit.
func (a *Agent) tooLong() string {
	window := a.Facts.ContextWindow
	if window == 0 || a.History.foldable() || a.tokens() <= window {
		return ""
	}
	return fmt.Sprintf("the assignment and what came since the last answer take about %d tokens; "+
		"the context window of %s has %d", a.tokens(), a.Task.Model, window)
}

// compact asks the model for a summary of the work so far, as a step of its own, and goes on from it. overflowed says that
// the provider refused the history already.
func (a *Agent) compact(ctx context.Context, overflowed bool) (ended bool, err error) {
	live := &liveCall{agent: a, step: a.History.steps + 1, attempt: 1, quiet: true}
	resp, err := a.summarise(ctx, live, overflowed)
	if err != nil {
		return a.callFailed(ctx, live, err)
	}
	ctx = context.WithoutCancel(ctx) // the summary is here and paid for: a stop does not undo it
	entry, _ := a.answer(live.step, model.Response{Text: resp.Text, Usage: resp.Usage})
	summary := clip(strings.TrimSpace(entry.Text), maxFolded)
	if summary == "" || resp.Finish == model.FinishFilter {
		return true, a.end(ctx, nil, countStep(entry), task.Finish{
			State: task.Failed, Reason: task.ContextOverflow,
			Error: "the history is too long for the model's context, and the model gave no summary of it",
		})
	}
	children, err := a.children(ctx)
	if err != nil {
		return false, err
	}
	crew, err := a.crew(ctx)
	if err != nil {
		return false, err
	}
	return false, a.commit(ctx, countStep(entry), &task.Compaction{
		Summary: summary + list(children) + crew, Usage: entry.Usage,
	})
}

// summarise makes the call. When even that overflows, the oldest answers of tools are left out of it.
func (a *Agent) summarise(ctx context.Context, live *liveCall, overflowed bool) (resp model.Response, err error) {
	ask := NewHistory("", nil)
	ask.Messages = slices.Clone(a.History.Messages)
	ask.addUser(summaryAsk)
	room := sizeOf(ask.Messages)
	if overflowed {
		room /= 2
	}
	for range summaryTries {
		resp, err = live.ask(ctx, model.Request{Model: a.Task.Model, Messages: shrink(ask.Messages, room)})
		if !overflows(err) || ctx.Err() != nil {
			break
		}
		room /= 2
	}
	return resp, err
}

// list names the living tasks that the agent has started, for the end of a summary: whatever that says of them, they are
// not forgotten (OUT-5).
func list(children []task.Task) string {
	if len(children) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\n[agentd] Tasks that you started and that have not ended:")
	for _, t := range children[:min(len(children), maxListed)] {
		text := strings.Join(strings.Fields(t.Description), " ")
		fmt.Fprintf(&b, "\n- %s (%s, %s): %s", t.ID, t.Kind, t.State, clip(text, maxListedText))
	}
	if more := len(children) - maxListed; more > 0 {
		fmt.Fprintf(&b, "\n- and %d more", more)
	}
	return b.String()
}

// crew names the living teammates of a lead, for the end of a summary; empty for anybody else.
func (a *Agent) crew(ctx context.Context) (string, error) {
	if !a.Task.IsLead() {
		return "", nil
	}
	var ids []task.ID
	for id, err := range a.Journal.Living(ctx, a.Task.Team) {
		if err != nil {
			return "", err
		}
		if id.Kind() == task.Teammate && id != a.Task.ID {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", nil
	}
	slices.SortFunc(ids, func(x, y task.ID) int { return cmp.Compare(x.Number(), y.Number()) })
	var b strings.Builder
	b.WriteString("\n\n[agentd] Living teammates of your team:")
	for _, id := range ids[:min(len(ids), maxListed)] {
		row, err := a.Journal.Task(ctx, id)
		if journal.IsLost(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		t := row.Value
		text := strings.Join(strings.Fields(t.Description), " ")
		fmt.Fprintf(&b, "\n- %s (%s, %s): %s", t.Name, t.ID, t.State, clip(text, maxListedText))
	}
	if more := len(ids) - maxListed; more > 0 {
		fmt.Fprintf(&b, "\n- and %d more", more)
	}
	return b.String(), nil
}

// overflows tells whether a call failed because the history is too long for the model.
func overflows(err error) bool {
	var failed *model.Error
	return errors.As(err, &failed) && failed.Class == model.ContextOverflow
}
