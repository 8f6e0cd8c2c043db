package daemon_test

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
)

// Readiness and the stop are told to systemd; a socket that is gone by then does not make the end a crash.
func TestSystemdIsTold(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	t.Setenv("NOTIFY_SOCKET", socket)
	listener, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, doneRules, 4)
	buf := make([]byte, 64)
	if n, err := listener.Read(buf); err != nil || string(buf[:n]) != "READY=1" {
		t.Errorf("told %q, %v", buf[:n], err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if code := r.end(syscall.SIGTERM); code != 0 {
		t.Errorf("the daemon ended with %d: %s", code, r.logTail())
	}
}
