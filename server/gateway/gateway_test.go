package gateway

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata anew")

func TestTokenIsNeeded(t *testing.T) {
	f := newFront(t)
	for _, path := range []string{"/v1/status", "/v1/tasks", "/nowhere", "/"} {
		for _, header := range []string{"", "Bearer", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x"} {
			r := f.request(http.MethodGet, path, "")
			r.Header.Set("Authorization", header)
			resp, body := f.do(r)
			checkFailure(t, f.refused(resp, body, http.StatusUnauthorized), "UNAUTHENTICATED", "")
			if resp.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s with %q: no WWW-Authenticate", path, header)
			}
		}
	}
	if resp, body := f.do(f.request(http.MethodGet, "/v1/status", "")); resp.StatusCode != http.StatusOK {
		t.Errorf("with the token: %s %s", resp.Status, body)
	}
}

// A second Authorization, by whatever way, does not reach the gRPC server as another one.
func TestTokenIsTheOnlyCredential(t *testing.T) {
	f := newFront(t)
	r := f.request(http.MethodGet, "/v1/status", "")
	r.Header.Set("Grpc-Metadata-Authorization", "Bearer other")
	if resp, body := f.do(r); resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s", resp.Status, body)
	}
}

// proves P8
func TestHostIsChecked(t *testing.T) {
	f := newFront(t)
	_, port, err := net.SplitHostPort(f.address)
	must(t, err)
	for host, code := range map[string]int{
		"evil.example:" + port: http.StatusForbidden, "127.0.0.1": http.StatusForbidden,
		"localhost:" + port: http.StatusOK, "127.0.0.1:" + port: http.StatusOK,
	} {
		for _, path := range []string{"/v1/status", "/healthz"} {
			r := f.request(http.MethodGet, path, "")
			r.Host = host
			if resp, body := f.do(r); resp.StatusCode != code {
				t.Errorf("%s on %s: %s %s", path, host, resp.Status, body)
			}
		}
	}
}

// probe asks without the token.
func (f *front) probe(path string, code int) {
	f.t.Helper()
	r := f.request(http.MethodGet, path, "")
	r.Header.Del("Authorization")
	if resp, body := f.do(r); resp.StatusCode != code {
		f.t.Errorf("%s: %s %s, want %d", path, resp.Status, body, code)
	}
}

func TestProbesNeedNoToken(t *testing.T) {
	f := newFront(t)
	f.probe("/readyz", http.StatusOK)
	f.probe("/healthz", http.StatusOK)
	f.stop()
	f.probe("/readyz", http.StatusServiceUnavailable)
	f.probe("/healthz", http.StatusOK)
}

// proves D8
func TestStalledStoreIsAliveButNotReady(t *testing.T) {
	f := newFront(t, func(f *front) { f.stalled = true })
	f.probe("/readyz", http.StatusServiceUnavailable)
	f.probe("/healthz", http.StatusOK)
	if resp, body := f.do(f.request(http.MethodGet, "/v1/status", "")); !strings.Contains(body, "stalled") {
		t.Errorf("%s %s", resp.Status, body)
	}
}

