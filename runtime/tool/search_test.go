package tool

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

func TestLs(t *testing.T) {
	a := newAgent(t)
	a.put("b.txt", "12345")
	a.put("a/x", "")
	a.put("two\nlines", "")
	a.link("b.txt", "c")
	if err := syscall.Mkfifo(a.ws+"/d", 0o644); err != nil {
		t.Fatal(err)
	}
	want := "a/\nb.txt\t5\nc -> b.txt\nd\t(special file)\n\"two\\nlines\"\t0\n[5 entries]"
	if got := a.text("ls", ``); got != want {
		t.Errorf("%q", got)
	}
	if got := a.text("ls", `{"path":"a"}`); got != "x\t0\n[1 entry]" {
		t.Errorf("%q", got)
	}
	has(t, a.fail(IOError, "ls", `{"path":"b.txt"}`).Message, "not a directory")
	a.fail(NotFound, "ls", `{"path":"none"}`)
	for i := range lsShown + 10 {
		a.put(fmt.Sprintf("many/%04d", i), "")
	}
	has(t, a.text("ls", `{"path":"many"}`), "0499\t0\n[only 500 of 510 entries")
}

func TestLsNamesTheWorkspaceThatIsGone(t *testing.T) {
	a := newAgent(t)
	if err := os.Remove(a.ws); err != nil {
		t.Fatal(err)
	}
	has(t, a.fail(NotFound, "ls", ``).Message, a.ws+" does not exist")
}

func TestGlob(t *testing.T) {
	a := newAgent(t)
	for _, path := range []string{"a.go", "b.txt", "x/c.go", "x/y/d.go", "x/y/d_test.go", ".git/e.go", ".github/w.yml", "ignored/f.go"} {
		a.put(path, "")
	}
	a.put(".gitignore", "/ignored/\n")
	a.link("x", "z")
	for _, c := range []struct{ arguments, want string }{
		{`{"pattern":"*.go"}`, "a.go x/c.go x/y/d.go x/y/d_test.go"},
		{`{"pattern":"./x/*.go"}`, "x/c.go"},
		{`{"pattern":"x/**/*.go"}`, "x/c.go x/y/d.go x/y/d_test.go"},
		{`{"pattern":"**/d{,_test}.go"}`, "x/y/d.go x/y/d_test.go"},
		{`{"pattern":"*.go","path":"x/y"}`, "x/y/d.go x/y/d_test.go"},
		{`{"pattern":"y/*","path":"x"}`, "x/y/d.go x/y/d_test.go"},
		{`{"pattern":"` + a.ws + `/x/*.go"}`, "x/c.go x/y/d.go x/y/d_test.go"},
		{`{"pattern":".github/*"}`, ".github/w.yml"},
		{`{"pattern":"*.go","path":"ignored"}`, "ignored/f.go"},
		{`{"pattern":"*.rs"}`, ""},
	} {
		got := strings.Split(a.text("glob", c.arguments), "\n")
		files := strings.Join(got[:len(got)-1], " ")
		if files != c.want {
			t.Errorf("%s: %q, want %q", c.arguments, files, c.want)
		}
	}
	for i := range globShown + 3 {
		a.put(fmt.Sprintf("many/%04d", i), "")
	}
	has(t, a.text("glob", `{"pattern":"many/*"}`), "many/0499\n[only 500 of 503 files")
}

