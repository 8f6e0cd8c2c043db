package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// Bounds of one answer, so that its row fits the store and its calls one batch.
const (
	maxCalls    = 32          // tool calls of one answer that are taken
	maxCallName = 64          // bytes of a call's name
	maxAnswer   = 400 << 10   // bytes of text, reasoning and arguments together
	maxError    = 1 << 10     // bytes of an error's sentence
	minPause    = time.Second // shorter waits for the provider are not worth a change of state
)

// step asks the model once and commits its answer, with the start of the first calls, or the end of the turn.
func (a *Agent) step(ctx context.Context) (ended bool, err error) {
	if why := a.tooLong(); why != "" {
		return true, a.end(ctx, nil, task.Usage{}, task.Finish{State: task.Failed, Reason: task.ContextOverflow, Error: why})
	}
	live := &liveCall{agent: a, step: a.History.steps + 1, attempt: 1}
	resp, err := a.ask(ctx, live)
	switch {
	case overflows(err) && ctx.Err() == nil && a.History.wrapUp == 0 && a.History.foldable():
		return a.compact(ctx, true) // the one repair: what follows has nothing to fold (OUT-2)
	case err != nil:
		return a.callFailed(ctx, live, err)
	}
	stopped := ctx.Err() != nil
	ctx = context.WithoutCancel(ctx) // the answer is here and paid for: a stop does not undo it
	entry, notice := a.answer(live.step, resp)
	if size := entrySize(entry); size > maxAnswer {
		msg := fmt.Sprintf("the model's answer has %d bytes; %d are the limit", size, maxAnswer)
		return true, a.end(ctx, nil, countStep(entry), task.Finish{State: task.Failed, Reason: task.ModelError, Error: msg})
	}
	if resp.Finish == model.FinishFilter {
		entry.Calls = nil // they may be cut, and are not run
		return true, a.end(ctx, []task.Body{entry}, countStep(entry),
			task.Finish{State: task.Failed, Reason: task.ModelError, Error: "the provider's filter ended the answer"})
	}
	if len(entry.Calls) == 0 {
		return a.lastWords(ctx, entry, resp.Finish == model.FinishLength)
	}
	bodies := []task.Body{entry}
	if notice != nil {
		bodies = append(bodies, notice)
	}
	if mark := a.markFirst(entry.Calls); mark != nil && !stopped { // started rides on the commit before the effect (D5)
		bodies = append(bodies, mark)
	}
	return false, a.commit(ctx, countStep(entry), bodies...)
}

// ask makes the call of a step. A wrap-up has no call left for a summary: what does not fit is left out of its request,
// and once more of it when the provider says so.
func (a *Agent) ask(ctx context.Context, live *liveCall) (model.Response, error) {
	req := model.Request{Model: a.Task.Model, Messages: a.History.Messages, CacheKey: a.CacheKey}
	if a.History.wrapUp == 0 {
		req.Tools = a.offered()
		return live.ask(ctx, req)
	}
	size := sizeOf(req.Messages)
	if room, tokens := a.room(), a.tokens(); room > 0 && tokens > room {
		size = int(int64(size) * room / tokens)
		req.Messages = shrink(req.Messages, size)
	}
	resp, err := live.ask(ctx, req)
	if overflows(err) && ctx.Err() == nil {
		req.Messages = shrink(req.Messages, size/2)
		return live.ask(ctx, req)
	}
	return resp, err
}

// lastWords ends the turn with an answer that asks for no tools. One that was cut at the provider's limit may go on, once.
func (a *Agent) lastWords(ctx context.Context, entry *task.Assistant, cut bool) (ended bool, err error) {
	if cut && !a.History.cut && a.History.wrapUp == 0 {
		entry.Cut = true
		return false, a.commit(ctx, countStep(entry), entry, &task.Notice{Text: cutNotice})
	}
	a.whole = !cut
	return a.endTurn(ctx, entry)
}

// answer makes the entry of a response: valid UTF-8, our own call ids, bounded calls.
func (a *Agent) answer(step int, resp model.Response) (*task.Assistant, *task.Notice) {
	entry := &task.Assistant{
		Step: step, Text: valid(resp.Text), Reasoning: valid(resp.Reasoning),
		Usage: task.Usage{
			InputTokens: resp.Usage.InputTokens, OutputTokens: resp.Usage.OutputTokens,
			CachedTokens: resp.Usage.CachedTokens, ReasoningTokens: resp.Usage.ReasoningTokens,
		},
	}
	entry.Usage.Cost = a.cost(entry.Usage)
	if a.History.wrapUp != 0 {
		return entry, nil // it was given no tools
	}
	for i, c := range resp.Calls[:min(len(resp.Calls), maxCalls)] {
		entry.Calls = append(entry.Calls, task.ToolCall{
			ID: a.History.nextCallID(i), Name: callName(c.Name), Arguments: valid(c.Arguments),
		})
	}
	if entrySize(entry) > maxAnswer {
		entry.Reasoning = ""
	}
	if dropped := len(resp.Calls) - len(entry.Calls); dropped > 0 {
		return entry, &task.Notice{Text: fmt.Sprintf(
			"[agentd] You asked for %d calls at once; the first %d were taken, %d were not.", len(resp.Calls), maxCalls, dropped)}
	}
	return entry, nil
}

