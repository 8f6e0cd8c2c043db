package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agentd-dev/agentd/internal/launch"
	"github.com/agentd-dev/agentd/runtime/task"
)

// Limits of the fields.
const (
	MinModelIdleTimeout = time.Second // shorter than any model's pause between two chunks
	MaxModelIdleTimeout = time.Hour
	MaxMaxRunning       = 10_000 // a loop with its history takes some 100 KB
	MaxMaxShells        = 1_000
	MaxMaxHops          = 10_000
	MaxMaxItems         = 24    // a parallel group and all its agents are one commit of the store
	MinContextWindow    = 1_024 // tokens; less holds no system prompt
)

const unixScheme = "unix://"

func checkStateDir(c *Config) error {
	if !filepath.IsAbs(c.StateDir) {
		return fmt.Errorf("%q is not an absolute directory", c.StateDir)
	}
	c.StateDir = filepath.Clean(c.StateDir)
	return nil
}

func checkListen(c *Config) error {
	if len(c.Listen) == 0 {
		return errors.New("at least one address is needed")
	}
	for i, addr := range c.Listen {
		path, ok := strings.CutPrefix(addr, unixScheme)
		if !ok || !filepath.IsAbs(path) {
			return fmt.Errorf("%q is not unix:///PATH", addr)
		}
		if err := launch.CheckSocketPath(path); err != nil {
			return err
		}
		c.Listen[i] = unixScheme + filepath.Clean(path)
	}
	return nil
}

func checkREST(c *Config) error {
	if c.REST == "" {
		return nil
	}
	addr, err := netip.ParseAddrPort(c.REST)
	if err != nil || !addr.Addr().IsLoopback() {
		return fmt.Errorf("%q is not a loopback address such as 127.0.0.1:7433", c.REST)
	}
	return nil
}

// checkWorkspaces resolves the links, so that the roots can be compared with the workspaces of tasks.
func checkWorkspaces(c *Config) error {
	for i, dir := range c.Workspaces {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("%q is not an absolute directory", dir)
		}
		canonical, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return err
		}
		if at, err := os.Stat(canonical); err != nil || !at.IsDir() {
			return fmt.Errorf("%q is not a directory", dir)
		}
		c.Workspaces[i] = canonical
	}
	return nil
}

func checkModel(c *Config) error { return checkModelName(c.Model) }

func checkModelName(name string) error {
	if len(name) > task.MaxModelName || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' }) {
		return fmt.Errorf("%.40q is not a model's name: at most %d bytes without spaces", name, task.MaxModelName)
	}
	return nil
}

func checkBaseURL(c *Config) (err error) {
	c.BaseURL, err = canonicalURL(c.BaseURL)
	return err
}

// canonicalURL is the URL without a slash at its end. Its errors never show it: people put keys where none belongs.
func canonicalURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return text, errors.New("it is not an http or https URL such as http://127.0.0.1:8080/v1")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return text, errors.New("it has a user, a query or a fragment; a key comes from the variable of api_key_env")
	}
	return strings.TrimRight(text, "/"), nil
}

// variableName matches the name of an environment variable.
func variableName(name string) bool {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name)
}

func checkAPIKeyEnv(c *Config) error {
	if !variableName(c.APIKeyEnv) {
		return errors.New("it is not the name of a variable; give the name, not the key")
	}
	return nil
}

func checkModelIdleTimeout(c *Config) error {
	if c.ModelIdleTimeout < MinModelIdleTimeout || c.ModelIdleTimeout > MaxModelIdleTimeout {
		return fmt.Errorf("%v is not between %v and %v", c.ModelIdleTimeout, MinModelIdleTimeout, MaxModelIdleTimeout)
	}
	return nil
}

func checkMaxRunning(c *Config) error { return within(c.MaxRunning, MaxMaxRunning) }

func checkMaxShells(c *Config) error { return within(c.MaxShells, MaxMaxShells) }

func checkMaxDepth(c *Config) error { return within(c.MaxDepth, task.MaxDepth) }

func checkMaxItems(c *Config) error { return within(c.MaxItems, MaxMaxItems) }

// checkMaxAtOnce needs max_items, which stands before it in the table.
func checkMaxAtOnce(c *Config) error { return within(c.MaxAtOnce, c.MaxItems) }

func checkMaxHops(c *Config) error { return within(c.MaxHops, MaxMaxHops) }

func within(n, most int) error {
	if n < 1 || n > most {
		return fmt.Errorf("%d is not between 1 and %d", n, most)
	}
	return nil
}

// checkEnvPass keeps out what a command's environment never holds (P7). api_key_env stands before it in the table, and
// the providers are taken before all.
func checkEnvPass(c *Config) error {
	for _, name := range c.EnvPass {
		switch {
		case !variableName(name):
			return fmt.Errorf("%q is not the name of a variable", name)
		case name == c.APIKeyEnv || slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.APIKeyEnv == name }):
			return fmt.Errorf("%s holds a provider's key, which no command may see", name)
		case slices.Contains([]string{"PATH", "LANG", "TZ", "HOME"}, name) || strings.HasPrefix(name, "AGENTD_"):
			return fmt.Errorf("%s is set by the daemon itself", name)
		}
	}
	return nil
}

// checkPath leaves relative directories out: they would lie in the workspace, where agents write.
func checkPath(c *Config) error {
	dirs := slices.DeleteFunc(filepath.SplitList(c.Path), func(dir string) bool { return !filepath.IsAbs(dir) })
	if len(dirs) == 0 {
		return fmt.Errorf("%q has no absolute directory", c.Path)
	}
	c.Path = strings.Join(dirs, string(filepath.ListSeparator))
	return nil
}

func checkLogLevel(c *Config) error {
	if !slices.Contains([]slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}, c.LogLevel) {
		return fmt.Errorf("%q is not debug, info, warn or error", c.LogLevel)
	}
	return nil
}
