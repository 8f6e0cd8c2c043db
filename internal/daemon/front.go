package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/test/bufconn"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/internal/lifecycle"
	"github.com/agentd-dev/agentd/server"
	"github.com/agentd-dev/agentd/server/auth"
	"github.com/agentd-dev/agentd/server/gateway"
)

// innerBuffer is the size of the in-process connection between REST and gRPC, in bytes.
const innerBuffer = 1 << 20

// front makes the parts that let clients in: gRPC, and REST when it is on. The gRPC server comes last, so that it stops
// first: it tells streams to end, REST's too.
func (d *daemon) front(ctx context.Context, s *sockets) ([]lifecycle.Part, error) {
	quietGRPC(d.options.Log)
	var parts []lifecycle.Part
	listeners, token := s.listeners, ""
	if d.options.Config.REST != "" {
		inner := bufconn.Listen(innerBuffer)
		rest, secret, err := d.restFront(ctx, inner)
		if err != nil {
			return nil, err
		}
		listeners, token = append(listeners, inner), secret
		parts = append(parts, lifecycle.Part{Name: "REST", Run: rest.Run, StopBudget: serveBudget})
	}
	api := server.New(server.Config{
		Supervisor: d.supervisor, View: d.view, Policy: auth.NewPolicy(token, d.box.OwnsProcess),
		Listeners: listeners, About: d.about(), Store: d.storeState, Log: d.options.Log,
	})
	return append(parts, lifecycle.Part{Name: "gRPC", Run: api.Run, StopBudget: 2 * serveBudget}), nil
}

// quietGRPC gives the log what gRPC and grpc-gateway would write to stderr, as debug: most of it is about clients that
// went away. Their logger is the process's, and must be set before anything of gRPC runs in it.
func quietGRPC(log *slog.Logger) {
	errorLines := slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer()
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, errorLines))
}

func (d *daemon) restFront(ctx context.Context, inner *bufconn.Listener) (*gateway.Gateway, string, error) {
	address := d.options.Config.REST
	token, err := auth.LoadToken(filepath.Join(d.options.Config.StateDir, tokenFile))
	if err != nil {
		return nil, "", err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, "", errdefs.New(errdefs.Unavailable, errdefs.Fault, address, "can't listen on %s for REST: %v", address, err)
	}
	d.rest = listener.Addr().String()
	front, err := gateway.New(ctx, gateway.Config{
		Listener: listener, Dial: inner.DialContext, Token: token, Log: d.options.Log,
	})
	if err != nil {
		return nil, "", errors.Join(err, listener.Close())
	}
	return front, token, nil
}

// about is what the status tells that does not change.
func (d *daemon) about() server.About {
	c := d.options.Config
	provider := c.ProviderOf(c.Model)
	about := server.About{
		Version: d.options.Version, PID: os.Getpid(), Started: d.started, StateDir: c.StateDir, Listen: c.Listen,
		REST: d.rest, StoreID: d.journal.StoreID(), AutoStarted: c.AutoStarted,
		Model: server.ModelState{
			Configured: c.ModelConfigured(), Model: c.Model, BaseURL: provider.BaseURL, Hint: c.ModelHint(),
		},
		Providers: providerStates(c),
	}
	if provider.APIKey != "" {
		about.Model.APIKeyEnv = provider.APIKeyEnv
	}
	return about
}

func (d *daemon) storeState() server.StoreState {
	state := server.StoreState{
		SizeBytes: d.home.file.Size(), Quarantined: d.home.file.Quarantined(), SalvagedFrom: d.home.salvaged,
	}
	for _, err := range []error{d.home.file.Damaged(), d.journal.Stalled()} {
		if err != nil {
			state.Stalled, state.Error = true, errdefs.Text(err)
		}
	}
	return state
}

// announce says that the daemon serves: to the log, and to systemd when it asks for it.
func (d *daemon) announce(ctx context.Context) error {
	if err := d.home.opened(); err != nil {
		return err
	}
	c := d.options.Config
	d.options.Log.Info("agentd serves", "pid", os.Getpid(), "listen", c.Listen, "rest", d.rest, "state_dir", c.StateDir)
	if hint := c.ModelHint(); hint != "" {
		d.options.Log.Warn(hint)
	}
	d.tellSystemd(ctx, "READY=1")
	<-ctx.Done()
	d.tellSystemd(context.WithoutCancel(ctx), "STOPPING=1")
	return nil
}

// tellSystemd sends one state to the socket in NOTIFY_SOCKET, as sd_notify(3) describes it. Without one it does nothing,
// and a socket that does not take it is no reason not to serve.
func (d *daemon) tellSystemd(ctx context.Context, state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unixgram", path)
	if err == nil {
		_, err = conn.Write([]byte(state))
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		d.options.Log.Warn("systemd was not told", "state", state, "error", err)
	}
}
