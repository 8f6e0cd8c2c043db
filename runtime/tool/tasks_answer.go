package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
)

// taskAnswer is a task as the model is told of it.
type taskAnswer struct {
	TaskID    string           `json:"task_id"`
	AgentID   string           `json:"agent_id,omitempty"` // of a teammate
	Status    string           `json:"status"`             // the state in lower case
	Reason    string           `json:"reason,omitempty"`
	Message   string           `json:"message,omitempty"`
	Agent     string           `json:"agent,omitempty"`
	Activity  string           `json:"activity,omitempty"`
	Summary   string           `json:"summary,omitempty"`
	Findings  []task.Finding   `json:"findings,omitempty"`
	Artifacts []task.Artifact  `json:"artifacts,omitempty"`
	Claims    []string         `json:"claims,omitempty"`
	Evidence  []evidenceAnswer `json:"evidence,omitempty"`
	Changes   []string         `json:"changes,omitempty"`
	ExitCode  *int             `json:"exit_code,omitempty"`
	Output    string           `json:"output,omitempty"`
	Error     string           `json:"error,omitempty"`
	Usage     *usageAnswer     `json:"usage,omitempty"`
	Results   []taskAnswer     `json:"results,omitempty"` // of a group, in the order of its items
}

type evidenceAnswer struct {
	Command  string `json:"command"`
	ExitCode int    `json:"exit_code"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Output   string `json:"output,omitempty"`
}

type usageAnswer struct {
	TotalTokens int64 `json:"total_tokens"`
	ToolUses    int64 `json:"tool_uses"`
	DurationMS  int64 `json:"duration_ms"`
}

// tell is the answer that tells of a task. It lists the task when it tells its end.
func tell(seen Waited) (Answer, error) {
	if seen.End == Circle {
		return Answer{}, circle(seen.Members)
	}
	told := taskToAnswer(seen)
	switch seen.End {
	case MailCame:
		told.Message = fmt.Sprintf("still running as %s, in the background from now on: there is mail for you. You are told "+
			"when it ends; do not start it again", told.TaskID)
	case TimeOver:
		told.Message = fmt.Sprintf("still running as %s: the timeout passed", told.TaskID)
	case TurnOver:
		told.Message = "its turn is over, and output holds its last words; send_message gives it more to do"
	case TaskEnded, Looked, Circle: // it speaks for itself
	}
	answer := Answer{Text: compact(told)}
	if seen.Result != nil {
		answer.Ends = []task.ID{seen.Task.ID}
	}
	return answer, nil
}

func circle(members []task.ID) error {
	var b strings.Builder
	for _, id := range members {
		fmt.Fprintf(&b, "%s waits for ", id)
	}
	return &Error{
		Reason: WaitCircle, Subject: string(members[0]),
		Message: b.String() + string(members[0]) + ": this wait would never end; go on without it",
	}
}

func taskToAnswer(seen Waited) taskAnswer {
	told := taskAnswer{
		TaskID: string(seen.Task.ID), AgentID: seen.AgentID, Status: strings.ToLower(seen.Task.State.String()), Agent: seen.Task.Agent,
		Activity: seen.Activity, Output: lastBytes(seen.Output, MaxSoFar),
		Usage: &usageAnswer{seen.Usage.Tokens(), seen.Usage.ToolCalls, int64(seen.WallTime / time.Millisecond)},
	}
	if r := seen.Result; r != nil {
		told.Reason, told.Error, told.ExitCode = r.Reason.String(), r.Error, r.ExitCode
		told.Output = ""
		if len(seen.Children) == 0 { // else they tell what the group only gathers
			told.conclude(r.Conclusion)
		}
	}
	for _, child := range seen.Children {
		one := taskToAnswer(child)
		told.Results = append(told.Results, one.within(MaxAnswer*3/4/len(seen.Children)))
	}
	return told
}

func (a *taskAnswer) conclude(c task.Conclusion) {
	a.Summary, a.Findings, a.Artifacts, a.Claims = c.Summary, c.Findings, c.Artifacts, c.Claims
	a.Changes, a.Output = c.Changes, c.Output
	for _, e := range c.Evidence {
		a.Evidence = append(a.Evidence, evidenceAnswer(e))
	}
}

// within is the answer itself, or its gist when it is longer, so that each child of a group has its part of an answer.
func (a taskAnswer) within(limit int) taskAnswer {
	if len(compact(a)) <= limit {
		return a
	}
	gist := taskAnswer{
		TaskID: a.TaskID, Status: a.Status, Reason: a.Reason, Agent: a.Agent, ExitCode: a.ExitCode, Usage: a.Usage,
		Message: fmt.Sprintf("this is not all; task_output with task_id %s tells the whole", a.TaskID),
	}
	gist.Error, gist.Summary = firstBytes(a.Error, limit/8), firstBytes(a.Summary, limit/2)
	return gist
}

// firstBytes is the start of a text, at most n bytes long, and lastBytes its end. No character is cut.
func firstBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[:cutBefore(text, n)] + "…"
}

func lastBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return text[cutAfter(text, len(text)-n):]
}

// compact is an answer's JSON, with the characters as they are.
func compact(a any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(a); err != nil { // strings and numbers always encode
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
