package tool

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

func TestRead(t *testing.T) {
	a := newAgent(t)
	a.put("a.txt", "one\ntwo\r\nthree")
	a.put("empty", "")
	a.put("nl", "\n")
	a.link("a.txt", "link")
	for _, c := range []struct{ arguments, want string }{
		{`{"path":"a.txt"}`, "     1\tone\n     2\ttwo\n     3\tthree\n[lines 1-3 of 3, the end]"},
		{`{"path":"` + a.ws + `/a.txt","limit":2}`, "     1\tone\n     2\ttwo\n[lines 1-2 of 3; go on with offset 3]"},
		{`{"path":"link","offset":2,"limit":1}`, "     2\ttwo\n[lines 2-2 of 3; go on with offset 3]"},
		{`{"path":"a.txt","offset":3,"limit":9}`, "     3\tthree\n[lines 3-3 of 3, the end]"},
		{`{"path":"empty"}`, "[the file is empty]"},
		{`{"path":"nl"}`, "     1\t\n[lines 1-1 of 1, the end]"},
	} {
		if got := a.text("read", c.arguments); got != c.want {
			t.Errorf("%s:\n%q\nwant\n%q", c.arguments, got, c.want)
		}
	}
	e := a.fail(InvalidArguments, "read", `{"path":"a.txt","offset":4}`)
	has(t, e.Message, "3 lines")
	has(t, a.fail(NotFound, "read", `{"path":"none/b.txt"}`).Message, a.ws)
}

// TestReadMarks the whole content, however little was read, under the path where it really is.
func TestReadMarks(t *testing.T) {
	a := newAgent(t)
	a.put("a.txt", "one\ntwo\nthree\n")
	a.link("a.txt", "link")
	answer := a.run("read", `{"path":"link","offset":2,"limit":1}`)
	if len(answer.Files) != 1 || answer.Files[0].Path != a.ws+"/a.txt" || answer.Files[0].Changed ||
		answer.Files[0].Hash != hashOf([]byte("one\ntwo\nthree\n")) {
		t.Errorf("%+v", answer.Files)
	}
}

func TestReadGuards(t *testing.T) {
	a := newAgent(t)
	a.put("bin", "ELF\x00\x01")
	a.put("late", strings.Repeat("x\n", sniffed)+"\x00\n")
	a.put("latin", "caf\xe9\n")
	if err := syscall.Mkfifo(a.ws+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	a.fail(NotText, "read", `{"path":"bin"}`)
	a.fail(NotText, "read", fmt.Sprintf(`{"path":"late","offset":%d}`, sniffed))
	has(t, a.fail(NotText, "read", `{"path":"pipe"}`).Message, "named pipe")
	has(t, a.fail(NotText, "read", `{"path":"."}`).Message, "use ls")
	has(t, a.text("read", `{"path":"latin"}`), "caf\ufffd\n")
}

// TestReadLongLines cuts them between characters. // case OUT-6
func TestReadLongLines(t *testing.T) {
	a := newAgent(t)
	for unit, kept := range map[string]int{"汉": 1999, "🙂": 1997, "e\u0301": 1999} { // x and whole units, at most 2000 bytes
		a.put("long", "x"+strings.Repeat(unit, 50_000)+"\nnext\n")
		got := a.text("read", `{"path":"long"}`)
		want := fmt.Sprintf("     1\tx%s [... %d more bytes in this line]\n     2\tnext\n[lines 1-2 of 2, the end]",
			strings.Repeat(unit, (kept-1)/len(unit)), 1+50_000*len(unit)-kept)
		if got != want || !utf8.ValidString(got) {
			t.Errorf("%q: %d bytes, ending %q, want %q", unit, len(got), got[len(got)-100:], want[len(want)-100:])
		}
	}
}

// TestReadManyLines gives what fits an answer, and the rest part by part.
func TestReadManyLines(t *testing.T) {
	a := newAgent(t)
	var content strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&content, "line %d %s\n", i+1, strings.Repeat("x", 30))
	}
	a.put("many", content.String())
	next, parts := 1, 1
	for ; ; parts++ {
		got := a.text("read", fmt.Sprintf(`{"path":"many","offset":%d}`, next))
		if _, truncated := Bound(got, MaxAnswer, "c"); truncated {
			t.Fatalf("an answer of %d bytes", len(got))
		}
		has(t, got, fmt.Sprintf("%6d\tline %d x", next, next), "of 5000")
		if strings.HasSuffix(got, "the end]") {
			break
		}
		_, where, _ := strings.Cut(got, "go on with ")
		before := next
		if _, err := fmt.Sscanf(where, "offset %d]", &next); err != nil || next <= before {
			t.Fatalf("%d after %d: %v", next, before, err)
		}
	}
	if parts < 3 {
		t.Errorf("%d parts", parts)
	}
}

// TestReadHuge reads a part of a file that is too large to be hashed, without going through it all.
func TestReadHuge(t *testing.T) {
	a := newAgent(t)
	a.put("huge", strings.Repeat("line\n", 2000))
	if err := os.Truncate(a.ws+"/huge", 3<<30); err != nil { // sparse
		t.Fatal(err)
	}
	answer := a.run("read", `{"path":"huge","offset":10,"limit":2}`)
	if answer.IsError || len(answer.Files) != 0 {
		t.Errorf("%+v", answer)
	}
	has(t, answer.Text, "    11\tline\n[lines 10-11, and more; go on with offset 12]")
	has(t, a.fail(TooLarge, "read", `{"path":"huge","offset":5000}`).Message, "64 MiB")
	a.fail(TooLarge, "edit", `{"path":"huge","old_string":"line","new_string":"x"}`)
	a.fail(TooLarge, "write", `{"path":"huge","content":"x"}`)
}

func TestReadOutput(t *testing.T) {
	a := newAgent(t)
	a.scope.Outputs = outputs{"k3j4h5g6f": "one\ntwo\nthree\n"}
	answer := a.run("read", `{"path":"@output/k3j4h5g6f","offset":2}`)
	if answer.Text != "     2\ttwo\n     3\tthree\n[lines 2-3 of 3, the end]" || answer.Files != nil {
		t.Errorf("%+v", answer)
	}
	if e := a.fail(NotFound, "read", `{"path":"@output/other"}`); e.Subject != "@output/other" {
		t.Errorf("%+v", e)
	}
	has(t, a.text("grep", `{"path":"@output/k3j4h5g6f","pattern":"t"}`), "@output/k3j4h5g6f:2:two\n", "[2 matches in 1 file searched]")
	a.fail(NotFound, "grep", `{"path":"@output/other","pattern":"t"}`)
	for _, odd := range []string{"", "../x", "a/b", "X", "k3j4h5g6f/", strings.Repeat("x", 300)} {
		if e := a.fail(NotFound, "read", `{"path":"@output/`+odd+`"}`); e.Subject != "@output/"+odd {
			t.Errorf("%+v", e)
		}
	}
}