// callName is the name of a call as providers take it back in a history: 1 to 64 letters, digits, '_' and '-'. A model may
// make up any other, which is no tool's either way.
func callName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	return cmp.Or(name[:min(len(name), maxCallName)], "_")
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// clip is the start of a text, valid and at most n bytes long.
func clip(s string, n int) string {
	s = valid(s)
	return strings.ToValidUTF8(s[:min(len(s), n)], "") // drops the rune that the cut went through
}

func entrySize(e *task.Assistant) int {
	size := len(e.Text) + len(e.Reasoning)
	for _, c := range e.Calls {
		size += len(c.Name) + len(c.Arguments)
	}
	return size
}

func countStep(e *task.Assistant) task.Usage {
	used := e.Usage
	used.Steps = 1
	return used
}

// callFailed ends the task, or keeps what had come when it is being stopped.
func (a *Agent) callFailed(ctx context.Context, live *liveCall, err error) (bool, error) {
	if ctx.Err() != nil {
		a.cutShort(live)
		return false, err
	}
	if live.commitErr != nil {
		return false, live.commitErr
	}
	finish := task.Finish{State: task.Failed, Reason: task.ModelError, Error: oneLine(err)}
	if overflows(err) {
		finish.Reason = task.ContextOverflow
	}
	a.Log.Warn("model call failed", "task", a.Task.ID, "step", live.step, "error", err)
	return true, a.end(ctx, nil, task.Usage{}, finish)
}

// cutShort keeps what came of a call that a stop has ended, and what it has used when anything came.
func (a *Agent) cutShort(live *liveCall) {
	used := a.estimate(live.text.Len())
	switch {
	case !live.quiet:
		a.partial = &task.Assistant{
			Step: live.step, Text: clip(live.text.String(), maxAnswer), Partial: true, Usage: used,
		}
	case live.text.Len() > 0:
		a.spent = used
	}
}

// estimate is the usage of a call that was cut short, whose provider no longer tells.
func (a *Agent) estimate(answered int) task.Usage {
	used := task.Usage{
		InputTokens: model.EstimateTokens(sizeOf(a.History.Messages)), OutputTokens: model.EstimateTokens(answered),
	}
	used.Cost = a.cost(used)
	return used
}

// oneLine is an error's sentence for people, never its cause.
func oneLine(err error) string {
	text := err.Error()
	var failure *model.Error
	if errors.As(err, &failure) {
		text = failure.Message
	} else if e := errdefs.As(err); e.Kind != errdefs.Internal {
		text = e.Message
	}
	line, _, _ := strings.Cut(text, "\n")
	return clip(line, maxError)
}

// specs is a set of tools as the model sees it.
func specs(set tool.Set) []model.Tool {
	var tools []model.Tool
	for _, s := range set.Specs() {
		tools = append(tools, model.Tool{Name: s.Name, Description: s.Description, Parameters: s.Parameters})
	}
	return tools
}

// liveCall is one model call under way.
type liveCall struct {
	agent     *Agent
	step      int
	attempt   int
	text      strings.Builder // of this attempt, up to maxAnswer
	quiet     bool            // its text is not shown
	paused    bool
	commitErr error // of a change of state on the way
}

// ask makes the call. A commit that fails on the way ends it.
func (l *liveCall) ask(ctx context.Context, req model.Request) (model.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return l.agent.Model.Call(ctx, req, func(e model.Event) {
		if err := l.on(ctx, e); err != nil && l.commitErr == nil {
			l.commitErr = err
			cancel()
		}
	})
}

func (l *liveCall) on(ctx context.Context, event model.Event) error {
	a := l.agent
	switch e := event.(type) {
	case *model.TextDelta:
		l.text.WriteString(e.Text[:min(len(e.Text), maxAnswer-l.text.Len())])
		l.show(task.Delta{Step: l.step, Attempt: l.attempt, Text: valid(e.Text)})
	case *model.Retrying:
		l.text.Reset()
		l.attempt = e.Attempt
		l.show(task.Delta{Step: l.step, Attempt: l.attempt, Reset: true})
	case *model.Pausing:
		if e.Until.Sub(a.Now()) >= minPause && !l.paused {
			l.paused = true
			return a.Slots.Pause(ctx)
		}
	case *model.Resuming:
		if l.paused {
			l.paused = false
			return a.Slots.Proceed(ctx)
		}
	}
	return nil
}

func (l *liveCall) show(d task.Delta) {
	if !l.quiet {
		l.agent.Deltas(d)
	}
}
