package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// Identical calls in a row: at the first bound the model is told instead of run, beyond it the task ends.
const maxRepeats = 5

// maxKept is how much of a call's whole output is kept for @output/CALL_ID, in bytes.
const maxKept = 2 << 20

// settle answers the next group of open calls: one call, or several in a row that only read, in parallel. The answers
// and the start of the group after it are one commit (D5).
func (a *Agent) settle(ctx context.Context) (ended bool, err error) {
	group := a.nextGroup(a.History.pending)
	if group[0].Repeats > maxRepeats {
		msg := fmt.Sprintf("%s was called %d times in a row with the same arguments", group[0].Name, group[0].Repeats)
		return true, a.end(ctx, nil, task.Usage{},
			task.Finish{State: task.Failed, Reason: task.NoProgress, Error: msg})
	}
	allowed, err := a.allowed(ctx, group)
	if err != nil {
		return false, err
	}
	if mark := a.mark(group[:allowed]); mark != nil {
		if err := a.commit(ctx, task.Usage{}, mark); err != nil {
			return false, err
		}
	}
	results, err := a.run(ctx, group[:allowed])
	if err != nil {
		return false, err
	}
	for _, c := range group[allowed:] {
		results = append(results, beyondBudget(c))
	}
	bodies := make([]task.Body, 0, len(results)+1)
	for _, r := range results {
		bodies = append(bodies, r)
	}
	if rest := a.History.pending[len(group):]; len(rest) > 0 && ctx.Err() == nil {
		pressed, err := a.pressed(ctx)
		if err != nil {
			return false, err
		}
		if mark := a.mark(a.nextGroup(rest)); mark != nil && !pressed {
			bodies = append(bodies, mark)
		}
	}
	ctx = context.WithoutCancel(ctx) // the calls have run: a stop does not undo them
	return false, a.commit(ctx, task.Usage{ToolCalls: int64(allowed)}, bodies...)
}

// nextGroup is the first call, with those behind it when all of them only read.
func (a *Agent) nextGroup(pending []pendingCall) []pendingCall {
	n := 0
	for n < len(pending) && a.parallel(pending[n]) {
		n++
	}
	return pending[:max(n, 1)]
}

func (a *Agent) parallel(c pendingCall) bool {
	t, ok := a.Tools.Lookup(c.Name)
	return ok && t.Spec().ReadOnly && c.Repeats < maxRepeats
}

// markFirst marks the calls of a fresh answer that start at once.
func (a *Agent) markFirst(calls []task.ToolCall) *task.CallStarted {
	asked, _ := a.History.ask(calls)
	return a.mark(a.nextGroup(asked))
}

// mark is the entry that says that the calls start; nil when all are marked or none will run.
func (a *Agent) mark(group []pendingCall) *task.CallStarted {
	var mark task.CallStarted
	var labels []string
	for _, c := range group {
		if !a.History.started[c.ID] && c.Repeats < maxRepeats {
			mark.CallIDs = append(mark.CallIDs, c.ID)
			labels = append(labels, label(c.ToolCall))
		}
	}
	if len(labels) == 0 {
		return nil
	}
	mark.Label = strings.Join(labels, ", ")
	return &mark
}

// maxLabel bounds what a label shows of a call's arguments, in runes.
const maxLabel = 80

// label tells in one line what a call does: the tool and its main argument.
func label(c task.ToolCall) string {
	main := mainArgument(c)
	if main == "" {
		return c.Name
	}
	return c.Name + ": " + main
}

func mainArgument(c task.ToolCall) string {
	if c.Name == tool.SubagentName {
		return delegated(c.Arguments)
	}
	var args struct {
		Command, Path, Pattern string
		TaskID                 string `json:"task_id"`
		To                     string // of mail
	}
	if json.Unmarshal([]byte(c.Arguments), &args) != nil {
		return ""
	}
	return glance(cmp.Or(args.Command, args.Pattern, args.Path, args.TaskID, args.To))
}

// delegated tells who is given what: the agent and the start of the task, of several those of the first.
func delegated(arguments string) string {
	type item struct{ Agent, Task, Description string }
	var args struct {
		item
		Tasks, Chain []item
	}
	if json.Unmarshal([]byte(arguments), &args) != nil {
		return ""
	}
	first, mode := args.item, ""
	if items := slices.Concat(args.Tasks, args.Chain); len(items) > 0 {
		first.Agent, first.Task = cmp.Or(items[0].Agent, first.Agent), items[0].Task
		mode = fmt.Sprintf("%d side by side: ", len(items))
		if len(args.Chain) > 0 {
			mode = fmt.Sprintf("%d in a chain: ", len(items))
		}
	}
	what := glance(cmp.Or(first.Description, first.Task))
	if first.Agent != "" {
		what = first.Agent + ": " + what
	}
	return mode + what
}

// glance is the start of a text on one line.
func glance(text string) string {
	line := strings.Join(strings.Fields(text), " ")
	if r := []rune(line); len(r) > maxLabel {
		return string(r[:maxLabel]) + "…"
	}
	return line
}

