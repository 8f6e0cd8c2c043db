package gateway

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"

	gwruntime "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// events marshals streams as server-sent events: the data of each is the line that the stream has otherwise, and its id is
// what a reader resumes after. What is no stream stays JSON.
type events struct{ gwruntime.JSONPb }

// isChunk tells whether a value is a part of a stream, as grpc-gateway wraps it: a result, or the error that ends it.
func isChunk(v any) bool {
	switch v.(type) {
	case map[string]any, map[string]proto.Message:
		return true
	}
	return false
}

// ContentType is that of an answer, or of a stream that fails before its first item.
func (e *events) ContentType(v any) string {
	if isChunk(v) {
		return eventStream
	}
	return e.JSONPb.ContentType(v)
}

// StreamContentType is that of a stream.
func (e *events) StreamContentType(any) string { return eventStream }

// Delimiter ends an event, together with the line's own end.
func (e *events) Delimiter() []byte { return []byte("\n") }

// Marshal makes one event, or plain JSON of what is no part of a stream.
func (e *events) Marshal(v any) ([]byte, error) {
	data, err := e.JSONPb.Marshal(v)
	if err != nil || !isChunk(v) {
		return data, err
	}
	id := ""
	if chunk, ok := v.(map[string]any); ok {
		if id = eventID(chunk["result"]); id != "" {
			id = "id: " + id + "\n"
		}
	}
	return fmt.Appendf(nil, "%sdata: %s\n", id, data), nil
}

// eventID is what a reader of the stream resumes after; empty for what is no position in it.
func eventID(item any) string {
	var pos uint64
	switch item := item.(type) {
	case *agentdv1.WatchResponse:
		return item.GetCursor()
	case *agentdv1.ReadInboxResponse:
		pos = item.GetMessage().GetPos()
	case *agentdv1.TaskOutputResponse:
		pos = item.GetEntry().GetSeq()
	}
	if pos == 0 {
		return ""
	}
	return strconv.FormatUint(pos, 10)
}

// asEvents sees to a request for server-sent events: it lets the stream begin after the event that the client saw last.
// Only what is read can be had so.
func asEvents(r *http.Request) error {
	wanted := r.Method == http.MethodGet && accepts(r, eventStream)
	if !wanted {
		r.Header.Del("Accept") // which chooses nothing else
		return nil
	}
	r.Header.Set("Accept", eventStream)
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		return nil
	}
	pattern, _ := gwruntime.HTTPPattern(r.Context())
	query := r.URL.Query()
	switch pattern.String() {
	case "/v1/events":
		query.Set("cursor", last)
	case "/v1/teams/{team=*}/inbox":
		if _, err := strconv.ParseUint(last, 10, 64); err != nil {
			return badField("Last-Event-ID", "%q is no position in an inbox", last)
		}
		query.Set("after", last)
		query.Del("tail")
	case "/v1/tasks/{task_id=*}/output":
		seq, err := strconv.ParseUint(last, 10, 63)
		if err != nil {
			return badField("Last-Event-ID", "%q is no position in a transcript", last)
		}
		for _, name := range []string{"tail", "fromSeq"} {
			query.Del(name)
		}
		query.Set("from_seq", strconv.FormatUint(seq+1, 10))
	default:
		return badField("Last-Event-ID", "the path has nothing to resume")
	}
	r.URL.RawQuery = query.Encode()
	return nil
}

// accepts tells whether a media type stands in the request's Accept header.
func accepts(r *http.Request, mediaType string) bool {
	for _, header := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(header, ",") {
			if got, _, err := mime.ParseMediaType(part); err == nil && got == mediaType {
				return true
			}
		}
	}
	return false
}
