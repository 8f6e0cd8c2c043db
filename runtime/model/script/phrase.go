package script

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// Scene is what templates see of a request.
type Scene struct {
	Step       int      // number of the model's messages in the history, plus one
	Agent      string   // the system message
	User       string   // the user's last message
	Last       string   // the last message: the user's, or a tool's answer
	AgentMatch []string // what the rule's patterns caught: the whole match, then its groups
	UserMatch  []string
	Match      []string // of the pattern for Last

	users []string // texts of the user, oldest first
}

// phrase is text with or without template actions.
type phrase struct {
	plain string
	tmpl  *template.Template // nil: plain
}

func newPhrase(text string) (phrase, error) {
	if !strings.Contains(text, "{{") {
		return phrase{plain: text}, nil
	}
	t, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		return phrase{}, fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "template: "))
	}
	return phrase{tmpl: t}, nil
}

// say fills the phrase in.
func (p phrase) say(s Scene) (string, error) {
	if p.tmpl == nil {
		return p.plain, nil
	}
	var b strings.Builder
	if err := p.tmpl.Execute(&b, s); err != nil {
		return "", err
	}
	return b.String(), nil
}

// arguments are those of a tool call: raw text, which may be malformed on purpose, or a YAML mapping that becomes a JSON
// object, in the order of the file, with the strings in it as templates.
type arguments struct {
	raw    phrase
	object *value // nil: raw
}

func newArguments(n *yaml.Node) (arguments, error) {
	switch n.Kind {
	case 0:
		return arguments{raw: phrase{plain: "{}"}}, nil
	case yaml.ScalarNode:
		p, err := newPhrase(n.Value)
		return arguments{raw: p}, err
	case yaml.MappingNode:
		v, err := newValue(n)
		return arguments{object: &v}, err
	}
	return arguments{}, fmt.Errorf("line %d: arguments are a mapping, or text", n.Line)
}

func (a arguments) say(s Scene) (string, error) {
	if a.object == nil {
		return a.raw.say(s)
	}
	var b strings.Builder
	err := a.object.write(&b, s)
	return b.String(), err
}

// value is a YAML value on its way to JSON.
type value struct {
	kind    yaml.Kind
	keys    []string // of a mapping
	items   []value  // of a mapping or sequence
	text    phrase   // of a string
	literal string   // JSON of another scalar
}

func newValue(n *yaml.Node) (value, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	v := value{kind: n.Kind}
	switch n.Kind {
	case yaml.ScalarNode:
		return newScalar(n)
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			v.keys = append(v.keys, n.Content[i].Value)
			item, err := newValue(n.Content[i+1])
			if err != nil {
				return value{}, err
			}
			v.items = append(v.items, item)
		}
	case yaml.SequenceNode:
		for _, c := range n.Content {
			item, err := newValue(c)
			if err != nil {
				return value{}, err
			}
			v.items = append(v.items, item)
		}
	}
	return v, nil
}

func newScalar(n *yaml.Node) (value, error) {
	v := value{kind: yaml.ScalarNode}
	var scalar any
	switch n.ShortTag() {
	case "!!int", "!!float", "!!bool", "!!null":
		if err := n.Decode(&scalar); err != nil {
			return value{}, fmt.Errorf("line %d: %w", n.Line, err)
		}
		literal, err := json.Marshal(scalar)
		if err != nil {
			return value{}, fmt.Errorf("line %d: %s has no form in JSON", n.Line, n.Value)
		}
		v.literal = string(literal)
		return v, nil
	}
	text, err := newPhrase(n.Value)
	if err != nil {
		return value{}, fmt.Errorf("line %d: %w", n.Line, err)
	}
	v.text = text
	return v, nil
}

func (v value) write(b *strings.Builder, s Scene) error {
	switch {
	case v.kind == yaml.ScalarNode && v.literal != "":
		b.WriteString(v.literal)
		return nil
	case v.kind == yaml.ScalarNode:
		text, err := v.text.say(s)
		b.WriteString(quote(text))
		return err
	}
	marks := "[]"
	if v.kind == yaml.MappingNode {
		marks = "{}"
	}
	b.WriteByte(marks[0])
	for i, item := range v.items {
		if i > 0 {
			b.WriteByte(',')
		}
		if v.kind == yaml.MappingNode {
			b.WriteString(quote(v.keys[i]) + ":")
		}
		if err := item.write(b, s); err != nil {
			return err
		}
	}
	b.WriteByte(marks[1])
	return nil
}

// quote writes text as JSON.
func quote(text string) string {
	quoted, _ := json.Marshal(text) // a string always can
	return string(quoted)
}
