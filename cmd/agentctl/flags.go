package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	for _, o := range c.options {
		if o.word == word {
			*c.target = o.value
			return nil
		}
	}
	return fmt.Errorf("must be one of %s", strings.Join(c.words(), ", "))
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
func (c *choice[T]) Type() string { return strings.Join(c.words(), "|") }

// words are those that it takes.
func (c *choice[T]) words() []string {
	var words []string
	for _, o := range c.options {
		words = append(words, o.word)
	}
	return words
}

// completeWords lets the shell complete the words of each flag that takes one of a few, in all commands.
func completeWords(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if choice, ok := flag.Value.(interface{ words() []string }); ok {
			// It fails for a flag that has its words already: a global one.
			_ = c.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(choice.words(), cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, below := range c.Commands() {
		completeWords(below)
	}
}

// budgetNames lists the bounds of --budget.
const budgetNames = "steps, tokens, turns, tool-calls, cost (USD), time (10m), max-steps (of a turn)"

// maxMaxSteps is the most steps that one turn may have.
const maxMaxSteps = 1000

// budgetFlag parses a list of bounds, in one flag or several.
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
		if err := f.bound(name, value); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

// bound sets one bound.
func (f *budgetFlag) bound(name, value string) error {
	whole := map[string]*int64{
		"steps": &f.budget.Steps, "tokens": &f.budget.Tokens, "turns": &f.budget.Turns, "tool-calls": &f.budget.ToolCalls,
	}
	if bound, ok := whole[name]; ok {
		return positive(value, bound, math.MaxInt64)
	}
	switch name {
	case "time":
		var d time.Duration
		if err := span(&d)(value); err != nil {
			return err
		}
		f.budget.WallTime = durationpb.New(d)
	case "cost":
		cost, err := strconv.ParseFloat(value, 64)
		if err != nil || !(cost > 0) || math.IsInf(cost, 0) {
			return errors.New("it is no amount of dollars above 0")
		}
		f.budget.CostUsd = cost
	case "max-steps":
		var n int64
		if err := positive(value, &n, maxMaxSteps); err != nil {
			return err
		}
		f.budget.MaxSteps = int32(n)
	default:
		return fmt.Errorf("unknown bound %q; there are %s", name, budgetNames)
	}
	return nil
}

// positive sets a whole number from 1 to limit.
func positive(text string, to *int64, limit int64) error {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < 1:
		return errors.New("it is no whole number above 0")
	case n > limit:
		return fmt.Errorf("it is at most %d", limit)
	}
	*to = n
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
		return readText(path, file)
	}
	value = strings.TrimPrefix(value, "text:")
	if !utf8.ValidString(value) {
		return "", errors.New("it is not UTF-8")
	}
	return value, nil
}

// readText reads a text that fits into a request; name tells people where from.
func readText(name string, from io.Reader) (string, error) {
	content, err := io.ReadAll(io.LimitReader(from, maxText+1))
	switch {
	case err != nil:
		return "", err
	case len(content) > maxText:
		return "", fmt.Errorf("%s has more than %d bytes, which is the most of a request", name, maxText)
	case !utf8.Valid(content):
		return "", fmt.Errorf("%s is not UTF-8", name)
	}
	return string(content), nil
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