func TestErrorsAreStatus(t *testing.T) {
	f := newFront(t)
	for name, c := range map[string]struct {
		method, path, body string
		code               int
		reason, field      string
	}{
		"unknown path":   {http.MethodGet, "/v1/nowhere", "", http.StatusNotFound, "", ""},
		"unknown method": {http.MethodDelete, "/v1/tasks", "", http.StatusMethodNotAllowed, "", ""},
		"no task":        {http.MethodGet, "/v1/tasks/sub-999", "", http.StatusNotFound, "TASK_NOT_FOUND", ""},
		"bad page":       {http.MethodGet, "/v1/tasks?page_size=1001", "", http.StatusBadRequest, "INVALID_ARGUMENT", "page_size"},
		"bad parameter":  {http.MethodGet, "/v1/tasks?living=true&folow=true", "", http.StatusBadRequest, "INVALID_ARGUMENT", "folow"},
		"no parameters":  {http.MethodGet, "/v1/status?page_size=1", "", http.StatusBadRequest, "INVALID_ARGUMENT", "page_size"},
		"path parameter": {http.MethodGet, "/v1/tasks/sub-999/output?task_id=sub-1", "", http.StatusBadRequest, "INVALID_ARGUMENT", "task_id"},
		"bad bytes":      {http.MethodGet, "/v1/tasks/%ff", "", http.StatusBadRequest, "INVALID_ARGUMENT", "task_id"},
		"bad page bytes": {http.MethodGet, "/v1/tasks?page_token=%ff", "", http.StatusBadRequest, "INVALID_ARGUMENT", "page_token"},
		"bad name bytes": {http.MethodGet, "/v1/tasks?%ff=1", "", http.StatusBadRequest, "INVALID_ARGUMENT", "\uFFFD"},
		"bad escape":     {http.MethodGet, "/v1/tasks?team=%zz", "", http.StatusBadRequest, "INVALID_ARGUMENT", "query"},
		"query of POST":  {http.MethodPost, "/v1/tasks?detach=true", `{}`, http.StatusBadRequest, "INVALID_ARGUMENT", "detach"},
		"form for GET":   {http.MethodPost, "/v1/tasks/sub-999", "", http.StatusMethodNotAllowed, "", ""},
		"bad enum":       {http.MethodGet, "/v1/tasks?state=GONE", "", http.StatusBadRequest, "INVALID_ARGUMENT", "query"},
		"other cursor":   {http.MethodGet, "/v1/events?from_seq=1", "", http.StatusBadRequest, "INVALID_ARGUMENT", "from_seq"},
		"query of stop":  {http.MethodPost, "/v1/teams/nobody:stop?level=STOP_LEVEL_KILL", "", http.StatusBadRequest, "INVALID_ARGUMENT", "level"},
		"bad agents":     {http.MethodGet, "/v1/agents?name=x", "", http.StatusBadRequest, "INVALID_ARGUMENT", "name"},
		"query of load":  {http.MethodPost, "/v1/daemon:reload?force=true", "", http.StatusBadRequest, "INVALID_ARGUMENT", "force"},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.request(c.method, c.path, c.body)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl -d says, whatever it sends
			resp, body := f.do(r)
			checkFailure(t, f.refused(resp, body, c.code), c.reason, c.field)
		})
	}
	for name, c := range map[string]struct {
		path, body    string
		code          int
		reason, field string
	}{
		"no prompt":     {"/v1/tasks", `{"single":{}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "single.prompt"},
		"no recipient":  {"/v1/messages", `{"to":"sub-999","text":"x"}`, http.StatusNotFound, "RECIPIENT_NOT_FOUND", ""},
		"stop of none":  {"/v1/tasks/sub-999:stop", `{}`, http.StatusNotFound, "TASK_NOT_FOUND", ""},
		"no team yet":   {"/v1/messages", `{"to":"nobody","text":"x"}`, http.StatusNotFound, "TEAM_NOT_FOUND", ""},
		"no such team":  {"/v1/teams/nobody:stop", `{}`, http.StatusNotFound, "TEAM_NOT_FOUND", ""},
		"no items":      {"/v1/tasks", `{"parallel":{"items":[]}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "parallel.items"},
		"empty step":    {"/v1/tasks", `{"chain":{"items":[{"prompt":"x"},{}]}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "chain.items[1].prompt"},
		"no command":    {"/v1/tasks", `{"shell":{}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "shell.command"},
		"no amount":     {"/v1/tasks", `{"single":{"prompt":"x","budget":{"cost_usd":"NaN"}}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "single.budget.cost_usd"},
		"two modes":     {"/v1/tasks", `{"single":{"prompt":"x"},"shell":{"command":"x"}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "body"},
		"bad variable":  {"/v1/tasks", `{"shell":{"command":"x","env":{"A":1}}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "body"},
		"same variable": {"/v1/tasks", `{"shell":{"command":"x","env":{"A":"1","A":"2"}}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "body"},
		"in an item":    {"/v1/tasks", `{"parallel":{"items":[{"promt":"x"}]}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "body"},
		"bad time":      {"/v1/tasks", `{"timeout":"soon","shell":{"command":"x"}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "body"},
		"bad isolation": {"/v1/tasks", `{"single":{"prompt":"x","isolation":"ISOLATION_TOTAL"}}`, http.StatusBadRequest, "INVALID_ARGUMENT", "body"},
		"bad level":     {"/v1/teams/nobody:stop", `{"level":"STOP_LEVEL_NICELY"}`, http.StatusBadRequest, "INVALID_ARGUMENT", "body"},
		"reload what":   {"/v1/daemon:reload", `{"all":true}`, http.StatusBadRequest, "INVALID_ARGUMENT", "body"},
		"unknown field": {"/v1/tasks", `{"promt":"x"}`, http.StatusBadRequest, "INVALID_ARGUMENT", "body"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := f.do(f.request(http.MethodPost, c.path, c.body))
			if c.field != "body" { // the method was reached: its stream broke
				line := struct{ Error json.RawMessage }{}
				must(t, json.Unmarshal([]byte(body), &line))
				body = string(line.Error)
			}
			checkFailure(t, f.refused(resp, body, c.code), c.reason, c.field)
		})
	}
}

// What a body holds beside the one object of the request is refused, not dropped.
func TestBodyIsOneObject(t *testing.T) {
	f := newFront(t)
	for name, c := range map[string]struct{ path, body, field string }{
		"cut off":        {"/v1/tasks", `{`, "body"},
		"a list":         {"/v1/messages", `[]`, "body"},
		"two objects":    {"/v1/messages", `{"to":"sub-1","text":"a"}{"to":"sub-1","text":"b"}`, "body"},
		"two lines":      {"/v1/messages", `{"to":"sub-1","text":"a"}` + "\n" + `{"to":"sub-1","text":"b"}`, "body"},
		"garbage":        {"/v1/messages", `{"to":"sub-1","text":"a"}garbage`, "body"},
		"other task":     {"/v1/tasks/sub-1:stop", `{"task_id":"sub-2"}`, "task_id"},
		"in camel case":  {"/v1/tasks/sub-1:stop", `{"taskId":"sub-2"}`, "task_id"},
		"with an escape": {"/v1/tasks/sub-1:stop", `{"task\u005fid":"sub-2"}`, "task_id"},
		"other team":     {"/v1/teams/shop:stop", `{"team":"farm"}`, "team"},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := f.do(f.request(http.MethodPost, c.path, c.body))
			checkFailure(t, f.refused(resp, body, http.StatusBadRequest), "INVALID_ARGUMENT", c.field)
		})
	}
	for name, body := range map[string]string{
		"nothing": "", "space": " \n", "object": " {}\n",
		"same task": `{"task_id":"sub-999"}`, "in camel case": `{"taskId":"sub-999"}`,
		"null": `{"task_id":null}`, "empty": `{"task_id":""}`,
	} {
		_, answer := f.do(f.request(http.MethodPost, "/v1/tasks/sub-999:stop", body))
		if !strings.Contains(answer, "TASK_NOT_FOUND") {
			t.Errorf("%s: the method was not reached: %s", name, answer)
		}
	}
}

// proves N8
func TestBodyIsBounded(t *testing.T) {
	f := newFront(t)
	resp, answer := f.do(f.request(http.MethodPost, "/v1/tasks", `{"description":"`+strings.Repeat("x", maxBody)+`"}`))
	checkFailure(t, f.refused(resp, answer, http.StatusBadRequest), "TOO_LARGE", "request")
	full := `{"promt":"` + strings.Repeat("x", maxBody-len(`{"promt":""}`)) + `"}`
	if _, answer := f.do(f.request(http.MethodPost, "/v1/tasks", full)); !strings.Contains(answer, "unknown field") {
		t.Errorf("a body of %d bytes: %s", len(full), answer)
	}
}

// checkFailure checks the details of an error; one without a reason was never seen by the gRPC server.
func checkFailure(t *testing.T, got failure, reason, field string) {
	t.Helper()
	var gotReason, gotField string
	for _, d := range got.Details {
		if strings.HasSuffix(d.Type, "ErrorInfo") {
			gotReason = d.Reason
		}
		for _, v := range d.FieldViolations {
			gotField = v.Field
		}
	}
	if gotReason != reason || gotField != field {
		t.Errorf("got %q, field %q; want %q, field %q", gotReason, gotField, reason, field)
	}
}

// The first line comes at once, while the task still runs.
func TestStreamBeginsAtOnce(t *testing.T) {
	f := newFront(t)
	resp := f.open(f.request(http.MethodPost, "/v1/tasks", f.spawn("")))
	lines := json.NewDecoder(resp.Body)
	var first struct {
		Result struct{ Task struct{ ID string } }
	}
	must(t, lines.Decode(&first))
	if resp.StatusCode != http.StatusOK || first.Result.Task.ID == "" {
		t.Fatalf("%s %+v", resp.Status, first)
	}
	close(f.more)
	var outcome struct {
		Result struct{ Outcome *struct{ State string } }
	}
	for outcome.Result.Outcome == nil {
		must(t, lines.Decode(&outcome))
	}
	if outcome.Result.Outcome.State != "TASK_STATE_COMPLETED" {
		t.Errorf("outcome: %+v", outcome)
	}
	if err := lines.Decode(&outcome); err != io.EOF {
		t.Errorf("after the outcome: %v", err)
	}
}

// A stop of the daemon ends a stream with a line that says so.
func TestStopEndsStreamsWithAnError(t *testing.T) {
	f := newFront(t)
	resp := f.open(f.request(http.MethodPost, "/v1/tasks", f.spawn(`,"cancel_on_disconnect":true`)))
	lines := json.NewDecoder(resp.Body)
	must(t, lines.Decode(&struct{}{}))
	f.stop()
	var line struct{ Error failure }
	for line.Error.Code == 0 {
		must(t, lines.Decode(&line))
	}
	checkFailure(t, line.Error, "SHUTTING_DOWN", "")
	close(f.more)
}

// proves T6
func TestClientThatLeavesCancelsWhatItAskedToCancel(t *testing.T) {
	f := newFront(t)
	resp := f.open(f.request(http.MethodPost, "/v1/tasks", f.spawn(`,"cancel_on_disconnect":true`)))
	var first struct {
		Result struct{ Task struct{ ID string } }
	}
	must(t, json.NewDecoder(resp.Body).Decode(&first))
	must(t, resp.Body.Close())
	_, output := f.do(f.request(http.MethodGet, "/v1/tasks/"+first.Result.Task.ID+"/output?wait_for=WAIT_FOR_TERMINAL&tail=1", ""))
	if !strings.Contains(output, "TASK_REASON_STOPPED_BY_CLIENT") {
		t.Errorf("output: %s", output)
	}
}

// TestShapeOfJSON compares whole answers with the golden files: field names, enum names, numbers as the docs promise.
func TestShapeOfJSON(t *testing.T) {
	f := newFront(t)
	close(f.more)
	_, spawned := f.do(f.request(http.MethodPost, "/v1/tasks", f.spawn(`,"request_id":"r1","detach":true`)))
	var first struct {
		Result struct{ Task struct{ ID string } }
	}
	must(t, json.Unmarshal([]byte(spawned), &first))
	id := first.Result.Task.ID
	_, output := f.do(f.request(http.MethodGet, "/v1/tasks/"+id+"/output?wait_for=WAIT_FOR_TERMINAL&timeout=30s", ""))
	f.golden("output", strings.SplitN(output, "\n", 2)[1]) // the first line is the task as it happened to be
	_, got := f.do(f.request(http.MethodGet, "/v1/tasks/"+id, ""))
	f.golden("task", got)
	_, list := f.do(f.request(http.MethodGet, "/v1/tasks?state=TASK_STATE_COMPLETED&page_size=1", ""))
	f.golden("list", list)
	_, stopped := f.do(f.request(http.MethodPost, "/v1/tasks/"+id+":stop", `{"level":"STOP_LEVEL_KILL","cancel_timeout":"5s"}`))
	f.golden("stop", stopped)
	_, sent := f.do(f.request(http.MethodPost, "/v1/messages", `{"to":"`+id+`","text":"hurry"}`))
	f.golden("send", sent)
	_, status := f.do(f.request(http.MethodGet, "/v1/status", ""))
	f.golden("status", status)
	var of struct{ Task struct{ Team string } }
	must(t, json.Unmarshal([]byte(got), &of))
	_, stopped = f.do(f.request(http.MethodPost, "/v1/teams/"+of.Task.Team+":stop", `{"cancel_timeout":"5s"}`))
	f.golden("stopteam", stopped)
	_, failed := f.do(f.request(http.MethodPost, "/v1/tasks", `{}`))
	f.golden("error", failed)
}

// golden compares lines of JSON with a file, after what differs between runs is made equal.
func (f *front) golden(name, lines string) {
	f.t.Helper()
	var got bytes.Buffer
	for line := range strings.Lines(lines) {
		must(f.t, json.Indent(&got, []byte(strings.TrimSpace(line)), "", "  ")) // protojson varies its spaces on purpose
		got.WriteString("\n")
	}
	text := strings.ReplaceAll(got.String(), f.workspace, "/workspace")
	for pattern, stable := range map[string]string{
		`"20\d\d-[^"]*Z"`:         `"TIME"`,
		`"[0-9.]+s"`:              `"DURATION"`,
		`"(seq|last_seq)": "\d+"`: `"$1": "SEQ"`,
		`"team": "[^"]*"`:         `"team": "TEAM"`,
		`"cursor": "[^"]+"`:       `"cursor": "CURSOR"`,
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, stable)
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		must(f.t, os.MkdirAll("testdata", 0o755))
		must(f.t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	must(f.t, err)
	if text != string(want) {
		f.t.Errorf("%s differs from %s:\n%s", name, path, text)
	}
}

// Every field that a query can hold passes, with both of its names.
func TestQueryParametersPass(t *testing.T) {
	f := newFront(t)
	for _, path := range []string{
		"/v1/tasks?team=&kind=TASK_KIND_SUBAGENT&state=TASK_STATE_RUNNING&parent_task_id=&living=true&page_size=1&page_token=",
		"/v1/tasks?pageSize=1&parentTaskId=",
		"/v1/agents?workspace=", "/v1/agents",
	} {
		if resp, body := f.do(f.request(http.MethodGet, path, "")); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s: %s", path, resp.Status, body)
		}
	}
	path := "/v1/tasks/sub-999/output?tail=1&follow=true&deltas=true&timeout=5s&wait_for=WAIT_FOR_TERMINAL"
	if resp, body := f.do(f.request(http.MethodGet, path, "")); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "TASK_NOT_FOUND") {
		t.Errorf("%s: %s: %s", path, resp.Status, body)
	}
}

