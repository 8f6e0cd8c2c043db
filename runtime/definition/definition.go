// Package definition is the agent definitions: named kinds of agent, built in, of the user, or of a workspace.
package definition

import (
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Definition is a named kind of agent.
type Definition struct {
	Name         string
	Description  string   // when to use it
	Instructions string   // its part of the system prompt
	Tools        []string // nil: all that the parent has
	Disallowed   []string
	Model        string      // empty: the daemon's
	Budget       task.Budget // of a spawn that names none, field by field
	Worktree     bool        // it works in a worktree of its own
	Source       Source
	Path         string // of its file; empty for built-in ones
}

// Source tells where a definition comes from.
type Source uint8

// The sources. Of definitions of the same name the one from the later source counts.
const (
	Builtin   Source = iota + 1
	User             // the user's config directory
	Workspace        // the workspace
)

// Problem is what is wrong with a file.
type Problem struct {
	Path    string
	Line    int // from 1; 0: the file as a whole
	Message string
	Warning bool // the definition works nevertheless
}

// Registry finds definitions. It is safe for concurrent use.
type Registry struct{}

// New makes a registry of the built-in definitions and those in the user's config directories.
func New(userDirs ...string) *Registry { return &Registry{} }

// Find gives the definition that a spawn in a workspace names; AgentNotFound, naming those that there are.
func (r *Registry) Find(workspace, name string) (Definition, error) {
	if name == "general" {
		return Definition{Name: "general", Source: Builtin}, nil
	}
	return Definition{}, errdefs.New(errdefs.NotFound, errdefs.AgentNotFound, name, "there is no agent definition %q; there is %q", name, "general")
}

// List gives all definitions that a spawn in a workspace can name, by name, and what is wrong with the rest.
func (r *Registry) List(workspace string) ([]Definition, []Problem) {
	d, _ := r.Find(workspace, "general")
	return []Definition{d}, nil
}
