package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// agentFlags are the flags that say what one agent is to do.
type agentFlags struct {
	own           *pflag.FlagSet // those flags alone
	agent, model  string
	tools         []string
	read, write   []string
	noNetwork     bool
	accept        []string
	acceptTimeout time.Duration
	schema        string
	isolation     agentdv1.Isolation
	budget        budgetFlag
	inputs        inputsFlag
}

// register adds the flags to those of a command.
func (f *agentFlags) register(to *pflag.FlagSet) {
	f.own = pflag.NewFlagSet("", pflag.ContinueOnError)
	f.own.StringVar(&f.agent, "agent", "", "`NAME` of an agent definition (default general)")
	f.own.StringVar(&f.model, "model", "", "`NAME` of a model (default the agent's, or the daemon's)")
	f.own.StringSliceVar(&f.tools, "tools", nil, "`NAME,...` of the tools that it may use (default those of the agent)")
	f.own.StringArrayVar(&f.read, "read", nil, "`DIR` that it may read; with --read or --write no other one; repeatable")
	f.own.StringArrayVar(&f.write, "write", nil, "`DIR` that it may read and write; repeatable")
	f.own.BoolVar(&f.noNetwork, "no-network", false, "it may not use the network")
	f.own.StringArrayVar(&f.accept, "accept", nil, "`COMMAND` that must succeed before the agent is done; repeatable")
	f.own.Func("accept-timeout", "longest `DURATION` of each --accept (default 10m)", span(&f.acceptTimeout))
	f.own.StringVar(&f.schema, "schema", "", "`FILE` with the JSON Schema that its output must meet")
	f.own.Var(choose(&f.isolation,
		option[agentdv1.Isolation]{"none", agentdv1.Isolation_ISOLATION_NONE},
		option[agentdv1.Isolation]{"worktree", agentdv1.Isolation_ISOLATION_WORKTREE}), "isolation",
		"in the workspace beside others, or in a git worktree of its own (default none)")
	f.own.Var(&f.budget, "budget", "bounds: "+budgetNames)
	f.own.Var(&f.inputs, "input", "a named text beside the prompt; repeatable")
	to.AddFlagSet(f.own)
}

// given is the name of an agent's flag that was given; empty when none was.
func (f *agentFlags) given() string {
	name := ""
	f.own.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			name = flag.Name
		}
	})
	return name
}

// spec is the agent that the flags ask for.
func (f *agentFlags) spec(prompt string) (*agentdv1.AgentSpec, error) {
	spec := &agentdv1.AgentSpec{
		Agent: f.agent, Prompt: prompt, Inputs: f.inputs.inputs, Model: f.model, Budget: f.budget.budget, Isolation: f.isolation,
	}
	var err error
	if spec.Grant, err = f.grant(); err != nil {
		return nil, err
	}
	if f.acceptTimeout > 0 && len(f.accept) == 0 {
		return nil, errors.New("--accept-timeout needs --accept")
	}
	for _, command := range f.accept {
		check := &agentdv1.AcceptanceCommand{Command: command, Timeout: optional(f.acceptTimeout)}
		spec.Acceptance = append(spec.Acceptance, check)
	}
	if f.schema != "" {
		if spec.ResultSchema, err = inputText("@" + f.schema); err != nil {
			return nil, fmt.Errorf("--schema: %w", err)
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(spec.ResultSchema), &object); err != nil {
			return nil, fmt.Errorf("--schema: %s is no JSON object: %w", f.schema, err)
		}
	}
	return spec, nil
}

// grant is what the agent is narrowed to; nil without a flag that narrows.
func (f *agentFlags) grant() (*agentdv1.GrantRequest, error) {
	if f.tools != nil && len(f.tools) == 0 {
		return nil, errors.New("--tools names none; leave it out for those of the agent")
	}
	grant := &agentdv1.GrantRequest{Tools: f.tools}
	var err error
	if grant.ReadableRoots, err = absolute("--read", f.read); err != nil {
		return nil, err
	}
	if grant.WritableRoots, err = absolute("--write", f.write); err != nil {
		return nil, err
	}
	if f.noNetwork {
		grant.Network = proto.Bool(false)
	}
	if proto.Size(grant) == 0 {
		return nil, nil //nolint:nilnil // no grant asked for is no fault
	}
	return grant, nil
}

// absolute resolves directories as they are seen from here; the daemon's own directory is another one.
func absolute(flag string, dirs []string) ([]string, error) {
	var all []string
	for _, dir := range dirs {
		if dir == "" {
			return nil, fmt.Errorf("%s needs a directory", flag)
		}
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, path)
	}
	return all, nil
}