// watch opens a watch and gives its lines.
func (f *front) watch(query string) *json.Decoder {
	f.t.Helper()
	resp := f.open(f.request(http.MethodGet, "/v1/events?"+query, ""))
	if resp.StatusCode != http.StatusOK {
		f.t.Fatalf("%s: %s", query, resp.Status)
	}
	return json.NewDecoder(resp.Body)
}

// news is a line of a watch.
type news struct {
	Result struct {
		Cursor string
		Event  *struct {
			State *struct{ To string }
		}
		Gap *struct{ Reason string }
	}
}

// The first line of a watch comes at once, also of one that is resumed while nothing happens. proves O3
func TestEvents(t *testing.T) {
	f := newFront(t)
	lines := f.watch("")
	var first news
	must(t, lines.Decode(&first))
	if first.Result.Cursor == "" || first.Result.Event != nil {
		t.Errorf("the first line is %+v", first)
	}
	resumed := f.watch("cursor=" + first.Result.Cursor)
	must(t, resumed.Decode(&news{}))
	close(f.more)
	f.do(f.request(http.MethodPost, "/v1/tasks", f.spawn(`,"detach":true`)))
	for name, lines := range map[string]*json.Decoder{"first": lines, "resumed": resumed} {
		var got strings.Builder
		for !strings.Contains(got.String(), "TASK_STATE_COMPLETED") {
			var line json.RawMessage
			must(t, lines.Decode(&line))
			got.WriteString(string(line) + "\n")
		}
		f.golden("events", got.String())
		if t.Failed() {
			t.Fatalf("by the %s watch", name)
		}
	}
	for query, c := range map[string]struct {
		code          int
		reason, field string
	}{
		"team=nobody":    {http.StatusNotFound, "TEAM_NOT_FOUND", ""},
		"cursor=garbage": {http.StatusBadRequest, "INVALID_ARGUMENT", "cursor"},
	} {
		resp, body := f.do(f.request(http.MethodGet, "/v1/events?"+query, ""))
		line := struct{ Error json.RawMessage }{}
		must(t, json.Unmarshal([]byte(body), &line))
		checkFailure(t, f.refused(resp, string(line.Error), c.code), c.reason, c.field)
	}
	var gap news
	must(t, f.watch("cursor="+newFront(t).cursor()).Decode(&gap))
	if gap.Result.Gap == nil || gap.Result.Cursor == "" {
		t.Errorf("a cursor of another store: %+v", gap)
	}
}

// cursor is that of now.
func (f *front) cursor() string {
	f.t.Helper()
	var first news
	must(f.t, f.watch("").Decode(&first))
	return first.Result.Cursor
}

// The definitions are listed, and read anew.
func TestAgentsAndReload(t *testing.T) {
	f := newFront(t)
	for _, r := range []*http.Request{
		f.request(http.MethodGet, "/v1/agents", ""), f.request(http.MethodPost, "/v1/daemon:reload", "{}"),
		f.request(http.MethodPost, "/v1/daemon:reload", ""),
	} {
		resp, body := f.do(r)
		if resp.StatusCode != http.StatusOK || (r.Method == http.MethodGet && !strings.Contains(body, `"general"`)) {
			t.Errorf("%s: %s: %s", r.URL, resp.Status, body)
		}
	}
}
