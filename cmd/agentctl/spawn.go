package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// maxText is the most that is read from stdin, in bytes: the daemon's limit for a whole request.
const maxText = 4 << 20

// spawnFlags are the flags of run and spawn.
type spawnFlags struct {
	agent, model       string
	requestID, parent  string
	description        string
	workspace          string
	timeout            time.Duration
	cancelOnDisconnect bool
	detach             bool
	budget             budgetFlag
	inputs             inputsFlag
}

func (s *spawnFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&s.agent, "agent", "", "`NAME` of an agent definition (default general)")
	flags.StringVar(&s.model, "model", "", "`NAME` of a model (default the daemon's)")
	flags.StringVar(&s.workspace, "workspace", "", "`DIR` to work in (default the repository around this one, or this one)")
	flags.StringVar(&s.parent, "parent", "", "living `TASK` that the new one belongs to, and ends with")
	flags.StringVar(&s.description, "description", "", "one `LINE` for people (default the start of the prompt)")
	flags.StringVar(&s.requestID, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	flags.Func("timeout", "end the task with TIMEOUT after this `DURATION`", span(&s.timeout))
	flags.BoolVar(&s.cancelOnDisconnect, "cancel-on-disconnect", false, "stop the task when agentctl goes away")
	flags.Var(&s.budget, "budget", "bounds: steps=N, tokens=N, wall=DURATION, max_steps=N (a turn)")
	flags.Var(&s.inputs, "input", "a named text beside the prompt; repeatable")
}

func (a *app) runCommand() *cobra.Command {
	var s spawnFlags
	c := &cobra.Command{
		Use:   "run PROMPT",
		Short: "Run an agent to its end and print the result",
		Long:  "run spawns an agent, tells its progress on stderr and prints its result on stdout. PROMPT `-` reads stdin.",
		Args:  takes("PROMPT"),
	}
	s.register(c.Flags())
	return a.command(c, func(ctx context.Context, args []string) error {
		p := &progress{w: a.err}
		show := func(it item) error {
			p.show(it)
			if it.GetOutcome() != nil && a.json {
				return a.emitItem(it)
			}
			return nil
		}
		f, err := a.spawn(ctx, &s, args[0], show)
		if err != nil {
			return err
		}
		if !a.json {
			escape := func(text string) string { return text }
			if isTerminal(a.out.w) {
				escape = clean
			}
			writeOutcome(a.out, f.outcome, escape)
		}
		return ended(f.outcome)
	})
}

func (a *app) spawnCommand() *cobra.Command {
	var s spawnFlags
	c := &cobra.Command{
		Use:   "spawn PROMPT",
		Short: "Start an agent and show its transcript, or leave it running",
		Long:  "spawn starts an agent and shows its transcript to the end. With --detach it prints the task's id alone. PROMPT `-` reads stdin.",
		Args:  takes("PROMPT"),
	}
	s.register(c.Flags())
	c.Flags().BoolVar(&s.detach, "detach", false, "print the task's id once it is durable, and leave it running")
	c.MarkFlagsMutuallyExclusive("detach", "cancel-on-disconnect")
	return a.command(c, func(ctx context.Context, args []string) error {
		show := (&transcript{out: a.out}).show
		switch {
		case a.json:
			show = a.emitItem
		case s.detach:
			show = func(it item) error {
				_, err := fmt.Fprintln(a.out, it.GetTask().GetId())
				return err
			}
		}
		f, err := a.spawn(ctx, &s, args[0], show)
		if err != nil || s.detach {
			return err
		}
		return ended(f.outcome)
	})
}

// spawn sends the request and follows the task to its end, or until Ctrl-C.
func (a *app) spawn(ctx context.Context, s *spawnFlags, prompt string, show func(item) error) (*follower, error) {
	req, err := a.spawnRequest(s, prompt)
	if err != nil {
		return nil, err
	}
	f := a.spawning(req, show)
	err = f.follow(ctx)
	if reason(err) == noModel {
		if err = a.giveModel(ctx, err); err == nil {
			err = f.follow(ctx)
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, a.interrupted(ctx, f, req)
	}
	if a.out.err != nil && f.outcome == nil && !req.GetCancelOnDisconnect() {
		a.note("%s goes on; come back with: %s", f.taskID(), f.comeBack())
	}
	return f, err
}

// spawning follows the task that a request makes; after a break it goes on by the cursor.
func (a *app) spawning(req *agentdv1.SpawnRequest, show func(item) error) *follower {
	f := &follower{app: a, show: show, toEnd: !req.GetDetach()}
	f.open = func(ctx context.Context, c *client) (receive, error) {
		// Only Spawn with the same request id attaches to a task again that stops when nobody is attached.
		if f.task == nil || req.GetCancelOnDisconnect() {
			return items(c.agents.Spawn(ctx, req))
		}
		return items(c.agents.TaskOutput(ctx, &agentdv1.TaskOutputRequest{TaskId: f.taskID(), FromSeq: f.last + 1, Follow: true}))
	}
	return f
}

func (a *app) spawnRequest(s *spawnFlags, prompt string) (*agentdv1.SpawnRequest, error) {
	prompt, err := a.text("PROMPT", prompt)
	if err != nil {
		return nil, err
	}
	workspace, err := a.workspace(s)
	if err != nil {
		return nil, usageError{err}
	}
	req := &agentdv1.SpawnRequest{
		RequestId:          requestID(s.requestID),
		Team:               a.team,
		Workspace:          workspace,
		ParentTaskId:       s.parent,
		Description:        s.description,
		Detach:             s.detach,
		CancelOnDisconnect: s.cancelOnDisconnect,
		Mode: &agentdv1.SpawnRequest_Single{Single: &agentdv1.AgentSpec{
			Agent: s.agent, Prompt: prompt, Inputs: s.inputs.inputs, Model: s.model, Budget: s.budget.budget,
		}},
	}
	if s.timeout > 0 {
		req.Timeout = durationpb.New(s.timeout)
	}
	if size := proto.Size(req); size > maxText {
		return nil, usageError{fmt.Errorf("prompt and inputs have %d bytes; a request has at most %d", size, maxText)}
	}
	return req, nil
}

// text is an argument, or stdin for `-`.
func (a *app) text(name, argument string) (string, error) {
	if argument == "-" {
		content, err := io.ReadAll(io.LimitReader(a.in, maxText))
		if err != nil {
			return "", err
		}
		argument = string(content)
	}
	if strings.TrimSpace(argument) == "" || !utf8.ValidString(argument) {
		return "", usageError{fmt.Errorf("%s must be UTF-8 and not empty", name)}
	}
	return argument, nil
}

// workspace is the directory to work in: the one given; none for a team or a parent, which have theirs; else the
// repository around the current directory, or that directory itself.
func (a *app) workspace(s *spawnFlags) (string, error) {
	if s.workspace != "" {
		dir, err := filepath.Abs(s.workspace)
		if err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(dir)
	}
	if a.team != "" || s.parent != "" {
		return "", nil
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	if cwd, err = filepath.EvalSymlinks(cwd); err != nil {
		return "", err
	}
	for dir := cwd; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return cwd, nil
		}
	}
}
