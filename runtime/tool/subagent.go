package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/task"
)

// maxTimeoutS bounds the time that an agent may be given, in seconds: a year.
const maxTimeoutS = 365 * 24 * 60 * 60

// subagentArgs are the arguments of `subagent`: the terms for all, and one of task, tasks and chain; with a name the agent of
// task is a teammate.
type subagentArgs struct {
	Task        string         `json:"task,omitempty"`
	Tasks       []subagentItem `json:"tasks,omitempty"`
	Chain       []subagentItem `json:"chain,omitempty"`
	Background  bool           `json:"background,omitempty"`
	Name        string         `json:"name,omitempty"`
	TeamName    string         `json:"team_name,omitempty"`
	Color       string         `json:"color,omitempty"`
	Description string         `json:"description,omitempty"`
	terms
}

// subagentItem is one agent of several. What it leaves open is as for all.
type subagentItem struct {
	Task string `json:"task"`
	terms
}

// terms say who does a task, within which limits, and what is demanded of its result.
type terms struct {
	Agent        string         `json:"agent,omitempty"`
	Model        string         `json:"model,omitempty"`
	Tools        []string       `json:"tools,omitempty"`
	Paths        []string       `json:"paths,omitempty"`
	Network      *bool          `json:"network,omitempty"`
	MaxSteps     int            `json:"max_steps,omitempty"`
	TimeoutS     int            `json:"timeout_s,omitempty"`
	Isolation    string         `json:"isolation,omitempty"`
	Acceptance   []string       `json:"acceptance,omitempty"`
	ResultSchema map[string]any `json:"result_schema,omitempty"`
}

const subagentDescription = `Give work to another agent, which works in a fresh context and ends with one result.

Worth it: reading many files for a short answer, following a call chain, changing one bounded module, running a set of
checks, independent questions side by side. Not worth it: what one file or one command answers; do that yourself.

The agent knows nothing but the text of its task: not your conversation, not what you have read. Say the scope, the goal,
what the answer must hold, and what it may change; a vague task does not get clearer by delegation. It works on the same
files as you. You see its result, never its steps; a conclusion is a finding to verify, not a fact.

Exactly one of: task (one agent), tasks (several side by side, results in that order), chain (one after the other; the
text {previous} in a task stands for the conclusion of the step before; it stops at the first failure). The call waits
for the end; with background it gives a task_id at once, and you are told when it ends. Separate calls in one step run one
after the other: use tasks to run several side by side.

With name (only as team-lead, and with task alone) the agent is a teammate: it gets the task as its first turn, rests when that
is over, lives on under its name, and takes what you send it with send_message. The call gives its task_id at once; you are
told what it says at the end of each turn. Worth it for work with several rounds; for one result take an agent without name.`

// termsSchema are the properties of terms.
const termsSchema = `
	"agent":{"type":"string","description":"agent definition (default general)"},
	"model":{"type":"string","description":"model, when not the definition's"},
	"tools":{"type":"array","items":{"type":"string"},"description":"the only tools it gets, of those that you have"},
	"paths":{"type":"array","items":{"type":"string"},"description":"the only directories it may read, and write where you may"},
	"network":{"type":"boolean","description":"false keeps it off the network"},
	"max_steps":{"type":"integer","minimum":1,"maximum":1000,"description":"model calls at most"},
	"timeout_s":{"type":"integer","minimum":1,"maximum":31536000,"description":"seconds at most"},
	"isolation":{"type":"string","enum":["none","worktree"],"description":"worktree: a git worktree of its own"},
	"acceptance":{"type":"array","maxItems":8,"items":{"type":"string","minLength":1},"description":"commands that must succeed before its result counts"},
	"result_schema":{"type":"object","description":"JSON Schema that its output must match"}`

func subagentTool() Tool {
	item := `{"type":"object","additionalProperties":false,"required":["task"],"properties":{
		"task":{"type":"string","minLength":1,"description":"the whole assignment"},` + termsSchema + `}}`
	return builtin[subagentArgs]{
		spec: Spec{
			Name: SubagentName, Description: subagentDescription,
			Parameters: schema(`
				"task":{"type":"string","minLength":1,"description":"the whole assignment of one agent"},
				"tasks":{"type":"array","minItems":1,"description":"assignments side by side","items":` + item + `},
				"chain":{"type":"array","minItems":1,"description":"assignments one after the other","items":` + item + `},
				"background":{"type":"boolean","description":"do not wait"},
				"name":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$","description":"makes it a teammate of this name"},
				"team_name":{"type":"string","description":"team of the teammate: your own, which is the default"},
				"color":{"type":"string","pattern":"^[a-z]{1,32}$","description":"of the teammate, for people, such as blue"},
				"description":{"type":"string","description":"what it is about, in a few words, for people who watch"},` + termsSchema),
			Idempotent: true,
		},
		run: subagent,
	}
}

func subagent(ctx context.Context, call Call, args subagentArgs) (Answer, error) {
	a, err := args.assignment(call.Scope)
	if err != nil {
		return Answer{}, err
	}
	id, err := call.Scope.Tasks.Spawn(ctx, call.ID, a)
	if err != nil {
		return Answer{}, args.renamed(err)
	}
	if a.Teammate != nil {
		seen, err := call.Scope.Tasks.Look(ctx, id)
		return Answer{Text: compact(taskAnswer{TaskID: string(id), AgentID: seen.AgentID, Status: "running"})}, err
	}
	if args.Background {
		return Answer{Text: compact(taskAnswer{TaskID: string(id), Status: "running"})}, nil
	}
	seen, err := call.Scope.Tasks.Wait(ctx, id, 0)
	if err != nil {
		return Answer{}, err
	}
	return tell(seen)
}

