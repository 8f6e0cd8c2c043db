package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/config.md anew")

// TestDocs compares docs/config.md with the table: `go test ./internal/config -run TestDocs -update` writes it.
func TestDocs(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "config.md")
	want := page()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/config.md is not what the table says (%v): go test ./internal/config -run TestDocs -update", err)
	}
}

// page is docs/config.md.
func page() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(`# Configuration of agentd

<!-- Written from the table in internal/config/fields.go: go test ./internal/config -run TestDocs -update -->

agentd needs no configuration. Each value comes from the first that gives it: a flag, a variable, the file, the
default. The file is '--config FILE' or the variable 'AGENTD_CONFIG', else '$XDG_CONFIG_HOME/agentd/agentd.yaml' when
that exists; an unknown key in it is an error. Lists repeat their flag, are YAML lists in the file, and are split at
commas in a variable; a variable that is empty counts as unset. 'agentd config' prints what is in effect and where each
value comes from.

`, "'", "`"))
	b.WriteString("| key in the file | flag | variable | default | meaning |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range fields() {
		if !f.hidden {
			fmt.Fprintf(&b, "| `%s` | `--%s %s` | `%s` | %s | %s |\n",
				f.key, f.flag(), f.arg, f.variable(), f.defaultText(), f.usage)
		}
	}
	b.WriteString(strings.ReplaceAll(`
## Providers and models

The file alone may have two lists: 'providers' beside the default one, which is that of 'base_url' and 'api_key_env', and
'models' that more is known of than their name. There is no flag and no variable for them. A model that is not listed is
asked for at the default provider; its context window is unknown, and so is its price: a budget of cost is refused for it.

~~~yaml
model: gpt-5
providers:
  - name: local
    base_url: http://127.0.0.1:8080/v1
models:
  - {name: gpt-5, context_window: 400000, input_price: 1.25, output_price: 10, cached_price: 0.125}
  - {name: qwen3, provider: local, context_window: 32768, max_output: 4096, input_price: 0, output_price: 0}
~~~
`, "'", "`"))
	writeKeys(&b, providersKey, providerKeys())
	writeKeys(&b, modelsKey, modelKeys())
	b.WriteString(strings.ReplaceAll(`
## When there is a model

A model is configured when 'model' is given and there is either a key (in the variable that 'api_key_env' names) or a
'base_url' that somebody chose. Otherwise the daemon runs, says so in its status, and refuses to spawn agents. There is
no guessed default. Without 'model', a spawn may still name one of 'models'.

Of the environment the daemon reads besides: 'HOME' and 'XDG_*' for its places, 'HTTPS_PROXY', 'HTTP_PROXY' and 'NO_PROXY'
for the way to the provider, and 'NOTIFY_SOCKET' of systemd. A daemon that agentctl starts has no proxy, and of the keys
only that of the variable 'api_key_env', not those of 'providers': start one that needs them by hand.
`, "'", "`"))
	return b.String()
}

// writeKeys writes the keys of a list as a table.
func writeKeys[T any](b *strings.Builder, list string, keys []key[T]) {
	fmt.Fprintf(b, "\n| key in `%s` | needed | meaning |\n| --- | --- | --- |\n", list)
	for _, k := range keys {
		needed := "no"
		if k.needed {
			needed = "yes"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", k.name, needed, k.usage)
	}
}

// defaultText tells the field's default.
func (f field) defaultText() string {
	text := "none"
	if f.def != "" {
		text = "`" + f.def + "`"
	}
	if f.outer != "" {
		return strings.TrimSuffix("`$"+f.outer+"`, else "+text, ", else none")
	}
	return text
}
