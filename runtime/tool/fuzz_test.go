package tool

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzArguments: whatever a model sends, it gets an answer that it can read. // proves P4
func FuzzArguments(f *testing.F) {
	for _, arguments := range []string{
		``, `{}`, `null`, `[]`, `{"path":"a.txt"}`, `{"path":"a\u0000b"}`, `{"path":"../x"}`, `{"path":"@output/x"}`,
		`{"path":"a.txt","content":"汉"}`, `{"pattern":"a**/{b,c}[!d]"}`, `{"pattern":"(a+)+$","context":3,"glob":"*"}`,
		`{"path":"a.txt","old_string":"o","new_string":"\r\n","replace_all":true}`, `{"command":"true","timeout_ms":1}`,
		`{"summary":"s","findings":[{"title":"t"}]}`, `{"path":"` + "\xff" + `"}`,
	} {
		f.Add(arguments)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		a := newAgent(t)
		a.put("a.txt", "one\ntwo\n")
		a.text("read", `{"path":"a.txt"}`)
		for _, name := range append(a.set.Names(), "other") {
			answer := a.run(name, arguments)
			var e Error
			if err := json.Unmarshal([]byte(answer.Text), &e); answer.IsError && (err != nil || e.Reason == "" || e.Message == "") {
				t.Errorf("%s: %q", name, answer.Text)
			}
			if out, _ := Bound(answer.Text, MaxAnswer, "c"); !utf8.ValidString(out) {
				t.Errorf("%s: %q", name, out)
			}
		}
	})
}
