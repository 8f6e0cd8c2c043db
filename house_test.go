package agentd_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/agentd-dev/agentd/"

// room is a row of the import table: which packages of ours a package's code may import, by path or by the name of a
// set. Every package may import internal/errdefs.
type room []string

// Sets of packages, for rows.
const (
	nouns  = "nouns" // what agentd is about: pure, they know neither the wire nor the disk nor the clock
	all    = "all"   // every package
	wire   = "gen/agentd/v1"
	rows   = "gen/agentd/store/v1"
	errdef = "internal/errdefs"
)

// pure lists the nouns.
func pure() []string {
	return []string{"mailbox", "runtime/grant", "runtime/roster", "runtime/task"}
}

// house is the import table. A package without a row fails, and so does a row without a package.
func house() map[string]room {
	return map[string]room{
		"mailbox":        {nouns},
		"runtime/grant":  {nouns},
		"runtime/roster": {nouns},
		"runtime/task":   {nouns},

		"store":           {},
		"store/bolt":      {"store"},
		"store/storetest": {"store"},
		"runtime/journal": {nouns, "store", rows},

		"runtime/model":        {nouns},
		"runtime/model/script": {"runtime/model"},
		"runtime/sandbox":      {nouns},
		"runtime/tool":         {nouns, "runtime/model", "runtime/sandbox"},
		"runtime/view":         {nouns, "runtime/journal", "runtime/team"},
		"runtime/definition":   {nouns, "internal/nearest"},
		"runtime/team":         {nouns, "runtime/journal", "internal/nearest"},
		"runtime/team/wire":    {nouns, "runtime/team"},
		"runtime/agent":        {nouns, "runtime/journal", "runtime/model", "runtime/sandbox", "runtime/team", "runtime/tool"},
		"runtime": {
			nouns, "runtime/journal", "runtime/agent", "runtime/definition", "runtime/model", "runtime/sandbox", "runtime/team", "runtime/tool",
			"runtime/view",
		},

		"server/auth": {nouns},
		"server": {
			nouns, wire, "server/auth", "runtime", "runtime/definition", "runtime/model", "runtime/tool", "runtime/view",
		},
		"server/gateway": {wire, "server/auth"},

		"internal/errdefs":   {},
		"internal/nearest":   {},
		"internal/lifecycle": {},
		"internal/launch":    {},
		"internal/config":    {"internal/launch", "internal/nearest", "runtime/task"},
		"internal/daemon":    {all},

		"examples/demo": {},
		"cmd/agentd": {
			"internal/config", "internal/daemon", "internal/launch", "internal/lifecycle", "runtime/model/script",
			"runtime/sandbox",
		},
		"cmd/agentctl": {wire, "internal/launch", "internal/lifecycle", "examples/demo"},
	}
}

// fence keeps a package of others in a few rooms.
type fence struct {
	path  string   // of the package; what lies beneath it too
	rooms []string // that may import it
}

// fences lists what few may know.
func fences() []fence {
	return []fence{
		{"go.etcd.io/bbolt", []string{"store/bolt"}},
		{"github.com/openai/openai-go", []string{"runtime/model"}},
		{"os/exec", []string{"runtime/sandbox", "runtime/worktree", "internal/launch"}},
		{"google.golang.org/grpc", []string{
			"server", "server/auth", "server/gateway", "internal/daemon", "internal/launch", "cmd/agentctl",
		}},
		{"github.com/grpc-ecosystem/grpc-gateway", []string{"server/gateway"}},
		{"github.com/spf13/cobra", []string{"cmd/agentd", "cmd/agentctl"}},
		{"github.com/knadh/koanf", []string{"internal/config"}},
		{module + "store/bolt", []string{"internal/daemon"}},
		{module + wire, []string{"server", "server/gateway", "cmd/agentctl"}},
		{module + rows, []string{"runtime/journal"}},
	}
}

func TestEveryPackageHasARow(t *testing.T) {
	table := house()
	packages := tree(t)
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		if _, ok := table[path]; !ok {
			t.Errorf("%s has no row in the import table", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(table)) {
		if _, ok := packages[path]; !ok {
			t.Errorf("the import table has a row for %s, which is no package", path)
		}
	}
}

func TestImportsFollowTheTable(t *testing.T) {
	table := house()
	for path, files := range tree(t) {
		for _, f := range files.code {
			for _, imported := range f.imports() {
				if own, ok := strings.CutPrefix(imported, module); ok && !table[path].allows(own) {
					t.Errorf("%s imports %s, which its row in the import table does not allow", f.name, own)
				}
			}
		}
	}
}

func (r room) allows(imported string) bool {
	switch {
	case imported == errdef || slices.Contains(r, imported):
		return true
	case slices.Contains(r, all):
		return !strings.HasPrefix(imported, "cmd/")
	}
	return slices.Contains(r, nouns) && slices.Contains(pure(), imported)
}

func TestPackagesOfOthersStayBehindTheirFence(t *testing.T) {
	for path, files := range tree(t) {
		for _, f := range files.code {
			for _, imported := range f.imports() {
				for _, fence := range fences() {
					if beneath(imported, fence.path) && !slices.Contains(fence.rooms, path) {
						t.Errorf("%s imports %s: only %v may", f.name, imported, fence.rooms)
					}
				}
			}
		}
	}
}

// beneath tells whether an import path is the package or lies in it, in any major version.
func beneath(imported, path string) bool {
	return imported == path || strings.HasPrefix(imported, path+"/")
}

// TestTestsStayBelow is the table for tests, which may import more than the code, but nothing from above.
func TestTestsStayBelow(t *testing.T) {
	above := []string{"server", "cmd", "internal/daemon", wire}
	for path, files := range tree(t) {
		if !beneath(path, "runtime") && !beneath(path, "store") && path != "mailbox" {
			continue
		}
		for _, f := range files.tests {
			for _, imported := range f.imports() {
				for _, up := range above {
					if beneath(imported, module+up) {
						t.Errorf("%s imports %s, which lies above it", f.name, imported)
					}
				}
			}
		}
	}
}

func TestNounsArePure(t *testing.T) {
	impure := []string{"context", "crypto/rand", "io", "log", "math/rand", "net", "os", "sync", "syscall"}
	clocks := []string{"time.Now", "time.Since", "time.Until", "time.After", "time.NewTimer", "time.Tick"}
	for _, path := range pure() {
		for _, f := range tree(t)[path].code {
			for _, imported := range f.imports() {
				if slices.ContainsFunc(impure, func(p string) bool { return beneath(imported, p) }) {
					t.Errorf("%s imports %s: a noun does no I/O and runs nothing", f.name, imported)
				}
			}
			for _, used := range f.uses() {
				if slices.Contains(clocks, used.name) {
					t.Errorf("%s: %s: a noun has no clock", used.at, used.name)
				}
			}
		}
	}
}
