package auth

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

func TestTokenIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	tokens := make(chan string, 16)
	var all sync.WaitGroup
	for range cap(tokens) {
		all.Go(func() {
			token, err := LoadToken(path)
			if err != nil {
				t.Error(err)
			}
			tokens <- token
		})
	}
	all.Wait()
	first := <-tokens
	if len(first) < 26 {
		t.Errorf("token %q is short", first)
	}
	for len(tokens) > 0 {
		if other := <-tokens; other != first {
			t.Errorf("got %q and %q", first, other)
		}
	}
	if stat, err := os.Stat(path); err != nil || stat.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", stat.Mode(), err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("left %v, error %v", files, err)
	}
}

func TestUnsafeTokenFilesAreRefused(t *testing.T) {
	good := strings.Repeat("k", 26)
	for _, tt := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"readable for the group", func(path string) error { return os.WriteFile(path, []byte(good), 0o640) }, "0600"},
		{"empty", func(path string) error { return os.WriteFile(path, nil, 0o600) }, "26 characters"},
		{"short", func(path string) error { return os.WriteFile(path, []byte("secret"), 0o600) }, "26 characters"},
		{"two lines", func(path string) error { return os.WriteFile(path, []byte(good+"\n"+good), 0o600) }, "26 characters"},
		{"a directory", func(path string) error { return os.Mkdir(path, 0o700) }, "regular"},
		{"a fifo", func(path string) error { return syscall.Mkfifo(path, 0o600) }, "regular"},
		{"a link", func(path string) error {
			if err := os.WriteFile(path+".real", []byte(good), 0o600); err != nil {
				return err
			}
			return os.Symlink(path+".real", path)
		}, "symbolic links"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := tt.make(path); err != nil {
				t.Fatal(err)
			}
			token, err := LoadToken(path)
			if token != "" || !errdefs.Is(err, errdefs.BadCredentials) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, error %v", token, err)
			}
		})
	}
}

func TestTokenOfTheUserIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("  "+token+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if got, err := LoadToken(path); got != token || err != nil {
		t.Errorf("got %q, error %v", got, err)
	}
	if _, err := LoadToken(filepath.Join(path, "no", "directory")); err == nil {
		t.Error("made a token where no directory is")
	}
}
