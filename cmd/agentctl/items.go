package main

import (
	"math"
	"path/filepath"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// group is what a file of --parallel or --chain holds.
type group struct {
	items          []*agentdv1.AgentSpec
	maxConcurrency int32  // of a parallel group; 0: the daemon's default
	resumeFrom     string // of a chain: the one that goes on
}

// readGroup reads a file of items: a list of them, or `items` with the option of its kind beside them.
func (a *app) readGroup(path, option string) (group, error) {
	file, dir, content := path, filepath.Dir(path), ""
	var err error
	if path == "-" {
		file, dir = "stdin", ""
		content, err = readText(file, a.in)
	} else {
		content, err = inputText("@" + path)
	}
	if err != nil {
		return group{}, err
	}
	root, err := parseFile(file, []byte(content))
	if err != nil {
		return group{}, err
	}
	return parseGroup(root, dir, option)
}

// parseGroup reads the items, and the option beside them.
func parseGroup(root node, dir, option string) (g group, err error) {
	size := 0
	readItems := func(n node) error {
		return n.list("items", func(value node) error {
			value.key = "" // an item's keys say more
			item, err := parseItem(value, dir)
			g.items = append(g.items, item)
			if size += proto.Size(item); err == nil && size > maxText { // aliases make much of little
				err = value.fail("the items up to this one have more than %d bytes, which is the most of a request", maxText)
			}
			return err
		})
	}
	if root.Kind == yaml.SequenceNode {
		err = readItems(root)
		return g, err
	}
	beside := field{option, func(n node) error { return n.text(&g.resumeFrom) }}
	if option == "max_concurrency" {
		beside.read = func(n node) error { return small(n, &g.maxConcurrency, maxConcurrency) }
	}
	if err := root.fields(field{"items", readItems}, beside); err != nil {
		return g, err
	}
	if len(g.items) == 0 && g.resumeFrom == "" {
		return g, root.fail("there are no items")
	}
	return g, nil
}

// parseItem reads one agent: its prompt alone, or keys.
func parseItem(n node, dir string) (*agentdv1.AgentSpec, error) {
	spec := &agentdv1.AgentSpec{}
	if n.Kind == yaml.ScalarNode {
		return spec, n.text(&spec.Prompt)
	}
	grant, file := &agentdv1.GrantRequest{}, ""
	err := n.fields(
		field{"agent", func(n node) error { return n.text(&spec.Agent) }},
		field{"prompt", func(n node) error { return n.text(&spec.Prompt) }},
		field{"prompt_file", func(n node) error { return promptFile(n, dir, &file) }},
		field{"inputs", func(n node) error {
			return n.each(func(name string, n node) error { return parseInput(spec, name, n) })
		}},
		field{"model", func(n node) error { return n.text(&spec.Model) }},
		field{"tools", func(n node) error { return n.texts("names", &grant.Tools) }},
		field{"readable_roots", func(n node) error { return n.texts("directories", &grant.ReadableRoots) }},
		field{"writable_roots", func(n node) error { return n.texts("directories", &grant.WritableRoots) }},
		field{"network", func(n node) error { grant.Network = proto.Bool(false); return n.truth(grant.Network) }},
		field{"depth", func(n node) error { return parseDepth(grant, n) }},
		field{"budget", func(n node) error { spec.Budget = &agentdv1.Budget{}; return parseBudget(spec.Budget, n) }},
		field{"acceptance", func(n node) error { return n.list("commands", func(n node) error { return parseCheck(spec, n) }) }},
		field{"result_schema", func(n node) error { return n.object(&spec.ResultSchema) }},
		field{"isolation", func(n node) error { return parseIsolation(spec, n) }},
	)
	switch {
	case err != nil:
		return nil, err
	case (spec.Prompt == "") == (file == ""):
		return nil, n.fail("an item needs either prompt or prompt_file")
	}
	spec.Prompt += file
	if proto.Size(grant) > 0 {
		spec.Grant = grant
	}
	return spec, nil
}

// promptFile reads the file that a value names, relative to dir.
func promptFile(n node, dir string, to *string) error {
	var path string
	if err := n.text(&path); err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	text, err := inputText("@" + path)
	switch {
	case err != nil:
		return n.fail("%v", err)
	case text == "":
		return n.fail("%s is empty", path)
	}
	*to = text
	return nil
}

// parseInput reads a named text, or the task whose conclusion it is.
func parseInput(spec *agentdv1.AgentSpec, name string, n node) error {
	input, text := &agentdv1.AgentInput{Name: name}, ""
	spec.Inputs = append(spec.Inputs, input)
	if n.Kind == yaml.ScalarNode {
		err := n.text(&text)
		input.Source = &agentdv1.AgentInput_Text{Text: text}
		return err
	}
	err := n.fields(field{"task", func(n node) error { return n.text(&text) }})
	if err == nil && text == "" {
		return n.fail("%s: want a text, or a task", name)
	}
	input.Source = &agentdv1.AgentInput_TaskId{TaskId: text}
	return err
}

// parseCheck reads an acceptance command: a text, or keys.
func parseCheck(spec *agentdv1.AgentSpec, n node) error {
	check := &agentdv1.AcceptanceCommand{}
	spec.Acceptance = append(spec.Acceptance, check)
	if n.Kind == yaml.ScalarNode {
		return n.text(&check.Command)
	}
	err := n.fields(
		field{"command", func(n node) error { return n.text(&check.Command) }},
		field{"timeout", func(n node) error { return n.duration(&check.Timeout) }},
	)
	if err == nil && check.GetCommand() == "" {
		return n.fail("a check needs a command")
	}
	return err
}

func parseBudget(b *agentdv1.Budget, n node) error {
	return n.fields(
		field{"max_steps", func(n node) error { return small(n, &b.MaxSteps, maxMaxSteps) }},
		field{"steps", func(n node) error { return n.positive(&b.Steps, math.MaxInt64) }},
		field{"tokens", func(n node) error { return n.positive(&b.Tokens, math.MaxInt64) }},
		field{"turns", func(n node) error { return n.positive(&b.Turns, math.MaxInt64) }},
		field{"tool_calls", func(n node) error { return n.positive(&b.ToolCalls, math.MaxInt64) }},
		field{"cost_usd", func(n node) error { return n.dollars(&b.CostUsd) }},
		field{"wall_time", func(n node) error { return n.duration(&b.WallTime) }},
	)
}

// parseDepth reads how many levels may be spawned below; 0 is none.
func parseDepth(g *agentdv1.GrantRequest, n node) error {
	g.Depth = proto.Int32(0)
	if n.Kind == yaml.ScalarNode && n.Value == "0" {
		return nil
	}
	return small(n, g.Depth, math.MaxInt32)
}

func parseIsolation(spec *agentdv1.AgentSpec, n node) error {
	switch n.Value {
	case "none":
		spec.Isolation = agentdv1.Isolation_ISOLATION_NONE
	case "worktree":
		spec.Isolation = agentdv1.Isolation_ISOLATION_WORKTREE
	default:
		return n.fail("want none or worktree")
	}
	return nil
}

// small reads a number from 1 to a limit that fits.
func small(n node, to *int32, limit int64) error {
	var v int64
	err := n.positive(&v, limit)
	*to = int32(v)
	return err
}