// TestPatternsAreBounded: the alternatives of a pattern multiply, and each combination is matched with every path.
func TestPatternsAreBounded(t *testing.T) {
	a := newAgent(t)
	a.put(strings.Repeat("a", 100), "needle")
	endless := strings.Repeat("{a,a}", 100) + "b"
	has(t, a.fail(InvalidArguments, "glob", `{"pattern":"`+endless+`"}`).Message, "more than 64 combinations")
	a.fail(InvalidArguments, "grep", `{"pattern":"needle","glob":"[{],]`+endless+`"}`)
	a.fail(InvalidArguments, "glob", `{"pattern":"{x,[}]`+endless+`}"}`)
	a.fail(InvalidArguments, "glob", `{"pattern":"`+strings.Repeat(`{{a,a},a}`, 10)+`b"}`)
	a.fail(InvalidArguments, "glob", `{"pattern":"a/../}"}`)
	for _, pattern := range []string{strings.Repeat("{a,b}", 6) + "*", `{b,a*}`, `[{,a]*`, `{a,\\,b}*`, "{a" + strings.Repeat(",b", 63) + "}*"} {
		has(t, a.text("glob", `{"pattern":"`+pattern+`"}`), "[1 file]")
	}
	a.put(".gitignore", strings.Repeat(`\{a,a,\}`, 100)+"b\n") // has no alternatives
	a.put(strings.Repeat(`\a`, 100), "")
	has(t, a.text("glob", `{"pattern":"*"}`), "[3 files]")
}

// TestIgnore holds to what git says about which files are ignored.
func TestIgnore(t *testing.T) {
	a := newAgent(t)
	a.put(".gitignore", strings.Join([]string{
		"# comment", "", "*.log", "!keep.log", "/top", "build/", "docs/*.txt", "a/**/z", "all/**", "**/deep/x", `\#hash`, `\!bang`,
		"space\\ ", "trail   ", "[ab].c", "q?.d", "{x,y}", "node_modules", "!sub/inner.log", "exc/*", "!exc/yes", "[", "crlf\r", "st**r", `\{e,f\}*`,
	}, "\n"))
	a.put("sub/.gitignore", "!again.log\n/only\nlocal*\n")
	ignored := []string{
		"x.log", "sub/x.log", "top", "build/f", "sub/build/f", "docs/a.txt", "a/z", "a/b/c/z", "all/f", "all/g/h", "p/deep/x",
		"deep/x", "#hash", "!bang", "space ", "trail", "a.c", "s/b.c", "q1.d", "{x,y}", "node_modules/m/i.js",
		"s/node_modules/i.js", "exc/no", "sub/only", "sub/local1", "sub/t/local2", "crlf", "star", "{e,f}g",
	}
	kept := []string{
		"keep.log", "s/keep.log", "s/top", "b/build", "docs/s/a.txt", "s/docs/a.txt", "az", "c.c", "q12.d", "x", "y", "comment",
		"sub/inner.log", "sub/again.log", "exc/yes", "sub/t/only", "s/local1", "ab/z", "sub/all/f",
	}
	for _, path := range slices.Concat(ignored, kept) {
		a.put(path, "needle")
	}
	lines := strings.Split(a.text("glob", `{"pattern":"*"}`), "\n")
	for _, path := range ignored {
		if slices.Contains(lines, path) {
			t.Errorf("%q is not ignored", path)
		}
	}
	for _, path := range kept {
		if !slices.Contains(lines, path) {
			t.Errorf("%q is ignored", path)
		}
	}
	sub := a.text("grep", `{"pattern":"needle","path":"sub"}`) // the rules above it hold too
	has(t, sub, "sub/again.log:1:", "sub/t/only:1:")
	hasNot(t, sub, "sub/x.log", "sub/only:", "sub/t/local2")
	has(t, a.text("grep", `{"pattern":"needle","path":"build"}`), "build/f:1:needle") // but not for what is named itself
	has(t, a.text("grep", `{"pattern":"needle","path":"x.log"}`), "x.log:1:needle")
}

