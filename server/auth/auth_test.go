package auth

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// TestMain lets the test binary play a client in a process of its own.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "client" {
		fmt.Print(code(context.Background(), "unix://"+os.Args[2]))
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const token = "abcdefghijklmnopqrstuvwxyz"

// callers notes who called.
type callers struct {
	*health.Server
	seen chan string
}

// Check is the unary call of the tests.
func (c callers) Check(ctx context.Context, r *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	c.seen <- CallerOf(ctx).String()
	return c.Server.Check(ctx, r)
}

// Watch is the streaming call of the tests.
func (c callers) Watch(_ *healthv1.HealthCheckRequest, s healthv1.Health_WatchServer) error {
	c.seen <- CallerOf(s.Context()).String()
	return nil
}

// serveOn serves the policy on a listener, and returns where the names of callers arrive.
func serveOn(t *testing.T, p *Policy, l net.Listener) <-chan string {
	t.Helper()
	c := callers{health.NewServer(), make(chan string, 8)}
	server := grpc.NewServer(
		grpc.Creds(p.Credentials()),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			resp, err := h(ctx, req)
			return resp, toStatus(err)
		}, p.Unary),
		grpc.ChainStreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			return toStatus(h(srv, s))
		}, p.Stream),
	)
	healthv1.RegisterHealthServer(server, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return c.seen
}

// toStatus stands for the server's interceptor.
func toStatus(err error) error {
	switch {
	case err == nil:
		return nil
	case errdefs.KindOf(err) == errdefs.PermissionDenied:
		return status.Error(codes.PermissionDenied, err.Error())
	case errdefs.KindOf(err) == errdefs.Unauthenticated:
		return status.Error(codes.Unauthenticated, err.Error())
	}
	return err
}

// code makes a unary and a streaming call, and returns what both ended with.
func code(ctx context.Context, target string, opts ...grpc.DialOption) codes.Code {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	client := healthv1.NewHealthClient(conn)
	_, err = client.Check(ctx, &healthv1.HealthCheckRequest{})
	stream, streamErr := client.Watch(ctx, &healthv1.HealthCheckRequest{})
	if streamErr == nil {
		_, streamErr = stream.Recv()
	}
	if streamErr != nil && streamErr.Error() == "EOF" {
		streamErr = nil
	}
	if status.Code(err) != status.Code(streamErr) {
		panic("unary: " + status.Code(err).String() + ", stream: " + status.Code(streamErr).String())
	}
	return status.Code(err)
}

func listenUnix(t *testing.T) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return l, path
}

// proves P8
func TestUnixSocketTellsTheCaller(t *testing.T) {
	l, path := listenUnix(t)
	seen := serveOn(t, NewPolicy(token, func(pid int) bool { return pid != os.Getpid() }), l)
	forged := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
	if got := code(forged, "unix://"+path); got != codes.OK {
		t.Fatalf("got %s", got)
	}
	want := "uid:" + strconv.Itoa(os.Geteuid())
	if unary, stream := <-seen, <-seen; unary != want || stream != want {
		t.Errorf("got callers %q and %q, want %q", unary, stream, want)
	}
}

// proves P8
func TestProcessesOfTasksAreRefused(t *testing.T) {
	l, path := listenUnix(t)
	asked := make(chan int, 1)
	seen := serveOn(t, NewPolicy(token, func(pid int) bool {
		asked <- pid
		return true
	}), l)
	cmd := exec.Command("/proc/self/exe", "client", path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != codes.PermissionDenied.String() {
		t.Errorf("got %q", got)
	}
	if pid := <-asked; pid != cmd.Process.Pid {
		t.Errorf("asked about process %d, want %d", pid, cmd.Process.Pid)
	}
	if len(seen) > 0 {
		t.Error("a call went through")
	}
}

// proves P8
func TestOtherUsersAreRefused(t *testing.T) {
	l, path := listenUnix(t)
	p := NewPolicy(token, func(int) bool { return false })
	p.uid++ // the peer is another user than the daemon, also if that is root
	seen := serveOn(t, p, l)
	if got := code(t.Context(), "unix://"+path); got != codes.PermissionDenied || len(seen) > 0 {
		t.Errorf("got %s, calls %d", got, len(seen))
	}
}

// proves P8
func TestInProcessNeedsTheToken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		token  string
		header []string
		want   codes.Code
	}{
		{"the token", token, []string{"Bearer " + token}, codes.OK},
		{"scheme in lower case", token, []string{"bearer " + token}, codes.OK},
		{"none", token, nil, codes.Unauthenticated},
		{"another", token, []string{"Bearer " + token + "x"}, codes.Unauthenticated},
		{"a part", token, []string{"Bearer " + token[:25]}, codes.Unauthenticated},
		{"another scheme", token, []string{"Basic " + token}, codes.Unauthenticated},
		{"two", token, []string{"Bearer " + token, "Bearer x"}, codes.Unauthenticated},
		{"no token configured", "", []string{"Bearer "}, codes.Unauthenticated},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := bufconn.Listen(1 << 16)
			seen := serveOn(t, NewPolicy(tt.token, func(int) bool { return false }), l)
			ctx := t.Context()
			for _, h := range tt.header {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", h)
			}
			dial := grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
			if got := code(ctx, "passthrough:///bufconn", dial); got != tt.want {
				t.Fatalf("got %s, want %s", got, tt.want)
			}
			if tt.want != codes.OK {
				if len(seen) > 0 {
					t.Error("a call went through")
				}
			} else if unary, stream := <-seen, <-seen; unary != "token:rest" || stream != "token:rest" {
				t.Errorf("got callers %q and %q", unary, stream)
			}
		})
	}
}

func TestOtherConnectionsAreCut(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seen := serveOn(t, NewPolicy(token, func(int) bool { return false }), l)
	if got := code(t.Context(), l.Addr().String()); got != codes.Unavailable || len(seen) > 0 {
		t.Errorf("got %s, calls %d", got, len(seen))
	}
}

func TestNobodyCallsOutsideOfACall(t *testing.T) {
	if got := CallerOf(t.Context()).String(); got != "" {
		t.Errorf("got %q", got)
	}
	p := NewPolicy(token, func(int) bool { return false })
	_, err := p.Unary(t.Context(), nil, nil, func(context.Context, any) (any, error) {
		t.Error("a call without a peer went through")
		return nil, nil
	})
	if !errdefs.Is(err, errdefs.BadCredentials) || !strings.Contains(err.Error(), "peer") {
		t.Errorf("got error %v", err)
	}
}
