package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// spawnFlags are the flags of run and spawn.
type spawnFlags struct {
	agentFlags
	modeFlags
	requestID, parent  string
	description        string
	workspace          string
	timeout            time.Duration
	cancelOnDisconnect bool
	detach             bool
	plain              bool
}

// register adds the flags that run and spawn share.
func (s *spawnFlags) register(flags *pflag.FlagSet) {
	s.agentFlags.register(flags)
	flags.StringVar(&s.workspace, "workspace", "", "`DIR` to work in (default the repository around this one, or this one)")
	flags.StringVar(&s.description, "description", "", "one `LINE` for people (default the start of the prompt)")
	flags.StringVar(&s.requestID, "request-id", "", "`ID` that makes a retry return the first outcome (default random)")
	flags.Func("timeout", "end the task with TIMEOUT after this `DURATION`", span(&s.timeout))
	flags.BoolVar(&s.cancelOnDisconnect, "cancel-on-disconnect", false, "stop the task when agentctl goes away")
	flags.BoolVar(&s.plain, "plain", false, "no live view on a terminal, only lines")
}

// modeFlags are the flags of spawn that choose something else than one agent.
type modeFlags struct {
	parallel, chain string // files
	resumeFrom      string
	maxConcurrency  int32
	shell           bool
	cwd             string
	env             envFlag

	teammate, color string
	planApproval    bool
	lead            bool
	untilQuiet      bool
}

func (m *modeFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&m.parallel, "parallel", "", "run the agents of this YAML or JSON `FILE` side by side; - reads stdin")
	flags.StringVar(&m.chain, "chain", "", "run the agents of this YAML or JSON `FILE` one after the other; - reads stdin")
	flags.Func("max-concurrency", "so many agents of --parallel at once, `N` (default 4)", func(text string) error {
		var n int64
		if err := positive(text, &n, maxConcurrency); err != nil {
			return err
		}
		m.maxConcurrency = int32(n)
		return nil
	})
	flags.StringVar(&m.resumeFrom, "resume-from", "",
		"ended chain `GROUP` that goes on at the step that failed; its own steps, unless --chain gives others")
	flags.BoolVar(&m.shell, "shell", false, "PROMPT is a command line for sh, without an agent")
	flags.StringVar(&m.cwd, "cwd", "", "`DIR` to run --shell in (default the workspace)")
	flags.Var(&m.env, "env", "variable for the command of --shell; repeatable")
	flags.StringVar(&m.teammate, "teammate", "", "start a teammate of this `NAME`")
	flags.StringVar(&m.color, "color", "", "`COLOR` of --teammate for people (default one of eight)")
	flags.BoolVar(&m.planApproval, "plan-approval", false, "--teammate may only read until its plan is approved (send --approve)")
	flags.BoolVar(&m.lead, "lead", false, "start the lead of the team")
	flags.BoolVar(&m.untilQuiet, "until-quiet", false, "--lead ends when it is idle and nobody in the team has work left")
}

// maxConcurrency is the most agents of a group that may run at once, as far as a flag or a file can say.
const maxConcurrency = 1000

// mode is the flag that chooses the mode; empty for one agent.
func (m *modeFlags) mode() string {
	if modes := m.modes(); len(modes) > 0 {
		return modes[0]
	}
	return ""
}

// modes are all flags that choose a mode.
func (m *modeFlags) modes() []string {
	var modes []string
	for _, f := range []struct {
		flag  string
		given bool
	}{
		{"--parallel", m.parallel != ""}, {"--chain", m.chain != ""}, {"--resume-from", m.resumeFrom != ""},
		{"--shell", m.shell}, {"--teammate", m.teammate != ""}, {"--lead", m.lead},
	} {
		if f.given {
			modes = append(modes, f.flag)
		}
	}
	return modes
}

// checkMix refuses flags and arguments that don't go together, and says what to do instead.
func (s *spawnFlags) checkMix(args []string) error {
	modes, agent := s.modes(), s.given()
	mode := s.mode()
	group := mode == "--parallel" || mode == "--chain" || mode == "--resume-from"
	switch {
	case len(modes) > 1 && !slices.Equal(modes, []string{"--chain", "--resume-from"}):
		return errors.New("only one of --parallel, --chain, --shell, --teammate and --lead can be; --resume-from goes with --chain")
	case group && len(args) > 0:
		return fmt.Errorf("%s takes no PROMPT: each item of its file has its own", mode)
	case !group && len(args) != 1:
		return fmt.Errorf("spawn takes PROMPT, but got %s; or --parallel FILE, --chain FILE", count(len(args), "argument", "arguments"))
	case group && agent != "":
		return fmt.Errorf("--%s does not go with %s: give it to the items of the file", agent, mode)
	case s.shell && agent != "":
		return fmt.Errorf("--%s does not go with --shell, which runs a command line without an agent; its time is bounded by --timeout", agent)
	case s.cwd != "" && !s.shell:
		return errors.New("--cwd needs --shell; an agent works in --workspace")
	case len(s.env.set) > 0 && !s.shell:
		return errors.New("--env needs --shell")
	case s.maxConcurrency > 0 && s.parallel == "":
		return errors.New("--max-concurrency needs --parallel")
	case s.detach && s.cancelOnDisconnect:
		return errors.New("--detach leaves the task running, --cancel-on-disconnect stops it; choose one")
	}
	return s.checkTeam()
}