// assignment is what is to be spawned.
func (a subagentArgs) assignment(scope *Scope) (task.Assignment, error) {
	out := task.Assignment{Description: a.Description}
	list, items := "tasks", a.Tasks
	if a.Chain != nil {
		list, items = "chain", a.Chain
	}
	modes := 0
	for _, given := range []bool{a.Task != "", a.Tasks != nil, a.Chain != nil} {
		if given {
			modes++
		}
	}
	if modes != 1 {
		return out, invalid("task", "or tasks or chain is needed, and only one of them; %d are given", modes)
	}
	var err error
	if out.Teammate, err = a.teammate(); err != nil {
		return out, err
	}
	out.Team = a.TeamName
	if items == nil {
		out.AgentSpec, err = a.spec("", a.Task, scope)
		return out, err
	}
	out.Group = &task.GroupSpec{Chain: a.Chain != nil}
	for i, item := range items {
		spec, err := item.or(a.terms).spec(fmt.Sprintf("%s[%d].", list, i), item.Task, scope)
		if err != nil {
			return out, err
		}
		out.Group.Items = append(out.Group.Items, spec)
	}
	return out, nil
}

// teammate is what makes the agent a teammate; nil without a name.
func (a subagentArgs) teammate() (*task.TeammateSpec, error) {
	switch {
	case a.Name == "" && a.TeamName != "":
		return nil, invalid("name", "is missing: a teammate of the team %s needs one", a.TeamName)
	case a.Name == "" && a.Color != "":
		return nil, invalid("color", "is only for teammates, which have a name")
	case a.Name == "":
		return nil, nil
	case a.Task == "":
		return nil, invalid("name", "goes with task alone: each teammate is a call of its own")
	case a.Background:
		return nil, invalid("background", "is needless with name: nobody waits for a teammate")
	}
	return &task.TeammateSpec{Name: a.Name, Color: a.Color}, nil
}

// or are the terms with those for all where they leave something open.
func (t terms) or(all terms) terms {
	t.Agent, t.Model, t.Isolation = cmp.Or(t.Agent, all.Agent), cmp.Or(t.Model, all.Model), cmp.Or(t.Isolation, all.Isolation)
	t.MaxSteps, t.TimeoutS = cmp.Or(t.MaxSteps, all.MaxSteps), cmp.Or(t.TimeoutS, all.TimeoutS)
	if t.Tools == nil {
		t.Tools = all.Tools
	}
	if t.Paths == nil {
		t.Paths = all.Paths
	}
	if t.Network == nil {
		t.Network = all.Network
	}
	if t.Acceptance == nil {
		t.Acceptance = all.Acceptance
	}
	if t.ResultSchema == nil {
		t.ResultSchema = all.ResultSchema
	}
	return t
}

// spec is the terms as the runtime takes them. At names the item in a refusal.
func (t terms) spec(at, assignment string, scope *Scope) (task.AgentSpec, error) {
	if err := within(at+"timeout_s", t.TimeoutS, 1, maxTimeoutS); err != nil {
		return task.AgentSpec{}, err
	}
	if t.Isolation != "" && t.Isolation != "none" && t.Isolation != "worktree" {
		return task.AgentSpec{}, invalid(at+"isolation", "must be none or worktree, got %q", t.Isolation)
	}
	out := task.AgentSpec{
		Agent: t.Agent, Prompt: assignment, Model: t.Model, Worktree: t.Isolation == "worktree",
		Budget: task.Budget{MaxSteps: t.MaxSteps, WallTime: time.Duration(t.TimeoutS) * time.Second},
		Grant:  grant.Request{Tools: t.Tools, Network: t.Network},
	}
	for _, path := range t.Paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(scope.Workspace, path)
		}
		path = filepath.Clean(path)
		out.Grant.Readable = append(out.Grant.Readable, path)
		if scope.Grant.WritableRoot(path) != "" {
			out.Grant.Writable = append(out.Grant.Writable, path)
		}
	}
	for _, command := range t.Acceptance {
		out.Acceptance = append(out.Acceptance, task.Check{Command: command})
	}
	if t.ResultSchema != nil {
		schema, err := json.Marshal(t.ResultSchema)
		if err != nil {
			return out, invalid(at+"result_schema", "can't be read: %v", err)
		}
		out.Schema = string(schema)
	}
	return out, nil
}

// renamed names what a refusal is about as the model wrote it.
func (a subagentArgs) renamed(err error) error {
	fail, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	list := "tasks"
	if a.Chain != nil {
		list = "chain"
	}
	out := *fail
	if fail.Reason == InvalidArguments {
		out.Subject = strings.NewReplacer("items", list, "prompt", "task", "grant.readable_roots", "paths",
			"grant.writable_roots", "paths", "grant.", "", "budget.wall_time", "timeout_s", "budget.", "",
			".command", "").Replace(fail.Subject)
		out.Message = strings.Replace(out.Message, fail.Subject, out.Subject, 1)
	}
	out.Message = strings.NewReplacer("items[", list+"[", "readable_roots", "paths", "writable_roots", "paths").Replace(out.Message)
	return &out
}
