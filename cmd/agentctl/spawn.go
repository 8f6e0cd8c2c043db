package main

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// maxText is the most that is read from a file or stdin, in bytes: the daemon's limit for a whole request.
const maxText = 4 << 20

func (a *app) runCommand() *cobra.Command {
	s := spawnFlags{modeFlags: modeFlags{lead: true, untilQuiet: true}}
	c := &cobra.Command{
		Use:   "run PROMPT",
		Short: "Run a team's lead until all is done, and print the result",
		Long: `run spawns the lead of a team: an agent that can work alone, delegate, and make teammates. It ends when its work is
done and nothing that it could wait for is left. run tells the progress on stderr and prints the lead's last words on
stdout. On a terminal it also shows what the lead, its team and the agents below do now. PROMPT - reads stdin.

A team has one lead; beside one that lives, spawn starts other agents.`,
		Example: "  agentctl run 'Find out why the tests fail, and fix the cause.' --accept 'make test' --budget cost=2,time=30m",
		Args:    takes("PROMPT"),
	}
	s.register(c.Flags())
	return a.command(c, func(ctx context.Context, args []string) error {
		p := &progress{w: a.err}
		show := func(it item) error {
			p.w = a.err // the live view stands before it at times
			p.show(it)
			if it.GetOutcome() != nil && a.json {
				return a.emitItem(it)
			}
			return nil
		}
		f, err := a.spawn(ctx, &s, args, show)
		if err != nil {
			return err
		}
		a.note("%s", endLine(f.outcome))
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
		Use:   "spawn PROMPT | --parallel FILE | --chain FILE",
		Short: "Start agents or a shell and show what they do, or leave them running",
		Long: `spawn starts an agent and shows its transcript to the end. With --detach it prints the task's id alone. PROMPT -
reads stdin.

--teammate starts a named agent that lives on between its turns, takes mail (send) and can be woken by it after its end.
--lead starts the agent that leads the team. spawn shows either up to the end of its first turn, and a lead with
--until-quiet to its end.

--parallel and --chain run several agents, those of a list in a YAML or JSON file. An item is a prompt, or has the keys
agent, prompt or prompt_file, inputs (a name with a text or {task}), model, tools, readable_roots, writable_roots,
network, depth, budget {max_steps, steps, tokens, turns, tool_calls, cost_usd, wall_time}, acceptance (a command, or
{command, timeout}), result_schema, isolation. A prompt_file is relative to the file of items; roots are relative to the
workspace and lie within it. In a chain, {previous} in a prompt stands for the conclusion of the item before; the first
item has none. Instead of a list there may be {items, max_concurrency} or {items, resume_from}.

Who narrows roots or the network (--read, --write, --no-network) takes the tool bash away: nothing keeps a command within
them.

--shell runs a command line: what it writes goes to stdout and stderr.`,
		Example: `  agentctl spawn 'Write a test for the parser.' --agent coder --detach
  printf '%s\n' '- Review the API.' '- {agent: explorer, prompt: Find dead code.}' | agentctl spawn --parallel -
  agentctl spawn --teammate reviewer --agent reviewer 'Review what the others send you.'
  agentctl spawn --shell 'make test' --timeout 10m`,
		Args: func(_ *cobra.Command, args []string) error { return s.checkMix(args) },
	}
	s.register(c.Flags())
	s.modeFlags.register(c.Flags())
	c.Flags().StringVar(&s.parent, "parent", "", "living `TASK` that the new one belongs to, and ends with")
	c.Flags().BoolVar(&s.detach, "detach", false, "print the task's id once it is durable, and leave it running")
	return a.command(c, func(ctx context.Context, args []string) error {
		show := a.display().take
		switch {
		case a.json:
			show = a.emitItem
		case s.detach:
			show = func(it item) error {
				_, err := fmt.Fprintln(a.out, it.GetTask().GetId())
				return err
			}
		}
		f, err := a.spawn(ctx, &s, args, show)
		if err != nil || s.detach {
			return err
		}
		if f.outcome == nil {
			return a.showIdle(f)
		}
		if err := a.results(ctx, f); err != nil {
			return err
		}
		return ended(f.outcome)
	})
}

// spawn sends the request and follows the task to its end, or until Ctrl-C.
func (a *app) spawn(ctx context.Context, s *spawnFlags, args []string, show func(item) error) (*follower, error) {
	var err error
	if s.parent, err = a.taskID(ctx, s.parent); err != nil {
		return nil, err
	}
	req, err := a.spawnRequest(s, args)
	if err != nil {
		return nil, err
	}
	f := a.spawning(req, func(it item) error {
		a.noteDropped(it.GetTask())
		return show(it)
	})
	follow := f.follow
	if a.canShowLive(s) {
		follow = func(ctx context.Context) error { return a.followLive(ctx, f) }
	}
	err = follow(ctx)
	if reason(err) == noModel {
		if err = a.giveModel(ctx, err); err == nil {
			err = follow(ctx)
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, a.interrupted(ctx, f, req)
	}
	if a.out.err != nil && !f.over() && !req.GetCancelOnDisconnect() {
		a.note("%s goes on; come back with: %s", f.taskID(), f.comeBack())
	}
	return f, err
}

// noteDropped tells which tools an agent does without although its definition lists them.
func (a *app) noteDropped(task *agentdv1.Task) {
	if dropped := task.GetDroppedTools(); len(dropped) > 0 {
		them, are := "it", "it is"
		if len(dropped) > 1 {
			them, are = "them", "they are"
		}
		a.note("%s does without %s: %s lists %s, but %s not granted", task.GetId(), strings.Join(dropped, ", "), oneLine(task.GetAgent(), 30), them, are)
	}
}

// spawning follows the task that a request makes; after a break it goes on by the cursor.
func (a *app) spawning(req *agentdv1.SpawnRequest, show func(item) error) *follower {
	f := &follower{app: a, show: show, toEnd: !req.GetDetach()}
	f.toIdle = req.GetTeammate() != nil || req.GetLead() != nil && !req.GetLead().GetUntilQuiet()
	f.open = func(ctx context.Context, c *client) (receive, error) {
		// Only Spawn with the same request id attaches to a task again that stops when nobody is attached, and ends with
		// the first turn.
		if f.task == nil || req.GetCancelOnDisconnect() || f.toIdle {
			return items(c.agents.Spawn(ctx, req))
		}
		return items(c.agents.TaskOutput(ctx, &agentdv1.TaskOutputRequest{TaskId: f.taskID(), FromSeq: f.last + 1, Follow: true}))
	}
	return f
}

// text is an argument, or stdin for `-`.
func (a *app) text(name, argument string) (string, error) {
	if argument == "-" {
		content, err := readText("stdin", a.in)
		if err != nil {
			return "", usageError{err}
		}
		argument = content
	}
	if strings.TrimSpace(argument) == "" || !utf8.ValidString(argument) {
		return "", usageError{fmt.Errorf("%s must be UTF-8 and not empty", name)}
	}
	return argument, nil
}
