package definition

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/agentd-dev/agentd/runtime/roster"
)

// Bounds of a file.
const (
	maxFile         = 128 << 10 // bytes
	maxInstructions = 64 << 10  // bytes
	maxDescription  = 1 << 10   // bytes; delegating agents read those of all definitions
	maxModel        = 200       // bytes
	maxTools        = 64        // names in a list (N8)
	maxMessage      = 500       // bytes of what a problem says
)

// dialect is who wrote a file for whom.
type dialect struct {
	// claude: it was written for Claude Code. Its names of tools are mapped, and what agentd does not have is left out
	// with a warning; in agentd's own files the same is a mistake.
	claude bool
	known  []string // names of the tools that there are; nil: every name will do
}

// parser reads one file and notes what is wrong with it.
type parser struct {
	dialect
	def      Definition
	problems []Problem
}

// fail notes what keeps the definition from being used; line 0 is the file as a whole.
func (p *parser) fail(line int, format string, args ...any) {
	p.problems = append(p.problems, Problem{Line: line, Message: message(format, args...)})
}

// warn notes what is wrong with a definition that works nevertheless.
func (p *parser) warn(line int, format string, args ...any) {
	p.problems = append(p.problems, Problem{Line: line, Message: message(format, args...), Warning: true})
}

// message is a sentence of at most maxMessage bytes, however long the words of the file in it are.
func message(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxMessage {
		text = cut(text, maxMessage) + "..."
	}
	return text
}

// cut is the start of a text that has more than n bytes, without a broken rune at its end.
func cut(text string, n int) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// parse reads the text of a file that is called base, without its ending. With a problem that is no warning the
// definition is not to be used. The problems have no path yet.
func parse(text, base string, d dialect) (Definition, []Problem) {
	p := &parser{dialect: d, def: Definition{Name: base}}
	p.file(text)
	slices.SortStableFunc(p.problems, byPlace)
	return p.def, p.problems
}

func (p *parser) file(text string) {
	if line := badText(text); line > 0 {
		p.fail(line, "is not UTF-8 text, or holds a NUL byte")
		return
	}
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\uFEFF"), "\r\n", "\n")
	front, body, ok := split(text)
	if !ok {
		p.fail(1, "has no front matter: it must begin with a line `---`, then `name: ...` and the other keys, then `---`")
		return
	}
	if root := p.yaml(front); root != nil {
		p.mapping("", root, topKeys())
		p.checkName()
		if p.def.Description == "" {
			p.warn(1, "has no description: nobody can tell when to use this agent")
		}
	}
	p.def.Instructions = strings.TrimSpace(body)
	below := strings.Count(front, "\n") + 3 // the front matter and its two fences
	switch size := len(p.def.Instructions); {
	case size == 0:
		p.fail(below, "has no instructions: write them below the front matter")
	case size > maxInstructions:
		p.fail(below, "the instructions have %d bytes; the limit is %d", size, maxInstructions)
	}
}

// badText is the first line that is no text; 0: there is none.
func badText(text string) int {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
			return number
		}
	}
	return 0
}

// split parts the front matter, whose every line ends, from what stands below it.
func split(text string) (front, body string, ok bool) {
	fence := func(line string) bool { return strings.TrimRight(line, " \t") == "---" }
	first, rest, _ := strings.Cut(text, "\n")
	if !fence(first) {
		return "", "", false
	}
	for at := 0; at < len(rest); {
		line, _, _ := strings.Cut(rest[at:], "\n")
		next := min(at+len(line)+1, len(rest))
		if fence(line) {
			return rest[:at], rest[next:], true
		}
		at = next
	}
	return "", "", false
}

// yaml reads the front matter as one mapping; nil after a problem.
func (p *parser) yaml(front string) *yaml.Node {
	var root, more yaml.Node
	decoder := yaml.NewDecoder(strings.NewReader(front))
	err := decoder.Decode(&root)
	switch {
	case errors.Is(err, io.EOF): // it has no key
		return &yaml.Node{Kind: yaml.MappingNode}
	case err != nil && p.claude:
		if plain := plainKeys(front); plain != nil {
			p.warn(lineOf(err), "the front matter is not YAML (%s); it is read line by line as `key: text`", reasonOf(err))
			return plain
		}
	}
	if err == nil {
		if next := decoder.Decode(&more); !errors.Is(next, io.EOF) {
			p.fail(1, "the front matter is more than one YAML document")
			return nil
		}
	}
	if err != nil {
		p.fail(lineOf(err), "the front matter is not YAML: %s", reasonOf(err))
		return nil
	}
	mapping := root.Content[0]
	if mapping.Kind != yaml.MappingNode {
		p.fail(mapping.Line+1, "the front matter is not a list of `key: value`")
		return nil
	}
	return mapping
}

// plainKeys reads lines of `key: text`, whatever the text is: descriptions that people write for Claude Code often hold a
// colon, which YAML does not take. It gives nil when another line is among them.
func plainKeys(front string) *yaml.Node {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for i, line := range strings.Split(strings.TrimRight(front, "\n"), "\n") {
		name, text, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") {
			return nil
		}
		root.Content = append(root.Content, textNode(name, i+1), plainValue(strings.TrimSpace(text), i+1))
	}
	return root
}

// plainValue is a list, number or quoted text where YAML has one, else the text itself.
func plainValue(text string, line int) *yaml.Node {
	var document yaml.Node
	if text == "" {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: line}
	}
	if yaml.Unmarshal([]byte(text), &document) != nil || len(document.Content) == 0 {
		return textNode(text, line)
	}
	value := document.Content[0]
	if value.Kind != yaml.ScalarNode && value.Kind != yaml.SequenceNode {
		return textNode(text, line)
	}
	value.Line = line
	for _, item := range value.Content {
		item.Line = line
	}
	return value
}

func textNode(text string, line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: line}
}

// lineOf is the line of the file that the error of a front matter is about. Without a number yaml means the first line,
// but for an anchor, whose line it does not know.
func lineOf(err error) int {
	text := err.Error()
	if after, ok := strings.CutPrefix(text, "yaml: line "); ok {
		number, _, _ := strings.Cut(after, ":")
		if n, err := strconv.Atoi(number); err == nil {
			return n + 1
		}
	}
	if strings.HasPrefix(text, "yaml: unknown anchor") {
		return 0
	}
	return 2
}

// reasonOf is what the error of a front matter says, without its line.
func reasonOf(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if after, ok := strings.CutPrefix(text, "line "); ok {
		if _, reason, ok := strings.Cut(after, ": "); ok {
			return reason
		}
	}
	return text
}

// checkName holds the name against the rules of names (N2): letters, digits, `_` and `-`, none that is reserved or looks
// like an id.
func (p *parser) checkName() {
	if err := roster.CheckName("name", p.def.Name); err != nil {
		message := err.Error()
		if p.def.line == 0 {
			message += " (it is that of the file; give one with the key `name`)"
		}
		p.fail(p.def.line, "%s", message)
	}
}
