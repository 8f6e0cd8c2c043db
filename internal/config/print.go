package config

import (
	"cmp"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Effective prints the configuration as an agentd.yaml, with the source of each value beside it. Keys are masked.
func (c Config) Effective() (string, error) {
	doc := yaml.Node{Kind: yaml.MappingNode}
	for _, f := range fields() {
		if f.hidden {
			continue
		}
		name := yaml.Node{Kind: yaml.ScalarNode, Value: f.key}
		var value yaml.Node
		if err := value.Encode(f.at(&c)); err != nil {
			return "", fmt.Errorf("print %s: %w", f.key, err)
		}
		value.Style |= yaml.FlowStyle
		value.LineComment = c.sources[f.key]
		doc.Content = append(doc.Content, &name, &value)
	}
	if err := errors.Join(
		printList(&doc, providersKey, c.Providers, providerKeys()), printList(&doc, modelsKey, c.Models, modelKeys()),
	); err != nil {
		return "", err
	}
	text, err := yaml.Marshal(&doc)
	if err != nil {
		return "", fmt.Errorf("print the configuration: %w", err)
	}
	return string(text) + c.remarks(), nil
}

// printList adds a list to the document, unless it is empty.
func printList[T any](doc *yaml.Node, name string, entries []T, keys []key[T]) error {
	list := yaml.Node{Kind: yaml.SequenceNode}
	for i := range entries {
		entry, err := printed(&entries[i], keys)
		if err != nil {
			return err
		}
		list.Content = append(list.Content, entry)
	}
	if len(entries) > 0 {
		doc.Content = append(doc.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &list)
	}
	return nil
}

// remarks tells about the keys, and what is missing to ask a model.
func (c Config) remarks() string {
	text := fmt.Sprintf("# the provider's key: %s (variable %s)\n", cmp.Or(c.APIKey.String(), "none"), c.APIKeyEnv)
	for _, p := range c.Providers {
		if p.APIKeyEnv != "" {
			text += fmt.Sprintf("# the key of %s: %s (variable %s)\n", p.Name, cmp.Or(p.APIKey.String(), "none"), p.APIKeyEnv)
		}
	}
	if missing := c.ModelMissing(); missing != "" {
		text += "# " + missing + "\n"
	}
	return text
}
