package tool

import (
	"os"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	a := newAgent(t)
	answer := a.run("write", `{"path":"new/deep/a.txt","content":"one\n"}`)
	if answer.IsError || answer.Text != "created new/deep/a.txt (4 bytes)" || len(answer.Files) != 1 ||
		answer.Files[0].Path != a.ws+"/new/deep/a.txt" || answer.Files[0].Hash != hashOf([]byte("one\n")) || !answer.Files[0].Changed {
		t.Errorf("%+v", answer)
	}
	a.text("write", `{"path":"new/deep/a.txt","content":"two\n"}`) // its own content is known
	a.is("new/deep/a.txt", "two\n")
	a.text("edit", `{"path":"new/deep/a.txt","old_string":"two","new_string":"three"}`)
	a.is("new/deep/a.txt", "three\n")
}

// TestChangeUnread demands that a file was read at its current content.
func TestChangeUnread(t *testing.T) {
	a := newAgent(t)
	a.put("a.txt", "one\n")
	write, edit := `{"path":"a.txt","content":"two\n"}`, `{"path":"a.txt","old_string":"one","new_string":"two"}`
	a.fail(NotRead, "write", write)
	a.fail(NotRead, "edit", edit)
	a.text("read", `{"path":"a.txt"}`)
	a.put("a.txt", "one, by others\n")
	a.fail(Stale, "write", write)
	a.fail(Stale, "edit", edit)
	a.is("a.txt", "one, by others\n")
	a.text("read", `{"path":"a.txt"}`)
	a.text("edit", edit)
	a.is("a.txt", "two, by others\n")
	a.fail(NotFound, "edit", `{"path":"none","old_string":"one","new_string":"two"}`)
	a.fail(NotText, "write", `{"path":".","content":"x"}`)
}

func TestKeepsPermissions(t *testing.T) {
	a := newAgent(t)
	a.put("run.sh", "#!/bin/sh\n")
	if err := os.Chmod(a.ws+"/run.sh", 0o700); err != nil {
		t.Fatal(err)
	}
	a.text("read", `{"path":"run.sh"}`)
	a.text("edit", `{"path":"run.sh","old_string":"/bin/sh","new_string":"/bin/bash"}`)
	if stat, err := os.Stat(a.ws + "/run.sh"); err != nil || stat.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", stat.Mode(), err)
	}
}

// edits are the cases of TestEdit: a reason instead of the content after it means that it must fail.
func edits() []editCase {
	const bom = "\ufeff"
	return []editCase{
		{name: "one", before: "a\nb\nc\n", old: "b", replacement: "B", after: "a\nB\nc\n"},
		{name: "deletion", before: "a\nb\nc\n", old: "b\n", replacement: "", after: "a\nc\n"},
		{name: "all", before: "x x\nx\n", old: "x", replacement: "yy", all: true, after: "yy yy\nyy\n"},
		{name: "many", before: "x\na\nx x\n", old: "x", replacement: "y", reason: NotUnique, message: "3 times in f, at lines 1, 3, 3"},
		{name: "overlap", before: "aaa\n", old: "aa", replacement: "b", reason: NotUnique, message: "2 times"},
		{name: "none", before: "a\n", old: "z", replacement: "b", reason: NoMatch},
		{name: "spaces", before: "x\n\tif a {\n\t\tb()\n", old: "  if a {\n    b()", replacement: "c", reason: NoMatch,
			message: "lines 2-3 differ from it only in white space"},
		{name: "rest differs", before: "x\nfunc a()\nb\n", old: "func a()\nc", replacement: "d", reason: NoMatch,
			message: "its first line is line 2"},
		{name: "numbers", before: "a\nb\n", old: "     1\ta\n     2\tb", replacement: "c", reason: NoMatch,
			message: "leave out the line numbers"},
		{name: "crlf", before: "a\r\nb\r\nc\r\n", old: "a\nb", replacement: "A\nB\nB", after: "A\r\nB\r\nB\r\nc\r\n"},
		{name: "crlf, one line to two", before: "a\r\nb\r\n", old: "b", replacement: "b\nc", after: "a\r\nb\r\nc\r\n"},
		{name: "crlf given", before: "a\r\nb\r\n", old: "a\r\nb", replacement: "c\r\nd", after: "c\r\nd\r\n"},
		{name: "mixed", before: "a\nb\nc\r\nd\n", old: "b\nc\nd", replacement: "e", reason: NoMatch,
			message: "differ from it only in white space"},
		{name: "mixed, exact", before: "a\nb\nc\r\nd\n", old: "c\r\nd", replacement: "e", after: "a\nb\ne\n"},
		{name: "mixed, other", before: "a\nb\nc\r\nd\n", old: "c\nd", replacement: "e\nf", after: "a\nb\ne\r\nf\n"},
		{name: "bom", before: bom + "a\r\nb", old: "a", replacement: "c", after: bom + "c\r\nb"},
		{name: "bytes", before: "caf\xe9 a\n", old: "a\n", replacement: "b\n", after: "caf\xe9 b\n"},
		{name: "runes", before: "汉字🙂\n", old: "字", replacement: "e\u0301", after: "汉e\u0301🙂\n"},
		{name: "dollar", before: "a", old: "a", replacement: "$1\\1", after: "$1\\1"},
	}
}

type editCase struct {
	name, before, old, replacement string
	all                            bool
	after                          string
	reason                         Reason
	message                        string
}

func TestEdit(t *testing.T) {
	for _, c := range edits() {
		t.Run(c.name, func(t *testing.T) {
			a := newAgent(t)
			a.put("f", c.before)
			a.text("read", `{"path":"f"}`)
			arguments := args(t, "path", "f", "old_string", c.old, "new_string", c.replacement)
			if c.all {
				arguments = strings.TrimSuffix(arguments, "}") + `,"replace_all":true}`
			}
			if c.reason != "" {
				has(t, a.fail(c.reason, "edit", arguments).Message, c.message)
				a.is("f", c.before)
				return
			}
			answer := a.run("edit", arguments)
			if answer.IsError || len(answer.Files) != 1 || answer.Files[0].Hash != hashOf([]byte(c.after)) || !answer.Files[0].Changed {
				t.Errorf("%+v", answer)
			}
			a.is("f", c.after)
		})
	}
}

func TestEditShowsTheChange(t *testing.T) {
	a := newAgent(t)
	a.put("f", strings.Repeat("line\n", 10)+"here\n"+strings.Repeat("line\n", 10))
	a.text("read", `{"path":"f"}`)
	got := a.text("edit", `{"path":"f","old_string":"here","new_string":"there\nand there"}`)
	want := "edited f: 1 replacement\n     8\tline\n     9\tline\n    10\tline\n    11\tthere\n    12\tand there\n" +
		"    13\tline\n    14\tline\n    15\tline\n"
	if got != want {
		t.Errorf("%q", got)
	}
}
