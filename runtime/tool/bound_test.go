package tool

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestBound cuts texts of characters that take many bytes. // case OUT-6
func TestBound(t *testing.T) {
	for _, unit := range []string{
		"a", "汉", "🙂", "e\u0301", "a\u0301\u0302\u0303", "👩\u200d👩\u200d👧", "👍🏽", "\r\n", "न\u093f",
	} {
		text := strings.Repeat(unit, 3000)
		for limit := 256; limit < 400; limit++ {
			out, truncated := Bound(text, limit, "k3j4h5g6f")
			if !truncated || len(out) > limit || !utf8.ValidString(out) {
				t.Fatalf("%q at %d: %v, %d bytes", unit, limit, truncated, len(out))
			}
			head, rest, ok := strings.Cut(out, "\n[... ")
			left, tail, ok2 := strings.Cut(rest, " for the whole ...]\n")
			if !ok || !ok2 || !strings.HasSuffix(left, " bytes left out: read @output/k3j4h5g6f") {
				t.Fatalf("%q", out)
			}
			whole := strings.ToValidUTF8(unit, "\ufffd")
			if strings.ReplaceAll(head+tail, whole, "") != "" {
				t.Fatalf("%q at %d: cut in two: %q | %q", unit, limit, head, tail)
			}
		}
	}
}

func TestBoundKeepsShort(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("汉", 100)} {
		if out, truncated := Bound(text, 300, "c"); out != text || truncated {
			t.Errorf("%q", out)
		}
	}
	if out, truncated := Bound("a\xffb", MaxAnswer, "c"); out != "a\ufffdb" || truncated {
		t.Errorf("%q", out)
	}
	out, _ := Bound(strings.Repeat("x", 10_000), 1000, "c")
	has(t, out, " bytes left out: read @output/c")
	if head := strings.Index(out, "\n["); head < 500 || head > 600 {
		t.Errorf("head of %d bytes", head)
	}
}

// FuzzBound: whatever the text is, the outcome is valid, bounded, and made of its head and tail. // case OUT-6
func FuzzBound(f *testing.F) {
	f.Add("汉字🙂e\u0301", 300, 200)
	f.Add("\xff\xfe\r\n", 256, 1000)
	f.Add("\u0301", 1, 2000)
	f.Fuzz(func(t *testing.T, unit string, limit, times int) {
		if times < 0 || times > 2000 || len(unit) > 200 {
			t.Skip()
		}
		text := strings.Repeat(unit, times)
		out, truncated := Bound(text, limit, "c")
		if !utf8.ValidString(out) || len(out) > max(limit, minBound) {
			t.Fatalf("%d bytes of %d, valid %v", len(out), limit, utf8.ValidString(out))
		}
		valid := strings.ToValidUTF8(text, "\ufffd")
		if !truncated {
			if out != valid {
				t.Fatal("changed")
			}
			return
		}
		at := strings.LastIndex(out, "\n[... ")
		end := strings.LastIndex(out, " ...]\n") + len(" ...]\n")
		if !strings.Contains(unit, "[") && (!strings.HasPrefix(valid, out[:at]) || !strings.HasSuffix(valid, out[end:])) {
			t.Fatalf("not its head and tail: %q", out)
		}
	})
}

// FuzzShorten keeps lines valid. // case OUT-6
func FuzzShorten(f *testing.F) {
	f.Add("汉字🙂", 5)
	f.Fuzz(func(t *testing.T, line string, limit int) {
		if !utf8.ValidString(line) || limit < 0 {
			t.Skip()
		}
		got := shorten(line, limit, 0)
		if head, _, _ := strings.Cut(got, " [..."); !utf8.ValidString(got) || len(line) > limit && len(head) > limit && !strings.Contains(line, " [") {
			t.Fatalf("%q", got)
		}
	})
}

func TestCutKeepsMarks(t *testing.T) {
	text := "汉字" + "e\u0301\u0302" + "x" + "🇩🇪"
	for i := range len(text) + 1 {
		for _, at := range []int{cutBefore(text, i), cutAfter(text, i)} {
			if r, _ := utf8.DecodeRuneInString(text[at:]); !utf8.ValidString(text[:at]) || unicode.IsMark(r) || at == len(text)-4 {
				t.Errorf("%d: cut at %d", i, at)
			}
		}
		if cutBefore(text, i) > i || cutAfter(text, i) < i {
			t.Errorf("%d: wrong way", i)
		}
	}
}
