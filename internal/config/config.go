// Package config is agentd's configuration. Each value comes from the first that gives it: a flag, a variable
// AGENTD_*, the file agentd.yaml, the default. One table of fields (fields.go) makes the flags, the variables, the
// keys of the file, the checks, the printed form and docs/config.md.
package config

import (
	"fmt"
	"log/slog"
	"time"
)

// Config is what the daemon runs with. Load checks it.
type Config struct {
	// StateDir is the absolute directory that holds the store.
	StateDir string
	// Listen holds the addresses of the gRPC API, at least one: unix:///PATH.
	Listen []string
	// REST is the loopback address of the REST API, IP:PORT; port 0 picks a free one. Empty: off.
	REST string
	// Workspaces are the existing, canonical directories beneath which tasks may work. Empty: any directory.
	Workspaces []string
	// Model is the name of the default model at the provider. Empty: none is configured.
	Model string
	// BaseURL is where the provider's OpenAI-compatible API begins, http or https.
	BaseURL string
	// APIKeyEnv names the variable that holds the provider's key.
	APIKeyEnv string
	// APIKey is that variable's value. Empty: requests carry no key.
	APIKey Secret
	// ModelIdleTimeout is how long a model's stream may be silent before the call is given up; 1 s to 1 h.
	ModelIdleTimeout time.Duration
	// Providers are further providers of models.
	Providers []Provider
	// Models are the models that more is known of than their name.
	Models []Model
	// MaxRunning bounds the agents that run at once, 1 to 10,000; more wait in the queue.
	MaxRunning int
	// MaxShells bounds the shells that run at once, 1 to 1,000; more wait in the queue.
	MaxShells int
	// MaxDepth bounds the chain of parents above a task, 1 to 5, without groups.
	MaxDepth int
	// MaxItems bounds the agents of a group, 1 to 24.
	MaxItems int
	// MaxAtOnce is how many agents of a parallel group run at once when its spawn does not say, 1 to MaxItems.
	MaxAtOnce int
	// MaxHops is how often what agents send each other may go from one to the next, 1 to 10,000.
	MaxHops int
	// EnvPass names the variables of the daemon's environment that agents' commands get too.
	EnvPass []string
	// Path is PATH of agents' commands.
	Path string
	// Lang is LANG of agents' commands. Empty: unset.
	Lang string
	// TZ is TZ of agents' commands. Empty: unset.
	TZ string
	// LogLevel is the least level that is logged: debug, info, warn or error.
	LogLevel slog.Level
	// LogFormat is the form of the log's lines.
	LogFormat LogFormat
	// AutoStarted tells that agentctl started this daemon.
	AutoStarted bool

	// sources tells where each field's value comes from, by key.
	sources map[string]string
}

// LogFormat is the form of the log's lines.
type LogFormat uint8

// The formats.
const (
	Text LogFormat = iota // key=value
	JSON                  // one JSON object a line
)

// MarshalText is the format's word.
func (f LogFormat) MarshalText() ([]byte, error) {
	if f == JSON {
		return []byte("json"), nil
	}
	return []byte("text"), nil
}

// UnmarshalText takes "text" or "json".
func (f *LogFormat) UnmarshalText(text []byte) error {
	switch string(text) {
	case "text":
		*f = Text
	case "json":
		*f = JSON
	default:
		return fmt.Errorf("%q is no log format", text)
	}
	return nil
}

// Secret is a text that no log line, error or printed configuration shows.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "********"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal gives the secret itself, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// ModelConfigured tells whether agents have a default model to ask (N6): one is named, and its provider has a key, or
// needs none because somebody chose its URL.
func (c Config) ModelConfigured() bool { return c.ModelMissing() == "" }

// ModelHint tells what to do so that the running daemon has a model; empty when it has one.
func (c Config) ModelHint() string { return c.HintFor(c.Model) }

// ModelMissing tells what is missing to have a model; empty when nothing is.
func (c Config) ModelMissing() string { return c.MissingFor(c.Model) }
