// Package definition is the agent definitions: named kinds of agent, built in, of the user, or of a workspace. Each is a
// Markdown file: front matter in YAML that says what it may use, then its instructions. docs/agents.md has every key.
package definition

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/agentd-dev/agentd/runtime/task"
)

// Definition is a named kind of agent. Those that a Registry gives share memory: who changes one clones it before.
type Definition struct {
	Name         string
	Description  string   // when to use it
	Instructions string   // its part of the system prompt
	Tools        []string // empty: all that the parent has
	Disallowed   []string
	Model        string      // empty: the daemon's
	Budget       task.Budget // of a spawn that names none, field by field
	Worktree     bool        // it works in a worktree of its own
	Source       Source
	Path         string // of its file; empty for built-in ones

	line int // of its name; 0: it has the name of its file
}

// Source tells where a definition comes from.
type Source uint8

// The sources.
const (
	Builtin   Source = iota + 1
	User             // the user's own directories
	Workspace        // the workspace
)

// Problem is what is wrong with a file.
type Problem struct {
	Path    string
	Line    int // from 1; 0: the file as a whole
	Message string
	Warning bool // the definition works nevertheless
}

// String is the problem as compilers write theirs: PATH:LINE: MESSAGE.
func (p Problem) String() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.Path, p.Message)
	}
	return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.Message)
}

// byPlace orders problems by file and line.
func byPlace(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
}

// works tells whether none of the problems keeps the definition from being used.
func works(problems []Problem) bool {
	return !slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}
