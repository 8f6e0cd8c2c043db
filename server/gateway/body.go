package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// checkBody refuses what grpc-gateway would drop without a word: what follows the request's object, and a field that the
// path has too with another value. It reads the body, which bounded holds in memory, and puts it back.
func checkBody(r *http.Request, pathParams map[string]string) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return badField("body", "can't be read: %v", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if len(bytes.TrimSpace(body)) == 0 {
		return nil // the same as {}
	}
	var fields map[string]json.RawMessage
	err = json.Unmarshal(body, &fields)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return badField("body", "is not one JSON object: %v", syntax)
	}
	if err != nil {
		return badField("body", "is not a JSON object")
	}
	for name, raw := range fields {
		for param, inPath := range pathParams {
			var value string // stays empty, as if the field were not there, for null and for what the decoder refuses
			if sameField(name, param) && json.Unmarshal(raw, &value) == nil && value != "" && value != inPath {
				return badField(param, "is %q in the body and %q in the path", value, inPath)
			}
		}
	}
	return nil
}

// sameField tells whether a name in JSON means the field: task_id and taskId do. Other names that look like it do too,
// which costs nothing: the decoder refuses them.
func sameField(name, field string) bool {
	return strings.EqualFold(strings.ReplaceAll(name, "_", ""), strings.ReplaceAll(field, "_", ""))
}
