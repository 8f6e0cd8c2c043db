package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// Bounds of result schemas and outputs. The validator has none: a schema that refers to itself would overflow the stack,
// and one that branches would take for ever.
const (
	maxNesting  = 64       // levels of JSON in a schema and in an output
	maxDepth    = 1000     // schemas within schemas while an output is checked
	maxCost     = 16 << 20 // bytes that are looked at, or put into errors, while an output is checked
	maxPattern  = 2000     // instructions of a compiled pattern
	patternCost = 64       // bytes looked at, for each byte that a pattern is matched with
	maxProblem  = 2 << 10  // bytes of what is said to be wrong
)

// resultSchema is a JSON Schema that outputs can be checked against at a bounded cost.
type resultSchema struct {
	root     *jsonschema.Schema
	resolved *jsonschema.Resolved
}

// CheckSchema tells what keeps a text from being a result schema.
func CheckSchema(text string) error {
	_, err := compileSchema(text)
	return err
}

// compileSchema reads a JSON Schema of draft 2020-12 or 7. It stands alone: references lead to itself or its definitions,
// and nothing is ever fetched.
func compileSchema(text string) (*resultSchema, error) {
	raw := []byte(text)
	switch {
	case !json.Valid(raw):
		return nil, errors.New("is no valid JSON")
	case bytes.TrimSpace(raw)[0] != '{':
		return nil, errors.New("must be a JSON object")
	case nesting(raw) > maxNesting:
		return nil, fmt.Errorf("is nested more than %d levels deep", maxNesting)
	}
	s := &resultSchema{root: &jsonschema.Schema{}}
	if err := json.Unmarshal(raw, s.root); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	switch s.root.Schema {
	case "", "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#",
		"https://json-schema.org/draft-07/schema#":
	default:
		return nil, fmt.Errorf("$schema %q is not supported: only draft 2020-12 and draft-07 are", clip(s.root.Schema, maxError))
	}
	if err := s.checkBelow(s.root); err != nil {
		return nil, err
	}
	var written map[string]any
	err := json.Unmarshal(raw, &written)
	if err == nil {
		err = checkWords(written)
	}
	if err != nil {
		return nil, err
	}
	if s.resolved, err = s.root.Resolve(nil); err != nil {
		return nil, errors.New(clip(err.Error(), maxProblem))
	}
	return s, nil
}

// checkBelow refuses what can't be resolved here, or costs too much, in a schema and those within it.
func (s *resultSchema) checkBelow(at *jsonschema.Schema) error {
	switch _, known := s.target(at.Ref); {
	case at.Ref != "" && !known:
		return fmt.Errorf("$ref %q leads nowhere: only #, #/$defs/NAME and #/definitions/NAME are followed, and nothing is "+
			"fetched", clip(at.Ref, maxError))
	case at.DynamicRef != "":
		return errors.New("$dynamicRef is not supported")
	case at.ID != "" && at != s.root:
		return errors.New("$id is not supported within the schema")
	}
	for _, pattern := range append(slices.Sorted(maps.Keys(at.PatternProperties)), at.Pattern) {
		if err := checkPattern(pattern); err != nil {
			return err
		}
	}
	for _, sub := range slices.Concat(s.inPlace(at, false), elements(at, allElements), members(at), definitions(at)) {
		if sub == nil {
			continue
		}
		if err := s.checkBelow(sub); err != nil {
			return err
		}
	}
	return nil
}

func checkPattern(pattern string) error {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return fmt.Errorf("pattern %q: %w", clip(pattern, maxError), err)
	}
	if prog, err := syntax.Compile(tree.Simplify()); err != nil || len(prog.Inst) > maxPattern {
		return fmt.Errorf("pattern %q is too large", clip(pattern, maxError))
	}
	return nil
}

// target finds what a reference leads to.
func (s *resultSchema) target(ref string) (*jsonschema.Schema, bool) {
	if ref == "#" {
		return s.root, true
	}
	for prefix, defs := range map[string]map[string]*jsonschema.Schema{
		"#/$defs/": s.root.Defs, "#/definitions/": s.root.Definitions,
	} {
		if name, ok := strings.CutPrefix(ref, prefix); ok && !strings.ContainsAny(name, "/~%") && defs[name] != nil {
			return defs[name], true
		}
	}
	return nil, false
}

// inPlace lists the schemas that apply to the same value as s, with the one that it refers to if asked.
func (s *resultSchema) inPlace(at *jsonschema.Schema, follow bool) []*jsonschema.Schema {
	subs := slices.Concat(at.AllOf, at.AnyOf, at.OneOf, []*jsonschema.Schema{at.Not, at.If, at.Then, at.Else},
		values(at.DependentSchemas), values(at.DependencySchemas))
	if target, ok := s.target(at.Ref); ok && follow {
		subs = append(subs, target)
	}
	return subs
}

const allElements = -1

// elements lists the schemas that may apply to the i-th element of an array.
func elements(s *jsonschema.Schema, i int) []*jsonschema.Schema {
	subs := []*jsonschema.Schema{s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems}
	for _, tuple := range [][]*jsonschema.Schema{s.PrefixItems, s.ItemsArray} {
		switch {
		case i == allElements:
			subs = append(subs, tuple...)
		case i < len(tuple):
			subs = append(subs, tuple[i])
		}
	}
	return subs
}

