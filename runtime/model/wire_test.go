package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/model/script"
)

// says serves one fixed body.
func says(status int, contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// events makes a stream of the given events; a name before a space is the event's type.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		_, _ = fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

const stopped = `{"choices":[{"delta":{},"finish_reason":"stop"}]}`

// What servers make of the stream, and what must come out of it.
func TestAnswersOfManyServers(t *testing.T) {
	call := func(fragments ...string) string {
		var data []string
		for _, f := range fragments {
			data = append(data, `{"choices":[{"index":0,"delta":{"tool_calls":[`+f+`]}}]}`)
		}
		return events(append(data, stopped, "[DONE]")...)
	}
	const two = `a{"x":1} b{"y":2}`
	cases := []struct{ name, body, want string }{
		{"null error", events(`{"error": null,"choices":[{"delta":{"content":"say \"error\":null"}}]}`, `{"choices":[],"error" :null}`, stopped), `say "error":null`},
		{"no [DONE], usage on the way", events(`{"choices":[{"delta":{"content":"hi"}}],"usage":null}`, stopped), "hi"},
		{"parts", events(`{"choices":[{"delta":{"content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}}]}`, stopped), "hi"},
		{"null and refusal", events(`{"choices":[{"delta":{"content":null,"refusal":"no","tool_calls":null}}]}`, stopped), "no"},
		{"reasoning", events(`{"choices":[{"delta":{"reasoning":"think","content":"hi"}}]}`, stopped), "(think)hi"},
		{"both names of reasoning", events(`{"choices":[{"delta":{"reasoning":"think","reasoning_content":"think"}}]}`, stopped), "(think)"},
		{"comments", ": wait\n\n" + events(`{"choices":[{"delta":{"content":"hi"}}]}`) + ": wait\n\n" + events(stopped), "hi"},
		{"other choices", events(`{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"hi"}}]}`, stopped), "hi"},
		{"calls by index", call(`{"index":0,"id":"1","function":{"name":"a","arguments":""}}`, `{"index":1,"id":"2","function":{"name":"b","arguments":""}}`,
			`{"index":0,"function":{"arguments":"{\"x\":"}},{"index":1,"function":{"arguments":"{\"y\":"}}`, `{"index":0,"function":{"arguments":"1}"}},{"index":1,"function":{"arguments":"2}"}}`), two},
		{"repeated id and name", call(`{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\":"}}`, `{"index":0,"id":"1","function":{"name":"a","arguments":"1}"}}`,
			`{"index":1,"id":"2","function":{"name":"b","arguments":"{\"y\":2}"}}`), two},
		{"a new id for each piece", call(`{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\":"}}`, `{"index":0,"id":"2","function":{"arguments":"1}"}}`,
			`{"index":1,"id":"3","function":{"name":"b","arguments":"{\"y\":2}"}}`), two},
		{"no index", call(`{"id":"1","function":{"name":"a","arguments":"{\"x\":"}}`, `{"function":{"arguments":"1}"}}`, `{"id":"2","function":{"name":"b","arguments":"{\"y\":2}"}}`), two},
		{"neither index nor id", call(`{"function":{"name":"a","arguments":"{\"x\":1}"}}`, `{"function":{"name":"b","arguments":"{\"y\":2}"}}`), two},
		{"every index 0", call(`{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\":1}"}}`, `{"index":0,"id":"2","function":{"name":"b","arguments":"{\"y\":2}"}}`), two},
		{"every index 0, no id", call(`{"index":0,"function":{"name":"a","arguments":"{\"x\":1}"}}`, `{"index":0,"function":{"name":"b","arguments":"{\"y\":2}"}}`), two},
		{"arguments as an object", call(`{"index":0,"id":"1","function":{"name":"a","arguments":{"x":1}}}`, `{"index":1,"id":"2","function":{"name":"b","arguments":{"y":2}}}`), two},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := adapter(t, says(200, "text/event-stream; charset=utf-8", c.body), model.Config{}).Call(t.Context(), hello(), nowhere)
			checkAnswer(t, got, err, c.want)
		})
	}
}

