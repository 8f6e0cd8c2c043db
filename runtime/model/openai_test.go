package model_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/model/script"
)

const secret = "sk-secret-0123456789"

// adapter makes a Model that talks to h over real HTTP.
func adapter(t testing.TB, h http.Handler, cfg model.Config) model.Model {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	cfg.BaseURL = srv.URL + "/v1"
	cfg.HTTPClient = srv.Client()
	m, err := model.NewOpenAI(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// scripted makes a Model that talks to a scripted server, which must refuse nothing.
func scripted(t *testing.T, yaml string, cfg model.Config) (model.Model, *script.Server) {
	t.Helper()
	s, err := script.Parse([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	srv := script.NewServer(s)
	t.Cleanup(func() {
		if r := srv.Rejections(); len(r) > 0 {
			t.Errorf("the strict server refused: %q", r)
		}
	})
	return adapter(t, srv, cfg), srv
}

func hello() model.Request {
	return model.Request{
		Model:    "scripted",
		Messages: []model.Message{{Role: model.System, Text: "You are an agent."}, {Role: model.User, Text: "Hello"}},
		Tools:    []model.Tool{{Name: "read", Description: "Reads.", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
	}
}

func nowhere(model.Event) {}

// gather gives a sink for text, and what it gathers.
func gather() (func(model.Event), *strings.Builder) {
	var b strings.Builder
	return func(e model.Event) {
		if d, ok := e.(*model.TextDelta); ok {
			b.WriteString(d.Text)
		}
	}, &b
}

// classOf is the class of err, which must be a *model.Error on one line and without the key.
func classOf(t *testing.T, err error) model.ErrorClass {
	t.Helper()
	var e *model.Error
	if !errors.As(err, &e) {
		t.Fatalf("not a *model.Error: %v", err)
	}
	all := fmt.Sprintf("%v %v", e, e.Cause)
	if strings.Contains(all, secret) || strings.Contains(e.Message, "\n") || e.Message == "" {
		t.Errorf("bad message %q, cause %v", e.Message, e.Cause)
	}
	return e.Class
}

// case OUT-6
func TestAnswerIsStreamedAndWhole(t *testing.T) {
	const words = "I read, then answer. \u4f60\u597d \U0001F469\u200D\U0001F467 e\u0301"
	m, _ := scripted(t, `
rules:
  - last: Hello
    reasoning: "The user greets: `+words+`"
    text: "`+words+`"
    chunk_size: 3
    tool_calls:
      - {name: read, arguments: {path: a.txt}}
      - {name: read, arguments: {path: "b\"\u00fc.txt"}}
    usage: {input: 120, output: 30, cached: 100, reasoning: 12}
`, model.Config{})
	sink, streamed := gather()
	got, err := m.Call(t.Context(), hello(), sink)
	if err != nil {
		t.Fatal(err)
	}
	if got.Text != words || streamed.String() != words || got.Reasoning != "The user greets: "+words {
		t.Errorf("text %q, streamed %q, reasoning %q", got.Text, streamed, got.Reasoning)
	}
	if got.Usage != (model.Usage{InputTokens: 120, OutputTokens: 30, CachedTokens: 100, ReasoningTokens: 12}) {
		t.Errorf("usage %+v", got.Usage)
	}
	if got.Finish != model.FinishCalls || len(got.Calls) != 2 {
		t.Fatalf("finish %d, calls %v", got.Finish, got.Calls)
	}
	if got.Calls[0].Name != "read" || got.Calls[0].Arguments != `{"path":"a.txt"}` || got.Calls[1].Arguments != "{\"path\":\"b\\\"\u00fc.txt\"}" {
		t.Errorf("calls %+v", got.Calls)
	}
	if got.Calls[0].ID == "" || got.Calls[0].ID == got.Calls[1].ID {
		t.Errorf("ids %q, %q", got.Calls[0].ID, got.Calls[1].ID)
	}
}

func TestScriptedFaults(t *testing.T) {
	cases := []struct {
		name, fault string
		want        model.ErrorClass
	}{
		{"rate limit", "status: 429\n    retry_after: 2s", model.RateLimited},
		{"server error", "status: 500", model.Overloaded},
		{"cut", "fault: cut\n    text: one two three four", model.Broken},
		{"truncated", "fault: truncate\n    text: one two three four", model.Broken},
		{"stalled", "fault: stall\n    text: one two three four", model.Broken}, // case STA-8
		{"error in the stream", "fault: error\n    text: one two three four", model.Overloaded},
		{"context overflow", "fault: overflow", model.ContextOverflow},
		{"no rule", "step: 7\n    text: never", model.InvalidRequest},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m, _ := scripted(t, "rules:\n  - chunk_size: 4\n    "+c.fault, model.Config{APIKey: secret, IdleTimeout: 100 * time.Millisecond})
			_, err := m.Call(t.Context(), hello(), nowhere)
			if got := classOf(t, err); got != c.want {
				t.Errorf("class %d, want %d: %v", got, c.want, err)
			}
			var e *model.Error
			if errors.As(err, &e) && c.want == model.RateLimited && e.RetryAfter != 2*time.Second {
				t.Errorf("retry after %s", e.RetryAfter)
			}
		})
	}
}

// proves R8
// case STA-8
func TestGateRetriesThroughRealHTTP(t *testing.T) {
	m, srv := scripted(t, `
rules:
  - {last: Hello, fault: stall, fault_times: 1, times: 2, text: "Hello, all is well."}
`, model.Config{IdleTimeout: 50 * time.Millisecond})
	g := model.NewGate(m, model.GateConfig{FirstDelay: time.Millisecond})
	got, err := g.Call(t.Context(), hello(), nowhere)
	if err != nil || got.Text != "Hello, all is well." || srv.Requests() != 2 {
		t.Errorf("got %q, %v after %d requests", got.Text, err, srv.Requests())
	}
}

func TestMalformedArgumentsComeAsTheyAre(t *testing.T) {
	m, _ := scripted(t, `
rules:
  - step: 1
    tool_calls: [{name: read, arguments: '{"path": '}]
  - step: 2
    text: sorry
`, model.Config{})
	req := hello()
	got, err := m.Call(t.Context(), req, nowhere)
	if err != nil || len(got.Calls) != 1 || got.Calls[0].Arguments != `{"path": ` {
		t.Fatalf("got %+v, %v", got, err)
	}
	// The history that follows must pass the strict server.
	req.Messages = append(req.Messages,
		model.Message{Role: model.Assistant, Calls: got.Calls},
		model.Message{Role: model.ToolAnswer, CallID: got.Calls[0].ID, Text: "not JSON"},
		model.Message{Role: model.User, Text: "Go on"},
		model.Message{Role: model.User, Text: "please"},
	)
	if got, err = m.Call(t.Context(), req, nowhere); err != nil || got.Text != "sorry" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// case SAF-7
func TestEnvironmentDoesNotLeak(t *testing.T) {
	for _, name := range []string{"API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"} {
		t.Setenv("OPENAI_"+name, "leaked")
	}
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/leaked")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Custom: leaked\nAuthorization: leaked")
	for _, key := range []string{"", secret} {
		seen := make(chan http.Header, 1)
		m := adapter(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Header.Clone()
			w.WriteHeader(http.StatusTeapot)
		}), model.Config{APIKey: key})
		_, err := m.Call(t.Context(), hello(), nowhere)
		if classOf(t, err) != model.InvalidRequest {
			t.Fatalf("got %v", err)
		}
		header, want := <-seen, ""
		if key != "" {
			want = "Bearer " + key
		}
		if got := header.Get("Authorization"); got != want {
			t.Errorf("authorization %q, want %q", got, want)
		}
		if all := fmt.Sprint(header); strings.Contains(all, "leaked") || !strings.Contains(all, "text/event-stream") {
			t.Errorf("headers %s", all)
		}
	}
}

func TestKeyIsCutOutOfErrors(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"message":"Incorrect\nkey provided: %s"}}`, r.Header.Get("Authorization"))
	})
	_, err := adapter(t, echo, model.Config{APIKey: secret}).Call(t.Context(), hello(), nowhere)
	if classOf(t, err) != model.Auth || !strings.Contains(err.Error(), "[key]") {
		t.Errorf("got %v", err)
	}
}

func TestUnreachableServer(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	m, err := model.NewOpenAI(model.Config{BaseURL: srv.URL, APIKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Call(t.Context(), hello(), nowhere); classOf(t, err) != model.Overloaded {
		t.Errorf("got %v", err)
	}
}

func TestCancellationReachesAStalledCall(t *testing.T) {
	cause := errors.New("stopped by the client")
	for _, begin := range []string{"", "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		m := adapter(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if begin == "" {
				cancel(cause) // before the headers
			}
			_, _ = io.WriteString(w, begin)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), model.Config{})
		_, err := m.Call(ctx, hello(), func(model.Event) { cancel(cause) })
		if !errors.Is(err, cause) {
			t.Errorf("after %q: got %v", begin, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []model.Config{{BaseURL: "localhost:8080"}, {BaseURL: "ftp://h/v1"}, {BaseURL: "http://"}, {BaseURL: "http://h", APIKey: "two\nlines"}, {IdleTimeout: -1}} {
		if _, err := model.NewOpenAI(cfg); err == nil || strings.Contains(err.Error(), "lines") {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// hundred serves an answer of 100 chunks.
func hundred() http.Handler {
	var data []string
	for i := range 100 {
		data = append(data, fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word %d "},"finish_reason":null}]}`, i))
	}
	return says(http.StatusOK, "text/event-stream", events(append(data, stopped, "[DONE]")...))
}

func BenchmarkCall100Chunks(b *testing.B) {
	m := adapter(b, hundred(), model.Config{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Call(b.Context(), hello(), nowhere); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBare100Chunks is the limit to compare with: the same exchange with net/http and one json.Unmarshal a chunk.
func BenchmarkBare100Chunks(b *testing.B) {
	srv := httptest.NewServer(hundred())
	defer srv.Close()
	b.ReportAllocs()
	for b.Loop() {
		res, err := srv.Client().Post(srv.URL, "application/json", strings.NewReader("{}"))
		if err != nil {
			b.Fatal(err)
		}
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: {"))
			var chunk struct {
				Choices []struct {
					Delta struct {
						Content string `json:"content"`
					} `json:"delta"`
				} `json:"choices"`
			}
			if ok && json.Unmarshal(append([]byte("{"), data...), &chunk) != nil {
				b.Fatal("bad chunk")
			}
		}
		_ = res.Body.Close()
	}
}
