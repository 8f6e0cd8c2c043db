package launch

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"syscall"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// maxSocketPath is the longest path of a unix socket in bytes: the kernel's 108 with the closing zero.
const maxSocketPath = 107

// SocketPath is the default socket of agentd: $XDG_RUNTIME_DIR/agentd/agentd.sock, else agentd-UID/agentd.sock in
// the directory for temporary files.
func SocketPath() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agentd", "agentd.sock")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("agentd-%d", os.Getuid()), "agentd.sock")
}

// CheckSocketPath refuses paths that no unix socket can have: relative ones and those above 107 bytes.
func CheckSocketPath(path string) error {
	if !filepath.IsAbs(path) {
		return errdefs.New(errdefs.InvalidArgument, errdefs.BadArgument, path, "socket %s: the path must be absolute", path)
	}
	if len(path) > maxSocketPath {
		return errdefs.New(errdefs.InvalidArgument, errdefs.TooLarge, path,
			"socket %s: the path has %d bytes, a unix socket allows %d; set XDG_RUNTIME_DIR to a shorter directory",
			path, len(path), maxSocketPath)
	}
	return nil
}

// MakeSocketDir makes the directory of the default socket, mode 0700. One that belongs to somebody else, or that
// others may enter, is refused: its owner could pose as the daemon.
func MakeSocketDir() error { return makeOwnDir(filepath.Dir(SocketPath())) }

// makeOwnDir makes a directory that is this user's alone.
func makeOwnDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errdefs.Wrap(err, errdefs.PermissionDenied, errdefs.Denied, dir, "%s can't be made", dir)
	}
	stat, err := os.Lstat(dir)
	if err != nil {
		return errdefs.Wrap(err, errdefs.PermissionDenied, errdefs.Denied, dir, "%s can't be checked", dir)
	}
	sys, ok := stat.Sys().(*syscall.Stat_t)
	if !ok || !stat.IsDir() || int(sys.Uid) != os.Getuid() || stat.Mode().Perm()&0o077 != 0 {
		return errdefs.New(errdefs.PermissionDenied, errdefs.Denied, dir,
			"%s must be a directory of uid %d with mode 0700; remove it, or name other places with XDG_RUNTIME_DIR and"+
				" XDG_CACHE_HOME", dir, os.Getuid())
	}
	return nil
}

// StateDir is where agentd keeps its state by default: $XDG_STATE_HOME/agentd, else ~/.local/state/agentd. Without
// HOME the user database names the home directory.
func StateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "agentd"), nil
	}
	home := os.Getenv("HOME")
	if home == "" {
		if u, err := user.Current(); err == nil {
			home = u.HomeDir
		}
	}
	if !filepath.IsAbs(home) {
		return "", errdefs.New(errdefs.FailedPrecondition, errdefs.Unspecified, "HOME",
			"no home directory is known: set HOME, XDG_STATE_HOME or agentd's --state-dir")
	}
	return filepath.Join(home, ".local", "state", "agentd"), nil
}