// members lists the schemas that may apply to the members of an object.
func members(s *jsonschema.Schema) []*jsonschema.Schema {
	return slices.Concat(values(s.Properties), values(s.PatternProperties),
		[]*jsonschema.Schema{s.AdditionalProperties, s.UnevaluatedProperties, s.PropertyNames})
}

// definitions lists the schemas that apply to nothing by themselves.
func definitions(s *jsonschema.Schema) []*jsonschema.Schema {
	return slices.Concat(values(s.Defs), values(s.Definitions), []*jsonschema.Schema{s.ContentSchema})
}

func values(m map[string]*jsonschema.Schema) []*jsonschema.Schema {
	return slices.Collect(maps.Values(m))
}

// violation says what is wrong with an output, and where; empty: nothing.
func (s *resultSchema) violation(output string) string {
	raw := []byte(output)
	switch {
	case len(raw) > tool.MaxOutput:
		return fmt.Sprintf("it has %d bytes; the limit is %d", len(raw), tool.MaxOutput)
	case nesting(raw) > maxNesting:
		return fmt.Sprintf("it is nested more than %d levels deep", maxNesting)
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return clip(strings.TrimPrefix(err.Error(), "json: "), maxProblem)
	}
	c := cost{schema: s, left: maxCost}
	if c.walk(s.root, value, 0); c.left < 0 {
		return "checking it against the schema would take too long: give a smaller or simpler one"
	}
	if err := s.resolved.Validate(value); err != nil {
		return clip(err.Error(), maxProblem)
	}
	return ""
}

// cost walks over a schema and a value as a validator that stops at nothing would, until there is no cost left.
type cost struct {
	schema *resultSchema
	left   int
}

func (c *cost) walk(s *jsonschema.Schema, value any, depth int) {
	if s == nil || c.left < 0 {
		return
	}
	if c.left -= weight(s, value); depth > maxDepth {
		c.left = -1
	}
	for _, sub := range c.schema.inPlace(s, true) {
		c.walk(sub, value, depth+1)
	}
	switch value := value.(type) {
	case []any:
		for i, element := range value {
			for _, sub := range elements(s, i) {
				c.walk(sub, element, depth+1)
			}
		}
	case map[string]any:
		for name, member := range value {
			c.walk(s.Properties[name], member, depth+1)
			c.walk(s.AdditionalProperties, member, depth+1)
			c.walk(s.UnevaluatedProperties, member, depth+1)
			c.walk(s.PropertyNames, name, depth+1)
			for _, sub := range s.PatternProperties {
				c.left -= patternCost * len(name)
				c.walk(sub, member, depth+1)
			}
		}
	}
}

// weight is what it costs to look at a value and at a schema's own words, and to name both in an error.
func weight(s *jsonschema.Schema, value any) int {
	n := size(value)
	if text, ok := value.(string); ok && s.Pattern != "" {
		n += patternCost * len(text)
	}
	if s.Enum != nil || s.Const != nil || s.Required != nil {
		n += len(fmt.Sprint(s.Enum, s.Required)) + size(s.Const)
	}
	return n
}

// size is about the length of a value in an error.
func size(value any) int {
	n := 8
	switch value := value.(type) {
	case string:
		n += len(value)
	case *any:
		if value != nil {
			n += size(*value)
		}
	case []any:
		for _, element := range value {
			n += size(element)
		}
	case map[string]any:
		for name, member := range value {
			n += len(name) + size(member)
		}
	}
	return n
}

// nesting is how deep the arrays and objects of a JSON text are nested. What stands in strings does not count.
func nesting(raw []byte) (deepest int) {
	depth, quoted, escaped := 0, false, false
	for _, c := range raw {
		switch {
		case escaped:
			escaped = false
		case quoted:
			quoted, escaped = c != '"', c == '\\'
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// outputIn finds the JSON that a text is, or that stands in its one fenced block; empty: none.
func outputIn(text string) string {
	if text = strings.TrimSpace(text); json.Valid([]byte(text)) {
		return text
	}
	const fence = "```"
	_, rest, _ := strings.Cut("\n"+text, "\n"+fence)
	_, rest, _ = strings.Cut(rest, "\n") // the language behind the fence
	block, rest, closed := strings.Cut(rest, "\n"+fence)
	if block = strings.TrimSpace(block); !closed || strings.Contains(rest, "\n"+fence) || !json.Valid([]byte(block)) {
		return ""
	}
	return block
}

// reported gives the output among the arguments of a report; empty: none.
func reported(arguments string) string {
	var args struct {
		Output json.RawMessage `json:"output"`
	}
	if json.Unmarshal([]byte(arguments), &args) != nil || string(args.Output) == "null" {
		return ""
	}
	return string(args.Output)
}

// lastOutput ends the request to wrap up: without tools there is no report to put the output in.
func lastOutput(spec task.Spec) string {
	if spec.Schema == "" {
		return ""
	}
	return " Your task has a result schema: the text must be JSON that meets it, and nothing else."
}

// withOutput lets the report tool, as the model sees it, take an output that meets the schema. One with references is
// not shown there, where they would lead elsewhere: the system prompt has it.
func withOutput(tools []model.Tool, schema string) []model.Tool {
	if schema == "" {
		return tools
	}
	if strings.Contains(schema, `"$ref"`) {
		schema = `{"description":"your result, as the result schema in your instructions wants it"}`
	}
	for i := range tools {
		if tools[i].Name == tool.ReportName {
			tools[i].Parameters = tool.ReportParameters(json.RawMessage(schema))
		}
	}
	return tools
}
