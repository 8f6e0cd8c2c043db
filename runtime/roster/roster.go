// Package roster is the noun of teams: names and who is in them. It is pure; runtime resolves directories.
package roster

import (
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// DefaultTeam is the name of the team that a spawn without workspace falls to (N1).
const DefaultTeam = "default"

// Team is the scope of everything.
type Team struct {
	ID        string // t-N, immutable
	Name      string
	Workspace string // absolute, canonical; empty: none
	Created   time.Time
}

// MaxName is the longest name, in bytes (N2).
const MaxName = 64

// CheckName tells whether a name may be given (N2): letters, digits, '_' and '-', not reserved, not like an id.
func CheckName(field, name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`).MatchString(name) {
		return errdefs.BadField(field, "%q is not a name: 1 to 64 letters, digits, '_' or '-', starting with a letter or digit", name)
	}
	lower := strings.ToLower(name)
	switch lower {
	case "team-lead", "lead", "user", "daemon":
		return errdefs.BadField(field, "%q is reserved; choose another name", name)
	}
	if regexp.MustCompile(`^(sh|sub|tm|grp|t|m)-[0-9]+$`).MatchString(lower) {
		return errdefs.BadField(field, "%q looks like an id; choose another name", name)
	}
	return nil
}

// NameFor makes a team name from a directory: its last element with other characters as '-', then '-' and six hex
// digits of hash, the hash of the whole path (N1). The digits keep directories of the same name apart.
func NameFor(dir, hash string) string {
	base := regexp.MustCompile(`[^A-Za-z0-9_-]+`).ReplaceAllString(filepath.Base(dir), "-")
	base = strings.TrimLeft(base, "-_")
	if base == "" {
		base = "root"
	}
	const suffix = 7
	if len(base) > MaxName-suffix {
		base = base[:MaxName-suffix]
	}
	return base + "-" + hash[:suffix-1]
}
