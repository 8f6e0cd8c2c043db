package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// words walks over a JSON Schema as it is written, and knows each schema in it by its JSON pointer.
type words struct {
	inPlace map[string][]string // by schema, those that apply to the same value
}

// checkWords refuses keywords with values that mean nothing, and schemas that lead back to themselves without an end. The
// parser knows the keywords' types, and not more.
func checkWords(root map[string]any) error {
	w := words{inPlace: map[string][]string{}}
	if err := w.walk("#", root); err != nil {
		return err
	}
	done := map[string]bool{}
	for _, at := range slices.Sorted(maps.Keys(w.inPlace)) {
		if circle := w.circle(at, map[string]bool{}, done); circle != "" {
			return fmt.Errorf("%s leads back to itself without an end", circle)
		}
	}
	return nil
}

// walk checks the schema at a pointer and those within it. What is no object is a schema without words.
func (w words) walk(at string, schema any) error {
	s, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	for _, word := range slices.Sorted(maps.Keys(s)) {
		if err := checkWord(word, s[word]); err != nil {
			return fmt.Errorf("%s/%s %w", at, word, err)
		}
		if ref, ok := s[word].(string); ok && word == "$ref" {
			w.inPlace[at] = append(w.inPlace[at], ref)
		}
		for place, sub := range within(word, s[word]) {
			place = at + place
			if appliesInPlace(word) {
				w.inPlace[at] = append(w.inPlace[at], place)
			}
			if err := w.walk(place, sub); err != nil {
				return err
			}
		}
	}
	return nil
}

// within gives the schemas that stand in the value of a word, by the end of their pointers.
func within(word string, value any) map[string]any {
	found := map[string]any{}
	list, isList := value.([]any)
	named, isNamed := value.(map[string]any)
	switch word {
	case "allOf", "anyOf", "oneOf", "prefixItems", "items":
		for i, sub := range list {
			found[fmt.Sprintf("/%s/%d", word, i)] = sub
		}
	case "$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies":
		for name, sub := range named {
			found["/"+word+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name)] = sub
		}
		return found
	case "not", "if", "then", "else", "additionalItems", "contains", "unevaluatedItems", "additionalProperties",
		"unevaluatedProperties", "propertyNames", "contentSchema":
	default:
		return nil
	}
	if isNamed && !isList {
		found["/"+word] = value
	}
	return found
}

// appliesInPlace tells whether the schemas of a word apply to the value that the schema around them applies to.
func appliesInPlace(word string) bool {
	return slices.Contains([]string{
		"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies",
	}, word)
}

// circle gives a schema at or below which following those that apply in place never ends; empty: there is none.
func (w words) circle(at string, above, done map[string]bool) string {
	switch {
	case above[at]:
		return at
	case done[at]:
		return ""
	}
	above[at] = true
	defer delete(above, at)
	for _, next := range w.inPlace[at] {
		if circle := w.circle(next, above, done); circle != "" {
			return circle
		}
	}
	done[at] = true
	return ""
}

// checkWord says what is wrong with the value of a word.
func checkWord(word string, value any) error {
	number, _ := value.(float64)
	list, isList := value.([]any)
	switch word {
	case "type":
		names := list
		if !isList {
			names = []any{value}
		}
		return checkTypes(names)
	case "multipleOf":
		if number <= 0 {
			return fmt.Errorf("must be greater than 0, got %v", value)
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties":
		if number < 0 {
			return fmt.Errorf("must not be negative, got %v", value)
		}
	case "enum":
		if isList && len(list) == 0 {
			return errors.New("must not be empty: no value would meet it")
		}
	}
	return nil
}

func checkTypes(names []any) error {
	types := []any{"array", "boolean", "integer", "null", "number", "object", "string"}
	if len(names) == 0 {
		return errors.New("must not be empty: no value would meet it")
	}
	for _, name := range names {
		if !slices.Contains(types, name) {
			return fmt.Errorf("must be one of %v, got %s", types, clip(fmt.Sprintf("%q", name), maxLabel))
		}
	}
	return nil
}