// checkTeam refuses flags of teammates and leads where they mean nothing.
func (s *spawnFlags) checkTeam() error {
	switch {
	case s.color != "" && s.teammate == "":
		return errors.New("--color needs --teammate")
	case s.planApproval && s.teammate == "":
		return errors.New("--plan-approval needs --teammate")
	case s.untilQuiet && !s.lead:
		return errors.New("--until-quiet needs --lead")
	case s.parent != "" && (s.teammate != "" || s.lead):
		return fmt.Errorf("--parent does not go with %s, which belongs to its team", s.mode())
	}
	return nil
}

// spawnRequest is what run and spawn ask the daemon for.
func (a *app) spawnRequest(s *spawnFlags, args []string) (*agentdv1.SpawnRequest, error) {
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
		Timeout:            optional(s.timeout),
	}
	if err := a.setMode(req, s, args); err != nil {
		return nil, usageError{err}
	}
	if size := proto.Size(req); size > maxText {
		return nil, usageError{fmt.Errorf("the request has %d bytes, prompts and inputs included; it may have %d", size, maxText)}
	}
	return req, nil
}

// setMode puts into the request what is to run.
func (a *app) setMode(req *agentdv1.SpawnRequest, s *spawnFlags, args []string) error {
	switch s.mode() {
	case "--parallel":
		group, err := a.readGroup(s.parallel, "max_concurrency")
		if err != nil {
			return err
		}
		if s.maxConcurrency > 0 {
			group.maxConcurrency = s.maxConcurrency
		}
		req.Mode = &agentdv1.SpawnRequest_Parallel{Parallel: &agentdv1.Parallel{
			Items: group.items, MaxConcurrency: group.maxConcurrency}}
		return nil
	case "--chain", "--resume-from":
		group := group{}
		if s.chain != "" {
			var err error
			if group, err = a.readGroup(s.chain, "resume_from"); err != nil {
				return err
			}
		}
		if s.resumeFrom != "" {
			group.resumeFrom = s.resumeFrom
		}
		req.Mode = &agentdv1.SpawnRequest_Chain{Chain: &agentdv1.Chain{Items: group.items, ResumeFrom: group.resumeFrom}}
		return nil
	}
	prompt, err := a.text("PROMPT", args[0])
	if err != nil {
		return err
	}
	if s.shell {
		shell := &agentdv1.Shell{Command: prompt, Env: s.env.set}
		if s.cwd != "" {
			if shell.Cwd, err = filepath.Abs(s.cwd); err != nil {
				return err
			}
		}
		req.Mode = &agentdv1.SpawnRequest_Shell{Shell: shell}
		return nil
	}
	spec, err := s.spec(prompt)
	switch s.mode() {
	case "--teammate":
		req.Mode = &agentdv1.SpawnRequest_Teammate{Teammate: &agentdv1.Teammate{
			Agent: spec, Name: s.teammate, Color: s.color, PlanApproval: s.planApproval}}
	case "--lead":
		req.Mode = &agentdv1.SpawnRequest_Lead{Lead: &agentdv1.Lead{Agent: spec, UntilQuiet: s.untilQuiet}}
	default:
		req.Mode = &agentdv1.SpawnRequest_Single{Single: spec}
	}
	return err
}

// envFlag collects `NAME=VALUE`.
type envFlag struct{ set map[string]string }

// Set adds a variable.
func (f *envFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=VALUE", text)
	}
	if _, twice := f.set[name]; twice {
		return fmt.Errorf("%s is given twice", name)
	}
	if f.set == nil {
		f.set = map[string]string{}
	}
	f.set[name] = value
	return nil
}

// String is empty: there is no default to show.
func (f *envFlag) String() string { return "" }

// Type is how the help shows the value.
func (f *envFlag) Type() string { return "NAME=VALUE" }
