package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// option is one word that a flag takes, and what it stands for.
type option[T comparable] struct {
	word  string
	value T
}

// choice is a flag that takes one of a few words.
type choice[T comparable] struct {
	target  *T
	options []option[T]
}

func choose[T comparable](target *T, options ...option[T]) *choice[T] {
	return &choice[T]{target, options}
}

// Set takes a word.
func (c *choice[T]) Set(word string) error {
	var words []string
	for _, o := range c.options {
		if o.word == word {
			*c.target = o.value
			return nil
		}
		words = append(words, o.word)
	}
	return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
}

// String is the word for the value; empty for one that has none, such as an unset one.
func (c *choice[T]) String() string {
	for _, o := range c.options {
		if c.target != nil && o.value == *c.target {
			return o.word
		}
	}
	return ""
}

// Type is the list of words, as the help shows it.
func (c *choice[T]) Type() string {
	var words []string
	for _, o := range c.options {
		words = append(words, o.word)
	}
	return strings.Join(words, "|")
}

// budgetFlag parses `steps=N,tokens=N,wall=DURATION,max_steps=N`, in one flag or several.
type budgetFlag struct {
	budget *agentdv1.Budget
	given  []string // names of the bounds so far
}

// Set takes a list of bounds.
func (f *budgetFlag) Set(list string) error {
	if f.budget == nil {
		f.budget = &agentdv1.Budget{}
	}
	for part := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=VALUE", part)
		}
		if slices.Contains(f.given, name) {
			return fmt.Errorf("%s is given twice", name)
		}
		f.given = append(f.given, name)
		if name == "wall" {
			wall, err := time.ParseDuration(value)
			if err != nil || wall <= 0 {
				return fmt.Errorf("wall=%s is no duration such as 10m", value)
			}
			f.budget.WallTime = durationpb.New(wall)
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n <= 0 {
			return fmt.Errorf("%s is no positive number", part)
		}
		switch name {
		case "steps":
			f.budget.Steps = n
		case "tokens":
			f.budget.Tokens = n
		case "max_steps":
			if n > 1000 {
				return fmt.Errorf("max_steps is at most 1000")
			}
			f.budget.MaxSteps = int32(n)
		default:
			return fmt.Errorf("unknown bound %q: steps, tokens, wall, max_steps", name)
		}
	}
	return nil
}

// String is empty: there is no default to show.
func (f *budgetFlag) String() string { return "" }

// Type is how the help shows the value.
func (f *budgetFlag) Type() string { return "NAME=VALUE,..." }

// inputsFlag collects `NAME=TEXT`, `NAME=@FILE` and `NAME=task:ID`; `NAME=text:TEXT` is for a text that looks like one
// of the others.
type inputsFlag struct{ inputs []*agentdv1.AgentInput }

// Set adds one input, reading its file.
func (f *inputsFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=TEXT, NAME=text:TEXT, NAME=@FILE or NAME=task:ID", text)
	}
	input := &agentdv1.AgentInput{Name: name}
	if id, isTask := strings.CutPrefix(value, "task:"); isTask {
		input.Source = &agentdv1.AgentInput_TaskId{TaskId: id}
	} else {
		text, err := inputText(value)
		if err != nil {
			return fmt.Errorf("input %s: %w", name, err)
		}
		input.Source = &agentdv1.AgentInput_Text{Text: text}
	}
	f.inputs = append(f.inputs, input)
	return nil
}

// inputText is the text of `TEXT`, `text:TEXT` or `@FILE`.
func inputText(value string) (string, error) {
	if path, isFile := strings.CutPrefix(value, "@"); isFile {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		content, err := io.ReadAll(io.LimitReader(file, maxText+1))
		if err != nil {
			return "", err
		}
		if len(content) > maxText {
			return "", fmt.Errorf("%s has more than %d bytes, which is the most of a request", path, maxText)
		}
		value = string(content)
	} else {
		value = strings.TrimPrefix(value, "text:")
	}
	if !utf8.ValidString(value) {
		return "", errors.New("it is not UTF-8")
	}
	return value, nil
}

// String is empty: there is no default to show.
func (f *inputsFlag) String() string { return "" }

// Type is how the help shows the value.
func (f *inputsFlag) Type() string { return "NAME=TEXT|text:TEXT|@FILE|task:ID" }

// span sets a duration from a flag. It refuses what is not above 0, which would mean no bound.
func span(d *time.Duration) func(string) error {
	return func(text string) error {
		v, err := time.ParseDuration(text)
		if err != nil || v <= 0 {
			return errors.New("it is no duration above 0, such as 30s")
		}
		*d = v
		return nil
	}
}
