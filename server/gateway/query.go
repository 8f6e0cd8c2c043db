package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	gwruntime "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// queried gives the requests whose fields stand in a query, by method and path. Every other path takes none.
func queried() map[string]proto.Message {
	return map[string]proto.Message{
		"GET /v1/tasks":                        (*agentdv1.ListTasksRequest)(nil),
		"GET /v1/events":                       (*agentdv1.WatchRequest)(nil),
		"GET /v1/agents":                       (*agentdv1.ListAgentsRequest)(nil),
		"GET /v1/tasks/{task_id=*}/output":     (*agentdv1.TaskOutputRequest)(nil),
		"GET /v1/tasks/{task_id=*}/transcript": (*agentdv1.ExportTranscriptRequest)(nil),
		"GET /v1/teams":                        (*agentdv1.ListTeamsRequest)(nil),
		"DELETE /v1/teams/{team=*}":            (*agentdv1.DeleteTeamRequest)(nil),
		"GET /v1/teams/{team=*}/teammates":     (*agentdv1.ListTeammatesRequest)(nil),
		"GET /v1/teams/{team=*}/inbox":         (*agentdv1.ReadInboxRequest)(nil),
	}
}

// parameters are the fields that a path takes from its query.
func parameters(method, pattern string) protoreflect.FieldDescriptors {
	request := queried()[method+" "+pattern]
	if request == nil {
		return nil
	}
	return request.ProtoReflect().Descriptor().Fields()
}

// checkURL refuses what grpc-gateway would drop without a word, or could not send on: a query is as strict as a body.
func checkURL(r *http.Request, pathParams map[string]string) error {
	for name, value := range pathParams {
		if !utf8.ValidString(value) {
			return badField(name, "is not UTF-8")
		}
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badField("query", "%v", err)
	}
	var known protoreflect.FieldDescriptors
	if pattern, ok := gwruntime.HTTPPattern(r.Context()); ok {
		known = parameters(r.Method, pattern.String())
	}
	for name, values := range query {
		_, inPath := pathParams[name]
		if known == nil || inPath || (known.ByJSONName(name) == nil && known.ByTextName(name) == nil) {
			return badField(strings.ToValidUTF8(name, "\uFFFD"), "is not a query parameter of this path")
		}
		for _, value := range values {
			if !utf8.ValidString(value) {
				return badField(name, "is not UTF-8")
			}
		}
	}
	return nil
}

// badField is a status as the server gives it for a wrong field.
func badField(field, format string, args ...any) error {
	message := fmt.Sprintf("%s: %s", field, fmt.Sprintf(format, args...))
	failed, err := status.New(codes.InvalidArgument, message).WithDetails(
		protoadapt.MessageV1Of(&errdetails.ErrorInfo{
			Reason: "INVALID_ARGUMENT", Domain: "agentd.dev", Metadata: map[string]string{"subject": field},
		}),
		protoadapt.MessageV1Of(&errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: message}},
		}))
	if err != nil {
		return status.Error(codes.InvalidArgument, message)
	}
	return failed.Err()
}
