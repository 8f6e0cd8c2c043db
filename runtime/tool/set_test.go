package tool

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/agentd-dev/agentd/runtime/task"
)

func TestSet(t *testing.T) {
	s := NewSet(Builtin()...)
	names := []string{
		"bash", "edit", "glob", "grep", "ls", "read", "report", "send_message", "subagent", "submit_plan",
		"task_output", "task_stop", "team_create", "write",
	}
	if !slices.Equal(s.Names(), names) {
		t.Errorf("%v", s.Names())
	}
	for i, spec := range s.Specs() {
		wantReadOnly := slices.Contains([]string{"glob", "grep", "ls", "read", "task_output"}, spec.Name)
		wantIdempotent := slices.Contains([]string{
			"report", "send_message", "subagent", "submit_plan", "task_stop", "team_create",
		}, spec.Name)
		if spec.Name != names[i] || spec.ReadOnly != wantReadOnly || spec.Idempotent != wantIdempotent ||
			spec.Description == "" {
			t.Errorf("%+v", spec)
		}
	}
	some := s.Filter([]string{"read", "nothing", "bash"})
	if !slices.Equal(some.Names(), []string{"bash", "read"}) {
		t.Errorf("%v", some.Names())
	}
	if _, ok := some.Lookup("edit"); ok {
		t.Error("edit is not in it")
	}
	if twice := NewSet(append(Builtin(), Builtin()...)...); len(twice.Names()) != len(names) {
		t.Errorf("%v", twice.Names())
	}
}

// TestRefused answers what the model may correct. // proves P4
func TestRefused(t *testing.T) {
	a := newAgent(t)
	a.scope.Grant.Tools = []string{"read", "ls"}
	e := a.fail(UnknownTool, "rm", `{}`)
	if e.Subject != "rm" || !slices.Equal(e.Allowed, []string{"ls", "read"}) {
		t.Errorf("%+v", e)
	}
	e = a.fail(NotGranted, "bash", `{"command":"true"}`)
	if e.Subject != "bash" || !slices.Equal(e.Allowed, []string{"ls", "read"}) || a.shell.got.Line != "" {
		t.Errorf("%+v", e)
	}
}

func TestMalformedArguments(t *testing.T) {
	a := newAgent(t)
	a.put("a.txt", "x")
	for _, c := range []struct{ tool, arguments, subject, message string }{
		{"read", `{"path":`, "", "unexpected end of JSON input at byte 8 of 8"},
		{"read", `["a.txt"]`, "", "got array"},
		{"read", `null`, "", "got null"},
		{"read", `{"path":"a.txt"} {}`, "", "after top-level value"},
		{"read", ``, "path", "is required: a string"},
		{"read", `{"path":null}`, "path", "is required"},
		{"read", `{"path":""}`, "path", "must not be empty"},
		{"read", `{"path":7}`, "path", "must be a string: got number"},
		{"read", `{"path":"a.txt","limit":"10"}`, "limit", "must be an integer: got string"},
		{"read", `{"path":"a.txt","limit":1.5}`, "limit", "must be an integer: got number 1.5"},
		{"read", `{"path":"a.txt","limit":2001}`, "limit", "between 1 and 2000"},
		{"read", `{"path":"a.txt","offset":-1}`, "offset", "must lie between"},
		{"read", `{"path":"a.txt","Path":"b"}`, "Path", `no argument "Path"`},
		{"read", `{"path":"a.txt","lines":1}`, "lines", `no argument "lines"`},
		{"edit", `{"path":"a.txt","old_string":"x","new_string":"x"}`, "new_string", "same"},
		{"edit", `{"path":"a.txt","old_string":"","new_string":"x"}`, "old_string", "write"},
		{"edit", `{"path":"a.txt","old_string":"x","new_string":"y","replace_all":"yes"}`, "replace_all", "true or false"},
		{"grep", `{"pattern":"("}`, "pattern", "missing closing )"},
		{"grep", `{"pattern":"x","glob":"["}`, "glob", "not a valid pattern"},
		{"grep", `{"pattern":"x","context":21}`, "context", "between 0 and 20"},
		{"glob", `{"pattern":"{a"}`, "pattern", "not a valid pattern"},
		{"bash", `{"command":" "}`, "command", "must not be empty"},
		{"bash", `{"command":"ls","timeout_ms":600001}`, "timeout_ms", "600000"},
		{"bash", `{"command":"ls","detached":true}`, "detached", "no argument"},
		{"subagent", `{}`, "task", "0 are given"},
		{"subagent", `{"task":"x","tasks":[{"task":"y"}]}`, "task", "2 are given"},
		{"subagent", `{"chain":[{"task":"y"}],"tasks":[{"task":"y"}]}`, "task", "2 are given"},
		{"subagent", `{"task":"x","role":"y"}`, "role", "no argument"},
		{"subagent", `{"task":"x","team_name":"y"}`, "name", "is missing"},
		{"subagent", `{"tasks":[{"task":"x","background":true}]}`, "tasks", `unknown field "background"`},
		{"subagent", `{"tasks":{"task":"x"}}`, "tasks", "a list of objects"},
		{"subagent", `{"task":"x","network":"no"}`, "network", "true or false"},
		{"subagent", `{"task":"x","result_schema":"{}"}`, "result_schema", "an object"},
		{"subagent", `{"task":"x","timeout_s":-1}`, "timeout_s", "must lie between"},
		{"subagent", `{"task":"x","isolation":"container"}`, "isolation", "none or worktree"},
		{"subagent", `{"chain":[{"task":"x"},{"task":"y","isolation":"vm"}]}`, "chain[1].isolation", "none or worktree"},
		{"task_output", `{"task_id":""}`, "task_id", "must not be empty"},
		{"task_output", `{"task_id":"sub-1","block":true,"timeout_ms":600001}`, "timeout_ms", "600000"},
		{"task_stop", `{"task_id":"sub-1","level":"KILL"}`, "level", "wrap_up, cancel or kill"},
		{"task_stop", `{"level":"kill"}`, "task_id", "is required"},
		{"report", `{"summary":"x","claims":"y"}`, "claims", "a list of strings"},
		{"report", `{"summary":"x","findings":[{"title":"t","line":"1"}]}`, "findings", "line must be an integer, got string"},
		{"report", `{"summary":"x","findings":[{"title":"t","lines":1}]}`, "findings", `unknown field "lines"`},
	} {
		e := a.fail(InvalidArguments, c.tool, c.arguments)
		if e.Subject != c.subject || !strings.Contains(e.Message, c.message) {
			t.Errorf("%s %s: %+v", c.tool, c.arguments, e)
		}
	}
	e := a.fail(InvalidArguments, "read", `{"path":"a.txt","lines":1}`)
	if !slices.Equal(e.Allowed, []string{"path", "offset", "limit"}) {
		t.Errorf("%+v", e)
	}
	has(t, a.text("read", `{"path":"a.txt","limit":null}`), "x")
}

