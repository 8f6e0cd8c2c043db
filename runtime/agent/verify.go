package agent

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

const (
	maxRepairs   = 3                // rounds in which an agent may repair its result, whatever is wrong with it
	checkTimeout = 10 * time.Minute // of an acceptance command that has none of its own
	maxEvidence  = 4 << 10          // bytes of the end of an acceptance command's output
)

// verdict is what the daemon's own checks say of a conclusion.
type verdict struct {
	evidence []task.Evidence // in the order of the commands; none when the output violates its schema
	reason   task.Reason     // why the conclusion does not pass; 0: it does
	problem  string          // what is wrong, for the agent
	line     string          // the same for people, one line
}

// hasChecks tells whether the daemon checks what the agent concludes: not before it may do anything.
func (a *Agent) hasChecks() bool {
	return (a.Spec.Schema != "" || len(a.Spec.Acceptance) > 0) && !a.plans()
}

// verify checks what the agent has concluded: its output (R3), then, by the acceptance commands, its work (R2). It is nil
// when the task is being stopped: such a task is checked no further. After a crash in the middle all commands run again.
func (a *Agent) verify(ctx context.Context) (*verdict, error) {
	if a.Spec.Schema != "" {
		problem, err := a.violation()
		if err != nil {
			return nil, err
		}
		if problem != "" {
			line, _, _ := strings.Cut(problem, "\n")
			return &verdict{reason: task.ContractViolation, problem: problem, line: clip(line, maxError)}, nil
		}
	}
	return a.acceptance(ctx)
}

// acceptance runs the acceptance commands, after an entry that shows them while they run.
func (a *Agent) acceptance(ctx context.Context) (*verdict, error) {
	var v verdict
	var failed []string
	for i, check := range a.Spec.Acceptance {
		if stopped, err := a.stopped(ctx); stopped || err != nil {
			return nil, err
		}
		if i == 0 {
			if err := a.commit(ctx, task.Usage{}, checksStarted(a.Spec.Acceptance)); err != nil {
				return nil, err
			}
		}
		e, err := a.accept(ctx, checkID(i), check)
		if err != nil {
			return nil, err
		}
		v.evidence = append(v.evidence, e)
		if !e.Passed() {
			failed = append(failed, failure(e))
			line := fmt.Sprintf("acceptance command %d of %d failed: %s: %s", i+1, len(a.Spec.Acceptance), how(e), glance(e.Command))
			v.line = cmp.Or(v.line, line)
		}
	}
	if len(failed) > 0 {
		v.reason, v.problem = task.AcceptanceFailed, strings.Join(failed, "\n\n")
	}
	return &v, nil
}

// checkID is the call id of the i-th acceptance command, which no call of the agent has.
func checkID(i int) string { return fmt.Sprintf("accept%d", i+1) }

// checksStarted shows that the acceptance commands run. Nothing else follows from it.
func checksStarted(checks []task.Check) *task.CallStarted {
	var mark task.CallStarted
	var commands []string
	for i, c := range checks {
		mark.CallIDs, commands = append(mark.CallIDs, checkID(i)), append(commands, glance(c.Command))
	}
	mark.Label = "acceptance: " + strings.Join(commands, ", ")
	return &mark
}

// violation says what is wrong with the output that the agent gave; empty: nothing.
func (a *Agent) violation() (string, error) {
	schema, err := compileSchema(a.Spec.Schema)
	if err != nil {
		return "", fmt.Errorf("result schema that was taken: %w", err)
	}
	output := a.History.output
	switch {
	case output == "" && a.Task.Kind == task.Teammate: // it has no report
		return "There is no output: your last text must be JSON, and nothing else.", nil
	case output == "":
		return "There is no output: give JSON as `output` of `report`, or as your last text.", nil
	}
	if wrong := schema.violation(output); wrong != "" {
		return "The output violates the result schema: " + wrong, nil
	}
	return "", nil
}

// stopped tells whether no more check may begin.
func (a *Agent) stopped(ctx context.Context) (bool, error) {
	select {
	case <-a.Draining:
		return false, ErrDrained
	default:
	}
	row, err := a.row(ctx)
	return row.Value.Stop != nil, err
}

// accept runs an acceptance command. One that can't be run has failed.
func (a *Agent) accept(ctx context.Context, callID string, c task.Check) (task.Evidence, error) {
	e := task.Evidence{Command: c.Command, ExitCode: -1}
	exit, err := a.Scope.Shell.Run(ctx, sandbox.Command{
		CallID: callID, Line: c.Command, Dir: a.Scope.Workspace, Timeout: cmp.Or(c.Timeout, checkTimeout),
	})
	switch {
	case err != nil && (ctx.Err() != nil || isOurs(err)):
		return e, err
	case err != nil:
		a.Log.Warn("acceptance command could not be run", "task", a.Task.ID, "error", err)
		e.Output = oneLine(err)
		return e, nil
	}
	e.ExitCode, e.TimedOut, e.Output = exit.Code, exit.TimedOut, tail(string(exit.Output), maxEvidence)
	return e, nil
}

// tail is the end of a text, valid and at most n bytes long.
func tail(s string, n int) string {
	s = valid(s)
	start := max(0, len(s)-n)
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[start:]
}

// how a command failed.
func how(e task.Evidence) string {
	switch {
	case e.TimedOut:
		return "it took too long and was killed"
	case e.ExitCode < 0:
		return "it could not be run to its end"
	}
	return fmt.Sprintf("exit code %d", e.ExitCode)
}

// failure tells the agent of a command that failed.
func failure(e task.Evidence) string {
	text := fmt.Sprintf("The acceptance command `%s` failed: %s.", e.Command, how(e))
	if e.Output == "" {
		return text
	}
	return text + " The end of its output:\n" + e.Output
}

// repair asks the agent to make good what is wrong. Without a round left the task does not go on, and fails; so it does near
// a limit, where nothing could be repaired any more.
func (a *Agent) repair(ctx context.Context, t task.Task, e *ending) (goesOn bool, err error) {
	limit, err := a.nearest(ctx, t)
	if err != nil {
		return false, err
	}
	e.finish = task.Finish{State: task.Failed, Reason: e.verdict.reason, Error: e.verdict.line}
	if a.History.repairs >= maxRepairs {
		return false, nil
	}
	if limit != 0 {
		e.finish.Reason = limit
		return false, nil
	}
	return true, a.commit(ctx, task.Usage{}, &task.Notice{Repair: true, Text: fmt.Sprintf(
		"[agentd] Your result was not taken. %s\n\nRepair this and conclude again (round %d of %d).",
		e.verdict.problem, a.History.repairs+1, maxRepairs)})
}
