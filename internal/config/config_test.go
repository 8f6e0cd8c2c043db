package config_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentd-dev/agentd/internal/config"
	"github.com/agentd-dev/agentd/internal/errdefs"
)

// env is the environment of a test.
type env map[string]string

// load runs Load as agentd does, with the command line args.
func load(t *testing.T, vars env, args ...string) (config.Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("agentd", pflag.ContinueOnError)
	config.Flags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return config.Load(flags, config.Surroundings{
		Getenv:     func(name string) string { return vars[name] },
		StateDir:   func() (string, error) { return "/state/agentd", nil },
		SocketPath: func() string { return "/runtime/agentd.sock" },
	})
}

// mustLoad is load of what is right.
func mustLoad(t *testing.T, vars env, args ...string) config.Config {
	t.Helper()
	c, err := load(t, vars, args...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// write puts text into a file of the test.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agentd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	c := mustLoad(t, env{"PATH": "bin:/usr/bin::/bin", "LANG": "C.UTF-8", "TZ": "UTC"})
	got := fmt.Sprint(c.StateDir, c.Listen, c.REST, c.Workspaces, c.Model, c.BaseURL, c.APIKeyEnv, c.APIKey,
		c.ModelIdleTimeout, c.MaxRunning, c.MaxShells, c.MaxDepth, c.MaxItems, c.MaxAtOnce, c.MaxHops, c.EnvPass, c.Path, c.Lang, c.TZ,
		c.LogLevel, c.LogFormat == config.Text, c.AutoStarted)
	want := fmt.Sprint("/state/agentd", []string{"unix:///runtime/agentd.sock"}, "", []string{}, "",
		"https://api.openai.com/v1", "OPENAI_API_KEY", "", 5*time.Minute, 256, 64, 5, 8, 4, 64, []string{}, "/usr/bin:/bin", "C.UTF-8",
		"UTC", slog.LevelInfo, true, false)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFlagBeatsVariableBeatsFileBeatsDefault(t *testing.T) {
	file := "--config=" + write(t, "model: of-file\nmax_running: 3\nlisten: [unix:///file.sock]\nlog_format: json\n")
	vars := env{
		"AGENTD_MODEL": "of-variable", "AGENTD_LISTEN": "unix:///a.sock,unix:///b.sock", "AGENTD_LOG_LEVEL": "debug",
	}
	for _, step := range []struct {
		model  string
		listen []string
		got    config.Config
	}{
		{"", []string{"unix:///runtime/agentd.sock"}, mustLoad(t, nil)},
		{"of-file", []string{"unix:///file.sock"}, mustLoad(t, nil, file)},
		{"of-variable", []string{"unix:///a.sock", "unix:///b.sock"}, mustLoad(t, vars, file)},
		{"of-flag", []string{"unix:///c.sock", "unix:///d,e.sock"},
			mustLoad(t, vars, file, "--model=of-flag", "--listen=unix:///c.sock", "--listen=unix:///d,e.sock")},
		{"", []string{"unix:///a.sock", "unix:///b.sock"}, mustLoad(t, vars, file, "--model=")},
	} {
		if step.got.Model != step.model || !slices.Equal(step.got.Listen, step.listen) {
			t.Errorf("got %q %q, want %q %q", step.got.Model, step.got.Listen, step.model, step.listen)
		}
	}
	c := mustLoad(t, vars, file, "--auto-started", "--model-idle-timeout=90s")
	if c.MaxRunning != 3 || c.LogFormat != config.JSON || c.LogLevel != slog.LevelDebug || !c.AutoStarted ||
		c.ModelIdleTimeout != 90*time.Second {
		t.Errorf("typed fields: %+v", c)
	}
}

func TestFileInConfigHome(t *testing.T) {
	home := t.TempDir()
	if c := mustLoad(t, env{"XDG_CONFIG_HOME": home}); c.Model != "" {
		t.Errorf("model %q without a file", c.Model)
	}
	for vars, dir := range map[string]string{"XDG_CONFIG_HOME": home, "HOME": filepath.Join(home, ".config")} {
		dir = filepath.Join(dir, "agentd")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "agentd.yaml"), []byte("model: here\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if c := mustLoad(t, env{vars: home}); c.Model != "here" {
			t.Errorf("the file beneath %s is not read: %q", vars, c.Model)
		}
	}
	t.Chdir(home) // a relative directory counts as none, as the XDG specification has it
	relative := env{"XDG_CONFIG_HOME": ".", "AGENTD_AUTO_STARTED": "true"}
	if c := mustLoad(t, relative); c.Model != "" || c.AutoStarted {
		t.Errorf("model %q, auto-started %v from what is no source", c.Model, c.AutoStarted)
	}
	named := env{"XDG_CONFIG_HOME": home, "AGENTD_CONFIG": write(t, "model: named\n")}
	if c := mustLoad(t, named); c.Model != "named" {
		t.Errorf("the file that AGENTD_CONFIG names is not read: %q", c.Model)
	}
}

func TestWorkspacesAreCanonical(t *testing.T) {
	canonical, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(canonical, link); err != nil {
		t.Fatal(err)
	}
	if c := mustLoad(t, nil, "--workspace", link); !slices.Equal(c.Workspaces, []string{canonical}) {
		t.Errorf("got %q, want %q", c.Workspaces, canonical)
	}
}

// proves N6
func TestModelIsNeverGuessed(t *testing.T) {
	key := env{"OPENAI_API_KEY": "sk-1"}
	for _, c := range []struct {
		vars env
		args []string
		hint string // part of it; empty: configured
	}{
		{nil, nil, "--model NAME or the variable AGENTD_MODEL"},
		{key, nil, "--model NAME or the variable AGENTD_MODEL"},
		{nil, []string{"--base-url=http://127.0.0.1:1/v1"}, "--model NAME or the variable AGENTD_MODEL"},
		{nil, []string{"--model=m"}, "variable OPENAI_API_KEY"},
		{nil, []string{"--model=m", "--api-key-env=OTHER"}, "variable OTHER"},
		{key, []string{"--model=m", "--api-key-env=OTHER"}, "variable OTHER"},
		{key, []string{"--model=m"}, ""},
		{nil, []string{"--model=m", "--base-url=http://127.0.0.1:1/v1"}, ""},
		{nil, []string{"--model=m", "--base-url=https://api.openai.com/v1"}, ""},
		{env{"AGENTD_MODEL": "m", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1/"}, nil, ""},
	} {
		got := mustLoad(t, c.vars, c.args...)
		if hint := got.ModelHint(); (c.hint == "") != (hint == "") || !strings.Contains(hint, c.hint) {
			t.Errorf("%v %v: hint %q, want %q", c.vars, c.args, hint, c.hint)
		}
		if got.ModelConfigured() != (c.hint == "") {
			t.Errorf("%v %v: configured %v", c.vars, c.args, got.ModelConfigured())
		}
	}
	both := env{"OPENAI_BASE_URL": "http://a/v1/", "AGENTD_BASE_URL": "http://b/v1"}
	if c := mustLoad(t, both); c.BaseURL != "http://b/v1" {
		t.Errorf("base URL %q: agentd's own variable goes first", c.BaseURL)
	}
}

func TestWrongValuesNameFieldSourceAndWays(t *testing.T) {
	file := write(t, "max_running: many\n")
	for _, c := range []struct {
		vars env
		args []string
		want string
	}{
		{nil, []string{"--config=" + file}, `max_running: "many" is not a whole number (from file ` + file +
			`); set it with --max-running, AGENTD_MAX_RUNNING or max_running in agentd.yaml`},
		{env{"AGENTD_MAX_RUNNING": "0"}, nil,
			"max_running: 0 is not between 1 and 10000 (from variable AGENTD_MAX_RUNNING); set it"},
		{nil, []string{"--max-shells=1001"}, "max_shells: 1001 is not between 1 and 1000"},
		{nil, []string{"--max-depth=6"}, "max_depth: 6 is not between 1 and 5"},
		{nil, []string{"--max-items=25"}, "max_items: 25 is not between 1 and 24"},
		{nil, []string{"--max-items=3"}, "max_at_once: 4 is not between 1 and 3"},
		{nil, []string{"--max-hops=0"}, "max_hops: 0 is not between 1 and 10000"},
		{nil, []string{"--max-hops=10001"}, "max_hops: 10001 is not between 1 and 10000"},
		{nil, []string{"--state-dir=state"},
			`state_dir: "state" is not an absolute directory (from flag --state-dir); set it`},
		{nil, []string{"--listen=tcp://0.0.0.0:1"}, `listen: "tcp://0.0.0.0:1" is not unix:///PATH`},
		{nil, []string{"--listen=unix://relative"}, `listen: "unix://relative" is not unix:///PATH`},
		{nil, []string{"--listen=unix:///" + strings.Repeat("x", 107)}, "a unix socket allows 107"},
		{nil, []string{"--rest=0.0.0.0:80"}, `rest: "0.0.0.0:80" is not a loopback address`},
		{nil, []string{"--rest=:80"}, `rest: ":80" is not a loopback address`},
		{nil, []string{"--rest=example.org:80"}, `is not a loopback address`},
		{nil, []string{"--workspace=."}, `workspace: "." is not an absolute directory`},
		{nil, []string{"--workspace=/no/such/directory"}, "no such file or directory"},
		{nil, []string{"--workspace=" + file}, "is not a directory"},
		{nil, []string{"--model=a b"}, "is not a model's name"},
		{nil, []string{"--base-url=localhost:8080"}, "base_url: it is not an http or https URL"},
		{nil, []string{"--base-url=https://user:sk-1@host/v1"}, "base_url: it has a user"},
		{nil, []string{"--api-key-env=sk-1"}, "api_key_env: it is not the name of a variable; give the name, not the key"},
		{nil, []string{"--model-idle-timeout=1"}, `"1" is not a duration such as 90s or 5m`},
		{nil, []string{"--model-idle-timeout=10ms"}, "10ms is not between 1s and 1h0m0s"},
		{nil, []string{"--env-pass=A=1"}, `"A=1" is not the name of a variable`},
		{nil, []string{"--env-pass=OPENAI_API_KEY"}, "holds a provider's key"},
		{nil, []string{"--env-pass=PATH"}, "set by the daemon itself"},
		{nil, []string{"--env-pass=AGENTD_TASK"}, "set by the daemon itself"},
		{nil, []string{"--path=bin"}, `path: "bin" has no absolute directory`},
		{nil, []string{"--log-level=loud"}, `"loud" is not debug, info, warn or error`},
		{nil, []string{"--log-level=INFO+1"}, `"INFO+1" is not debug, info, warn or error`},
		{nil, []string{"--log-format=xml"}, `"xml" is not text or json`},
		{nil, []string{"--config=/no/such/file"}, "config: can't read /no/such/file"},
		{nil, []string{"--config=" + write(t, "model: [\n")}, "config: can't read"},
		{nil, []string{"--config=" + write(t, "modell: x\n")}, "modell: "},
		{nil, []string{"--config=" + write(t, "state-dir: /x\n")}, "no such key; the nearest is state_dir"},
		{nil, []string{"--config=" + write(t, "model: {name: x}\n")}, "is not a text (from file"},
	} {
		_, err := load(t, c.vars, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v:\ngot  %v\nwant %s", c.vars, c.args, err, c.want)
			continue
		}
		if e := errdefs.As(err); e.Kind != errdefs.InvalidArgument || e.Field == "" {
			t.Errorf("%v %v: kind %v, field %q", c.vars, c.args, e.Kind, e.Field)
		}
		if strings.Contains(err.Error(), "sk-1") {
			t.Errorf("%v: the error shows the key: %v", c.args, err)
		}
	}
}

func TestAllWrongValuesAtOnce(t *testing.T) {
	_, err := load(t, nil, "--max-running=0", "--rest=x", "--log-format=y")
	for _, key := range []string{"max_running: ", "rest: ", "log_format: "} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%q is missing in %v", key, err)
		}
	}
}

func TestDefaultPathIsAskedForOnlyWhenNeeded(t *testing.T) {
	flags := pflag.NewFlagSet("agentd", pflag.ContinueOnError)
	config.Flags(flags)
	around := config.Surroundings{
		Getenv:     func(string) string { return "" },
		StateDir:   func() (string, error) { return "", errors.New("no home") },
		SocketPath: func() string { return "/l" },
	}
	_, err := config.Load(flags, around)
	if err == nil || !strings.Contains(err.Error(), "state_dir: no home; set it with --state-dir") {
		t.Errorf("got %v", err)
	}
	if err := flags.Parse([]string{"--state-dir=/s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(flags, around); err != nil {
		t.Error(err)
	}
}

func TestEffectiveIsAFileThatGivesTheSame(t *testing.T) {
	vars := env{"AGENTD_MODEL": "m:#1", "OPENAI_API_KEY": "sk-secret", "PATH": "/bin", "OPENAI_BASE_URL": "http://a/v1"}
	c := mustLoad(t, vars, "--listen=unix:///a", "--listen=unix:///b", "--log-format=json", "--env-pass=CC")
	text, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"state_dir: /state/agentd # default\n", "listen: ['unix:///a', 'unix:///b'] # flag --listen\n",
		"base_url: http://a/v1 # variable OPENAI_BASE_URL\n", "model: m:#1 # variable AGENTD_MODEL\n",
		"path: /bin # variable PATH\n", "rest: \"\" # default\n",
		"log_format: json # flag --log-format\n", "model_idle_timeout: 5m0s # default\n",
		"# the provider's key: ******** (variable OPENAI_API_KEY)\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	if strings.Contains(text, "sk-secret") || strings.Contains(fmt.Sprintf("%v %+v %#v", c, c, c.APIKey), "sk-secret") {
		t.Error("the key is shown")
	}
	again, err := mustLoad(t, nil, "--config="+write(t, text)).Effective()
	if err != nil {
		t.Fatal(err)
	}
	if values(again) != values(text) {
		t.Errorf("read back:\n%s\nwant\n%s", values(again), values(text))
	}
	if bare, err := mustLoad(t, nil).Effective(); err != nil || !strings.Contains(bare, "# no model is configured: ") {
		t.Errorf("the hint is missing in\n%s (%v)", bare, err)
	}
}

// values is the printed configuration without its comments.
func values(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		value, _, _ := strings.Cut(line, " # ")
		if !strings.HasPrefix(value, "#") {
			lines = append(lines, strings.TrimSpace(value))
		}
	}
	return strings.Join(lines, "\n")
}

func TestHelpNamesTheValues(t *testing.T) {
	flags := pflag.NewFlagSet("agentd", pflag.ContinueOnError)
	config.Flags(flags)
	help := flags.FlagUsages()
	for _, want := range []string{"--state-dir DIR ", "--max-running N ", "--listen ADDR ", "--config FILE "} {
		if !strings.Contains(help, want) {
			t.Errorf("%q is missing in\n%s", want, help)
		}
	}
	if strings.Contains(help, "auto-started") {
		t.Errorf("a hidden flag is shown in\n%s", help)
	}
}
