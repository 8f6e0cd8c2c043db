// Package roster is the noun of teams: names and who is in them. It is pure; runtime resolves directories.
package roster

import (
	"path/filepath"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// DefaultTeam is the name of the team that a spawn without workspace falls to (N1).
const DefaultTeam = "default"

// Team is the scope of everything.
type Team struct {
	ID        string // t-N, immutable
	Name      string
	Workspace string // absolute, canonical; empty: none
	Created   time.Time

	Description string
	Budget      task.Budget // what all its tasks may consume together: what is shared of it counts
	Deleted     bool        // its name and workspace are free; its transcripts stay readable
}

// Member is who has a name in a team. Its task says whether it lives.
type Member struct {
	Name      string // as given; of the lead task.LeadName
	TaskID    task.ID
	Dismissed bool // no message revives it
}

// Event is a change of a roster.
type Event uint8

// The events.
const (
	Joined Event = iota + 1
	Dismissed
)

// AgentID is how a teammate is called outside its team.
func AgentID(name, team string) string { return name + "@" + team }

// MaxName is the longest name, in bytes (N2).
const MaxName = 64

// CheckName tells whether a name may be given (N2): letters, digits, '_' and '-', not reserved, not like an id.
func CheckName(field, name string) error {
	if !IsName(name) {
		return errdefs.BadField(field,
			"%q is not a name: 1 to %d letters, digits, '_' or '-', starting with a letter or digit", name, MaxName)
	}
	switch strings.ToLower(name) {
	case "team-lead", "lead", "user", "daemon":
		return errdefs.BadField(field, "%q is reserved; choose another name", name)
	}
	if looksLikeID(name) {
		return errdefs.BadField(field, "%q looks like an id; choose another name", name)
	}
	return nil
}

// IsName tells whether a text has the form of a name, reserved or not.
func IsName(s string) bool {
	if s == "" || len(s) > MaxName || s[0] == '-' || s[0] == '_' {
		return false
	}
	return strings.IndexFunc(s, isOther) < 0
}

// isOther tells what stands in no name.
func isOther(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
		return false
	}
	return true
}

// looksLikeID tells whether a name has the form of an id of any kind, in any case: those of kinds to come too.
func looksLikeID(name string) bool {
	kind, number, found := strings.Cut(strings.ToLower(name), "-")
	if !found || number == "" || strings.Trim(number, "0123456789") != "" {
		return false
	}
	switch kind {
	case "sh", "sub", "tm", "grp", "t", "m", "c":
		return true
	}
	return false
}

// suffix is the number of hex digits that end a name made from a directory.
const suffix = 6

// NameFor makes a team name from a directory: its last element with other characters as '-', then '-' and six hex
// digits of hash, the hash of the whole path (N1). The digits keep directories of the same name apart.
func NameFor(dir, hash string) string {
	base := strings.Map(func(r rune) rune {
		if isOther(r) {
			return '-'
		}
		return r
	}, filepath.Base(dir))
	base = strings.TrimLeft(base, "-_")
	if base == "" {
		base = "root"
	}
	base = base[:min(len(base), MaxName-1-suffix)]
	name := base + "-" + hash[:suffix]
	if looksLikeID(name) { // such as sub-123456: the directory `sub`, and no letter among the digits
		return "dir-" + name
	}
	return name
}
