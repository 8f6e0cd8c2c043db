package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// node is a value in a YAML or JSON file, and where it stands.
type node struct {
	file string
	key  string // that it stands under; empty: none that would say where
	*yaml.Node
}

// parseFile reads one value; broken content is told with its line.
func parseFile(file string, content []byte) (node, error) {
	if json.Valid(content) { // YAML has most of JSON in it, but not all its escapes and tabs
		value, err := jsonNode(content)
		return node{file, "", value}, err
	}
	var document, more yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	if err := decoder.Decode(&document); err != nil {
		if err == io.EOF { //nolint:errorlint // the decoder gives it as it is
			return node{}, fmt.Errorf("%s is empty", file)
		}
		return node{}, fmt.Errorf("%s:%s", file, yamlLine(err))
	}
	switch err := decoder.Decode(&more); {
	case err == nil:
		return node{}, fmt.Errorf("%s:%d: a second document; put all items into one list", file, more.Line)
	case err != io.EOF: //nolint:errorlint // the decoder gives it as it is
		return node{}, fmt.Errorf("%s:%s", file, yamlLine(err))
	}
	return node{file, "", document.Content[0]}, nil
}

// yamlLine turns `yaml: line 3: what` into `3: what`. Without a number yaml means the first line, but for an anchor, whose
// line it does not know.
func yamlLine(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if found := regexp.MustCompile(`^line (\d+): (.*)$`).FindStringSubmatch(text); found != nil {
		return found[1] + ": " + found[2]
	}
	if strings.HasPrefix(text, "unknown anchor") {
		return " " + text
	}
	return "1: " + text
}

// fail is an error about the value.
func (n node) fail(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if n.key != "" {
		text = n.key + ": " + text
	}
	return fmt.Errorf("%s:%d: %s", n.file, n.Line, text)
}

// at is another value of the same file.
func (n node) at(value *yaml.Node) node {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	return node{n.file, n.key, value}
}

// field is a key that a mapping may have, and what reads its value.
type field struct {
	name string
	read func(node) error
}

// fields reads a mapping that has no other keys than those, and each once.
func (n node) fields(known ...field) error {
	if n.Kind != yaml.MappingNode {
		return n.fail("want keys with values: %s", names(known))
	}
	return n.each(func(key string, value node) error {
		i := slices.IndexFunc(known, func(f field) bool { return f.name == key })
		if i < 0 {
			return value.fail("unknown key %q; there are: %s", key, names(known))
		}
		value.key = key
		return known[i].read(value)
	})
}

// each reads a mapping with any keys, in their order. The line of a value is that of its key, for errors about either.
func (n node) each(read func(key string, value node) error) error {
	if n.Kind != yaml.MappingNode {
		return n.fail("want keys with values")
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key, value := n.at(n.Content[i]), n.at(n.Content[i+1])
		if seen[key.Value] {
			return key.fail("%s is given twice", key.Value)
		}
		seen[key.Value] = true
		if value.Kind == yaml.ScalarNode {
			value.Line = key.Line
		}
		if err := read(key.Value, value); err != nil {
			return err
		}
	}
	return nil
}

func names(known []field) string {
	var all []string
	for _, f := range known {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// list reads a list of something that is not empty.
func (n node) list(of string, read func(node) error) error {
	switch {
	case n.Kind != yaml.SequenceNode:
		return n.fail("want a list of %s", of)
	case len(n.Content) == 0:
		return n.fail("the list is empty; leave it out")
	}
	for _, value := range n.Content {
		if err := read(n.at(value)); err != nil {
			return err
		}
	}
	return nil
}

// text reads a text that is not empty.
func (n node) text(to *string) error {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" || strings.TrimSpace(n.Value) == "" {
		return n.fail("want a text")
	}
	*to = n.Value
	return nil
}

// texts reads a list of texts.
func (n node) texts(of string, to *[]string) error {
	return n.list(of, func(value node) error {
		var text string
		err := value.text(&text)
		*to = append(*to, text)
		return err
	})
}

// truth reads true or false.
func (n node) truth(to *bool) error {
	if n.Tag != "!!bool" || n.Decode(to) != nil {
		return n.fail("want true or false")
	}
	return nil
}

// positive reads a whole number from 1 to limit.
func (n node) positive(to *int64, limit int64) error {
	if err := positive(n.Value, to, limit); n.Kind != yaml.ScalarNode || err != nil {
		return n.fail("want a whole number from 1 to %d", limit)
	}
	return nil
}

// dollars reads an amount of money above 0.
func (n node) dollars(to *float64) error {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return n.fail("want an amount of dollars above 0")
	}
	*to = v
	return nil
}

// duration reads a time span above 0.
func (n node) duration(to **durationpb.Duration) error {
	var d time.Duration
	if err := span(&d)(n.Value); n.Kind != yaml.ScalarNode || err != nil {
		return n.fail("want a duration above 0, such as 10m")
	}
	*to = durationpb.New(d)
	return nil
}

// object reads a mapping as JSON.
func (n node) object(to *string) error {
	if n.Kind != yaml.MappingNode {
		return n.fail("want keys with values")
	}
	var value map[string]any
	if err := n.Decode(&value); err != nil {
		return n.fail("%v", err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return n.fail("this is no JSON: %v", err)
	}
	*to = string(text)
	return nil
}
