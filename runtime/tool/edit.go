package tool

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

const (
	editPlaces  = 10 // places of old_string that an answer names
	editContext = 3  // lines shown around a change
	editShown   = 40 // lines shown of a change
)

type editArgs struct {
	Path       string `json:"path"`
	OldString  string `json:"old_string"`
	NewString  string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all,omitempty"`
}

func editTool() Tool {
	return builtin[editArgs]{
		spec: Spec{
			Name: "edit",
			Description: "Replace a text in a file that you have read. old_string must be exactly what the file holds, " +
				"without the line numbers, and must occur once unless replace_all is set: give it enough lines around.",
			Parameters: schema(`
				"path":{"type":"string","description":"file, relative to the workspace or absolute"},
				"old_string":{"type":"string","minLength":1,"description":"exact text to replace"},
				"new_string":{"type":"string","description":"what stands there afterwards"},
				"replace_all":{"type":"boolean","description":"replace every occurrence (default false)"}`,
				"path", "old_string", "new_string"),
		},
		run: edit,
	}
}

func edit(_ context.Context, call Call, args editArgs) (Answer, error) {
	switch {
	case args.Path == "":
		return Answer{}, invalid("path", "must not be empty")
	case args.OldString == "":
		return Answer{}, invalid("old_string", "must not be empty; to make a file use write")
	case args.OldString == args.NewString:
		return Answer{}, invalid("new_string", "is the same as old_string")
	}
	place, err := resolve(call.Scope, args.Path, sandbox.ToWrite)
	if err != nil {
		return Answer{}, err
	}
	defer place.Close() //nolint:errcheck // a directory: nothing to lose
	now, err := current(call.Scope, args.Path, place)
	if err != nil {
		return Answer{}, err
	}
	if err := mustKnow(call.Scope, args.Path, place, now); err != nil {
		return Answer{}, err
	}
	after, at, err := args.apply(now.content)
	if err != nil {
		return Answer{}, err
	}
	mark, err := replace(call.Scope, args.Path, place, after, now.stat)
	if err != nil {
		return Answer{}, err
	}
	text := fmt.Sprintf("edited %s: %s", shown(call.Scope, place.Path), count(len(at), "replacement"))
	if len(at) == 1 {
		text += "\n" + around(after, at[0], len(args.NewString))
	}
	return Answer{Text: text, Files: []task.FileMark{mark}}, nil
}

// apply gives the content with the replacement made, and where old_string stood.
func (a editArgs) apply(content []byte) (after []byte, at []int, err error) {
	for _, lineEnd := range lineEnds(content) {
		old, replacement := lineEnd(a.OldString), lineEnd(a.NewString)
		at = places(content, []byte(old))
		switch {
		case len(at) == 0 || old == replacement:
			continue
		case len(at) > 1 && !a.ReplaceAll:
			return nil, nil, a.notUnique(content, at)
		}
		// With replace_all, occurrences that overlap are replaced from the left.
		return bytes.ReplaceAll(content, []byte(old), []byte(replacement)), at, nil
	}
	return nil, nil, &Error{Reason: NoMatch, Subject: a.Path,
		Message: "old_string does not occur in " + a.Path + hint(string(content), a.OldString)}
}

// lineEnds are the spellings of the model's texts to try: models write \n whatever the file has, so in a file of \r\n
// that comes first.
func lineEnds(content []byte) []func(string) string {
	exact := func(s string) string { return s }
	crlf := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
	}
	pairs := bytes.Count(content, []byte("\r\n"))
	switch {
	case pairs == 0:
		return []func(string) string{exact}
	case pairs*2 > bytes.Count(content, []byte("\n")):
		return []func(string) string{crlf, exact}
	}
	return []func(string) string{exact, crlf}
}

// places are all offsets of old, also of occurrences that overlap.
func places(content, old []byte) []int {
	var at []int
	for from := 0; ; {
		i := bytes.Index(content[from:], old)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + 1
	}
}

func (a editArgs) notUnique(content []byte, at []int) error {
	var numbers []string
	for _, i := range at[:min(len(at), editPlaces)] {
		numbers = append(numbers, fmt.Sprint(lineOf(content, i)))
	}
	if len(at) > editPlaces {
		numbers = append(numbers, "...")
	}
	return &Error{Reason: NotUnique, Subject: a.Path, Message: fmt.Sprintf(
		"old_string occurs %d times in %s, at lines %s: give more of the lines around it, or set replace_all", len(at),
		a.Path, strings.Join(numbers, ", "))}
}

// lineOf is the number of the line at an offset, from 1.
func lineOf(content []byte, at int) int { return bytes.Count(content[:at], []byte("\n")) + 1 }

// hint guesses why old does not occur.
func hint(content, old string) string {
	if regexp.MustCompile(`(?m)^ *\d+\t`).MatchString(old) {
		return ": leave out the line numbers that read puts before the lines"
	}
	have, want := squeezed(content), squeezed(strings.TrimSpace(old))
	for i := range have {
		if rest := have[i:]; len(rest) >= len(want) && slices.Equal(rest[:len(want)], want) {
			return fmt.Sprintf(": lines %d-%d differ from it only in white space", i+1, i+len(want))
		}
	}
	if i := slices.Index(have, want[0]); i >= 0 && want[0] != "" {
		return fmt.Sprintf(": its first line is line %d, but what follows there is different", i+1)
	}
	return ""
}

// squeezed are the lines of a text with all white space made alike.
func squeezed(text string) []string {
	all := strings.Split(text, "\n")
	for i, line := range all {
		all[i] = strings.Join(strings.Fields(line), " ")
	}
	return all
}

// around shows the lines of a change with some around it.
func around(content []byte, at, length int) string {
	first := lineOf(content, at)
	last := lineOf(content, min(len(content), at+length))
	all := strings.Split(string(content), "\n")
	from, to := max(1, first-editContext), min(len(all), last+editContext, first+editShown)
	var out strings.Builder
	for n := from; n <= to; n++ {
		fmt.Fprintf(&out, "%6d\t%s\n", n, shorten(valid([]byte(strings.TrimSuffix(all[n-1], "\r"))), readLine, 0))
	}
	return out.String()
}
