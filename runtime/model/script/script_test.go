package script_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/model/script"
)

// serve starts a server for a script.
func serve(t *testing.T, yaml string) (*script.Server, *httptest.Server) {
	t.Helper()
	s, err := script.Parse([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	srv := script.NewServer(s)
	web := httptest.NewServer(srv)
	t.Cleanup(web.Close)
	return srv, web
}

// ask sends messages, not streamed, and gives the status and the body.
func ask(t *testing.T, web *httptest.Server, messages string) (int, string) {
	t.Helper()
	return post(t, web, `{"model":"m","messages":[`+messages+`]}`)
}

func post(t *testing.T, web *httptest.Server, body string) (int, string) {
	t.Helper()
	res, err := web.Client().Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(got)
}

// said is the text of a whole answer, or its calls as name(arguments).
func said(t *testing.T, body string) string {
	t.Helper()
	var a struct {
		Choices []struct {
			Message struct {
				Content   string `json:"content"`
				ToolCalls []struct {
					Function struct {
						Name      string `json:"name"`
						Arguments string `json:"arguments"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil || len(a.Choices) != 1 {
		t.Fatalf("not an answer: %s", body)
	}
	out := a.Choices[0].Message.Content
	for _, c := range a.Choices[0].Message.ToolCalls {
		out += c.Function.Name + "(" + c.Function.Arguments + ")"
	}
	return out
}

const (
	sys   = `{"role":"system","content":"You are sub-7, a coder."}`
	user  = `,{"role":"user","content":"Fix bug 42 please"}`
	calls = `,{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"bash","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"bash","arguments":"{}"}}]}`
	ans1  = `,{"role":"tool","tool_call_id":"1","content":"exit 3"}`
	ans2  = `,{"role":"tool","tool_call_id":"2","content":"exit 0"}`
	reply = `,{"role":"assistant","content":"Done."}`
)

func TestRulesMatchAndFillIn(t *testing.T) {
	_, web := serve(t, `
rules:
  - agent: '(sub-\d+), a (\w+)'
    last: 'bug (\d+)'
    text: 'I am {{index .AgentMatch 1}}, on bug {{index .Match 1}} at step {{.Step}}.'
  - last: 'exit (\d)'
    user: 'Fix (\w+)'
    step: 2
    tool_calls:
      - name: bash
        arguments: {command: 'echo "{{.Last}}" {{index .UserMatch 1}}', timeout_ms: 500, background: false, env: [null, 1.5, {a: 'b'}]}
      - name: report
        arguments: '{"raw": {{printf "%q" .User}}'
      - name: ls
default: {text: 'nothing to say'}
`)
	for history, want := range map[string]string{
		sys + user: "I am sub-7, on bug 42 at step 1.",
		sys + user + calls + ans1 + ans2: `bash({"command":"echo \"exit 0\" bug","timeout_ms":500,"background":false,"env":[null,1.5,{"a":"b"}]})` +
			`report({"raw": "Fix bug 42 please")ls({})`,
		sys + user + reply + `,{"role":"user","content":"Thanks"}`: "nothing to say",
	} {
		status, body := ask(t, web, history)
		if status != http.StatusOK || said(t, body) != want {
			t.Errorf("status %d, got %s, want %s", status, body, want)
		}
	}
}

func TestEachMatchIsACall(t *testing.T) {
	_, web := serve(t, `
rules:
  - each: 'bug (\d+)'
    tool_calls: [{name: fix, arguments: {bug: '{{index .Match 1}}'}}]
default: {text: 'no bugs'}
`)
	for message, want := range map[string]string{
		"bug 7, then bug 8": `fix({"bug":"7"})fix({"bug":"8"})`,
		"all is well":       "no bugs",
	} {
		status, body := ask(t, web, sys+`,{"role":"user","content":"`+message+`"}`)
		if status != http.StatusOK || said(t, body) != want {
			t.Errorf("status %d, got %s, want %s", status, body, want)
		}
	}
}

// A daemon that is killed asks again with the same history.
func TestSameHistorySameAnswer(t *testing.T) {
	_, web := serve(t, "default: {tool_calls: [{name: a}, {name: b}]}")
	_, first := ask(t, web, sys+user)
	_, again := ask(t, web, sys+user)
	cut := func(s string) string { _, after, _ := strings.Cut(s, `"choices"`); return after }
	if cut(first) != cut(again) {
		t.Errorf("got %s, then %s", first, again)
	}
	if _, other := ask(t, web, sys+user+reply+user); cut(other) == cut(first) {
		t.Error("another history got the same call ids")
	}
}

func TestNoRuleMatches(t *testing.T) {
	srv, web := serve(t, "rules: [{step: 9, text: x}]")
	status, body := ask(t, web, sys+user)
	if status != http.StatusBadRequest || !strings.Contains(body, "Fix bug 42") || !strings.Contains(body, "no_rule") {
		t.Errorf("status %d: %s", status, body)
	}
	if len(srv.Rejections()) != 0 || srv.Requests() != 1 {
		t.Errorf("%d requests, rejections %q", srv.Requests(), srv.Rejections())
	}
}

func TestTimesAndFaultTimes(t *testing.T) {
	_, web := serve(t, `
rules:
  - {last: bug, status: 429, retry_after: 1500ms, fault_times: 1, times: 3, text: first rule}
  - {last: bug, text: second rule}
`)
	other := strings.Replace(user, "please", "now", 1)
	var got []string
	for _, u := range []string{user, other, user, other} { // each history sees the fault once; the rule answers thrice
		status, body := ask(t, web, sys+u)
		if status == http.StatusOK {
			body = said(t, body)
		} else {
			body = fmt.Sprint(status)
		}
		got = append(got, body)
	}
	if s := fmt.Sprint(got); s != "[429 429 first rule second rule]" {
		t.Errorf("got %s", s)
	}
}

func TestRefusalSaysWhenToComeBack(t *testing.T) {
	_, web := serve(t, "default: {status: 429, retry_after: 1500ms, message: slow down}")
	res, err := web.Client().Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[`+sys+user+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(res.Body)
	if res.Header.Get("Retry-After") != "2" || res.Header.Get("Retry-After-Ms") != "1500" || !strings.Contains(string(body), "slow down") {
		t.Errorf("headers %v, body %s", res.Header, body)
	}
}

func TestFaultsOfAnswersThatAreNotStreamed(t *testing.T) {
	_, web := serve(t, `
rules:
  - {last: cut, fault: cut, text: hello}
  - {last: trunc, fault: truncate, text: hello}
  - {last: error, fault: error, text: hello}
`)
	for word, want := range map[string]string{"trunc": "{", "error": `{"error":`} {
		status, body := ask(t, web, sys+`,{"role":"user","content":"`+word+`"}`)
		if status != http.StatusOK || !strings.HasPrefix(body, want) || json.Valid([]byte(body)) != (word == "error") {
			t.Errorf("%s: status %d, %s", word, status, body)
		}
	}
	res, err := web.Client().Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[`+sys+`,{"role":"user","content":"cut"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut answer ended with %v", err)
	}
}

func TestModelsAndStrangers(t *testing.T) {
	srv, web := serve(t, "default: {text: x}")
	res, err := web.Client().Get(web.URL + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), `"scripted"`) {
		t.Errorf("models: %s", body)
	}
	r := httptest.NewRequest(http.MethodGet, "/v1/models", nil) // from 192.0.2.1
	w := httptest.NewRecorder()
	srv.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("a stranger got %d", w.Code)
	}
}

func TestScriptErrorsNameTheLine(t *testing.T) {
	for yaml, want := range map[string]string{
		"":                                                                  "neither rules nor a default",
		"rules:\n  - step: 1\n    txt: hi\n":                                "line 3: field txt not found",
		"rules:\n- text: hi\n- step: 1\n":                                   "line 3: rule: it answers neither",
		"rules:\n- {last: '(', text: x}":                                    "line 2: last: error parsing regexp",
		"rules:\n\n- {text: '{{.Last'}":                                     "line 3: text:",
		"rules:\n- {text: '{{.Nope}}', step: -1}":                           "line 2: step: must not be negative",
		"rules:\n- {fault: explode, text: x}":                               `line 2: fault: "explode"`,
		"rules:\n- {status: 200}":                                           "line 2: status: 200 is no error",
		"rules:\n- {status: 500, fault: cut}":                               "line 2: status: excludes fault",
		"rules:\n- {each: x, text: y}":                                      "line 2: each: needs tool_calls",
		"rules:\n- {status: 500, fault_times: 1}":                           "line 2: rule: it answers neither",
		"rules:\n- {text: x, fault_times: 1}":                               "need a status or a fault",
		"rules:\n- {delay: soon, text: x}":                                  "line 2: cannot unmarshal",
		"default: {text: x, last: y}":                                       "line 1: the default matches everything",
		"rules:\n- tool_calls: [{name: 'a b'}]":                             `line 2: tool_calls: "a b"`,
		"rules:\n- tool_calls:\n  - {name: a, arguments: [1]}":              "line 3: arguments",
		"rules:\n- tool_calls:\n  - name: a\n    arguments:\n      x: '{{'": "line 5:",
		"rules: [": "line 1",
	} {
		_, err := script.Parse([]byte(yaml))
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), "script.") {
			t.Errorf("%q: %v; want %s", yaml, err, want)
		}
		if err != nil && errdefs.KindOf(err) != errdefs.InvalidArgument {
			t.Errorf("%q: kind %d", yaml, errdefs.KindOf(err))
		}
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	if _, err := script.Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, []byte("rules:\n- {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := script.Load(path); err == nil || !strings.Contains(err.Error(), path+": line 2") {
		t.Errorf("bad file: %v", err)
	}
	if err := os.WriteFile(path, []byte("default: {text: hi}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := script.Load(path); err != nil {
		t.Error(err)
	}
}

func TestBadTemplateIsAnError(t *testing.T) {
	_, web := serve(t, "rules: [{text: '{{index .Match 4}}'}]")
	if status, body := ask(t, web, sys+user); status != http.StatusBadRequest || !strings.Contains(body, "line 1 of the script") {
		t.Errorf("status %d: %s", status, body)
	}
}

// Histories that the real API or a strict template refuses.
func TestValidate(t *testing.T) {
	body := func(messages, more string) string { return `{"model":"m","messages":[` + messages + `]` + more + `}` }
	good := []string{
		body(sys+user, ""), body(sys+user+reply+user, `,"stream":true,"stream_options":{"include_usage":true},"max_tokens":5`),
		body(sys+user+calls+ans2+ans1+user, `,"temperature":0,"tools":[{"type":"function","function":{"name":"bash","description":"d","parameters":{"type":"object"}}}],"tool_choice":"none"`),
		body(sys+`,{"role":"user","content":[{"type":"text","text":"hi"}]}`, ""),
	}
	for _, b := range good {
		if err := script.Validate([]byte(b)); err != nil {
			t.Errorf("refused: %v: %s", err, b)
		}
	}
	tools := func(tool string) string { return body(sys+user, `,"tools":[`+tool+`]`) }
	empty := `,{"role":"assistant","content":"","tool_calls":[]}`
	for b, want := range map[string]string{
		`[]`:                                    "the body",
		body(sys+user, "") + "x":                "goes on",
		body(sys+"\xff"+user, ""):               "UTF-8",
		body(sys+user, `,"madeup":1`):           "madeup",
		`{"messages":[` + sys + user + `]}`:     "model: missing",
		body("", ""):                            "messages: empty",
		body(sys+user, `,"tools":[]`):           "tools: an empty array",
		body(sys+user, `,"tool_choice":"auto"`): "only with tools",
		body(sys+user, `,"stream_options":{}`):  "only with stream",
		body(sys+user, `,"max_tokens":0`):       "less than 1",
		body(sys+user, `,"max_tokens":1,"max_completion_tokens":1`):                                                    "not together",
		tools(`{"type":"f","function":{"name":"a","parameters":{"type":"object"}}}`):                                   "type",
		tools(`{"type":"function","function":{"name":"a b","parameters":{"type":"object"}}}`):                          "name",
		tools(`{"type":"function","function":{"name":"a","parameters":{"type":"array"}}}`):                             "schema of an object",
		tools(`{"type":"function","function":{"name":"a"}}`):                                                           "schema of an object",
		tools(strings.Repeat(`{"type":"function","function":{"name":"a","parameters":{"type":"object"}}},`, 2) + `{}`): "stands twice",
		body(user[1:], ""):                                                                        "messages[0]: the first message",
		body(sys+user+reply+`,`+sys+user, ""):                                                     "messages[3]: the first message",
		body(sys, ""):                                                                             "ends with a message of the system",
		body(sys+reply+user, ""):                                                                  "speaks first",
		body(sys+user+user, ""):                                                                   "messages[2]: two messages of the user",
		body(sys+user+reply, ""):                                                                  "ends with a message of the assistant",
		body(sys+user+reply+reply+user, ""):                                                       "two messages of the assistant",
		body(sys+`,{"role":"robot","content":"x"}`, ""):                                           `unknown role "robot"`,
		body(sys+`,{"role":"user","content":""}`, ""):                                             "is empty",
		body(sys+`,{"role":"user","content":[{"type":"image"}]}`, ""):                             "image",
		body(sys+`,{"role":"user","content":"x","tool_call_id":"1"}`, ""):                         "belongs to role tool",
		body(sys+`,{"role":"user","content":"x","tool_calls":[]}`, ""):                            "belong to role assistant",
		body(sys+user+empty+user, ""):                                                             "empty array",
		body(sys+user+`,{"role":"assistant","content":null}`+user, ""):                            "neither content nor tool_calls",
		body(sys+user+calls, ""):                                                                  "2 unanswered calls",
		body(sys+user+calls+ans1, ""):                                                             "1 unanswered calls",
		body(sys+user+calls+ans1+user, ""):                                                        "while 1 calls are unanswered",
		body(sys+user+calls+ans1+ans1+ans2, ""):                                                   "answered twice",
		body(sys+user+calls+ans1+ans2+user+`,{"role":"assistant","content":"x"}`+ans1, ""):        "not directly after it",
		body(sys+user+ans1, ""):                                                                   "no call before it has",
		body(sys+user+calls+ans1+ans2+calls+ans1+ans2, ""):                                        "stands for two calls",
		body(sys+user+strings.Replace(calls, `"id":"1"`, `"id":""`, 1)+ans1+ans2, ""):             "without an id",
		body(sys+user+strings.Replace(calls, `"type":"function"`, `"type":"f"`, 1)+ans1+ans2, ""): "of type",
		body(sys+user+strings.Replace(calls, `"{}"`, `"[]"`, 1)+ans1+ans2, ""):                    "not a JSON object",
		body(sys+user+strings.Replace(calls, `bash`, `b sh`, 1)+ans1+ans2, ""):                    "the name",
		body(sys+user+calls+`,{"role":"tool","tool_call_id":"1"}`+ans2, ""):                       "without content",
	} {
		if err := script.Validate([]byte(b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s: %s", err, want, b)
		}
	}
}

func TestRejectionsAreCounted(t *testing.T) {
	srv, web := serve(t, "default: {text: x}")
	status, body := ask(t, web, sys+user+user)
	if status != http.StatusBadRequest || !strings.Contains(body, `"invalid_request_error"`) {
		t.Errorf("status %d: %s", status, body)
	}
	if r := srv.Rejections(); len(r) != 1 || !strings.Contains(r[0], "two messages of the user") || srv.Requests() != 1 {
		t.Errorf("rejections %q", r)
	}
}

func TestTwoHundredAgentsAtOnce(t *testing.T) {
	srv, web := serve(t, "rules: [{step: 1, tool_calls: [{name: bash}]}, {text: 'done, {{.Last}}'}]")
	web.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 200
	var done sync.WaitGroup
	for range 200 {
		done.Go(func() {
			for _, history := range []string{sys + user, sys + user + calls + ans1 + ans2} {
				if status, body := ask(t, web, history); status != http.StatusOK {
					t.Errorf("status %d: %s", status, body)
				}
			}
		})
	}
	done.Wait()
	if srv.Requests() != 400 {
		t.Errorf("%d requests", srv.Requests())
	}
}
