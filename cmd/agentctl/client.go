package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/launch"
)

// retryFor bounds how long a command waits for a daemon that it has lost.
const retryFor = 30 * time.Second

// maxReceived bounds what one message of the daemon may have, in bytes: a page holds up to 1000 tasks.
const maxReceived = 64 << 20

// unixScheme begins the address of a daemon.
const unixScheme = "unix://"

// errCut is a stream that ended before the task did.
var errCut = errors.New("the daemon closed the stream before the task's end")

// client is a connection to the daemon.
type client struct {
	conn   *grpc.ClientConn
	agents agentdv1.AgentServiceClient
	tasks  agentdv1.TaskServiceClient
	teams  agentdv1.TeamServiceClient
	events agentdv1.EventServiceClient
	daemon agentdv1.DaemonServiceClient
}

// close ends the connection; nothing is lost with it.
func (c *client) close() { _ = c.conn.Close() }

// dial connects to the daemon, starting it when that is allowed.
func (a *app) dial(ctx context.Context) (*client, error) {
	socket := launch.SocketPath()
	if a.addr != "" {
		socket = strings.TrimPrefix(a.addr, unixScheme)
	}
	if err := launch.CheckSocketPath(socket); err != nil {
		return nil, err
	}
	if a.addr == "" && !a.noStart {
		if err := launch.Ensure(ctx, a.err); err != nil {
			return nil, err
		}
	} else if !launch.Answers(ctx, socket) {
		return nil, status.Errorf(codes.Unavailable, "no daemon answers on %s", socket)
	}
	conn, err := grpc.NewClient(unixScheme+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceived)))
	if err != nil {
		return nil, err
	}
	a.connected = true
	return &client{
		conn:   conn,
		agents: agentdv1.NewAgentServiceClient(conn),
		tasks:  agentdv1.NewTaskServiceClient(conn),
		teams:  agentdv1.NewTeamServiceClient(conn),
		events: agentdv1.NewEventServiceClient(conn),
		daemon: agentdv1.NewDaemonServiceClient(conn),
	}, nil
}

// attempt does something on a connection of its own.
func (a *app) attempt(ctx context.Context, do func(*client) error) error {
	c, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	return do(c)
}

// persist does something until it succeeds or fails for good. What it does must be safe to do again: a read, or a
// mutation with the same request id.
func (a *app) persist(ctx context.Context, do func(*client) error) error {
	p := a.newPatience()
	for {
		began := time.Now()
		err := a.attempt(ctx, do)
		if err == nil {
			return nil
		}
		if time.Since(began) > retryFor/2 { // it was at work: the time runs from here on
			p.reset()
		}
		if err := p.bear(ctx, err); err != nil {
			return err
		}
	}
}

// resume reads a stream on connections of its own, one after the other, until read succeeds or fails for good. Read calls came
// for each item, and begins after the last one when it is called again.
func (a *app) resume(ctx context.Context, read func(c *client, came func()) error) error {
	p, lost := a.newPatience(), false
	for {
		some := false
		err := a.attempt(ctx, func(c *client) error {
			return read(c, func() {
				if lost {
					a.note("back on the daemon")
				}
				some, lost = true, false
			})
		})
		if err == nil {
			return nil
		}
		if some { // the time runs from here on, however long nothing came before
			p.reset()
		}
		if err := p.bear(ctx, err); err != nil {
			return err
		}
		if !lost {
			a.note("lost the daemon; waiting for it")
		}
		lost = true
	}
}

// patience decides whether to try again after an error, and waits in between.
type patience struct {
	app   *app
	until time.Time
	pause time.Duration
}

func (a *app) newPatience() *patience {
	p := &patience{app: a}
	p.reset()
	return p
}

// reset starts anew, after something went right.
func (p *patience) reset() { p.until, p.pause = time.Now().Add(retryFor), 50*time.Millisecond }

// bear waits after an error until it is time to try again. It gives the error to end with instead when the same error
// would stay, when the time is over, and when no daemon was there in the first place; after the end of ctx, that of ctx.
func (p *patience) bear(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if !transient(err) || !p.app.connected || time.Now().After(p.until) {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(p.pause):
	}
	p.pause = min(2*p.pause, 2*time.Second)
	return nil
}

// transient tells whether the same call may succeed soon. A stalled store is told at once instead: it needs people.
func transient(err error) bool {
	switch reason(err) {
	case "STORE_STALLED":
		return false
	case "OUTCOME_UNKNOWN":
		return true
	}
	_, isStatus := status.FromError(err)
	return errors.Is(err, errCut) || isStatus && status.Code(err) == codes.Unavailable
}

// requestID makes the id under which the daemon recognises a retry, unless the user gave one.
func requestID(given string) string {
	if given != "" {
		return given
	}
	return rand.Text()
}
