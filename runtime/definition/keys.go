package definition

import (
	"math"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agentd-dev/agentd/internal/nearest"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Bounds of numbers, as a spawn has them.
const (
	maxDollars = task.MaxCost / task.Dollar
	maxCount   = 1 << 53 // what JSON's numbers tell exactly
)

// key is one key of a mapping and what takes its value.
type key struct {
	name, alias string
	take        func(p *parser, name string, value *yaml.Node)
}

// topKeys are the keys of the front matter. An alias is how Claude Code spells it.
func topKeys() []key {
	return []key{
		{"name", "", func(p *parser, name string, n *yaml.Node) { p.def.Name, p.def.line = p.text(name, n), n.Line+1 }},
		{"description", "", func(p *parser, name string, n *yaml.Node) { p.def.Description = p.description(name, n) }},
		{"tools", "", func(p *parser, name string, n *yaml.Node) { p.def.Tools = p.tools(name, n) }},
		{"disallowed_tools", "disallowedTools", func(p *parser, name string, n *yaml.Node) {
			p.disallow(p.disallowed(name, n))
		}},
		{"model", "", func(p *parser, name string, n *yaml.Node) { p.def.Model = p.model(name, n) }},
		{"max_steps", "maxTurns", func(p *parser, name string, n *yaml.Node) {
			p.def.Budget.MaxSteps = int(p.number(name, n, task.MaxMaxSteps))
		}},
		{"budget", "", func(p *parser, name string, n *yaml.Node) { p.mapping(name, n, budgetKeys()) }},
		{"isolation", "", func(p *parser, name string, n *yaml.Node) { p.def.Worktree = p.isolation(name, n) }},
	}
}

// budgetKeys are the keys of `budget`.
func budgetKeys() []key {
	count := func(field func(*task.Budget) *int64) func(*parser, string, *yaml.Node) {
		return func(p *parser, name string, n *yaml.Node) { *field(&p.def.Budget) = p.number(name, n, maxCount) }
	}
	return []key{
		{"steps", "", count(func(b *task.Budget) *int64 { return &b.Steps })},
		{"tokens", "", count(func(b *task.Budget) *int64 { return &b.Tokens })},
		{"turns", "", count(func(b *task.Budget) *int64 { return &b.Turns })},
		{"tool_calls", "", count(func(b *task.Budget) *int64 { return &b.ToolCalls })},
		{"wall_time", "", func(p *parser, name string, n *yaml.Node) { p.def.Budget.WallTime = p.duration(name, n) }},
		{"cost_usd", "", func(p *parser, name string, n *yaml.Node) { p.def.Budget.Cost = p.dollars(name, n) }},
	}
}

// mapping gives each value of a mapping to its key.
func (p *parser) mapping(name string, node *yaml.Node, known []key) {
	if node.Kind != yaml.MappingNode {
		p.fail(node.Line+1, "%s must be a list of `key: value`", name)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		word, value := node.Content[i], node.Content[i+1]
		at := slices.IndexFunc(known, func(k key) bool { return word.Value == k.name || word.Value != "" && word.Value == k.alias })
		if at < 0 {
			p.noKey(word, value, known)
			continue
		}
		if k := known[at]; seen[k.name] {
			p.fail(word.Line+1, "the key %q is given twice", k.name)
		} else {
			k.take(p, joined(name, word.Value), value)
		}
		seen[known[at].name] = true
	}
}

// noKey tells of a key that is not known. It is a mistake, for it may be a limit with a typing error; but Claude Code has
// keys that agentd does not have.
func (p *parser) noKey(word, value *yaml.Node, known []key) {
	switch {
	case p.claude && word.Value == "permissionMode" && value.Value == "plan":
		p.disallow([]string{"bash", "edit", "write"})
		p.warn(word.Line+1, "permissionMode plan is read as disallowed_tools: bash, edit, write")
	case p.claude:
		p.warn(word.Line+1, "the key %q has no meaning in agentd", word.Value)
	default:
		var names []string
		for _, k := range known {
			names = append(names, k.name)
		}
		p.fail(word.Line+1, "there is no key %q; the nearest is %q", word.Value, nearest.Name(word.Value, names))
	}
}

func joined(above, name string) string {
	if above == "" {
		return name
	}
	return above + "." + name
}

// text is a value of one line or several; empty after a problem.
func (p *parser) text(name string, n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" || n.ShortTag() == "!!binary" {
		p.fail(n.Line+1, "%s must be a text", name)
		return ""
	}
	if strings.TrimSpace(n.Value) == "" {
		p.fail(n.Line+1, "%s is empty; write something or leave it out", name)
	}
	return strings.TrimSpace(n.Value)
}

// description is one line, for it stands in lists, and in the prompt of agents that delegate; one that is too long is cut.
func (p *parser) description(name string, n *yaml.Node) string {
	text := strings.Join(strings.Fields(p.text(name, n)), " ")
	if len(text) <= maxDescription {
		return text
	}
	p.warn(n.Line+1, "%s has %d bytes; only the first %d are used", name, len(text), maxDescription)
	return strings.TrimSpace(cut(text, maxDescription))
}

// model maps the words that Claude Code has for its own models to the daemon's default model.
func (p *parser) model(name string, n *yaml.Node) string {
	model := p.text(name, n)
	switch {
	case len(model) > maxModel:
		p.fail(n.Line+1, "%s has %d bytes; the limit is %d", name, len(model), maxModel)
	case p.claude && slices.Contains([]string{"sonnet", "opus", "haiku", "inherit"}, strings.ToLower(model)):
		p.warn(n.Line+1, "the model %q is Claude Code's word; the daemon's default model is used", model)
		return ""
	}
	return model
}

// isolation tells whether the agent works in a worktree of its own.
func (p *parser) isolation(name string, n *yaml.Node) bool {
	if n.Kind == yaml.ScalarNode && (n.Value == "worktree" || n.Value == "none") {
		return n.Value == "worktree"
	}
	p.fail(n.Line+1, "%s must be none or worktree", name)
	return false
}

// number is a whole number from 1 to most; 0 after a problem.
func (p *parser) number(name string, n *yaml.Node, most int64) int64 {
	var v int64
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&v) != nil || v < 1 || v > most {
		p.fail(n.Line+1, "%s must be a whole number from 1 to %d", name, most)
		return 0
	}
	return v
}

// duration is a time span in Go's form, of at least a millisecond.
func (p *parser) duration(name string, n *yaml.Node) time.Duration {
	d, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || d < time.Millisecond || d > task.MaxWallTime {
		p.fail(n.Line+1, "%s must be a time span such as 90s, 20m or 1h30m, at most %s", name, task.MaxWallTime)
		return 0
	}
	return d
}

// dollars is an amount in nano-dollars.
func (p *parser) dollars(name string, n *yaml.Node) int64 {
	var v float64
	number := n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float") && n.Decode(&v) == nil
	if !number || !(v*task.Dollar >= 1 && v <= maxDollars) { // not a number is neither
		p.fail(n.Line+1, "%s must be an amount of US dollars such as 0.50, at most %d", name, maxDollars)
		return 0
	}
	return int64(math.Round(v * task.Dollar))
}
