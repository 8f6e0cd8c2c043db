package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/config"
	"github.com/agentd-dev/agentd/internal/errdefs"
)

// listed is a file with all keys of both lists.
const listed = `
model: big
providers:
  - name: local
    base_url: http://127.0.0.1:1/v1/
  - {name: other-1, base_url: "https://other.example/v1", api_key_env: OTHER_KEY}
models:
  - name: big
    provider: default
    context_window: 400000
    max_output: 32000
    input_price: 1.25
    output_price: 10
    cached_price: 0.125
  - {name: small, provider: local, input_price: 0, output_price: 0.000000001}
  - {name: far, provider: &other other-1}
  - {name: further, provider: *other}
`

func TestProvidersAndModels(t *testing.T) {
	c := mustLoad(t, env{"OTHER_KEY": "sk-secret"}, "--config="+write(t, listed))
	local, other := c.Providers[0], c.Providers[1]
	if local.Name != "local" || local.BaseURL != "http://127.0.0.1:1/v1" || local.APIKey != "" ||
		other.APIKeyEnv != "OTHER_KEY" || other.APIKey.Reveal() != "sk-secret" {
		t.Errorf("providers: %+v", c.Providers)
	}
	big, small, far := c.Models[0], c.Models[1], c.Models[2]
	if big.Provider != config.DefaultProvider || big.ContextWindow != 400_000 || big.MaxOutput != 32_000 ||
		*big.InputPrice != 1_250_000_000 || *big.OutputPrice != 10_000_000_000 || *big.CachedPrice != 125_000_000 {
		t.Errorf("a whole model: %+v", big)
	}
	if small.Provider != "local" || *small.InputPrice != 0 || *small.OutputPrice != 1 || small.CachedPrice != nil ||
		far.InputPrice != nil || far.ContextWindow != 0 {
		t.Errorf("models with less: %+v, %+v", small, far)
	}
	for name, want := range map[string]string{
		"big": "https://api.openai.com/v1", "unheard-of": "https://api.openai.com/v1", "small": local.BaseURL, "far": other.BaseURL,
		"further": other.BaseURL,
	} {
		if got := c.ProviderOf(name).BaseURL; got != want {
			t.Errorf("%s is asked for at %s", name, got)
		}
	}
	text, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"input_price: 1.25\n", "cached_price: 0.125\n", "output_price: 0.000000001\n", "input_price: 0\n",
		"# the key of other-1: ******** (variable OTHER_KEY)\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is missing in\n%s", line, text)
		}
	}
	if strings.Contains(text+fmt.Sprintf("%v %+v", c, c), "sk-secret") {
		t.Error("the key is shown")
	}
	again, err := mustLoad(t, nil, "--config="+write(t, text)).Effective()
	if err != nil || values(again) != values(text) {
		t.Errorf("read back (%v):\n%s\nwant\n%s", err, values(again), values(text))
	}
}

// proves N6: what is missing is named for each model by itself, and a listed model needs no default one.
func TestWhatIsMissingForAModel(t *testing.T) {
	withDefault := "--config=" + write(t, listed)
	without := "--config=" + write(t, strings.Replace(listed, "model: big", "", 1))
	key, other := env{"OPENAI_API_KEY": "sk-1"}, env{"OTHER_KEY": "sk-2"}
	for _, c := range []struct {
		vars env
		file string
		name string
		want string // part of it; empty: nothing is missing
	}{
		{nil, withDefault, "small", ""},
		{nil, without, "small", ""},
		{other, without, "far", ""},
		{nil, without, "far", "the model far has no key: set the variable OTHER_KEY to your key for the provider other-1"},
		{nil, withDefault, "big", "the model big has no provider: set the variable OPENAI_API_KEY"},
		{key, withDefault, "big", ""},
		{key, without, "big", ""},
		{key, withDefault, "unlisted", ""},
		{nil, withDefault, "unlisted", "the model unlisted has no provider"},
		{key, without, "unlisted", "no model is configured"},
		{key, without, "", "no model is configured"},
	} {
		got := mustLoad(t, c.vars, c.file).HintFor(c.name)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v %s: %q, want %q", c.vars, c.name, got, c.want)
		}
	}
}

// An agentctl passes the key of the default provider on to a daemon that it starts, and no other one: to set the variable
// and try again would never help.
func TestWhatIsMissingForAModelOfAnAutoStartedDaemon(t *testing.T) {
	withDefault := "--config=" + write(t, listed)
	ofFar := "--config=" + write(t, strings.Replace(listed, "model: big", "model: far", 1))
	shared := "--config=" + write(t, strings.Replace(listed, "OTHER_KEY", "OPENAI_API_KEY", 1))
	key := env{"OPENAI_API_KEY": "sk-1"}
	for _, c := range []struct {
		vars       env
		file, name string
		want       string // its end; empty: nothing is missing
	}{
		{nil, withDefault, "big", "or the variable AGENTD_BASE_URL; agentctl then restarts the daemon by itself"},
		{key, withDefault, "big", ""},
		{key, withDefault, "far", "start agentd by hand where the variable OTHER_KEY holds your key for the provider other-1"},
		{key, ofFar, "far", "start agentd by hand where the variable OTHER_KEY holds your key for the provider other-1"},
		{nil, shared, "far", "set the variable OPENAI_API_KEY to your key for the provider other-1; agentctl then restarts the daemon by itself"},
		{nil, ofFar, "small", ""},
	} {
		got := mustLoad(t, c.vars, c.file, "--auto-started").HintFor(c.name)
		if (c.want == "") != (got == "") || !strings.HasSuffix(got, c.want) {
			t.Errorf("%v %s: %q, want %q", c.vars, c.name, got, c.want)
		}
	}
}