// checkAnswer compares an answer, written as "(reasoning)text" or as its calls.
func checkAnswer(t *testing.T, got model.Response, err error, want string) {
	t.Helper()
	said := got.Text
	if got.Reasoning != "" {
		said = "(" + got.Reasoning + ")" + said
	}
	var calls []string
	for _, c := range got.Calls {
		calls = append(calls, c.Name+c.Arguments)
	}
	finish := model.FinishStop
	if len(calls) > 0 {
		said, finish = strings.Join(calls, " "), model.FinishCalls
	}
	if err != nil || said != want || got.Finish != finish {
		t.Errorf("got %q, finish %d, %v; want %q", said, got.Finish, err, want)
	}
}

func TestAnswerThatIsNotStreamed(t *testing.T) {
	body := `{"object":"chat.completion","error":null,"choices":[{"index":0,"message":{"role":"assistant","content":"hi","tool_calls":[
		{"id":"1","type":"function","function":{"name":"a","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"a","arguments":"{}"}}]},
		"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`
	sink, streamed := gather()
	got, err := adapter(t, says(200, "application/json", body), model.Config{}).Call(t.Context(), hello(), sink)
	checkAnswer(t, got, err, "a{} a{}")
	if got.Text != "hi" || streamed.String() != "hi" || got.Usage.InputTokens != 3 || got.Usage.OutputTokens != 2 {
		t.Errorf("got %+v, streamed %q", got, streamed)
	}
}

