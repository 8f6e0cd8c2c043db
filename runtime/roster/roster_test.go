package roster_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
)

// proves N2
func TestCheckName(t *testing.T) {
	good := []string{
		"a", "7", "default", "Team_1", "my-team", "leader", "users", "sub", "sub-", "sub-1x", "sub-x", "1-2", "x-1", "m-1-2",
		strings.Repeat("a", roster.MaxName),
	}
	for _, name := range good {
		if err := roster.CheckName("team", name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
	bad := []string{
		"", "-a", "_a", "a b", "a/b", "a.b", "ä", "a\x00", "a\n", "*", "\xff", strings.Repeat("a", roster.MaxName+1),
		"team-lead", "TEAM-Lead", "lead", "Lead", "user", "USER", "daemon", "Daemon",
		"sh-1", "sub-17", "SUB-17", "tm-2", "grp-0", "t-1", "T-1", "m-00", "sub-18446744073709551616",
	}
	for _, name := range bad {
		err := roster.CheckName("team", name)
		if !errdefs.Is(err, errdefs.BadArgument) {
			t.Errorf("%q is not refused: %v", name, err)
			continue
		}
		if field := errdefs.As(err).Field; field != "team" {
			t.Errorf("%q: the error is about field %q", name, field)
		}
	}
}

// proves N1
func TestNameFor(t *testing.T) {
	tests := []struct{ dir, want string }{
		{"/home/me/project", "project-abcdef"},
		{"/home/me/My Project", "My-Project-abcdef"},
		{"/srv/a.b(c)", "a-b-c--abcdef"},
		{"/srv/größe", "gr--e-abcdef"},
		{"/srv/项目", "root-abcdef"},
		{"/srv/.config", "config-abcdef"},
		{"/srv/__init__", "init__-abcdef"},
		{"/srv/\xff\xfe!x", "x-abcdef"},
		{"/", "root-abcdef"},
		{"/" + strings.Repeat("long", 30), strings.Repeat("long", 14) + "l-abcdef"},
	}
	for _, tt := range tests {
		if got := roster.NameFor(tt.dir, "abcdef0123456789"); got != tt.want {
			t.Errorf("NameFor(%q) = %q, want %q", tt.dir, got, tt.want)
		}
	}
	if got := roster.NameFor("/srv/sub", "123456789abc"); got != "dir-sub-123456" {
		t.Errorf("a directory `sub` gives %q, which may look like an id", got)
	}
}

// TestNameForGivesNames: whatever a directory is called, its team can be found by its name. proves N1
func TestNameForGivesNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.OneOf(
			rapid.String(), rapid.SampledFrom([]string{"t", "m", "sub", "SH", "tm", "grp", "user", "lead"}),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		).Draw(t, "base")
		hash := rapid.OneOf(rapid.Just("000123"), rapid.Just("abcdef"), rapid.Map(rapid.String(), hexHash)).Draw(t, "hash")
		name := roster.NameFor("/srv/"+base, hash)
		if err := roster.CheckName("team", name); err != nil {
			t.Fatal(err)
		}
	})
}

func hexHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
