package launch

import (
	"path/filepath"
	"strings"
)

// inheritedFlags turns this shell's variables AGENTD_* into flags, for the daemon does not inherit them: they rank above
// the file in either form. AGENTD_LISTEN is left out, because the daemon must listen where it is looked for, and
// AGENTD_ENV_PASS, because the variables that it names are not there.
func inheritedFlags(getenv func(string) string) []string {
	var flags []string
	for _, name := range []string{
		"config", "rest", "workspace", "model", "base-url", "api-key-env", "model-idle-timeout", "max-running",
		"max-shells", "max-depth", "max-items", "max-at-once", "max-hops",
		"path", "lang", "tz", "log-level", "log-format",
	} {
		value := getenv("AGENTD_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		if value == "" {
			continue
		}
		switch name {
		case "config":
			flags = append(flags, "--config="+absolute(value))
		case "workspace":
			for dir := range strings.SplitSeq(value, ",") {
				flags = append(flags, "--workspace="+dir)
			}
		default:
			flags = append(flags, "--"+name+"="+value)
		}
	}
	return flags
}

// inheritedStateDir is the state directory that this shell configures, or the default one.
func inheritedStateDir(getenv func(string) string) (string, error) {
	if dir := getenv("AGENTD_STATE_DIR"); dir != "" {
		return absolute(dir), nil
	}
	return StateDir()
}

// absolute is a path as this directory sees it: the daemon runs in another one.
func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

// inheritedEnv keeps of environ what an auto-started daemon may have: PATH, LANG, TZ, HOME, XDG_*, OPENAI_BASE_URL
// (docs/adr/0003), and the variable keyName, which holds the key of the model.
func inheritedEnv(environ []string, keyName string) []string {
	var kept []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "PATH", "LANG", "TZ", "HOME", "OPENAI_BASE_URL", keyName:
			kept = append(kept, kv)
		default:
			if strings.HasPrefix(name, "XDG_") {
				kept = append(kept, kv)
			}
		}
	}
	return kept
}
