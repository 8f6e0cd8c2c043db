package auth

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

const (
	// tokenBytes is the shortest token that is accepted: rand.Text gives 26 characters, which are 130 bits.
	tokenBytes = 26
	// tokenFileBytes bounds what is read.
	tokenFileBytes = 4 << 10
)

// LoadToken reads the token in the file at path, or creates the file with a random one. The file must be a regular
// one, of the daemon's own user, and mode 0600 or less. Of two daemons that create it at once both get the same token.
func LoadToken(path string) (string, error) {
	token, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := createToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, path, "cannot create the token file %s", path)
		}
		token, err = readToken(path)
	}
	if err != nil {
		return "", errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.BadCredentials, path,
			"the token file %s cannot be used; remove it to get a new one", path)
	}
	return token, nil
}

// readToken reads the token and checks that nobody else could.
func readToken(path string) (string, error) {
	// A fifo must not hold up the start, and is refused below.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return "", err
	}
	owner, ok := stat.Sys().(*syscall.Stat_t)
	switch {
	case !stat.Mode().IsRegular():
		return "", errors.New("it is not a regular file")
	case stat.Mode().Perm()&0o077 != 0:
		return "", errors.New("others may read or write it: its mode must be 0600")
	case !ok || int(owner.Uid) != os.Geteuid():
		return "", errors.New("it belongs to another user")
	}
	text, err := io.ReadAll(io.LimitReader(f, tokenFileBytes))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < tokenBytes || strings.ContainsAny(token, " \t\r\n") {
		return "", errors.New("it has no token of at least 26 characters")
	}
	return token, nil
}

// createToken writes a new token where no file is, whole or not at all.
func createToken(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(rand.Text() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path) // unlike a rename, never over another one
}
