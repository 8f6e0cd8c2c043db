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
A model is configured when 'model' is given and there is either a key (in the variable that 'api_key_env' names) or a
'base_url' that somebody chose. Otherwise the daemon runs, says so in its status, and refuses to spawn agents. There is
no guessed default.

Of the environment the daemon reads besides: 'HOME' and 'XDG_*' for its places, 'HTTPS_PROXY', 'HTTP_PROXY' and 'NO_PROXY'
for the way to the provider, and 'NOTIFY_SOCKET' of systemd. A daemon that agentctl starts has no proxy: start one that
needs it by hand.
`, "'", "`"))
	return b.String()
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
