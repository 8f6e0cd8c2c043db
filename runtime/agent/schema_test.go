package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// proves R3: what can't be checked here, or only at any cost, is refused with a reason.
func TestCheckSchema(t *testing.T) {
	for _, good := range []string{
		`{}`, `{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}},"additionalProperties":false}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"type":"number"}},"items":{"$ref":"#/definitions/n"}}`,
		`{"$id":"https://example.com/s","$defs":{"tree":{"properties":{"sub":{"items":{"$ref":"#/$defs/tree"}}}}},"$ref":"#/$defs/tree"}`,
		`{"properties":{"next":{"$ref":"#"}}}`, `{"pattern":"^[a-z]{1,20}$"}`,
		`{"type":["array","null"],"items":{"anyOf":[{"type":"integer","multipleOf":0.5},{"$ref":"#"}]},"maxItems":0}`,
		`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"type":"null"}}}}`,
		`{"properties":{"type":{"type":"string"},"enum":{"const":[]},"minLength":true},"default":{"type":"x"},"enum":[{"type":-1}]}`,
	} {
		if err := CheckSchema(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		``: "no valid JSON", `{"type":`: "no valid JSON", `true`: "must be a JSON object", `{"type":7}`: "type",
		`{"$ref":"http://127.0.0.1:1/s"}`:                                 "nothing is fetched",
		`{"properties":{"a":{"items":{"$ref":"https://example.com/s"}}}}`: "nothing is fetched",
		`{"$ref":"#/$defs/none"}`:                                         "leads nowhere",
		`{"$ref":"file:///etc/passwd"}`:                                   "leads nowhere",
		`{"$dynamicRef":"#a"}`:                                            "$dynamicRef",
		`{"not":{"$id":"https://example.com/s"}}`:                         "$id",
		`{"$schema":"http://json-schema.org/draft-04/schema#"}`:           "draft-04",
		`{"pattern":"("}`:                                                 "pattern",
		`{"pattern":"` + strings.Repeat("(a{0,30}){0,30}", 9) + `"}`:      "too large",
		`{"patternProperties":{"[":{}}}`:                                  "pattern",
		`{"type":"text"}`:                                                 `#/type must be one of`,
		`{"properties":{"a/b":{"items":[{},{"type":["null","int"]}]}}}`:   `#/properties/a~1b/items/1/type must be`,
		`{"type":[]}`:                      "#/type must not be empty",
		`{"$defs":{"n":{"multipleOf":0}}}`: "#/$defs/n/multipleOf must be greater than 0",
		`{"anyOf":[{"minLength":-1}]}`:     "#/anyOf/0/minLength must not be negative",
		`{"enum":[]}`:                      "#/enum must not be empty",
		`{"$ref":"#"}`:                     "# leads back to itself",
		`{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`: "#/$defs/a leads back",
		strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70):                                                   "nested",
	} {
		if err := CheckSchema(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, not %q", bad, err, want)
		}
	}
}

func violates(t *testing.T, schema, output string) string {
	t.Helper()
	s, err := compileSchema(schema)
	if err != nil {
		t.Fatal(err)
	}
	return s.violation(output)
}

// proves R3: a violation names what is wrong and where.
func TestViolation(t *testing.T) {
	const schema = `{"type":"object","required":["name"],"properties":{"name":{"type":"string","minLength":2},
		"tags":{"items":{"enum":["a","b"]}},"next":{"$ref":"#"}},"patternProperties":{"^x":{"type":"null"}}}`
	for output, want := range map[string][]string{
		`{"name":"ab","tags":["a"],"next":{"name":"cd"},"x1":null}`: nil,
		`{}`:                         {"required", "name"},
		`{"name":3}`:                 {"/properties/name", "string"},
		`{"name":"a"}`:               {"/properties/name", "minLength"},
		`{"name":"ab","tags":["c"]}`: {"/properties/tags/items", "enum"},
		`{"name":"ab","next":{}}`:    {"/properties/next", "required"},
		`{"name":"ab","xyz":1}`:      {"/patternProperties/^x", "null"},
		`[]`:                         {"array", "object"},
		strings.Repeat("[", 70) + strings.Repeat("]", 70): {"nested"},
		`"` + strings.Repeat("x", tool.MaxOutput) + `"`:   {"limit"},
		`1e999`: {"1e999"},
	} {
		got := violates(t, schema, output)
		if len(want) == 0 && got != "" {
			t.Errorf("%s: %s", output, got)
		}
		for _, word := range want {
			if !strings.Contains(got, word) {
				t.Errorf("%.80s: %q does not say %q", output, got, word)
			}
		}
	}
	long := violates(t, `{"enum":[1]}`, `"`+strings.Repeat("x", 10_000)+`"`)
	if len(long) > maxProblem || long == "" {
		t.Errorf("%d bytes", len(long))
	}
}

