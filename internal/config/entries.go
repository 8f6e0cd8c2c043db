package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/internal/nearest"
)

// Keys of the lists that only the file has.
const (
	providersKey = "providers"
	modelsKey    = "models"
)

// listKeys are the keys of the file beside the table's.
func listKeys() []string { return []string{modelsKey, providersKey} }

// key is one key of an entry in a list of the file.
type key[T any] struct {
	name, usage string
	needed      bool
	at          func(*T) any
}

// providerKeys are the keys of a provider.
func providerKeys() []key[Provider] {
	return []key[Provider]{
		{
			name: "name", needed: true, at: func(p *Provider) any { return &p.Name },
			usage: "what `models` call it: small letters, digits, `-` and `_`, at most 64; not `default`",
		},
		{
			name: "base_url", needed: true, at: func(p *Provider) any { return &p.BaseURL },
			usage: "where its OpenAI-compatible API begins, http or https",
		},
		{
			name: "api_key_env", at: func(p *Provider) any { return &p.APIKeyEnv },
			usage: "name of the variable that holds its key; without it requests carry no key",
		},
	}
}

// modelKeys are the keys of a model.
func modelKeys() []key[Model] {
	return []key[Model]{
		{
			name: "name", needed: true, at: func(m *Model) any { return &m.Name },
			usage: "its name at the provider, at most 200 bytes",
		},
		{
			name: "provider", at: func(m *Model) any { return &m.Provider },
			usage: "one of `providers`; without it, or as `default`, that of `base_url`",
		},
		{
			name: "context_window", at: func(m *Model) any { return &m.ContextWindow },
			usage: "tokens of a request and its answer together; an agent sums its work up at 80% of it",
		},
		{
			name: "max_output", at: func(m *Model) any { return &m.MaxOutput },
			usage: "tokens of one answer, less than `context_window`; sent as `max_completion_tokens`",
		},
		{
			name: "input_price", at: func(m *Model) any { return &m.InputPrice },
			usage: "US dollars per million tokens that it reads, 0 to 10000",
		},
		{
			name: "output_price", at: func(m *Model) any { return &m.OutputPrice },
			usage: "US dollars per million tokens that it writes; together with `input_price`",
		},
		{
			name: "cached_price", at: func(m *Model) any { return &m.CachedPrice },
			usage: "US dollars per million tokens that its cache gives; without it they cost `input_price`",
		},
	}
}

// lists are what only the file has, with where each entry stands.
type lists struct {
	path      string
	providers []Provider
	models    []Model
	lines     map[string]int // by path of an entry, such as models[0]
	broken    map[string]bool
}

// readLists reads the lists in the file's text.
func readLists(path string, text []byte) (*lists, error) {
	l := &lists{path: path, lines: map[string]int{}, broken: map[string]bool{}}
	var root, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&root); errors.Is(err, io.EOF) {
		return l, nil // an empty file, or none
	} else if err != nil {
		return nil, errdefs.BadField(configFlag, "can't read %s: %v", path, err)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errdefs.BadField(configFlag, "%s holds more than one document; put all into one", path)
	}
	if len(root.Content) == 0 {
		return l, nil
	}
	var wrong []error
	pairs := root.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		var errs []error
		switch pairs[i].Value {
		case providersKey:
			l.providers, errs = readList(l, providersKey, pairs[i+1], providerKeys())
		case modelsKey:
			l.models, errs = readList(l, modelsKey, pairs[i+1], modelKeys())
		}
		wrong = append(wrong, errs...)
	}
	return l, errors.Join(wrong...)
}

// readList reads one list. An entry with something wrong in it stands there as far as it is right.
func readList[T any](l *lists, name string, node *yaml.Node, keys []key[T]) (entries []T, wrong []error) {
	if node.Kind != yaml.SequenceNode && node.ShortTag() != "!!null" {
		return nil, []error{l.wrong(name, node.Line, "it is not a list")}
	}
	for i, n := range node.Content {
		at := fmt.Sprintf("%s[%d]", name, i)
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		l.lines[at] = n.Line
		entry, errs := readEntry(l, at, n, keys)
		l.broken[at] = len(errs) > 0
		entries, wrong = append(entries, entry), append(wrong, errs...)
	}
	return entries, wrong
}

func readEntry[T any](l *lists, at string, node *yaml.Node, keys []key[T]) (entry T, wrong []error) {
	if node.Kind != yaml.MappingNode {
		return entry, []error{l.wrong(at, node.Line, "it is not a mapping of keys to values")}
	}
	var known []string
	for _, k := range keys {
		known = append(known, k.name)
	}
	given := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		n := slices.Index(known, name.Value)
		if n < 0 {
			wrong = append(wrong, l.wrong(at+"."+name.Value, name.Line, "there is no such key; the nearest is %s",
				nearest.Name(name.Value, known)))
			continue
		}
		given[name.Value] = true
		target := keys[n].at(&entry)
		if value.Kind != yaml.ScalarNode || value.Decode(target) != nil {
			wrong = append(wrong, l.wrong(at+"."+name.Value, value.Line, "%.40q is not %s", value.Value, describe(target)))
		}
	}
	for _, k := range keys {
		if k.needed && !given[k.name] {
			wrong = append(wrong, l.wrong(at+"."+k.name, node.Line, "it is missing"))
		}
	}
	return entry, wrong
}

// wrong is the error of a key in a list.
func (l *lists) wrong(at string, line int, format string, args ...any) error {
	return errdefs.BadField(at, "%s (from file %s, line %d)", fmt.Sprintf(format, args...), l.path, line)
}

// takeLists checks the lists and takes them over, with the keys of the providers.
func (c *Config) takeLists(l *lists, getenv func(string) string) error {
	var wrong []error
	names := map[string]bool{}
	for i := range l.providers {
		p := &l.providers[i]
		at := fmt.Sprintf("%s[%d]", providersKey, i)
		if l.broken[at] {
			names[p.Name] = true
			continue
		}
		key, err := checkProvider(p, names)
		if err != nil {
			wrong = append(wrong, l.wrong(at+"."+key, l.lines[at], "%v", err))
		}
		names[p.Name] = true
		if p.APIKeyEnv != "" {
			p.APIKey = Secret(getenv(p.APIKeyEnv))
		}
	}
	seen := map[string]bool{}
	for i := range l.models {
		m := &l.models[i]
		at := fmt.Sprintf("%s[%d]", modelsKey, i)
		m.Provider = cmp.Or(m.Provider, DefaultProvider)
		if !l.broken[at] {
			if key, err := checkListedModel(*m, names, seen); err != nil {
				wrong = append(wrong, l.wrong(at+"."+key, l.lines[at], "%v", err))
			}
		}
		seen[m.Name] = true
	}
	c.Providers, c.Models = l.providers, l.models
	return errors.Join(wrong...)
}

// printed is an entry as the file has it, without what it does not set.
func printed[T any](entry *T, keys []key[T]) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, k := range keys {
		target := k.at(entry)
		if reflect.ValueOf(target).Elem().IsZero() {
			continue
		}
		name, value := &yaml.Node{Kind: yaml.ScalarNode, Value: k.name}, &yaml.Node{}
		if err := value.Encode(target); err != nil {
			return nil, fmt.Errorf("print %s: %w", k.name, err)
		}
		node.Content = append(node.Content, name, value)
	}
	return node, nil
}