// run answers a group. Only ctx's end and the store's faults are errors; whatever a tool does is an answer.
func (a *Agent) run(ctx context.Context, group []pendingCall) ([]*task.ToolResult, error) {
	a.Scope.Tasks.Expect(askedAbout(group))
	results := make([]*task.ToolResult, len(group))
	errs := make([]error, len(group))
	var wg sync.WaitGroup
	for i, c := range group {
		wg.Go(func() { results[i], errs[i] = a.runOne(ctx, c) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			a.ran = results
			return nil, err
		}
	}
	return results, nil
}

// askedAbout are the tasks that the calls of a group show or wait for.
func askedAbout(group []pendingCall) []task.ID {
	var ids []task.ID
	for _, c := range group {
		var args struct {
			TaskID task.ID `json:"task_id"`
		}
		if c.Name == tool.TaskOutputName && json.Unmarshal([]byte(c.Arguments), &args) == nil {
			ids = append(ids, args.TaskID)
		}
	}
	return ids
}

// runOne answers a call. What a call gave before its ctx ended is an answer beside the error. A panic is an answer too:
// the fault is the daemon's, and the task goes on.
func (a *Agent) runOne(ctx context.Context, c pendingCall) (result *task.ToolResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			a.Log.Error("tool panicked", "task", a.Task.ID, "tool", c.Name, "panic", p, "stack", string(debug.Stack()))
			fail := tool.Fail(tool.Error{Reason: tool.Failed, Subject: c.Name, Message: "the tool failed inside the daemon"})
			result, err = &task.ToolResult{CallID: c.ID, Tool: c.Name, Text: fail.Text, IsError: true}, nil
		}
	}()
	answer, known := a.unrun(c)
	if known {
		return a.result(ctx, c, answer)
	}
	answer, err = a.call(uncut(ctx, c.Name), c)
	switch {
	case err == nil:
		return a.result(ctx, c, answer)
	case answer.Text == "":
		return nil, err
	}
	why := "the task was stopped"
	if errors.Is(context.Cause(ctx), errInterrupted) {
		why = "a message interrupted you"
	}
	answer.Text += "\n[interrupted: " + why + " while this call ran]"
	answer.IsError = true
	result, kept := a.result(ctx, c, answer)
	if kept != nil {
		return nil, kept
	}
	return result, err
}

// result is an answer as the transcript takes it, also when ctx has ended meanwhile. What does not fit is kept beside it.
func (a *Agent) result(ctx context.Context, c pendingCall, answer tool.Answer) (*task.ToolResult, error) {
	result := &task.ToolResult{
		CallID: c.ID, Tool: c.Name, IsError: answer.IsError, Files: answer.Files, Report: answer.Report, Ends: answer.Ends,
	}
	result.Text, result.Truncated = tool.Bound(answer.Text, tool.MaxAnswer, c.ID)
	if !result.Truncated {
		return result, nil
	}
	b := a.batch()
	b.PutOutput(a.Task.ID, c.ID, []byte(kept(answer.Text)))
	return result, gone(a.Journal.Commit(context.WithoutCancel(ctx), b))
}

// kept is what is kept of a whole output, with a mark where it does not end by itself.
func kept(text string) string {
	if len(text) <= maxKept {
		return text
	}
	start := clip(text, maxKept)
	return fmt.Sprintf("%s\n[the output goes on: %d bytes were not kept]\n", start, len(text)-len(start))
}

// unrun answers the calls that must not run (again).
func (a *Agent) unrun(c pendingCall) (tool.Answer, bool) {
	t, ok := a.Tools.Lookup(c.Name)
	switch {
	case a.plans() && ok && a.Task.Grant.AllowsTool(c.Name) && !needsNoPlan(t.Spec()):
		return a.planRequired(c.Name), true
	case c.Orphan && ok && !t.Spec().RunsAgain(json.RawMessage(c.Arguments)):
		return tool.Fail(tool.Error{Reason: tool.OutcomeUnknown, Subject: c.Name, Message: "the daemon went down " +
			"while this call ran: outcome unknown. It may have had its effect, in part or whole; look before you repeat it"}), true
	case c.Repeats >= maxRepeats:
		return tool.Fail(tool.Error{Reason: tool.Repeated, Subject: c.Name, Message: fmt.Sprintf("this is the same call "+
			"for the %dth time in a row, so it was not run; do something else, or report what you have", c.Repeats)}), true
	}
	return tool.Answer{}, false
}

// call runs a tool. Only ctx's end and the store's faults are errors.
func (a *Agent) call(ctx context.Context, c pendingCall) (tool.Answer, error) {
	if c.Name == tool.BashName && a.Task.Grant.AllowsTool(c.Name) {
		if err := a.lookBefore(ctx); err != nil {
			return tool.Answer{}, err
		}
	}
	call := tool.Call{ID: c.ID, Hops: a.History.hops, Arguments: json.RawMessage(c.Arguments), Scope: a.Scope}
	answer, err := a.Tools.Run(ctx, c.Name, call)
	if err == nil || ctx.Err() != nil || isOurs(err) {
		return answer, err
	}
	level := slog.LevelError
	if errdefs.KindOf(err) != errdefs.Internal {
		level = slog.LevelWarn // of the machine's or the user's making, such as a workspace that is gone
	}
	a.Log.Log(ctx, level, "tool failed", "task", a.Task.ID, "tool", c.Name, "error", err)
	return tool.Fail(tool.Error{Reason: tool.Failed, Subject: c.Name, Message: oneLine(err)}), nil
}
