// Package grant is what a task may do: pure data that is narrowed at spawn and carried by the task. Tools ask the
// grant, nothing else decides.
package grant

import (
	"path/filepath"
	"slices"
	"strings"
)

// Grant is what a task may do.
type Grant struct {
	Tools    []string // names of the tools
	Readable []string // absolute, clean directories that may be read
	Writable []string // absolute, clean directories that may be written; each is readable too
	Network  bool     // the network may be used
	Depth    int      // levels of tasks that may be spawned below
}

// ForWorkspace grants tools on one directory, for reading and writing, the network, and depth levels below.
func ForWorkspace(workspace string, tools []string, depth int) Grant {
	return Grant{
		Tools: slices.Clone(tools), Readable: []string{workspace}, Writable: []string{workspace}, Network: true, Depth: depth,
	}
}

// AllowsTool tells whether the tool is granted.
func (g Grant) AllowsTool(name string) bool { return slices.Contains(g.Tools, name) }

// ReadableRoot is the longest granted root that holds the absolute, clean path; empty when none does.
func (g Grant) ReadableRoot(path string) string {
	return longest(path, g.readable())
}

// readable are all roots that may be read, each once, in order.
func (g Grant) readable() []string {
	roots := slices.Concat(g.Readable, g.Writable)
	slices.Sort(roots)
	return slices.Compact(roots)
}

// WritableRoot is the longest writable root that holds the absolute, clean path; empty when none does.
func (g Grant) WritableRoot(path string) string { return longest(path, g.Writable) }

func longest(path string, roots []string) string {
	best := ""
	for _, root := range roots {
		if Beneath(root, path) && len(root) > len(best) {
			best = root
		}
	}
	return best
}

// Beneath tells whether path is root or lies below it. Both are absolute and clean; links are not resolved.
func Beneath(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
