package bolt_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/store/bolt"
)

// proves D7: only a file that is missing is new. An empty one is salvaged as any other damage.
func TestOpenOthersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	for _, content := range []string{"x", strings.Repeat("text", 10_000), ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := bolt.Open(t.Context(), bolt.Options{Path: path}); !errdefs.Is(err, errdefs.RecordCorrupt) {
			t.Errorf("Open of %.8q = %v, want RecordCorrupt", content, err)
		}
		if got, _ := os.ReadFile(path); string(got) != content {
			t.Error("Open has touched it")
		}
	}
	if check(t, path).OK() {
		t.Error("Check finds nothing wrong with an empty file")
	}
	out, err := bolt.Salvage(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if old, err := os.ReadFile(out.SetAside); err != nil || len(old) != 0 {
		t.Errorf("%d bytes were set aside, %v", len(old), err)
	}
	open(t, path)
}

// proves D7: a start that died while it made the file leaves none that could be taken for damaged, and the next one
// makes it after all.
func TestDiedWhileCreating(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	for _, left := range []string{"", "half a page"} {
		if err := os.WriteFile(path+".new", []byte(left), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := bolt.Probe(t.Context(), path); err != nil {
			t.Errorf("Probe = %v", err)
		}
		closeSound(t, reopen(t, path), path)
		if _, err := os.Stat(path + ".new"); !os.IsNotExist(err) {
			t.Errorf("the half-made file is still there: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}
