package tool

import (
	"sync"

	"github.com/agentd-dev/agentd/runtime/task"
)

// Known are the files that an agent knows, each at one content: what `edit` and `write` demand before they change a file.
// It follows from the agent's own transcript, so it survives restarts and is never shared between agents.
type Known struct {
	mu     sync.Mutex
	hashes map[string]string // by absolute path
}

// NewKnown starts with no file.
func NewKnown() *Known { return &Known{hashes: map[string]string{}} }

// Learn takes over what a call made known. The latest wins.
func (k *Known) Learn(marks []task.FileMark) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range marks {
		k.hashes[m.Path] = m.Hash
	}
}

// Hash is the content that the agent knows of a path; empty when it knows none.
func (k *Known) Hash(path string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hashes[path]
}
