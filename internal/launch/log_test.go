package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogShowsOneStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("of the start before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	part, f, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 50 {
		fmt.Fprintln(f, "line", i)
	}
	text := part.text()
	for _, want := range []string{"line 0\n", "line 9\n… 30 more lines\nline 40\n", "line 49\n(log: " + path} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(text, "before") {
		t.Error("it shows what another process wrote")
	}
}

func TestLargeLogIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, make([]byte, maxLog+1), 0o600); err != nil {
		t.Fatal(err)
	}
	part, f, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if stat, err := os.Stat(path + ".1"); err != nil || stat.Size() != maxLog+1 || part.from != 0 {
		t.Errorf("set aside: %v, %v; goes on at %d", stat, err, part.from)
	}
}
