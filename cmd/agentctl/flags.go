package main

import (
	"fmt"
	"os"
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

// budgetFlag parses `steps=N,tokens=N,wall=DURATION,max_steps=N`.
type budgetFlag struct{ budget *agentdv1.Budget }

// Set takes a list of bounds.
func (f *budgetFlag) Set(list string) error {
	f.budget = &agentdv1.Budget{}
	for part := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=VALUE", part)
		}
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

// inputsFlag collects `NAME=TEXT`, `NAME=@FILE` and `NAME=task:ID`.
type inputsFlag struct{ inputs []*agentdv1.AgentInput }

// Set adds one input, reading its file.
func (f *inputsFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is not NAME=TEXT, NAME=@FILE or NAME=task:ID", text)
	}
	input := &agentdv1.AgentInput{Name: name}
	if id, isTask := strings.CutPrefix(value, "task:"); isTask {
		input.Source = &agentdv1.AgentInput_TaskId{TaskId: id}
	} else {
		if file, isFile := strings.CutPrefix(value, "@"); isFile {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			value = string(content)
		}
		if !utf8.ValidString(value) {
			return fmt.Errorf("input %s is not UTF-8", name)
		}
		input.Source = &agentdv1.AgentInput_Text{Text: value}
	}
	f.inputs = append(f.inputs, input)
	return nil
}

// String is empty: there is no default to show.
func (f *inputsFlag) String() string { return "" }

// Type is how the help shows the value.
func (f *inputsFlag) Type() string { return "NAME=TEXT|@FILE|task:ID" }
