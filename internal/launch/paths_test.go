package launch

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
)

func signalContext() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt)
}

func TestSocketDirIsOnesOwn(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if want := dir + "/agentd/agentd.sock"; SocketPath() != want {
		t.Errorf("socket %s, want %s", SocketPath(), want)
	}
	if err := MakeSocketDir(); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "agentd")
	if stat, err := os.Stat(own); err != nil || stat.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", stat.Mode(), err)
	}
	_ = os.Chmod(own, 0o750)
	if err := MakeSocketDir(); err == nil {
		t.Error("a directory that others may enter is taken")
	}
	_ = os.Remove(own)
	_ = os.Mkdir(filepath.Join(dir, "real"), 0o700)
	_ = os.Symlink("real", own)
	if err := MakeSocketDir(); err == nil {
		t.Error("a link is taken for the directory")
	}
}

func TestSocketWithoutRuntimeDir(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", "relative")
	t.Setenv("TMPDIR", "/tmp")
	if got := SocketPath(); !strings.HasPrefix(got, "/tmp/agentd-") || !strings.HasSuffix(got, "/agentd.sock") {
		t.Errorf("socket %s", got)
	}
}

func TestSocketPathHasALimit(t *testing.T) {
	if err := CheckSocketPath("/" + strings.Repeat("a", 106)); err != nil {
		t.Errorf("107 bytes: %v", err)
	}
	if err := CheckSocketPath("/" + strings.Repeat("a", 107)); err == nil || !strings.Contains(err.Error(), "107") {
		t.Errorf("108 bytes: %v", err)
	}
}

func TestStateDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/x")
	t.Setenv("HOME", "/h")
	if got, err := StateDir(); got != "/x/agentd" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	t.Setenv("XDG_STATE_HOME", "")
	if got, err := StateDir(); got != "/h/.local/state/agentd" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func TestSourcesAreFound(t *testing.T) {
	dir, ok := sourceDir()
	if !ok {
		t.Skip("built with -trimpath")
	}
	if _, err := os.Stat(filepath.Join(dir, "internal", "launch", "find.go")); err != nil {
		t.Error(err)
	}
	if !underGoRun() {
		t.Error("a test counts as a released build")
	}
}
