package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Effective prints the configuration as an agentd.yaml, with the source of each value beside it. The key is masked.
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
	text, err := yaml.Marshal(&doc)
	if err != nil {
		return "", fmt.Errorf("print the configuration: %w", err)
	}
	return string(text) + c.remarks(), nil
}

// remarks tells about the key, and what is missing to ask a model.
func (c Config) remarks() string {
	key := c.APIKey.String()
	if key == "" {
		key = "none"
	}
	text := fmt.Sprintf("# the provider's key: %s (variable %s)\n", key, c.APIKeyEnv)
	if missing := c.ModelMissing(); missing != "" {
		text += "# " + missing + "\n"
	}
	return text
}
