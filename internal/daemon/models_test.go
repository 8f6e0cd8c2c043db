package daemon

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/agentd-dev/agentd/internal/config"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/model/script"
	"github.com/agentd-dev/agentd/runtime/task"
)

// serves starts a provider that answers with its name.
func serves(t *testing.T, name string) (url string, server *script.Server) {
	t.Helper()
	rules, err := script.Parse([]byte("default: {text: " + name + "}"))
	if err != nil {
		t.Fatal(err)
	}
	server = script.NewServer(rules)
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	return listening.URL + "/v1", server
}

// proves R8, N6: each model is asked at the provider that the configuration names, unknown ones at the default provider,
// and one whose key is missing at none.
func TestModelsAndProvidersOfTheConfiguration(t *testing.T) {
	nearURL, near := serves(t, "near")
	farURL, far := serves(t, "far")
	path := filepath.Join(t.TempDir(), "agentd.yaml")
	text := fmt.Sprintf(`
model: any
base_url: %s
providers:
- {name: far, base_url: %s}
- {name: locked, base_url: %s, api_key_env: LOCKED_KEY}
models:
- {name: priced, context_window: 8192, max_output: 512, input_price: 0.5, output_price: 1}
- {name: cached, provider: far, input_price: 0.5, output_price: 1, cached_price: 0.1}
- {name: secret, provider: locked}
`, nearURL, farURL, farURL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := pflag.NewFlagSet("agentd", pflag.ContinueOnError)
	config.Flags(flags)
	if err := flags.Parse([]string{"--config", path}); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(flags, config.Surroundings{
		Getenv: func(string) string { return "" }, SocketPath: func() string { return "/s" },
		StateDir: func() (string, error) { return "/state", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	models, err := newCatalog(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"any": "near", "priced": "near", "cached": "far", "unheard-of": "near"} {
		resp, err := models.Call(t.Context(), model.Request{Model: name, Messages: []model.Message{
			{Role: model.System, Text: "s"}, {Role: model.User, Text: "u"},
		}}, func(model.Event) {})
		if err != nil || resp.Text != want {
			t.Errorf("%s was asked at %q: %v", name, resp.Text, err)
		}
	}
	_, err = models.Call(t.Context(), model.Request{Model: "secret"}, func(model.Event) {})
	const hint = "the model secret has no key: set the variable LOCKED_KEY to your key for the provider locked, and restart agentd"
	if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Class != model.NotConfigured || failed.Message != hint {
		t.Errorf("without its key: %v", err)
	}
	if near.Requests() != 3 || far.Requests() != 1 || len(near.Rejections())+len(far.Rejections()) > 0 {
		t.Errorf("requests: %d and %d; refused: %v %v", near.Requests(), far.Requests(), near.Rejections(), far.Rejections())
	}
	const half = task.Dollar / 2
	if f := models.Facts("priced"); f.ContextWindow != 8192 || f.MaxOutput != 512 || *f.Price != (model.Price{Input: half, Output: 2 * half, Cached: half}) {
		t.Errorf("facts: %+v", f)
	}
	if f := models.Facts("cached"); f.Price.Cached != task.Dollar/10 || f.Missing != "" {
		t.Errorf("facts: %+v", f)
	}
	if f := models.Facts("secret"); f.Missing != hint || f.Price != nil {
		t.Errorf("facts: %+v", f)
	}
	states := providerStates(c)
	if len(states) != 2 || states[0].Name != "far" || fmt.Sprint(states[0].Models) != "[cached]" || states[1].APIKeyEnv != "" {
		t.Errorf("status: %+v", states)
	}
}
