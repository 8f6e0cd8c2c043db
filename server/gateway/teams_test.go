package gateway

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// get reads an answer that must be a success.
func (f *front) get(method, path, body string) string {
	f.t.Helper()
	resp, got := f.do(f.request(method, path, body))
	if resp.StatusCode != http.StatusOK {
		f.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, got)
	}
	return strings.ReplaceAll(got, " ", "") // protobuf varies its spaces on purpose
}

// mate spawns a teammate in the team shop and follows its first turn.
func (f *front) mate(name string) string {
	f.t.Helper()
	return f.get(http.MethodPost, "/v1/tasks", `{"team":"shop","request_id":"spawn-`+name+`","teammate":{"name":"`+name+
		`","agent":{"prompt":"do it"}}}`)
}

// newShop is a front with the team shop.
func newShop(t *testing.T) *front {
	t.Helper()
	f := newFront(t)
	close(f.more)
	workspace, err := json.Marshal(f.workspace)
	must(t, err)
	f.get(http.MethodPost, "/v1/teams", `{"name":"shop","workspace":`+string(workspace)+`}`)
	return f
}

// The whole of a team's life is there: POST, GET, PATCH with a body, DELETE with a query.
func TestTeamsOverREST(t *testing.T) {
	f := newShop(t)
	if got := f.get(http.MethodGet, "/v1/teams?page_size=1", ""); !strings.Contains(got, `"name":"shop"`) {
		t.Errorf("list: %s", got)
	}
	if got := f.mate("Ann"); !strings.Contains(got, `"idle":{"task_id":"tm-`) {
		t.Errorf("spawned: %s", got)
	}
	for path, want := range map[string]string{
		"/v1/teams/shop": `"teammates":1`,
		"/v1/teams/shop/teammates?living=true&page_size=5":      `"agent_id":"Ann@shop"`,
		"/v1/teams/shop/teammates/ann":                          `"agent_id":"Ann@shop"`,
		"/v1/tasks/ANN/transcript?team=shop":                    `"text":"itisdone"`,
		"/v1/teams/shop/inbox?tail=1":                           `"kind":"MESSAGE_KIND_IDLE"`,
		"/v1/teams/shop/inbox?after=0&unread=true&follow=false": `"kind":"MESSAGE_KIND_IDLE"`,
	} {
		if got := f.get(http.MethodGet, path, ""); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := f.get(http.MethodPatch, "/v1/teams/shop", `{"description":"sells"}`); !strings.Contains(got, `"description":"sells"`) {
		t.Errorf("changed: %s", got)
	}
	if got := f.get(http.MethodPost, "/v1/teams/shop/inbox:ack", `{"up_to":"99999"}`); !strings.Contains(got, `"unread":0`) {
		t.Errorf("acknowledged: %s", got)
	}
	if got := f.get(http.MethodPost, "/v1/teams/shop/teammates/Ann:dismiss", `{"level":"STOP_LEVEL_KILL"}`); !strings.Contains(got, `"dismissed":true`) {
		t.Errorf("dismissed: %s", got)
	}
	if got := f.get(http.MethodPatch, "/v1/teams/shop", `{"name":"store"}`); !strings.Contains(got, `"name":"store"`) {
		t.Errorf("renamed: %s", got)
	}
	f.get(http.MethodDelete, "/v1/teams/store?level=STOP_LEVEL_KILL&request_id=once&reason=over", "")
	resp, body := f.do(f.request(http.MethodGet, "/v1/teams/store", ""))
	checkFailure(t, f.refused(resp, body, http.StatusNotFound), "TEAM_NOT_FOUND", "")
}

// What a path does not know, or has itself, is no parameter of it.
func TestTeamQueriesAreStrict(t *testing.T) {
	f := newShop(t)
	for field, r := range map[string]*http.Request{
		"team":  f.request(http.MethodDelete, "/v1/teams/shop?team=other", ""),
		"force": f.request(http.MethodDelete, "/v1/teams/shop?force=true", ""),
		"after": f.request(http.MethodGet, "/v1/teams/shop?after=1", ""),
		"query": f.request(http.MethodDelete, "/v1/teams/shop?level=HARD", ""),
		"up_to": f.request(http.MethodPost, "/v1/teams/shop/inbox:ack?up_to=1", "{}"),
	} {
		resp, body := f.do(r)
		checkFailure(t, f.refused(resp, body, http.StatusBadRequest), "INVALID_ARGUMENT", field)
	}
	f.get(http.MethodGet, "/v1/teams/shop", "")
}

// A spawn and a message over REST are resumed: by their request ids, by TaskOutput, and by the message's receipts.
func TestSpawnAndSendAreResumed(t *testing.T) {
	f := newShop(t)
	first, again := f.mate("Ann"), f.mate("Ann")
	id := func(lines string) string {
		_, rest, _ := strings.Cut(lines, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	if id(first) == "" || id(first) != id(again) || !strings.Contains(again, `"idle":{`) {
		t.Errorf("spawned %s, then %s", first, again)
	}
	if got := f.get(http.MethodGet, "/v1/tasks/"+id(first)+"/output?wait_for=WAIT_FOR_IDLE&timeout=30s", ""); !strings.Contains(got, `"idle":{`) {
		t.Errorf("output: %s", got)
	}
	body := `{"team":"shop","to":"Ann","text":"hurry","request_id":"m","until":"RECEIPT_STATE_ANSWERED"}`
	sent, resent := f.get(http.MethodPost, "/v1/messages", body), f.get(http.MethodPost, "/v1/messages", body)
	message := func(lines string) string {
		_, rest, _ := strings.Cut(lines, `"message_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	if message(sent) == "" || message(sent) != message(resent) || !strings.Contains(resent, "RECEIPT_STATE_ANSWERED") {
		t.Errorf("sent %s, then %s", sent, resent)
	}
	if got := f.get(http.MethodGet, "/v1/messages/"+message(sent), ""); !strings.Contains(got, "RECEIPT_STATE_ANSWERED") {
		t.Errorf("receipts: %s", got)
	}
	resp, text := f.do(f.request(http.MethodGet, "/v1/messages/m-999999", ""))
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("a message that is none: %s: %s", resp.Status, text)
	}
}

// event is a server-sent event.
type event struct{ id, data string }

// events opens a stream as server-sent events.
func (f *front) events(path, after string) func() event {
	f.t.Helper()
	r := f.request(http.MethodGet, path, "")
	r.Header.Set("Accept", "text/event-stream, */*;q=0.1")
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	resp := f.open(r)
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		f.t.Fatalf("%s: %s, %s", path, resp.Status, got)
	}
	lines := bufio.NewScanner(resp.Body)
	return func() (e event) {
		f.t.Helper()
		for lines.Scan() && lines.Text() != "" {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "data":
				e.data = strings.ReplaceAll(value, " ", "")
			default:
				f.t.Errorf("the line is %q", lines.Text())
			}
		}
		return e
	}
}

// An inbox is followed as server-sent events: the id of each is its position, and Last-Event-ID resumes after it.
func TestInboxAsEvents(t *testing.T) {
	f := newShop(t)
	f.mate("Ann")
	next := f.events("/v1/teams/shop/inbox?follow=true", "")
	first := next()
	if first.id == "" || !strings.Contains(first.data, `{"result":{"message":{"pos":"`+first.id+`"`) {
		t.Fatalf("the first event: %+v", first)
	}
	f.mate("Bob")
	second := next()
	if second.id == "" || second.id == first.id {
		t.Errorf("the second event: %+v", second)
	}
	resumed := f.events("/v1/teams/shop/inbox?follow=true&tail=5", first.id)
	if got := resumed(); got != second {
		t.Errorf("after the first: %+v, want %+v", got, second)
	}
}

// Other streams are the same: transcripts by seq, what happens by cursor. What can't be resumed, or by no such id, is refused.
func TestStreamsAsEvents(t *testing.T) {
	f := newShop(t)
	f.mate("Ann")
	next := f.events("/v1/tasks/tm-1/output", "")
	task, entry, second := next(), next(), next()
	if task.id != "" || entry.id == "" || second.id == "" {
		t.Fatalf("the output: %+v, %+v, %+v", task, entry, second)
	}
	resumed := f.events("/v1/tasks/tm-1/output?from_seq=1", entry.id)
	if resumed(); resumed() != second {
		t.Error("the output is not resumed behind the entry")
	}
	cursor := f.events("/v1/events", "")()
	if cursor.id == "" {
		t.Errorf("the watch: %+v", cursor)
	}
	if got := f.events("/v1/events", url.QueryEscape(cursor.id))(); got.id == "" {
		t.Errorf("the watch behind its cursor: %+v", got)
	}
	for _, path := range []string{"/v1/teams/shop/inbox", "/v1/tasks/tm-1/output", "/v1/teams"} {
		r := f.request(http.MethodGet, path, "")
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Set("Last-Event-ID", "x")
		resp, body := f.do(r)
		checkFailure(t, f.refused(resp, body, http.StatusBadRequest), "INVALID_ARGUMENT", "Last-Event-ID")
	}
	r := f.request(http.MethodGet, "/v1/teams/shop", "")
	r.Header.Set("Accept", "text/event-stream")
	if resp, body := f.do(r); resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("what is no stream: %s", body)
	}
}
