// Package server speaks gRPC: each method unpacks the request, makes one call of the runtime, and packs what comes back.
// Errors become status in one place, and a stop of the server ends open streams in a way that lets clients come back.
package server

import (
	"context"
	"log/slog"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/server/auth"
)

// StoreService is the name under which the health service tells whether the store can commit. The name "" tells of the
// daemon itself, which also works, and can be asked, while the store is stalled.
const StoreService = "agentd.store"

const (
	// maxRequest bounds a request, in bytes (N8).
	maxRequest = 4 << 20
	// maxReceived bounds what gRPC reads into memory, in bytes.
	maxReceived = 2 * maxRequest
	// drainTime is how long streams get to end when the server stops. They are told at once; only clients that do not
	// read hold it up.
	drainTime = 5 * time.Second
	// storeEvery is how often the health of the store is looked at.
	storeEvery = time.Second
	// pingEvery is how often a client may ping an idle connection. Pings of a local client cost next to nothing.
	pingEvery = 10 * time.Second
)

// Config is what a Server works with. Every field is needed.
type Config struct {
	Supervisor *runtime.Supervisor
	View       *view.View
	Policy     *auth.Policy
	Listeners  []net.Listener // of the kinds that the Policy knows; Run closes them
	About      About
	Store      func() StoreState // is called often and must not block
	Log        *slog.Logger
}

// Server serves the API. Make it with New, run it once.
type Server struct {
	cfg    Config
	grpc   *grpc.Server
	health *health.Server
	drain  context.Context // ends, with errShuttingDown as its cause, when streams are to end; Run sets it
}

// New makes a server of the API, the health service and reflection. It serves nothing before Run.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, health: health.NewServer()}
	s.grpc = grpc.NewServer(
		grpc.Creds(cfg.Policy.Credentials()),
		grpc.MaxRecvMsgSize(maxReceived),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery, PermitWithoutStream: true}),
		grpc.WaitForHandlers(true), // after Run no call touches the store any more
		grpc.ChainUnaryInterceptor(s.answerUnary, recoverUnary, cfg.Policy.Unary),
		grpc.ChainStreamInterceptor(s.answerStream, recoverStream, cfg.Policy.Stream, s.drainStream),
	)
	agentdv1.RegisterAgentServiceServer(s.grpc, agents{supervisor: cfg.Supervisor, view: cfg.View, log: cfg.Log})
	agentdv1.RegisterTaskServiceServer(s.grpc, tasks{view: cfg.View})
	agentdv1.RegisterDaemonServiceServer(s.grpc, daemon{
		about: cfg.About, store: cfg.Store, counts: cfg.Supervisor.Counts, supervisor: cfg.Supervisor,
	})
	agentdv1.RegisterTeamServiceServer(s.grpc, teams{supervisor: cfg.Supervisor, view: cfg.View})
	agentdv1.RegisterEventServiceServer(s.grpc, events{view: cfg.View})
	healthv1.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	return s
}

// Run serves the listeners until ctx ends or one of them fails. Then open streams end with UNAVAILABLE/SHUTTING_DOWN,
// calls under way are waited for, for some seconds, and the listeners are closed.
func (s *Server) Run(ctx context.Context) error {
	drain, begin := context.WithCancelCause(context.WithoutCancel(ctx))
	defer begin(nil)
	s.drain = drain
	s.health.SetServingStatus("", healthv1.HealthCheckResponse_SERVING)
	s.lookAtStore()
	failed := make(chan error, len(s.cfg.Listeners))
	for _, l := range s.cfg.Listeners {
		go func() { failed <- s.grpc.Serve(l) }()
	}
	err := s.watchStore(ctx, failed)
	s.health.Shutdown()
	begin(errShuttingDown())
	s.stop()
	return err
}

// watchStore keeps the health of the store up to date until ctx ends or a listener fails.
func (s *Server) watchStore(ctx context.Context, failed <-chan error) error {
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, "listener", "a listener can't be served")
		case <-tick.C:
			s.lookAtStore()
		}
	}
}

func (s *Server) lookAtStore() {
	status := healthv1.HealthCheckResponse_SERVING
	if s.cfg.Store().Stalled {
		status = healthv1.HealthCheckResponse_NOT_SERVING
	}
	s.health.SetServingStatus(StoreService, status)
}

// stop waits for calls, then ends what is left.
func (s *Server) stop() {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		s.grpc.GracefulStop()
	}()
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	select {
	case <-stopped:
	case <-limit.C:
		s.cfg.Log.Warn("clients that do not read are cut off")
		s.grpc.Stop()
		<-stopped
	}
}

// errShuttingDown is what streams end with when the server stops.
func errShuttingDown() error {
	return errdefs.New(errdefs.Unavailable, errdefs.ShuttingDown, "",
		"the daemon is stopping; connect again and go on from the last seq or cursor")
}
