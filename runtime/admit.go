package runtime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/grant"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Limits of a spawn (N8).
const (
	maxInputs    = 32       // named texts
	maxName      = 64       // bytes of a named text's name
	maxLine      = 1 << 10  // bytes of a line for people
	maxTools     = 64       // names of tools in a grant that is asked for
	maxRoots     = 32       // directories in it
	maxEnv       = 64       // variables of a shell
	maxEnvBytes  = 64 << 10 // of them together
	maxCheckTime = time.Hour
)

func tooLarge(field string, size, limit int) error {
	return &errdefs.Error{
		Kind: errdefs.InvalidArgument, Reason: errdefs.TooLarge, Subject: field, Field: field,
		Message: fmt.Sprintf("%s: it has %d bytes; the limit is %d", field, size, limit),
	}
}

// check refuses what is wrong with an assignment by itself. Fields are named as in it: those of an item stand behind
// `items[N].`.
func (s *Supervisor) check(a task.Assignment) error {
	if len(a.Description) > maxLine {
		return tooLarge("description", len(a.Description), maxLine)
	}
	if strings.ContainsFunc(a.Description, unicode.IsControl) {
		return errdefs.BadField("description", "must be one line of text, without control characters")
	}
	if err := checkRequestID(a.RequestID); err != nil {
		return err
	}
	if err := checkBudget("budget", a.Budget); err != nil {
		return err
	}
	switch {
	case a.Shell != nil:
		return checkShell(*a.Shell)
	case a.Group != nil:
		return s.checkGroup(*a.Group)
	}
	if a.Teammate != nil {
		if err := checkTeammate(*a.Teammate); err != nil {
			return err
		}
	}
	return checkAgent("", a.AgentSpec)
}

func (s *Supervisor) checkGroup(g task.GroupSpec) error {
	switch {
	case len(g.Items) == 0 && g.ResumeFrom == "":
		return errdefs.BadField("items", "must not be empty; say what is to be done")
	case len(g.Items) > s.cfg.MaxItems:
		return errdefs.BadField("items", "there are %d; at most %d go into one group", len(g.Items), s.cfg.MaxItems)
	case g.MaxConcurrency < 0 || g.MaxConcurrency > s.cfg.MaxItems:
		return errdefs.BadField("max_concurrency", "must be 1 to %d, or 0 for %d", s.cfg.MaxItems, s.cfg.MaxAtOnce)
	}
	for i, item := range g.Items {
		if err := checkAgent(fmt.Sprintf("items[%d].", i), item); err != nil {
			return err
		}
	}
	return nil
}

func checkAgent(at string, a task.AgentSpec) error {
	switch {
	case strings.TrimSpace(a.Prompt) == "":
		return errdefs.BadField(at+"prompt", "must not be empty; say what is to be done")
	case len(a.Inputs) > maxInputs:
		return errdefs.BadField(at+"inputs", "there are %d; the limit is %d", len(a.Inputs), maxInputs)
	case len(a.Model) > task.MaxModelName:
		return tooLarge(at+"model", len(a.Model), task.MaxModelName)
	case len(a.Grant.Tools) > maxTools:
		return errdefs.BadField(at+"grant.tools", "there are %d; the limit is %d", len(a.Grant.Tools), maxTools)
	case countRoots(a.Grant) > maxRoots:
		return errdefs.BadField(at+"grant.readable_roots", "there are more than %d roots", maxRoots)
	case a.Grant.Depth != nil && *a.Grant.Depth < 0:
		return errdefs.BadField(at+"grant.depth", "must not be negative; 0 is no task below")
	case len(a.Schema) > task.MaxSchema:
		return tooLarge(at+"result_schema", len(a.Schema), task.MaxSchema)
	case a.Worktree:
		return &errdefs.Error{
			Kind: errdefs.FailedPrecondition, Reason: errdefs.NotOffered, Subject: "worktree", Field: at + "isolation",
			Message: at + "isolation: worktrees are not offered yet; leave it out to work in the workspace",
		}
	}
	if err := checkInputs(at, a); err != nil {
		return err
	}
	if err := checkChecks(at, a.Acceptance); err != nil {
		return err
	}
	if a.Schema != "" {
		if err := agent.CheckSchema(a.Schema); err != nil {
			return errdefs.BadField(at+"result_schema", "%v", err)
		}
	}
	return checkBudget(at+"budget", a.Budget)
}

