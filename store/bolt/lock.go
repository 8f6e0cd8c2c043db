package bolt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// lockName is the lock of a state directory.
const lockName = "agentd.lock"

// FileLock is a kernel lock on a file. The kernel drops it with the process, so that neither a file that was left
// behind nor a pid that was given again can block anyone. The text in the file, the holder's pid, is for people only.
type FileLock struct{ f *os.File }

// orphanPatience bounds the wait for a lock whose holder is dead. A child that it was just forking has a copy of the
// descriptor until it execs.
const (
	orphanPatience = 5 * time.Second
	orphanPause    = 5 * time.Millisecond
)

// Lock locks the state directory for this process. It never waits for a living holder, which is
// FailedPrecondition/AlreadyRunning, naming its pid.
func Lock(dir string) (*FileLock, error) { return LockFile(filepath.Join(dir, lockName)) }

// LockFile locks a file of its own, which it makes when it is missing, as Lock does. It serves the lock beside a socket.
func LockFile(path string) (*FileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, stalled(err)
	}
	err = tryLock(f, unix.LOCK_EX)
	for begun := time.Now(); errors.Is(err, unix.EWOULDBLOCK) && isDead(holder(f)) && time.Since(begun) < orphanPatience; {
		<-time.After(orphanPause)
		err = tryLock(f, unix.LOCK_EX)
	}
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = errdefs.New(errdefs.FailedPrecondition, errdefs.AlreadyRunning, path,
			"%s is held by a running agentd (pid %s)", path, holder(f))
		return nil, errors.Join(err, f.Close())
	case err != nil:
		return nil, errors.Join(stalled(err), f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(stalled(err), f.Close())
	}
	if _, err := fmt.Fprintf(f, "%d\n", os.Getpid()); err != nil {
		return nil, errors.Join(stalled(err), f.Close())
	}
	return &FileLock{f}, nil
}

// Unlock gives the lock up. The file stays: removing it could take it from a successor that has it open.
func (l *FileLock) Unlock() error {
	if err := errors.Join(l.f.Truncate(0), l.f.Close()); err != nil {
		return stalled(err)
	}
	return nil
}

// holder is the pid in a lock file. It is missing for the instant between the lock and its text.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return pid
	}
	return "not known yet"
}

// isDead tells whether a pid is that of a process that has ended, reaped or not. What is no pid is taken for alive.
func isDead(pid string) bool {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 {
		return false
	}
	if errors.Is(unix.Kill(n, 0), unix.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	_, fields, found := strings.Cut(string(stat), ") ") // the state follows the name
	return err == nil && found && (fields[0] == 'Z' || fields[0] == 'X')
}

// tryLock locks f without waiting: EWOULDBLOCK when another holds it.
func tryLock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