func TestWrongListsNameKeyAndLine(t *testing.T) {
	providers := "providers:\n- {name: p, base_url: 'http://p/v1'}\n"
	for text, want := range map[string]string{
		"model: a\n---\nmax_shells: 7":                                     "FILE holds more than one document",
		"providers: {}":                                                    "providers: it is not a list (from file FILE, line 1)",
		"providers: [x]":                                                   "providers[0]: it is not a mapping",
		"providers:\n- {name: p}":                                          "providers[0].base_url: it is missing (from file FILE, line 2)",
		"providers:\n- {base_url: http://p}":                               "providers[0].name: it is missing",
		"providers:\n- {name: p, url: x}":                                  "providers[0].url: there is no such key; the nearest is name",
		"providers:\n- {name: p, base_url: x}":                             "providers[0].base_url: it is not an http or https URL",
		"providers:\n- {name: p, base_url: 'ftp://x'}":                     "providers[0].base_url: it is not an http",
		"providers:\n- {name: p, base_url: 'https://u:sk-1@x/v1'}":         "providers[0].base_url: it has a user",
		"providers:\n- {name: P, base_url: 'http://p'}":                    "providers[0].name: \"P\" is no name",
		"providers:\n- {name: default, base_url: 'http://p'}":              "providers[0].name: default is the provider of",
		providers + "- {name: p, base_url: 'http://q'}":                    "providers[1].name: p stands twice (from file FILE, line 3)",
		"providers:\n- {name: p, base_url: 'http://p', api_key_env: sk-1}": "providers[0].api_key_env: it is not the name",
		providers + "env_pass: [K]\nmodels: 7":                             "models: it is not a list (from file FILE, line 4)",
		"models:\n- {name: m, provider: q}":                                "models[0].provider: \"q\" is none of the providers",
		"models:\n- {name: m}\n- {name: m}":                                "models[1].name: m stands twice (from file FILE, line 3)",
		"models:\n- {name: a b}":                                           "models[0].name: \"a b\" is not a model's name",
		"models:\n- {name: ''}":                                            "models[0].name: it is empty",
		"models:\n- {name: m, window: 5}":                                  "models[0].window: there is no such key",
		"models:\n- {name: m, context_window: many}":                       "models[0].context_window: \"many\" is not a whole number",
		"models:\n- {name: m, context_window: 100}":                        "models[0].context_window: 100 is less than 1024",
		"models:\n- {name: m, context_window: -1}":                         "models[0].context_window: -1 is less than",
		"models:\n- {name: m, max_output: -1}":                             "models[0].max_output: -1 is negative",
		"models:\n- {name: m, context_window: 2000, max_output: 2000}":     "models[0].max_output: 2000 leaves nothing",
		"models:\n- name: m\n  input_price: -1\n  output_price: 1":         "models[0].input_price: \"-1\" is not a price in US dollars, such as 0.25 (from file FILE, line 3)",
		"models:\n- {name: m, input_price: 1/3, output_price: 1}":          "models[0].input_price: \"1/3\" is not a price",
		"models:\n- {name: m, input_price: 10000.1, output_price: 1}":      "models[0].input_price: it is more than 10000 dollars",
		"models:\n- {name: m, input_price: 1}":                             "models[0].output_price: input_price and output_price go together",
		"models:\n- {name: m, cached_price: 1}":                            "models[0].cached_price: it goes together with",
		"model_: x":                                                        "model_: FILE has no such key; the nearest is model",
	} {
		path := write(t, text)
		_, err := load(t, nil, "--config="+path)
		want = strings.ReplaceAll(want, "FILE", path)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q:\ngot  %v\nwant %s", text, err, want)
			continue
		}
		if errdefs.As(err).Kind != errdefs.InvalidArgument || strings.Contains(err.Error(), "sk-1") {
			t.Errorf("%q: %v", text, err)
		}
	}
	secret := "--config=" + write(t, "providers:\n- {name: p, base_url: 'http://p', api_key_env: K}\nenv_pass: [K]")
	if _, err := load(t, nil, secret); err == nil || !strings.Contains(err.Error(), "K holds a provider's key") {
		t.Errorf("a command may see the key: %v", err)
	}
	if c := mustLoad(t, nil, "--config="+write(t, "models:\nproviders: []\n")); len(c.Models)+len(c.Providers) != 0 {
		t.Errorf("empty lists: %+v", c)
	}
}