// TestSchemas compares the schema of every tool with the struct that its arguments are decoded into.
func TestSchemas(t *testing.T) {
	for name, kind := range map[string]reflect.Type{
		"bash": reflect.TypeFor[bashArgs](), "edit": reflect.TypeFor[editArgs](), "glob": reflect.TypeFor[globArgs](),
		"grep": reflect.TypeFor[grepArgs](), "ls": reflect.TypeFor[lsArgs](), "read": reflect.TypeFor[readArgs](),
		"report": reflect.TypeFor[task.Report](), "write": reflect.TypeFor[writeArgs](),
		"subagent": reflect.TypeFor[subagentArgs](), "task_output": reflect.TypeFor[taskOutputArgs](),
		"task_stop": reflect.TypeFor[taskStopArgs](),
	} {
		tool, ok := NewSet(Builtin()...).Lookup(name)
		if !ok {
			t.Fatalf("no tool %s", name)
		}
		var written jsonschema.Schema
		if err := json.Unmarshal(tool.Spec().Parameters, &written); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		inferred, err := jsonschema.ForType(kind, &jsonschema.ForOptions{})
		if err != nil {
			t.Fatal(err)
		}
		same(t, name, &written, inferred)
	}
}

func same(t *testing.T, at string, written, inferred *jsonschema.Schema) {
	t.Helper()
	kind := inferred.Type
	for _, k := range inferred.Types { // a Go slice may be null
		if k != "null" {
			kind = k
		}
	}
	if written.Type != kind {
		t.Errorf("%s: type %q, the struct has %q", at, written.Type, kind)
	}
	if kind == "array" {
		same(t, at+"[]", written.Items, inferred.Items)
	}
	if kind != "object" || inferred.Properties == nil { // or any object
		return
	}
	if written.AdditionalProperties == nil || written.AdditionalProperties.Not == nil {
		t.Errorf("%s: additionalProperties is not false", at)
	}
	slices.Sort(written.Required)
	slices.Sort(inferred.Required)
	if !slices.Equal(written.Required, inferred.Required) {
		t.Errorf("%s: requires %v, the struct %v", at, written.Required, inferred.Required)
	}
	for name := range written.Properties {
		if inferred.Properties[name] == nil {
			t.Errorf("%s.%s is not in the struct", at, name)
		}
	}
	for name, property := range inferred.Properties {
		if written.Properties[name] == nil {
			t.Errorf("%s.%s is not in the schema", at, name)
			continue
		}
		same(t, at+"."+name, written.Properties[name], property)
	}
}