// What would overflow the stack or take for ever is told from the outside, fast.
func TestViolationHasABoundedCost(t *testing.T) {
	var doubling strings.Builder
	doubling.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&doubling, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	doubling.WriteString(`"d40":{}}}`)
	deep := strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60)
	list := "[" + strings.TrimSuffix(strings.Repeat("{},", 40_000), ",") + "]"
	for name, c := range map[string]struct{ schema, output string }{
		"doubling":   {doubling.String(), "1"},
		"by members": {`{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"additionalProperties":{"$ref":"#"}}]}`, deep},
		"large enum": {`{"items":{"enum":["` + strings.Repeat("x", 60_000) + `"]}}`, list},
	} {
		begun := time.Now()
		if got := violates(t, c.schema, c.output); !strings.Contains(got, "too long") {
			t.Errorf("%s: %q", name, got)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
	const items = `{"type":"array","items":{"type":"object","properties":{"path":{"type":"string","pattern":"^/"},
		"line":{"type":"integer"},"kind":{"enum":["bug","smell"]}},"required":["path"]}}`
	large := "[" + strings.TrimSuffix(strings.Repeat(`{"path":"/a/b/c.go","line":12,"kind":"bug"},`, 2900), ",") + "]"
	if got := violates(t, items, large); got != "" {
		t.Errorf("a large output that is fine, %d bytes: %s", len(large), got)
	}
}

// The model sees the schema in the report tool, unless references in it would lead elsewhere there.
func TestReportToolHasTheSchema(t *testing.T) {
	offer := func(schema string) string {
		tools := withOutput([]model.Tool{{Name: "ls"}, {Name: tool.ReportName, Parameters: []byte("{}")}}, schema)
		if string(tools[0].Parameters) != "" {
			t.Errorf("ls has %s", tools[0].Parameters)
		}
		return string(tools[1].Parameters)
	}
	if got := offer(""); got != "{}" {
		t.Errorf("without a schema: %s", got)
	}
	if got := offer(`{"type":"array"}`); !strings.Contains(got, `"output":{"type":"array"}`) {
		t.Errorf("with one: %s", got)
	}
	if got := offer(`{"items":{"$ref":"#"}}`); strings.Contains(got, "$ref") || !strings.Contains(got, `"output":{`) {
		t.Errorf("with references: %s", got)
	}
}

// Whatever is called a schema or an output, nothing panics, and what is said to be wrong is bounded.
func FuzzSchema(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","required":["a"],"properties":{"a":{"type":["integer","null"]}},"additionalProperties":false}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"const":null},{"items":{"$ref":"#"}}]}},"unevaluatedItems":false}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{},false],"dependencies":{"a":["b"],"b":{}}}`,
		`{"if":{"minLength":1},"then":{"pattern":"^a"},"multipleOf":0,"uniqueItems":true,"contains":{},"enum":[1,"a"]}`,
	} {
		f.Add(s, `{"a":[1,"b",null,{"b":1.5}]}`)
		f.Add(s, `[[],[1],"a"]`)
	}
	f.Fuzz(func(t *testing.T, schema, output string) {
		s, err := compileSchema(schema)
		if err != nil {
			return
		}
		if wrong := s.violation(output); len(wrong) > maxProblem {
			t.Errorf("%d bytes", len(wrong))
		}
	})
}
