package config

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// What names the file.
const (
	configFlag     = "config"
	configVariable = "AGENTD_CONFIG"
)

// delimiter is koanf's, between the levels of a key; no key of ours has two levels.
const delimiter = "."

// Surroundings is what Load takes from the machine.
type Surroundings struct {
	Getenv     func(name string) string // a variable that is empty counts as unset
	StateDir   func() (string, error)   // the default of state_dir
	SocketPath func() string            // the path in the default of listen
}

// Flags adds the configuration's flags to set, for Load to read.
func Flags(set *pflag.FlagSet) {
	set.String(configFlag, "", "`FILE` to read; without it $XDG_CONFIG_HOME/agentd/agentd.yaml when that exists")
	for _, f := range fields() {
		switch {
		case f.boolean():
			set.Bool(f.flag(), false, f.usage)
		case f.list():
			set.StringArray(f.flag(), nil, f.usage)
		default:
			set.String(f.flag(), "", f.usage)
		}
		if flag := set.Lookup(f.flag()); f.arg != "" {
			flag.Value, flag.DefValue = argument{flag.Value, f.arg}, ""
		}
		if f.hidden {
			// The only error is an unknown flag, and it was just added.
			_ = set.MarkHidden(f.flag())
		}
	}
}

// argument is a flag's value that the help shows as the table names it.
type argument struct {
	pflag.Value
	name string
}

// Type is the name.
func (a argument) Type() string { return a.name }

// Load makes the configuration from set, whose flags Flags added and somebody parsed, the environment and the file.
// Its errors, of kind InvalidArgument, name each wrong field and what to do, all at once.
func Load(set *pflag.FlagSet, around Surroundings) (Config, error) {
	inFile, listed, err := fileLayer(set, around.Getenv)
	if err != nil {
		return Config{}, err
	}
	layers := []layer{
		flagLayer(set), variableLayer(around.Getenv), inFile, outerLayer(around.Getenv), defaultLayer(around),
	}
	c := Config{sources: map[string]string{}}
	wrong := []error{c.takeLists(listed, around.Getenv)}
	for _, f := range fields() {
		wrong = append(wrong, c.take(f, layers))
	}
	c.APIKey = Secret(around.Getenv(c.APIKeyEnv))
	if err := errors.Join(wrong...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// take sets the field from the first layer that gives it, notes that source and checks the value.
func (c *Config) take(f field, layers []layer) error {
	for _, l := range layers {
		value, source, err := l(f)
		if err != nil {
			return errdefs.BadField(f.key, "%v; set it with %s", err, f.ways())
		}
		if value == nil {
			continue
		}
		c.sources[f.key] = source
		err = decode(value, f.at(c))
		if err == nil && f.check != nil {
			err = f.check(c)
		}
		if err != nil {
			return errdefs.BadField(f.key, "%v (from %s); set it with %s", err, source, f.ways())
		}
		return nil
	}
	c.sources[f.key] = fromDefault // its zero value
	return nil
}

// decode turns a value as a layer gives it into the type of the field that target points to.
func decode(value, target any) error {
	const only = "value"
	one := koanf.New(delimiter)
	if err := errors.Join(one.Set(only, value), one.Unmarshal(only, target)); err != nil {
		return fmt.Errorf("%q is not %s", fmt.Sprint(value), describe(target))
	}
	return nil
}

// ways names the places where a user can set the field.
func (f field) ways() string {
	return fmt.Sprintf("--%s, %s or %s in agentd.yaml", f.flag(), f.variable(), f.key)
}

// describe is what a value of the target's type looks like.
func describe(target any) string {
	switch target.(type) {
	case *int, *int64:
		return "a whole number"
	case **Price:
		return "a price in US dollars, such as 0.25"
	case *bool:
		return "true or false"
	case *time.Duration:
		return "a duration such as 90s or 5m"
	case *[]string:
		return "a list of texts"
	case *LogFormat:
		return "text or json"
	case *slog.Level:
		return "debug, info, warn or error"
	}
	return "a text"
}
