package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// History is what follows from a task's transcript: the model's context, and what the loop must know to go on. It is
// folded once, entry by entry, so that a step costs nothing that grows with what came before. The loop and the recovery
// use the same fold; there is no other state.
type History struct {
	Messages []model.Message // for the model; the first is the system prompt
	Known    *tool.Known

	steps    int      // model answers so far
	turn     int      // of them in this turn
	stirred  bool     // something came in since the last turn ended
	hops     int      // highest of the messages that this turn took
	spoke    string   // last text of this turn
	before   task.Seq // the newest text of the transcript stands behind this position
	approved bool     // a plan of the agent's was approved
	format   func(task.Input) string
	calls    int             // highest number of a call so far
	pending  []pendingCall   // asked, not answered
	started  map[string]bool // by call id: started is in the log
	report   *task.Report    // the latest accepted one
	fresh    bool            // the agent has concluded, with a report or a text, and nothing came after it
	text     string          // last text of the model, with the part before it that was cut
	output   string          // last JSON that this turn gave, with a report or as a last text
	repairs  int             // how often it was asked to repair its result
	commands bool            // it has asked for a command
	cut      bool            // the last answer was cut and may go on
	wrapUp   task.Reason     // a wrap-up was asked for
	changes  map[string]bool
	held     []string   // texts from outside that wait for the answers of the calls before them
	streak   repetition // of the latest call
	last     task.Usage // of the last step
	own      task.Usage // tokens and cost of all its steps
	asked    int        // messages that it was asked with; 0: none since the start, or since a summary
	opening  string     // the assignment
	warned   bool       // it was told that the end of its turn ends its children, and may have started none since
}

// repetition counts how often a call was asked for in a row.
type repetition struct {
	call  string // name and arguments
	times int
}

// pendingCall is a call without an answer.
type pendingCall struct {
	task.ToolCall
	Repeats int  // how often in a row it was asked for
	Orphan  bool // it was started by an earlier loop
}

// cutNotice follows an answer that was cut.
const cutNotice = "[agentd] Your answer was cut at the provider's limit; go on where it stopped."

// childrenNotice begins the notice that the end of the turn would end children. The fold knows it by that.
const childrenNotice = "[agentd] Tasks that you started still run: "

// NewHistory starts with the system prompt. Messages are given to the model as format has them.
func NewHistory(system string, format func(task.Input) string) *History {
	return &History{
		format:   format,
		Messages: []model.Message{{Role: model.System, Text: system}},
		Known:    tool.NewKnown(),
		started:  map[string]bool{},
		changes:  map[string]bool{},
	}
}

// Add folds one entry.
func (h *History) Add(body task.Body) {
	switch e := body.(type) {
	case *task.Input:
		if !h.stirred { // what an earlier turn gave is not what this one gives
			h.output = ""
		}
		h.fresh, h.opening, h.streak = false, cmp.Or(h.opening, e.Text), repetition{}
		h.stirred, h.hops = true, max(h.hops, e.Hops)
		h.approved = h.approved || e.Kind == task.PlanResponse && e.Approve
		h.addUser(h.words(*e))
	case *task.Notice:
		h.addNotice(e)
	case *task.Assistant:
		h.addAssistant(e)
	case *task.CallStarted:
		for _, id := range e.CallIDs {
			h.started[id] = true
			h.number(id)
		}
	case *task.ToolResult:
		h.addResult(e)
	case *task.Compaction:
		h.compact(e)
	case *task.StateChange: // the model is not told of states
		if e.To == task.Idle || e.To == task.Queued {
			h.endTurn()
		}
	case *task.Output: // an agent has none
	}
}

// place takes notice of where a text stands, before it is added: behind a position. What goes on with one that was cut stands
// with it.
func (h *History) place(body task.Body, before task.Seq) {
	if answer, ok := body.(*task.Assistant); ok && answer.Text != "" && !h.cut {
		h.before = before
	}
}

// words are what the model is given of an input: the assignment, and what the daemon has put into an envelope already, as
// they are.
func (h *History) words(in task.Input) string {
	if in.MessageID == "" || in.Kind == task.Ended {
		return in.Text
	}
	return h.format(in)
}

// endTurn forgets what is of a turn alone. Calls that the end of an incarnation left open stay open.
func (h *History) endTurn() {
	h.turn, h.stirred, h.hops, h.spoke, h.wrapUp = 0, false, 0, "", 0
	h.fresh, h.cut, h.warned, h.repairs, h.streak = false, false, false, 0, repetition{}
}

func (h *History) addNotice(e *task.Notice) {
	h.fresh = false
	h.stirred = true
	if e.WrapUp != 0 {
		h.wrapUp = e.WrapUp
	}
	switch {
	case e.Repair:
		h.repairs++
	case strings.HasPrefix(e.Text, childrenNotice):
		h.warned = true
	}
	h.addUser(e.Text)
}

// addUser joins what comes from outside in a row, for models whose templates want the roles to alternate. The answers of
// open calls go before it.
func (h *History) addUser(text string) {
	if len(h.pending) > 0 {
		h.held = append(h.held, text)
		return
	}
	if last := &h.Messages[len(h.Messages)-1]; last.Role == model.User {
		last.Text += "\n\n" + text
		return
	}
	h.Messages = append(h.Messages, model.Message{Role: model.User, Text: text})
}

