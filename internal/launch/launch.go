// Package launch finds, builds and starts agentd for agentctl, and knows where both commands meet: the socket and the
// state directory. It also runs the private daemons of the demo and of tests.
package launch

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

const (
	// readyTimeout bounds the wait for a new daemon, which opens its store before it answers.
	readyTimeout = 10 * time.Second
	// pollEvery is how often a starting daemon is looked at.
	pollEvery = 20 * time.Millisecond
	// lockTimeout bounds the wait for another agentctl that is building or starting a daemon.
	lockTimeout = 5 * time.Minute
)

// Answers tells whether a gRPC server speaks on the socket. A left-over socket, or one whose owner does not serve
// within a second, does not answer.
func Answers(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return false
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline) // a closed one fails below
	// The preface of HTTP/2 and an empty SETTINGS frame; the server's own SETTINGS answer it.
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		return false
	}
	_, err = io.ReadFull(conn, make([]byte, 9))
	return err == nil
}

// awaitReady waits until the daemon answers; when it exits before, the error holds what it logged.
func awaitReady(ctx context.Context, d *Daemon) error {
	timeout, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for !Answers(timeout, d.socket) {
		switch {
		case d.exited():
			state, _ := d.cmd.Process.Wait()
			if Answers(timeout, d.socket) {
				return nil // it gave way to a daemon that was started by hand
			}
			return errdefs.New(errdefs.Unavailable, errdefs.Fault, d.cmd.Path,
				"agentd did not start (%v):\n%s", state, d.log.text())
		case timeout.Err() != nil && ctx.Err() == nil:
			_ = d.Kill()
			return errdefs.New(errdefs.Unavailable, errdefs.Fault, d.cmd.Path,
				"agentd did not answer within %v:\n%s", readyTimeout, d.log.text())
		case ctx.Err() != nil:
			return errors.Join(ctx.Err(), d.Kill())
		}
		pause(timeout, pollEvery)
	}
	return nil
}

// lock takes an exclusive lock on a file, which the kernel releases when this process ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, path, "the lock of the start can't be opened")
	}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if ctx.Err() != nil {
			f.Close()
			return nil, errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, path,
				"another agentctl is starting the daemon and does not finish")
		}
		pause(ctx, pollEvery)
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
