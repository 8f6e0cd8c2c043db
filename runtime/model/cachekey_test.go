package model_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/agentd-dev/agentd/runtime/model"
)

// TestCacheKey: a request's cache key goes to the providers that are known to take it, and to no other, for strict ones
// refuse what they do not know.
func TestCacheKey(t *testing.T) {
	for _, c := range []struct{ name, baseURL, key, want string }{
		{"OpenAI's own", "", "store-tm-1", `"store-tm-1"`},
		{"Azure's", "https://mine.openai.azure.com/openai/v1", "store-tm-1", `"store-tm-1"`},
		{"another", "https://models.example/v1", "store-tm-1", ""},
		{"one that looks like it", "https://api.openai.com.example/v1", "store-tm-1", ""},
		{"none", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen := make(chan []byte, 1)
			answer := says(http.StatusOK, "text/event-stream", events(stopped, "[DONE]"))
			client := &http.Client{Transport: inProcess(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				seen <- body
				answer.ServeHTTP(w, r)
			})}
			m, err := model.NewOpenAI(model.Config{BaseURL: c.baseURL, HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			req := hello()
			req.CacheKey = c.key
			if _, err := m.Call(t.Context(), req, func(model.Event) {}); err != nil {
				t.Fatal(err)
			}
			var sent struct {
				CacheKey json.RawMessage `json:"prompt_cache_key"`
			}
			if err := json.Unmarshal(<-seen, &sent); err != nil || string(sent.CacheKey) != c.want {
				t.Errorf("the key is %s on the wire, want %s (%v)", sent.CacheKey, c.want, err)
			}
		})
	}
}

// inProcess answers requests to any host.
type inProcess http.HandlerFunc

func (f inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	f(rec, r)
	return rec.Result(), nil
}
