package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agentd-dev/agentd/runtime/task"
)

// field is one row of the table. Its flag and variable are made from its key.
type field struct {
	key    string // in the file: lower case and '_'
	arg    string // what stands for the value in help; empty for a boolean
	usage  string // one sentence with units and limits
	def    string // default, as it would be written in a variable; lists are split at commas
	outer  string // variable of others whose value is the default when it is set
	hidden bool   // for agentctl only
	at     func(*Config) any
	check  func(*Config) error // also makes the value canonical; nil: whatever decodes is right
}

// flag is the name of the field's flag.
func (f field) flag() string { return strings.ReplaceAll(f.key, "_", "-") }

// variable is the name of the field's variable.
func (f field) variable() string { return "AGENTD_" + strings.ToUpper(f.key) }

// list tells whether the field holds several values.
func (f field) list() bool {
	_, ok := f.at(new(Config)).(*[]string)
	return ok
}

// boolean tells whether the field is a switch.
func (f field) boolean() bool {
	_, ok := f.at(new(Config)).(*bool)
	return ok
}

// fields is the table.
func fields() []field {
	return slices.Concat(placeFields(), modelFields(), agentFields(), logFields())
}

// placeFields tell where the daemon is found and works. The defaults of state_dir and listen depend on the machine:
// Load asks for them.
func placeFields() []field {
	return []field{
		{
			key: "state_dir", arg: "DIR", at: func(c *Config) any { return &c.StateDir }, check: checkStateDir,
			usage: "absolute directory of the store; one daemon at a time", def: "$XDG_STATE_HOME/agentd",
		},
		{
			key: "listen", arg: "ADDR", at: func(c *Config) any { return &c.Listen }, check: checkListen,
			usage: "address of the gRPC API, unix:///PATH (repeatable)", def: "unix://$XDG_RUNTIME_DIR/agentd/agentd.sock",
		},
		{
			key: "rest", arg: "IP:PORT", at: func(c *Config) any { return &c.REST }, check: checkREST,
			usage: "loopback address of the REST API, such as 127.0.0.1:7433; port 0 picks a free one; empty: off",
		},
		{
			key: "workspace", arg: "DIR", at: func(c *Config) any { return &c.Workspaces }, check: checkWorkspaces,
			usage: "absolute directory beneath which tasks may work (repeatable); none: any directory",
		},
	}
}

// modelFields tell which model is asked, and how.
func modelFields() []field {
	return []field{
		{
			key: "model", arg: "NAME", at: func(c *Config) any { return &c.Model }, check: checkModel,
			usage: "name of the default model at the provider, at most 200 bytes; empty: none is configured",
		},
		{
			key: "base_url", arg: "URL", at: func(c *Config) any { return &c.BaseURL }, check: checkBaseURL,
			usage: "where the provider's OpenAI-compatible API begins, http or https",
			def:   "https://api.openai.com/v1", outer: "OPENAI_BASE_URL",
		},
		{
			key: "api_key_env", arg: "VARIABLE", at: func(c *Config) any { return &c.APIKeyEnv }, check: checkAPIKeyEnv,
			usage: "name of the variable that holds the provider's key; the key itself stands in no file",
			def:   "OPENAI_API_KEY",
		},
		{
			key: "model_idle_timeout", arg: "DURATION", at: func(c *Config) any { return &c.ModelIdleTimeout },
			check: checkModelIdleTimeout, def: "5m",
			usage: "how long a model's stream may be silent before the call is given up, 1s to 1h",
		},
	}
}

// agentFields bound the agents and build the environment of their commands (P7).
func agentFields() []field {
	return []field{
		{
			key: "max_running", arg: "N", at: func(c *Config) any { return &c.MaxRunning }, check: checkMaxRunning,
			usage: "agents that run at once, 1 to 10000; more wait in the queue", def: "256",
		},
		{
			key: "max_shells", arg: "N", at: func(c *Config) any { return &c.MaxShells }, check: checkMaxShells,
			usage: "shells that run at once, 1 to 1000; more wait in the queue", def: "64",
		},
		{
			key: "max_depth", arg: "N", at: func(c *Config) any { return &c.MaxDepth }, check: checkMaxDepth,
			usage: "levels of tasks below a client's spawn, 1 to 5; groups are no level", def: strconv.Itoa(task.MaxDepth),
		},
		{
			key: "max_items", arg: "N", at: func(c *Config) any { return &c.MaxItems }, check: checkMaxItems,
			usage: "agents of a parallel or chain spawn, 1 to 24", def: strconv.Itoa(task.MaxItems),
		},
		{
			key: "max_at_once", arg: "N", at: func(c *Config) any { return &c.MaxAtOnce }, check: checkMaxAtOnce,
			usage: "agents of a parallel spawn that run at once when it does not say, 1 to max_items",
			def:   strconv.Itoa(task.DefaultAtOnce),
		},
		{
			key: "max_hops", arg: "N", at: func(c *Config) any { return &c.MaxHops }, check: checkMaxHops,
			usage: "how often what agents send each other may go from one to the next, 1 to 10000; then it is refused",
			def:   "64",
		},
		{
			key: "env_pass", arg: "VARIABLE", at: func(c *Config) any { return &c.EnvPass }, check: checkEnvPass,
			usage: "variable of the daemon's environment that agents' commands get too (repeatable)",
		},
		{
			key: "path", arg: "DIRS", at: func(c *Config) any { return &c.Path }, check: checkPath, outer: "PATH",
			usage: "PATH of agents' commands; relative directories are left out", def: "/usr/local/bin:/usr/bin:/bin",
		},
		{
			key: "lang", arg: "LOCALE", at: func(c *Config) any { return &c.Lang }, outer: "LANG",
			usage: "LANG of agents' commands; empty: unset",
		},
		{
			key: "tz", arg: "ZONE", at: func(c *Config) any { return &c.TZ }, outer: "TZ",
			usage: "TZ of agents' commands; empty: unset",
		},
	}
}

// logFields are about the daemon itself.
func logFields() []field {
	return []field{
		{
			key: "log_level", arg: "LEVEL", at: func(c *Config) any { return &c.LogLevel }, check: checkLogLevel,
			usage: "least level that is logged: debug, info, warn, error", def: "info",
		},
		{
			key: "log_format", arg: "FORMAT", at: func(c *Config) any { return &c.LogFormat },
			usage: "form of the log's lines: text, json", def: "text",
		},
		{
			key: "auto_started", hidden: true, at: func(c *Config) any { return &c.AutoStarted }, def: "false",
			usage: "agentctl started this daemon",
		},
	}
}
