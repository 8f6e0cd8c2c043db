package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/agentd-dev/agentd/runtime/definition"
)

// TestWhereTheUsersDefinitionsLie: XDG_CONFIG_HOME, else ~/.config, and ~/.claude; a relative directory is none.
func TestWhereTheUsersDefinitionsLie(t *testing.T) {
	home := t.TempDir()
	for name, dir := range map[string]string{
		"claude": ".claude/agents", "config": ".config/agentd/agents", "xdg": "xdg/agentd/agents",
	} {
		dir = filepath.Join(home, dir)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte("---\ndescription: d\n---\nDo it."), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		vars map[string]string
		want map[string]bool
	}{
		{nil, nil},
		{map[string]string{"HOME": home}, map[string]bool{"claude": true, "config": true}},
		{map[string]string{"HOME": home, "XDG_CONFIG_HOME": "."}, map[string]bool{"claude": true, "config": true}},
		{map[string]string{"HOME": home, "XDG_CONFIG_HOME": home + "/xdg"}, map[string]bool{"claude": true, "xdg": true}},
		{map[string]string{"HOME": ".", "XDG_CONFIG_HOME": home + "/xdg"}, map[string]bool{"xdg": true}},
	} {
		found, _ := definitions(func(name string) string { return tt.vars[name] }, nil).List("")
		got := map[string]bool{}
		for _, d := range found {
			if d.Source == definition.User {
				got[d.Name] = true
			}
		}
		for _, name := range []string{"claude", "config", "xdg"} {
			if got[name] != tt.want[name] {
				t.Errorf("%v: %s is found: %v", tt.vars, name, got[name])
			}
		}
	}
}
