package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// object splits the arguments of a call into its fields. No arguments at all are an empty object.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) == 0 {
		return fields, nil
	}
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, &Error{Reason: InvalidArguments, Message: "the arguments must be one JSON object: " + why(raw, err)}
	}
	return fields, nil
}

func why(raw json.RawMessage, err error) string {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%v at byte %d of %d", syntax, syntax.Offset, len(raw))
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return "got " + wrong.Value
	}
	return "got null"
}

// decode reads the arguments strictly into a struct: names are exact, unknown ones refused, those without `omitempty`
// required. A null counts as not given.
func decode[A any](raw json.RawMessage) (A, error) {
	var args A
	given, err := object(raw)
	if err != nil {
		return args, err
	}
	into := reflect.ValueOf(&args).Elem()
	var names []string
	for _, field := range reflect.VisibleFields(into.Type()) {
		if field.Anonymous {
			continue // its fields stand for it
		}
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
		value, ok := given[name]
		delete(given, name)
		if !ok || string(value) == "null" {
			if option == "" {
				return args, invalid(name, "is required: %s", expected(field.Type))
			}
			continue
		}
		if err := strict(value, into.FieldByIndex(field.Index).Addr().Interface()); err != nil {
			return args, invalid(name, "must be %s: %s", expected(field.Type), err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		return args, &Error{Reason: InvalidArguments, Subject: name, Allowed: names,
			Message: fmt.Sprintf("there is no argument %q", name)}
	}
	return args, nil
}

// strict decodes one value, refusing unknown names in it.
func strict(raw json.RawMessage, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return fmt.Errorf("got %s", wrong.Value)
		}
		return fmt.Errorf("%s must be %s, got %s", wrong.Field, expected(wrong.Type), wrong.Value)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// expected tells a model what a Go type wants in JSON.
func expected(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "an integer"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return "a list of strings"
		}
		return "a list of objects"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Pointer:
		return expected(t.Elem())
	default:
		return "a string"
	}
}

// invalid is the failure of one argument, with a message that goes on after its name.
func invalid(name, format string, args ...any) error {
	return &Error{Reason: InvalidArguments, Subject: name, Message: name + " " + fmt.Sprintf(format, args...)}
}

// within checks that a number that was given lies in its bounds; 0 is not given.
func within(name string, n, low, high int) error {
	if n != 0 && (n < low || n > high) {
		return invalid(name, "must lie between %d and %d, got %d", low, high, n)
	}
	return nil
}
