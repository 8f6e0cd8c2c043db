// Package launch finds, builds and starts agentd for agentctl, and knows where both commands meet: the socket and the
// state directory. It also runs the private daemons of the demo and of tests.
package launch

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

const (
	// modelServerTimeout bounds the wait for a model server, which has nothing to do before it listens.
	modelServerTimeout = 10 * time.Second
	// tellAfter is when people are told why a new daemon does not answer yet.
	tellAfter = 3 * time.Second
	// startTimeout bounds the wait for a new daemon, which checks, mends and reads its store before it answers. A large
	// one takes minutes.
	startTimeout = 10 * time.Minute
	// pollEvery is how often a starting daemon is looked at.
	pollEvery = 20 * time.Millisecond
	// lockTimeout bounds the wait for another agentctl that is building or starting a daemon.
	lockTimeout = 15 * time.Minute
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

// patience is how long a starting daemon is waited for.
type patience struct{ tell, giveUp time.Duration }

// awaitReady waits until the daemon answers. When it exits before, the error holds what it logged; when it takes too long
// it is left running, for it may hold the store.
func awaitReady(ctx context.Context, d *Daemon, wait patience, progress io.Writer) error {
	tell, giveUp := time.After(wait.tell), time.After(wait.giveUp)
	for !Answers(ctx, d.socket) {
		if d.exited() {
			state, _ := d.cmd.Process.Wait()
			if Answers(ctx, d.socket) {
				return nil // it gave way to a daemon that was started by hand
			}
			return errdefs.New(errdefs.Unavailable, errdefs.Fault, d.cmd.Path,
				"agentd did not start (%v):\n%s", state, d.log.text())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tell:
			fmt.Fprintf(progress, "agentd (pid %d) opens its store; its log is %s\n", d.PID(), d.log.path)
		case <-giveUp:
			return errdefs.New(errdefs.Unavailable, errdefs.Fault, d.cmd.Path,
				"agentd (pid %d) is still starting; its log is %s", d.PID(), d.log.path)
		case <-time.After(pollEvery):
		}
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