func TestGrep(t *testing.T) {
	a := newAgent(t)
	a.put("a.go", "one\ntwo\nthree\nfour\nfive\nTwo\nseven\n")
	a.put("b/c.txt", "two\r\nlast")
	a.put("bin", "two\x00")
	a.put(".git/x", "two\n")
	for _, c := range []struct{ arguments, want string }{
		{`{"pattern":"two"}`, "a.go:2:two\nb/c.txt:1:two\n[not searched: bin (binary)]\n[2 matches in 2 files searched]"},
		{`{"pattern":"^TWO$","ignore_case":true,"glob":"*.go"}`, "a.go:2:two\na.go:6:Two\n[2 matches in 1 file searched]"},
		{`{"pattern":"two","path":"b"}`, "b/c.txt:1:two\n[1 match in 1 file searched]"},
		{`{"pattern":"two","path":"b/c.txt"}`, "b/c.txt:1:two\n[1 match in 1 file searched]"},
		{`{"pattern":"none","glob":"**/*.txt"}`, "[0 matches in 1 file searched]"},
		{`{"pattern":"[tT]wo","path":"a.go","context":1}`,
			"a.go-1-one\na.go:2:two\na.go-3-three\n--\na.go-5-five\na.go:6:Two\na.go-7-seven\n[2 matches in 1 file searched]"},
		{`{"pattern":"[tT]wo","path":"a.go","context":2}`,
			"a.go-1-one\na.go:2:two\na.go-3-three\na.go-4-four\na.go-5-five\na.go:6:Two\na.go-7-seven\n[2 matches in 1 file searched]"},
		{`{"pattern":"one|two|last","context":1,"glob":"{a.go,c.txt}"}`,
			"a.go:1:one\na.go:2:two\na.go-3-three\n--\nb/c.txt:1:two\nb/c.txt:2:last\n[4 matches in 2 files searched]"},
		{`{"pattern":".","path":"a.go","limit":2}`, "a.go:1:one\na.go:2:two\n[only the first 2 matches: use a narrower pattern, path or glob]"},
		{`{"pattern":"one","path":"a.go","limit":1}`, "a.go:1:one\n[1 match in 1 file searched]"},
		{`{"pattern":"two","path":"bin"}`, "[not searched: bin (binary)]\n[0 matches in 0 files searched]"},
	} {
		if got := a.text("grep", c.arguments); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.arguments, got, c.want)
		}
	}
	a.fail(NotFound, "grep", `{"pattern":"x","path":"none"}`)
}

// TestGrepGuards leaves out what is too large or no file, says so, and cuts long lines between characters.
// case OUT-6
func TestGrepGuards(t *testing.T) {
	a := newAgent(t)
	a.put("long", strings.Repeat("汉🙂", 1000)+"needle"+strings.Repeat("汉🙂", 20_000)+"\n")
	a.put("huge", "needle\n"+strings.Repeat("x", sniffed))
	if err := os.Truncate(a.ws+"/huge", grepFile+1); err != nil { // sparse
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(a.ws+"/pipe", 0o644); err != nil {
		t.Fatal(err)
	}
	got := a.text("grep", `{"pattern":"needle"}`)
	has(t, got, "bytes ...] ", "needle汉", "more bytes in this line]", "[not searched: huge (over 16 MiB)]", "[1 match in 1 file")
	if !utf8.ValidString(got) || strings.Contains(got, "\ufffd") || len(got) > 1000 {
		t.Errorf("%d bytes: %.300q", len(got), got)
	}
	has(t, a.text("grep", `{"pattern":"needle","path":"huge"}`), "huge:1:needle")
	a.put("wide", strings.Repeat("x", keepLine)+"needle\nneedle\n")
	has(t, a.text("grep", `{"pattern":"needle","path":"wide"}`), "wide:2:needle\n[not searched: what is beyond 64 KiB in 1 long line]\n[1 match")
	for i := range 20 {
		a.put(fmt.Sprintf("bin/%02d", i), "\x00")
	}
	has(t, a.text("grep", `{"pattern":"needle","path":"bin"}`), "bin/04 (binary) and 15 more]")
	a.fail(NotText, "grep", `{"pattern":"needle","path":"pipe"}`)
	a.put("many", strings.Repeat("needle "+strings.Repeat("x", 400)+"\n", 2000))
	got = a.text("grep", `{"pattern":"needle","path":"many","limit":2000}`)
	if _, truncated := Bound(got, MaxAnswer, "c"); truncated {
		t.Errorf("an answer of %d bytes", len(got))
	}
	has(t, got, "[only the first ")
}
