// Package gateway serves the API as REST with JSON: it is a client of the gRPC server over an in-process connection, so
// that both say the same. Streams are newline-delimited JSON, {"result":X} a line, {"error":Status} when they break;
// other errors are a google.rpc.Status. One bearer token opens every path but /healthz and /readyz.
package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	gwruntime "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/server/auth"
)

const (
	maxBody     = 4 << 20          // bytes of a request's body (N8)
	maxHeader   = 64 << 10         // bytes of a request's headers
	maxResponse = 64 << 20         // bytes of one message of the server, which is trusted: only a stop for accidents
	headerTime  = 10 * time.Second // for a request's headers to arrive
	idleTime    = 2 * time.Minute  // of a connection between requests
	stopTime    = 5 * time.Second  // for requests under way when it stops
)

// Config is what a Gateway works with. Every field is needed.
type Config struct {
	Listener net.Listener                                // a TCP listener on the loopback address; Run closes it
	Dial     func(ctx context.Context) (net.Conn, error) // connects to the gRPC server
	Token    string                                      // as the gRPC server knows it; see auth.LoadToken
	Log      *slog.Logger
}

// Gateway is the REST front. Make it with New, run it once.
type Gateway struct {
	cfg  Config
	conn *grpc.ClientConn
	http *http.Server
}

// New makes a gateway. It serves nothing before Run, and lives on when ctx ends.
func New(ctx context.Context, cfg Config) (*Gateway, error) {
	address, ok := cfg.Listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errdefs.BadField("rest", "%s is not a TCP address", cfg.Listener.Addr())
	}
	conn, err := grpc.NewClient("passthrough:///agentd",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return cfg.Dial(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // it does not leave the process
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)))
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.Internal, errdefs.Fault, "rest", "the REST front can't be made")
	}
	g := &Gateway{cfg: cfg, conn: conn}
	api := newMux()
	for _, register := range []func(context.Context, *gwruntime.ServeMux, *grpc.ClientConn) error{
		agentdv1.RegisterAgentServiceHandler,
		agentdv1.RegisterTaskServiceHandler,
		agentdv1.RegisterDaemonServiceHandler,
		agentdv1.RegisterTeamServiceHandler,
		agentdv1.RegisterEventServiceHandler,
	} {
		if err := register(ctx, api, conn); err != nil {
			return nil, errdefs.Wrap(err, errdefs.Internal, errdefs.Fault, "rest", "the REST front can't be made")
		}
	}
	g.http = &http.Server{
		Handler: auth.CheckHost(auth.LocalHosts(address))(g.routes(api)),
		// No timeout of a response: streams last as long as their tasks.
		ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	return g, nil
}

// routes leads the probes past the token.
func (g *Gateway) routes(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeProbe(w, true) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { writeProbe(w, g.ready(r.Context())) })
	mux.Handle("/", g.guard(bounded(api)))
	return mux
}

// guard lets the bearers of the token pass. The time it takes tells nothing about the token.
func (g *Gateway) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(g.cfg.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(token))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			refuse(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Run serves until ctx ends, then waits some seconds for requests under way. Streams end when the gRPC server ends
// them: stop that one first, or their clients count as gone.
func (g *Gateway) Run(ctx context.Context) error {
	stopped := make(chan error, 1)
	cancelStop := context.AfterFunc(ctx, func() { stopped <- g.stop(context.WithoutCancel(ctx)) })
	err := g.http.Serve(g.cfg.Listener)
	if !cancelStop() {
		err = <-stopped // Serve returned at the beginning of the stop
	}
	if err = errors.Join(err, g.conn.Close()); err != nil {
		return errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, "rest", "the REST front can't be served")
	}
	return nil
}

// stop cuts off what does not end in time.
func (g *Gateway) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if err := g.http.Shutdown(ctx); err != nil {
		g.cfg.Log.Warn("REST requests are cut off", "error", err)
		return g.http.Close()
	}
	return nil
}
