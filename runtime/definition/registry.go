package definition

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/internal/nearest"
	"github.com/agentd-dev/agentd/runtime/roster"
)

// maxWorkspaces is how many workspaces' definitions are kept in memory.
const maxWorkspaces = 64

//go:embed builtin/*.md
var builtin embed.FS

// Config says where a Registry looks beside the workspaces. The zero value is nowhere.
type Config struct {
	UserDir   string   // the user's own definitions, absolute
	ClaudeDir string   // the user's definitions for Claude Code, absolute; those in UserDir go before them
	Tools     []string // names of the tools that there are; empty: every name will do
}

// Registry finds definitions. It reads a file again once that has changed, so a change needs no restart. It is safe for
// concurrent use.
type Registry struct {
	tools   []string
	builtin []Definition
	user    []place

	mu         sync.Mutex
	folders    map[place]*folder // what was read last
	workspaces map[string]bool   // those whose places are among the folders
}

// New makes a registry; without a Config it has the built-in definitions and those of workspaces.
func New(config ...Config) *Registry {
	r := &Registry{builtin: builtins(), folders: map[place]*folder{}, workspaces: map[string]bool{}}
	for _, c := range config {
		r.tools = append(r.tools, c.Tools...)
		for _, p := range []place{{base: c.ClaudeDir, claude: true}, {base: c.UserDir}} {
			if p.base != "" {
				p.sub, p.source = ".", User
				r.user = append(r.user, p)
			}
		}
	}
	return r
}

// builtins are the definitions in the binary, which a test holds against the rules.
func builtins() []Definition {
	var all []Definition
	names, _ := fs.Glob(builtin, "builtin/*.md")
	for _, name := range names {
		text, _ := fs.ReadFile(builtin, name)
		def, _ := parse(string(text), strings.TrimSuffix(path.Base(name), ".md"), dialect{})
		def.Source = Builtin
		all = append(all, def)
	}
	return all
}

// placesIn are the directories of a workspace, the more important last.
func placesIn(workspace string) []place {
	if workspace == "" {
		return nil
	}
	return []place{
		{workspace, filepath.Join(".claude", "agents"), Workspace, true},
		{workspace, filepath.Join(".agentd", "agents"), Workspace, false},
	}
}

// Find gives the definition that a spawn in a workspace names, in any case (N2); AgentNotFound, naming those that there
// are, the nearest first. An empty workspace has no definitions.
func (r *Registry) Find(workspace, name string) (Definition, error) {
	definitions, problems := r.List(workspace)
	var names []string
	for _, d := range definitions {
		if strings.EqualFold(d.Name, name) {
			return d, nil
		}
		names = append(names, d.Name)
	}
	return Definition{}, notFound(name, names, problems)
}

// notFound names at most ten that there are, and what is wrong with a file of that name.
func notFound(name string, names []string, problems []Problem) error {
	const most = 10
	if len(name) > roster.MaxName {
		name = cut(name, roster.MaxName) + "..."
	}
	names = nearest.Names(name, names)
	more := ""
	if len(names) > most {
		names, more = names[:most], ", ..."
	}
	e := errdefs.New(errdefs.NotFound, errdefs.AgentNotFound, name, "there is no agent definition %q; there are: %s%s",
		name, strings.Join(names, ", "), more)
	for _, p := range problems {
		if !p.Warning && strings.EqualFold(filepath.Base(p.Path), name+".md") {
			e.Message += fmt.Sprintf(" (its file is broken: %s)", p)
			break
		}
	}
	return e
}

// List gives all definitions that a spawn in a workspace can name, by name, and what is wrong with the rest, by file and
// line. Of the same name a definition of the user goes before a built-in one, and agentd's own file before one that was
// written for Claude Code. A workspace's never takes the name of another one's: a repository must not change what a name
// means that the user knows.
func (r *Registry) List(workspace string) ([]Definition, []Problem) {
	chosen := map[string]Definition{}
	for _, d := range r.builtin {
		chosen[strings.ToLower(d.Name)] = d
	}
	problems := r.collect(r.user, chosen)
	own := map[string]Definition{}
	problems = append(problems, r.collect(r.noted(workspace), own)...)
	for name, d := range own {
		if other, taken := chosen[name]; taken {
			problems = append(problems, Problem{Path: d.Path, Line: d.line, Message: message(
				"the name %q is taken by %s: give this one another name", d.Name, whose(other))})
			continue
		}
		chosen[name] = d
	}
	slices.SortStableFunc(problems, byPlace)
	var sorted []Definition
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		sorted = append(sorted, chosen[name])
	}
	return sorted, problems
}

// whose says where a definition comes from.
func whose(d Definition) string {
	if d.Source == Builtin {
		return "a built-in definition"
	}
	return d.Path
}

// collect puts what stands at the places into chosen, by the name in lower case; later places win.
func (r *Registry) collect(places []place, chosen map[string]Definition) []Problem {
	var problems []Problem
	for _, p := range places {
		f := r.at(p)
		problems = append(problems, f.problems...)
		for _, d := range f.definitions {
			chosen[strings.ToLower(d.Name)] = d
		}
	}
	return problems
}

// at is what stands at a place now.
func (r *Registry) at(p place) *folder {
	r.mu.Lock()
	last := r.folders[p]
	r.mu.Unlock()
	f := p.read(last, r.tools)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.folders[p] = f
	return f
}

// noted gives the places of a workspace and remembers that it is in use. Beyond maxWorkspaces all are forgotten: that
// costs a reading each.
func (r *Registry) noted(workspace string) []place {
	if workspace == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.workspaces[workspace] && len(r.workspaces) >= maxWorkspaces {
		clear(r.workspaces)
		clear(r.folders)
	}
	r.workspaces[workspace] = true
	return placesIn(workspace)
}

// Reload reads everything anew: the user's definitions and those of the workspaces in use. It tells how many there are
// beside the built-in ones, and what is wrong.
func (r *Registry) Reload() (count int, problems []Problem) {
	r.mu.Lock()
	clear(r.folders)
	workspaces := slices.Sorted(maps.Keys(r.workspaces))
	r.mu.Unlock()
	seen := map[string]bool{} // files: the user's are those of every workspace
	reported := map[Problem]bool{}
	for _, workspace := range append([]string{""}, workspaces...) {
		definitions, wrong := r.List(workspace)
		for _, d := range definitions {
			if d.Source != Builtin && !seen[d.Path] {
				seen[d.Path] = true
				count++
			}
		}
		for _, p := range wrong {
			if !reported[p] {
				reported[p] = true
				problems = append(problems, p)
			}
		}
	}
	slices.SortStableFunc(problems, byPlace)
	return count, problems
}
