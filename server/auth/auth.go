// Package auth decides who may call the daemon: the user who runs it, over the unix socket, but none of the processes that
// the daemon itself runs for its agents (P8); and who bears the token, over the in-process connections of the REST
// front.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"os"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// Caller is who made a call: the scope of request ids (N7). The zero Caller is nobody.
type Caller struct{ name string }

// String is the caller as a key, such as uid:1000 or token:rest; empty for nobody.
func (c Caller) String() string { return c.name }

// restCaller is whoever bears the token of the REST front.
func restCaller() Caller { return Caller{"token:rest"} }

// callerKey is the context key of the Caller.
type callerKey struct{}

// CallerOf is who made the call that ctx belongs to, as the interceptors found; nobody outside of one.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Policy says who may call. It is safe for concurrent use.
type Policy struct {
	uid      int
	refuse   func(pid int) bool
	token    [sha256.Size]byte
	hasToken bool
}

// NewPolicy lets in the processes of the daemon's own user, except those that refuse names, and over in-process
// connections the bearers of the token; without a token nobody there.
func NewPolicy(token string, refuse func(pid int) bool) *Policy {
	return &Policy{uid: os.Geteuid(), refuse: refuse, token: sha256.Sum256([]byte(token)), hasToken: token != ""}
}

// Unary lets a call pass with its Caller in the context, or refuses it. It stands inside the interceptor that
// turns errors into status.
func (p *Policy) Unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	ctx, err := p.admit(ctx)
	if err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

// Stream is Unary for streams.
func (p *Policy) Stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, err := p.admit(stream.Context())
	if err != nil {
		return err
	}
	return handle(srv, admitted{stream, ctx})
}

// admitted is a stream whose context has the Caller.
type admitted struct {
	grpc.ServerStream
	ctx context.Context
}

// Context has the Caller.
func (a admitted) Context() context.Context { return a.ctx }

// admit puts the Caller into the call's context.
func (p *Policy) admit(ctx context.Context) (context.Context, error) {
	from, ok := peer.FromContext(ctx)
	if !ok {
		return nil, unauthenticated("the call has no peer")
	}
	caller, err := p.caller(ctx, from)
	if err != nil {
		return nil, err
	}
	return context.WithValue(ctx, callerKey{}, caller), nil
}

// caller finds out who calls, by the kind of the connection.
func (p *Policy) caller(ctx context.Context, from *peer.Peer) (Caller, error) {
	switch conn := from.AuthInfo.(type) {
	case process:
		if conn.refusal != nil {
			return Caller{}, conn.refusal
		}
		return Caller{"uid:" + strconv.Itoa(conn.uid)}, nil
	case inProcess:
		if !p.bearsToken(ctx) {
			return Caller{}, unauthenticated("a bearer token is needed: Authorization: Bearer TOKEN")
		}
		return restCaller(), nil
	}
	return Caller{}, unauthenticated("the connection does not tell who calls")
}

// bearsToken tells whether the call has exactly one Authorization header, with the token. The time it takes tells
// nothing about the token.
func (p *Policy) bearsToken(ctx context.Context) bool {
	values := metadata.ValueFromIncomingContext(ctx, "authorization")
	if len(values) != 1 || !p.hasToken {
		return false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	sum := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], p.token[:]) == 1
}

// unauthenticated is the error of a caller that cannot be told.
func unauthenticated(message string) error {
	return errdefs.New(errdefs.Unauthenticated, errdefs.BadCredentials, "", "%s", message)
}