func (h *History) addAssistant(e *task.Assistant) {
	h.giveUp()
	h.count(e.Usage)
	h.last, h.asked = e.Usage, len(h.Messages)
	h.output = h.given(e)
	h.text, h.cut = h.said(e.Text), e.Cut
	if e.Text != "" {
		h.spoke = h.text
	}
	h.fresh = len(e.Calls) == 0 && !e.Partial
	msg := model.Message{Role: model.Assistant, Text: e.Text}
	for _, c := range e.Calls {
		h.number(c.ID)
		h.commands = h.commands || c.Name == tool.BashName
		h.warned = h.warned && c.Name != tool.BashName && c.Name != tool.SubagentName
		msg.Calls = append(msg.Calls, model.ToolCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	h.pending, h.streak = h.ask(e.Calls)
	h.Messages = append(h.Messages, msg)
}

// count counts one step.
func (h *History) count(used task.Usage) {
	h.steps++
	h.turn++
	h.own.InputTokens += used.InputTokens
	h.own.OutputTokens += used.OutputTokens
	h.own.Cost += used.Cost
}

// said is the last text of the model after one more: an answer that was cut and what continues it are one, as far as a
// result has room.
func (h *History) said(text string) string {
	switch {
	case text == "":
		return h.text
	case h.cut && len(h.text)+len(text) <= maxAnswer:
		return h.text + text
	}
	return text
}

// given is the last output that was given after one more answer: its text is one if it ends the turn and is JSON.
func (h *History) given(e *task.Assistant) string {
	if len(e.Calls) > 0 || e.Partial {
		return h.output
	}
	return cmp.Or(outputIn(h.said(e.Text)), h.output)
}

// ask gives the calls of an answer as open ones, with how often each was asked for in a row. One answer alone never goes
// beyond maxRepeats: the model must have been told before. An answer without calls ends the row, as mail does, and a wait
// that was not in vain.
func (h *History) ask(calls []task.ToolCall) ([]pendingCall, repetition) {
	if len(calls) == 0 {
		return nil, repetition{}
	}
	asked, streak := make([]pendingCall, 0, len(calls)), h.streak
	told := streak.times >= maxRepeats
	for _, c := range calls {
		switch call := callOf(c); {
		case call != streak.call:
			streak, told = repetition{call, 1}, false
		case told || streak.times < maxRepeats:
			streak.times++
		}
		asked = append(asked, pendingCall{ToolCall: c, Repeats: streak.times})
	}
	return asked, streak
}

// callOf is the name and the arguments of a call.
func callOf(c task.ToolCall) string { return c.Name + "\x00" + c.Arguments }

// waited tells whether a call has waited for a task that still runs: to wait for it once more is no repetition. Who asks for
// an end that has come is told it at once, again and again.
func waited(c task.ToolCall, e *task.ToolResult) bool {
	var args struct {
		Block bool `json:"block"`
	}
	return c.Name == tool.TaskOutputName && !e.IsError && len(e.Ends) == 0 &&
		json.Unmarshal([]byte(c.Arguments), &args) == nil && args.Block
}

// addResult folds an answer. One whose question was lost to the disk (D7) has its effects, but is not told to the model.
func (h *History) addResult(e *task.ToolResult) {
	h.number(e.CallID)
	asked := h.asking(e.CallID)
	if e.Report != nil {
		h.report, h.fresh = e.Report, true
		h.output = cmp.Or(reported(asked.Arguments), h.output)
	}
	if waited(asked, e) && h.streak.call == callOf(asked) {
		h.streak = repetition{}
	}
	if h.answer(e.CallID, e.Text) {
		h.Known.Learn(e.Files)
	}
	for _, f := range e.Files {
		if f.Changed {
			h.changes[f.Path] = true
		}
	}
}

// asking is an open call; zero when there is none.
func (h *History) asking(callID string) task.ToolCall {
	for _, c := range h.pending {
		if c.ID == callID {
			return c.ToolCall
		}
	}
	return task.ToolCall{}
}

// answer gives the model the answer of an open call; false when there is no such call.
func (h *History) answer(callID, text string) bool {
	delete(h.started, callID)
	open := len(h.pending)
	h.pending = slices.DeleteFunc(h.pending, func(c pendingCall) bool { return c.ID == callID })
	if len(h.pending) == open {
		return false
	}
	h.Messages = append(h.Messages, model.Message{Role: model.ToolAnswer, Text: text, CallID: callID})
	if len(h.pending) == 0 {
		held := h.held
		h.held = nil
		for _, text := range held {
			h.addUser(text)
		}
	}
	return true
}

// giveUp answers the calls that are open although the model has gone on: their answers were lost to the disk (D7).
func (h *History) giveUp() {
	for len(h.pending) > 0 {
		h.answer(h.pending[0].ID, "[agentd] The answer of this call was damaged on disk and is lost.")
	}
}

// number takes notice of a call's number, so that none is given twice although the entry that asked may be lost.
func (h *History) number(callID string) {
	if n, err := strconv.Atoi(strings.TrimPrefix(callID, callPrefix)); err == nil {
		h.calls = max(h.calls, n)
	}
}

// callPrefix begins the ids of calls.
const callPrefix = "c"

// adopt ends the fold of what earlier loops wrote: what they started and did not answer is orphaned.
func (h *History) adopt() {
	for i := range h.pending {
		h.pending[i].Orphan = h.started[h.pending[i].ID]
	}
}

// nextCallID numbers the calls of a task. Providers' own ids may be missing, repeat, or be of a form that another
// provider refuses; nine letters and digits pass everywhere.
func (h *History) nextCallID(n int) string { return fmt.Sprintf("%s%08d", callPrefix, h.calls+n+1) }
