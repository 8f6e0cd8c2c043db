package daemon_test

import (
	"strings"
	"syscall"
	"testing"
)

// What gRPC and grpc-gateway have to say goes through the daemon's log, and not beside it to stderr. gRPC is asked to say
// all it can, as its own errors can't be had at will.
func TestGRPCWritesNothingBesideTheLog(t *testing.T) {
	t.Setenv("GRPC_GO_LOG_SEVERITY_LEVEL", "info")
	r := newRig(t, doneRules, 4, func(s *settings) { s.REST = "127.0.0.1:0" })
	r.finish("a", "say hello")
	if code := r.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(r.logTail()) {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("not of the log: %s", line)
		}
	}
}
