package daemon

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/internal/launch"
	"github.com/agentd-dev/agentd/store/bolt"
)

// sockets are the unix sockets that the daemon listens on, each held by a kernel lock beside it (D9).
type sockets struct {
	listeners []net.Listener
	held      []heldSocket
}

type heldSocket struct {
	path string
	lock *bolt.FileLock
	file fs.FileInfo // of the socket that this daemon made
}

// listen takes the addresses, unix:///PATH each. A socket that a dead daemon left is replaced; one of a living daemon
// refuses the start, naming its pid.
func listen(addresses []string) (*sockets, error) {
	s := &sockets{}
	for _, address := range addresses {
		if err := s.take(strings.TrimPrefix(address, "unix://")); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *sockets) take(path string) error {
	if err := prepareDir(path); err != nil {
		return err
	}
	lock, err := bolt.LockFile(path + ".lock")
	if err != nil {
		return err
	}
	listener, file, err := bind(path)
	if err != nil {
		return errors.Join(err, lock.Unlock())
	}
	s.listeners = append(s.listeners, listener)
	s.held = append(s.held, heldSocket{path, lock, file})
	return nil
}

func prepareDir(path string) error {
	if path == launch.SocketPath() {
		return launch.MakeSocketDir()
	}
	if err := launch.CheckSocketPath(path); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return errdefs.New(errdefs.PermissionDenied, errdefs.Denied, dir, "the socket's directory can't be made: %v", err)
	}
	return nil
}

// bind makes the socket with mode 0600, in place of a left-over. The caller holds its lock.
func bind(path string) (net.Listener, fs.FileInfo, error) {
	if err := removeSocket(path); err != nil {
		return nil, nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, nil, errdefs.New(errdefs.Unavailable, errdefs.Denied, path, "can't listen on %s: %v", path, err)
	}
	listener.SetUnlinkOnClose(false) // by then it may be another daemon's
	err = os.Chmod(path, 0o600)
	var file fs.FileInfo
	if err == nil {
		file, err = os.Lstat(path)
	}
	if err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	return listener, file, nil
}

// removeSocket removes a left-over socket, and nothing else.
func removeSocket(path string) error {
	stat, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && stat.Mode().Type() != fs.ModeSocket {
		return errdefs.New(errdefs.FailedPrecondition, errdefs.NameTaken, path, "%s exists and is no socket; move it away", path)
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return errdefs.New(errdefs.PermissionDenied, errdefs.Denied, path, "the left-over socket can't be removed: %v", err)
	}
	return nil
}

// close closes the listeners and removes the sockets that are still this daemon's own.
func (s *sockets) close() {
	for _, l := range s.listeners {
		_ = l.Close() // already closed when it was served
	}
	for _, h := range s.held {
		if now, err := os.Lstat(h.path); err == nil && os.SameFile(now, h.file) {
			_ = os.Remove(h.path) // a left-over does not hinder the next start
		}
		_ = h.lock.Unlock() // closing a descriptor: the kernel lets go in any case
	}
}