// countRoots counts the directories of a grant that is asked for. One that may be read and written is one.
func countRoots(r grant.Request) int {
	roots := slices.Concat(r.Readable, r.Writable)
	slices.Sort(roots)
	return len(slices.Compact(roots))
}

func checkInputs(at string, a task.AgentSpec) error {
	size := len(a.Prompt)
	for i, in := range a.Inputs {
		size += len(in.Text)
		field := fmt.Sprintf("%sinputs[%d]", at, i)
		switch {
		case in.Name == "" || len(in.Name) > maxName:
			return errdefs.BadField(field+".name", "must be 1 to %d bytes", maxName)
		case (in.Text == "") == (in.TaskID == ""):
			return errdefs.BadField(field, "needs a text or a task_id")
		}
	}
	if size > task.MaxPrompt {
		return tooLarge(at+"prompt", size, task.MaxPrompt)
	}
	return nil
}

func checkChecks(at string, checks []task.Check) error {
	if len(checks) > task.MaxChecks {
		return errdefs.BadField(at+"acceptance", "there are %d; the limit is %d", len(checks), task.MaxChecks)
	}
	size := 0
	for i, c := range checks {
		field := fmt.Sprintf("%sacceptance[%d]", at, i)
		size += len(c.Command)
		if err := checkCommand(field+".command", c.Command); err != nil {
			return err
		}
		if c.Timeout < 0 || c.Timeout > maxCheckTime {
			return errdefs.BadField(field+".timeout", "must be 0 to %s", maxCheckTime)
		}
	}
	if size > task.MaxCommand {
		return tooLarge(at+"acceptance", size, task.MaxCommand)
	}
	return nil
}

func checkCommand(field, command string) error {
	switch {
	case strings.TrimSpace(command) == "":
		return errdefs.BadField(field, "must not be empty")
	case len(command) > task.MaxCommand:
		return tooLarge(field, len(command), task.MaxCommand)
	case strings.ContainsRune(command, 0):
		return errdefs.BadField(field, "must not hold a NUL byte")
	}
	return nil
}

func checkShell(sh task.ShellSpec) error {
	if err := checkCommand("command", sh.Command); err != nil {
		return err
	}
	if len(sh.Env) > maxEnv {
		return errdefs.BadField("env", "there are %d variables; the limit is %d", len(sh.Env), maxEnv)
	}
	size := 0
	for _, variable := range sh.Env {
		size += len(variable)
		name, _, found := strings.Cut(variable, "=")
		switch {
		case name == "" || !found || strings.ContainsRune(variable, 0):
			return errdefs.BadField("env", "%q is no variable with a value", name)
		case strings.HasPrefix(name, "AGENTD_"):
			return errdefs.BadField("env", "%s is the daemon's own; choose another name", name)
		}
	}
	if size > maxEnvBytes {
		return tooLarge("env", size, maxEnvBytes)
	}
	return nil
}

func checkBudget(at string, b task.Budget) error {
	for name, n := range map[string]int64{
		"steps": b.Steps, "tokens": b.Tokens, "turns": b.Turns, "tool_calls": b.ToolCalls, "cost_usd": b.Cost,
	} {
		if n < 0 {
			return errdefs.BadField(at+"."+name, "must not be negative; 0 is no bound")
		}
	}
	switch {
	case b.MaxSteps < 0 || b.MaxSteps > task.MaxMaxSteps:
		return errdefs.BadField(at+".max_steps", "must be 1 to %d, or 0 for %d", task.MaxMaxSteps, task.DefaultMaxSteps)
	case b.WallTime < 0 || b.WallTime > task.MaxWallTime:
		return errdefs.BadField(at+".wall_time", "must be 0 to %s; 0 is no bound", task.MaxWallTime)
	case b.Cost > task.MaxCost:
		return errdefs.BadField(at+".cost_usd", "must be 0 to %d; 0 is no bound", task.MaxCost/task.Dollar)
	}
	return nil
}

// orElse gives a budget whose missing bounds are those of another one.
func orElse(b, other task.Budget) task.Budget {
	return task.Budget{
		MaxSteps: cmp.Or(b.MaxSteps, other.MaxSteps, task.DefaultMaxSteps), Steps: cmp.Or(b.Steps, other.Steps),
		Tokens: cmp.Or(b.Tokens, other.Tokens), WallTime: cmp.Or(b.WallTime, other.WallTime),
		Turns: cmp.Or(b.Turns, other.Turns), ToolCalls: cmp.Or(b.ToolCalls, other.ToolCalls),
		Cost: cmp.Or(b.Cost, other.Cost),
	}
}
