package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// jsonReader makes the nodes of JSON, with their lines.
type jsonReader struct {
	*json.Decoder
	content []byte
}

// jsonNode reads valid JSON.
func jsonNode(content []byte) (*yaml.Node, error) {
	r := jsonReader{json.NewDecoder(bytes.NewReader(content)), content}
	r.UseNumber()
	return r.value()
}

// value reads the next value.
func (r jsonReader) value() (*yaml.Node, error) {
	token, err := r.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: 1 + bytes.Count(r.content[:r.InputOffset()], []byte("\n"))}
	switch v := token.(type) {
	case json.Delim:
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		if v == '[' {
			n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
		}
		for r.More() {
			child, err := r.value() // the keys of an object are values among its own
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err = r.Token() // its end
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Number:
		n.Tag, n.Value = "!!float", v.String()
		if _, err := v.Int64(); err == nil {
			n.Tag = "!!int"
		}
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(v)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, err
}