// proves R8
// case OUT-2
func TestErrorClasses(t *testing.T) {
	const sse, plain, js = "text/event-stream", "text/plain", "application/json"
	cases := []struct {
		status     int
		kind, body string
		want       model.ErrorClass
		says       string
	}{
		{429, js, `{"error":{"message":"Rate limit reached","type":"requests","code":"rate_limit_exceeded"}}`, model.RateLimited, "429 Too Many Requests: Rate limit reached"},
		{429, js, `{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}`, model.Auth, "quota"},
		{429, js, `{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 10, Requested 20","code":"rate_limit_exceeded"}}`, model.ContextOverflow, "too large"},
		{429, plain, ``, model.RateLimited, "429 Too Many Requests"},
		{400, js, `{"error":{"message":"too long","code":"context_length_exceeded"}}`, model.ContextOverflow, "too long"},
		{400, js, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, model.ContextOverflow, "4096"},
		{400, js, `{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, model.ContextOverflow, "available"},
		{400, js, `{"error":{"message":"unknown parameter","param":null}}`, model.InvalidRequest, "400 Bad Request: unknown parameter"},
		{400, js, `{"error":"flat and short"}`, model.InvalidRequest, "flat and short"},
		{400, js, `[{"error":{"message":"in an array","code":400}}]`, model.InvalidRequest, "in an array"},
		{422, js, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, model.InvalidRequest, "field required"},
		{404, js, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`, model.InvalidRequest, "does not exist"},
		{401, js, `{"error":{"message":"bad key","code":"invalid_api_key"}}`, model.Auth, "bad key"},
		{402, plain, `pay first`, model.Auth, "pay first"},
		{403, plain, `no`, model.Auth, "no"},
		{413, plain, `no`, model.ContextOverflow, "413"},
		{408, plain, `slow`, model.Overloaded, "slow"},
		{409, plain, `lock`, model.Overloaded, "lock"},
		{500, js, `{"error":{"message":null}}`, model.Overloaded, "500"},
		{503, "text/html", `<html>busy</html>`, model.Overloaded, "503 Service Unavailable"},
		{529, js, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, model.Overloaded, "529"},
		{200, "text/html", `<html>welcome</html>`, model.InvalidRequest, "base URL"},
		{200, js, `{"error":{"message":"context_length_exceeded"}}`, model.ContextOverflow, "context"},
		{200, js, `{"object":`, model.Broken, "not JSON"},
		{200, js, `{"choices":[]}`, model.Broken, "truncated"},
		{200, sse, events(`{"error":{"message":"slow down","code":429}}`), model.RateLimited, "slow down"},
		{200, sse, events(`{"error":{"message":"slow down","type":"rate_limit_error"}}`), model.RateLimited, "slow down"},
		{200, sse, events(`{"error":{"message":"Overloaded","type":"overloaded_error"}}`), model.Overloaded, "Overloaded"},
		{200, sse, events(`{"error":{"message":"boom","code":"502"}}`), model.Overloaded, "boom"},
		{200, sse, events(`{"error":{"message":"maximum context length is 10"}}`), model.ContextOverflow, "10"},
		{200, sse, events(`{"error":"strange"}`), model.Broken, "strange"},
		{200, sse, events(`{"object":"error","message":"bad","type":"BadRequestError","code":400}`), model.InvalidRequest, "bad"},
		{200, sse, "event: error\n" + events(`{"message":"slow down","code":"rate_limit_exceeded"}`), model.RateLimited, "slow down"},
		{200, sse, events(`{"choices":[{"delta":{"content":"hi"}}]}`, "[DONE]"), model.Broken, "truncated"},
		{200, sse, events(`{"choices":[{"delta":`), model.Broken, "broke off"},
		{200, sse, "", model.Broken, "truncated"},
	}
	for _, c := range cases {
		t.Run(fmt.Sprint(c.status, " ", c.says), func(t *testing.T) {
			_, err := adapter(t, says(c.status, c.kind, c.body), model.Config{APIKey: secret}).Call(t.Context(), hello(), nowhere)
			if got := classOf(t, err); got != c.want || !strings.Contains(err.Error(), c.says) {
				t.Errorf("class %d, want %d: %v", got, c.want, err)
			}
			var e *model.Error
			if errors.As(err, &e) && c.status >= 400 && e.Status != c.status {
				t.Errorf("status %d", e.Status)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"Retry-After: 7": 7 * time.Second, "Retry-After: 0.5": 500 * time.Millisecond, "Retry-After-Ms: 250": 250 * time.Millisecond,
		"Retry-After: soon": 0, "Retry-After: -3": 0, "Retry-After: 1e99": 24 * time.Hour, "Retry-After: Mon, 02 Jan 2006 15:04:05 GMT": 0,
		"Retry-After: Fri, 02 Jan 2099 15:04:05 GMT": -1, "X: y": 0,
	} {
		m := adapter(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			name, value, _ := strings.Cut(header, ": ")
			w.Header().Set(name, value)
			w.WriteHeader(http.StatusTooManyRequests)
		}), model.Config{})
		_, err := m.Call(t.Context(), hello(), nowhere)
		var e *model.Error
		if !errors.As(err, &e) || (e.RetryAfter != want && want >= 0) || (want < 0 && e.RetryAfter < 365*24*time.Hour) {
			t.Errorf("%s: %v", header, e.RetryAfter)
		}
	}
}

// TestAnswerIsBounded ends an answer that goes on and on, whatever it consists of, and asks for no other.
func TestAnswerIsBounded(t *testing.T) {
	piece := strings.Repeat("x", 64<<10)
	for kind, event := range map[string]string{
		"text":      `{"choices":[{"delta":{"content":"` + piece + `"}}]}`,
		"reasoning": `{"choices":[{"delta":{"reasoning":"` + piece + `"}}]}`,
		"arguments": `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"read","arguments":"` + piece + `"}}]}}]}`,
		"calls":     `{"choices":[{"delta":{"tool_calls":[` + strings.Repeat(`{"function":{"name":"read"}},`, 999) + `{}]}}]}`,
	} {
		t.Run(kind, func(t *testing.T) {
			const most = 1000
			sent := 0
			m := adapter(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for ; sent < most; sent++ {
					if _, err := io.WriteString(w, events(event)); err != nil {
						return
					}
				}
				_, _ = io.WriteString(w, events(stopped))
			}), model.Config{})
			_, err := m.Call(t.Context(), hello(), nowhere)
			if classOf(t, err) != model.InvalidRequest || !strings.Contains(err.Error(), "larger than 8 MiB") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestHistoryIsFitForStrictServers(t *testing.T) {
	bodies := make(chan []byte, 1)
	m := adapter(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
		_, _ = io.WriteString(w, events(stopped))
	}), model.Config{})
	req := hello()
	req.Messages = append(req.Messages,
		model.Message{Role: model.User, Text: "Hello again <&>"},
		model.Message{Role: model.Assistant},
		model.Message{Role: model.User},
		model.Message{Role: model.Assistant, Text: "First"},
		model.Message{Role: model.Assistant, Text: "then", Calls: []model.ToolCall{{ID: "1", Name: "read", Arguments: "[1]"}, {ID: "2", Name: "read", Arguments: " "}, {ID: "3", Name: "read", Arguments: "{\"a\": \"\xff"}}},
		model.Message{Role: model.ToolAnswer, CallID: "1", Text: "no"},
		model.Message{Role: model.ToolAnswer, CallID: "2"},
		model.Message{Role: model.ToolAnswer, CallID: "3", Text: "\xff"},
	)
	if _, err := m.Call(t.Context(), req, nowhere); err != nil {
		t.Fatal(err)
	}
	body := <-bodies
	if err := script.Validate(body); err != nil {
		t.Errorf("refused: %v", err)
	}
	for _, want := range []string{
		`{"role":"user","content":"Hello\n\nHello again <&>"}`, `{"role":"assistant","content":"(no text)"}`, `"content":"First\n\nthen"`,
		`"arguments":"{\"malformed_arguments\":\"[1]\"}"`, `"arguments":"{}"`, `"include_usage":true`,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

func TestSchemaMustBeAnObject(t *testing.T) {
	req := hello()
	req.Tools[0].Parameters = json.RawMessage(`["no"]`)
	_, err := adapter(t, says(200, "text/plain", ""), model.Config{}).Call(t.Context(), req, nowhere)
	if classOf(t, err) != model.InvalidRequest || !strings.Contains(err.Error(), `"read"`) {
		t.Errorf("got %v", err)
	}
}

// piped makes a Model that talks to h over pipes, which a synctest bubble can wait for, and counts its connections.
func piped(t *testing.T, h http.Handler) (model.Model, *atomic.Int32) {
	t.Helper()
	var dials atomic.Int32
	conns, done := make(chan net.Conn), make(chan struct{})
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(pipes{conns, done}) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case conns <- there:
			dials.Add(1)
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = srv.Close()
	})
	m, err := model.NewOpenAI(model.Config{BaseURL: "http://pipe/v1", HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return m, &dials
}

type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.done); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// slowly serves events with a delay before each.
func slowly(delays []time.Duration, data ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for i, d := range data {
			select {
			case <-time.After(delays[min(i, len(delays)-1)]):
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, events(d))
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done() // such servers never end the answer
	})
}

// case STA-8
func TestWatchdog(t *testing.T) {
	const word = `{"choices":[{"delta":{"content":"hi"}}]}`
	cases := []struct {
		name   string
		server http.Handler
		took   time.Duration
		want   string // in the error; none when empty
	}{
		{"slow but alive", slowly([]time.Duration{4 * time.Minute, 110 * time.Second}, word, word, word, stopped), 4*time.Minute + 3*110*time.Second + 5*time.Second, ""},
		{"no headers", slowly([]time.Duration{time.Hour}, word), 5 * time.Minute, "stalled: nothing came for 5m0s"},
		{"stalls on the way", slowly([]time.Duration{time.Second}, word, word), 2*time.Second + 2*time.Minute, "stalled: nothing came for 2m0s"},
		{"never ends after its finish", slowly([]time.Duration{time.Second}, word, stopped), 2*time.Second + 5*time.Second, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				m, _ := piped(t, c.server)
				_, err := m.Call(t.Context(), hello(), nowhere)
				switch {
				case c.want == "" && err != nil:
					t.Error(err)
				case c.want != "" && (classOf(t, err) != model.Broken || !strings.Contains(err.Error(), c.want)):
					t.Errorf("got %v", err)
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
			})
		})
	}
}

// A sink that is busy is not a server that stalls.
func TestWatchdogSparesASlowSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := piped(t, slowly([]time.Duration{time.Second}, `{"choices":[{"delta":{"content":"hi"}}]}`, stopped, "[DONE]"))
		if _, err := m.Call(t.Context(), hello(), func(model.Event) { time.Sleep(time.Hour) }); err != nil {
			t.Error(err)
		}
	})
}

// The connection of a finished call serves the next one, also when the end of the body comes a little after [DONE].
func TestConnectionIsReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dials := piped(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, events(stopped, "[DONE]"))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
		}))
		for range 3 {
			if _, err := m.Call(t.Context(), hello(), nowhere); err != nil {
				t.Fatal(err)
			}
		}
		if n := dials.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
	})
}
