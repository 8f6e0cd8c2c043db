package daemon

import (
	"path/filepath"

	"github.com/agentd-dev/agentd/runtime/definition"
)

// definitions finds the agent definitions of the user whose variables getenv gives, and those of workspaces.
func definitions(getenv func(string) string, tools []string) *definition.Registry {
	c := definition.Config{Tools: tools}
	home, config := getenv("HOME"), getenv("XDG_CONFIG_HOME")
	if filepath.IsAbs(home) {
		c.ClaudeDir = filepath.Join(home, ".claude", "agents")
		if !filepath.IsAbs(config) {
			config = filepath.Join(home, ".config")
		}
	}
	if filepath.IsAbs(config) {
		c.UserDir = filepath.Join(config, "agentd", "agents")
	}
	return definition.New(c)
}
