package definition

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/agentd-dev/agentd/internal/nearest"
)

// reportTool is the one that every subagent has.
const reportTool = "report"

// ownTools are those that an agent has whatever a definition lists.
func ownTools() []string { return []string{reportTool, "task_output", "task_stop"} }

// claudeTools are the names that Claude Code has for tools, in lower case.
func claudeTools() map[string]string {
	return map[string]string{
		"read": "read", "write": "write", "edit": "edit", "multiedit": "edit", "bash": "bash", "glob": "glob", "grep": "grep",
		"ls": "ls", "task": "subagent", "agent": "subagent", "taskoutput": "task_output", "bashoutput": "task_output",
		"killshell": "task_stop", "killbash": "task_stop", "taskstop": "task_stop", "webfetch": "web_fetch",
	}
}

// tools is the list of what the agent may use. A name that is not known is dropped, which only narrows. A list that is
// empty then is that of an agent with nothing but its report: an empty one would be no limit.
func (p *parser) tools(name string, n *yaml.Node) []string {
	words, ok := p.words(name, n)
	if ok && len(words) == 1 && words[0].text == "*" {
		return nil
	}
	var tools []string
	for _, w := range words {
		tool, pattern := p.toolName(w.text)
		switch {
		case pattern:
			p.warn(w.line, "%s: patterns such as %q are not supported yet; the tool is left out", name, w.text)
		case p.unknown(tool):
			p.warn(w.line, "%s: %s; it is left out", name, p.noTool(w.text))
		case !slices.Contains(tools, tool):
			tools = append(tools, tool)
		}
	}
	if len(tools) == 0 {
		return []string{reportTool}
	}
	return tools
}

// disallowed is the list of what the agent never gets. A name that is not known might be a typing error and leave the
// tool to the agent, so it is a mistake; in Claude Code's files it is a tool that agentd does not have.
func (p *parser) disallowed(name string, n *yaml.Node) []string {
	var tools []string
	words, _ := p.words(name, n)
	for _, w := range words {
		tool, pattern := p.toolName(w.text)
		switch {
		case slices.Contains(ownTools(), tool):
			p.warn(w.line, "%s: %q can't be taken away; an agent has it whenever it needs it", name, tool)
			continue
		case p.unknown(tool) && p.claude:
			p.warn(w.line, "%s: %s", name, p.noTool(w.text))
			continue
		case p.unknown(tool):
			p.fail(w.line, "%s: %s", name, p.noTool(w.text))
			continue
		case pattern:
			p.warn(w.line, "%s: patterns such as %q are not supported yet; the whole tool is disallowed", name, w.text)
		}
		tools = append(tools, tool)
	}
	return tools
}

// disallow adds to what the agent never gets, each tool once: several keys may name it.
func (p *parser) disallow(tools []string) {
	for _, tool := range tools {
		if !slices.Contains(p.def.Disallowed, tool) {
			p.def.Disallowed = append(p.def.Disallowed, tool)
		}
	}
}

// toolName is agentd's name of a tool, and whether a pattern stands behind it, as in `bash(git:*)`.
func (p *parser) toolName(word string) (name string, pattern bool) {
	name, _, pattern = strings.Cut(word, "(")
	name = strings.TrimSpace(name)
	if p.claude {
		if mapped, ok := claudeTools()[strings.ToLower(name)]; ok {
			return mapped, pattern
		}
	}
	return name, pattern
}

func (p *parser) unknown(tool string) bool { return p.known != nil && !slices.Contains(p.known, tool) }

// noTool says that there is no such tool, and which is meant perhaps.
func (p *parser) noTool(word string) string {
	if p.claude || len(p.known) == 0 {
		return fmt.Sprintf("agentd has no tool %q", word)
	}
	return fmt.Sprintf("there is no tool %q; the nearest is %q", word, nearest.Name(word, p.known))
}

// word is one name of a list.
type word struct {
	text string
	line int
}

// words are the names of a list, or of a text with commas between them.
func (p *parser) words(name string, n *yaml.Node) (words []word, ok bool) {
	items := n.Content
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		p.fail(n.Line+1, "%s must be a list of tools, or their names with commas between them", name)
		return nil, false
	}
	for _, item := range items {
		if item.Kind != yaml.ScalarNode || item.ShortTag() != "!!str" {
			p.fail(item.Line+1, "%s: each must be the name of a tool", name)
			return nil, false
		}
		for _, text := range atCommas(item.Value) {
			words = append(words, word{text, item.Line + 1})
		}
	}
	if len(words) > maxTools {
		p.fail(n.Line+1, "%s has %d names; the limit is %d", name, len(words), maxTools)
		return nil, false
	}
	return words, true
}

// atCommas parts a text at commas, but for those in parentheses.
func atCommas(text string) []string {
	depth := 0
	parts := strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return r == ',' && depth <= 0
	})
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}
