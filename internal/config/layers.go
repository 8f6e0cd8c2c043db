package config

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/internal/nearest"
)

// fromDefault is the source of a value that nobody gave.
const fromDefault = "default"

// layer is one place that values come from. It gives the field's value, nil when it has none, and tells where exactly
// that stands.
type layer func(field) (value any, source string, err error)

// flagLayer gives what the command line sets, even to empty.
func flagLayer(set *pflag.FlagSet) layer {
	return func(f field) (any, string, error) {
		flag := set.Lookup(f.flag())
		if flag == nil || !flag.Changed {
			return nil, "", nil
		}
		source, value := "flag --"+f.flag(), flag.Value
		if named, ok := value.(argument); ok {
			value = named.Value
		}
		if several, ok := value.(pflag.SliceValue); ok {
			return several.GetSlice(), source, nil
		}
		return value.String(), source, nil
	}
}

// variableLayer gives what the variables AGENTD_* set; a hidden field has none.
func variableLayer(getenv func(string) string) layer {
	return func(f field) (any, string, error) {
		if f.hidden {
			return nil, "", nil
		}
		return f.split(getenv(f.variable())), "variable " + f.variable(), nil
	}
}

// outerLayer gives what the variables of others set.
func outerLayer(getenv func(string) string) layer {
	return func(f field) (any, string, error) {
		if f.outer == "" {
			return nil, "", nil
		}
		return f.split(getenv(f.outer)), "variable " + f.outer, nil
	}
}

// defaultLayer gives the defaults; those of the paths depend on the machine.
func defaultLayer(around Surroundings) layer {
	return func(f field) (any, string, error) {
		switch f.key {
		case "state_dir":
			dir, err := around.StateDir()
			return f.split(dir), fromDefault, err
		case "listen":
			return f.split(unixScheme + around.SocketPath()), fromDefault, nil
		}
		return f.split(f.def), fromDefault, nil
	}
}

// split makes the field's value of text: of a list the parts between commas, of an empty text none.
func (f field) split(text string) any {
	switch {
	case text == "":
		return nil
	case f.list():
		return strings.Split(text, ",")
	}
	return text
}

// fileLayer gives what the file sets, and its lists. A file that the user names must exist.
func fileLayer(set *pflag.FlagSet, getenv func(string) string) (layer, *lists, error) {
	path := getenv(configVariable)
	if flag := set.Lookup(configFlag); flag != nil && flag.Changed {
		path = flag.Value.String()
	}
	named := path != ""
	if !named {
		path = defaultFile(getenv)
	}
	values, text := koanf.New(delimiter), []byte(nil)
	if path != "" {
		var err error
		source := file.Provider(path)
		if text, err = source.ReadBytes(); err == nil {
			err = values.Load(source, yaml.Parser())
		}
		if err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
			return nil, nil, errdefs.BadField(configFlag, "can't read %s: %v", path, err)
		}
	}
	if err := knownKeys(values, path); err != nil {
		return nil, nil, err
	}
	listed, err := readLists(path, text)
	return func(f field) (any, string, error) { return values.Get(f.key), "file " + path, nil }, listed, err
}

// defaultFile is where the file lies when the user names none; empty when there is no such place.
func defaultFile(getenv func(string) string) string {
	home := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(home) && getenv("HOME") != "" {
		home = filepath.Join(getenv("HOME"), ".config")
	}
	if !filepath.IsAbs(home) {
		return ""
	}
	return filepath.Join(home, "agentd", "agentd.yaml")
}

// knownKeys refuses keys that the table does not have.
func knownKeys(values *koanf.Koanf, path string) error {
	var known []string
	for _, f := range fields() {
		if !f.hidden {
			known = append(known, f.key)
		}
	}
	known = append(known, listKeys()...)
	var wrong []error
	for _, key := range slices.Sorted(maps.Keys(values.Raw())) {
		if !slices.Contains(known, key) {
			wrong = append(wrong, errdefs.BadField(key, "%s has no such key; the nearest is %s", path, nearest.Name(key, known)))
		}
	}
	return errors.Join(wrong...)
}
