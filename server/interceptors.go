package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// answerUnary turns the error of a call into the status that its client gets.
func (s *Server) answerUnary(
	ctx context.Context, req any, call *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	if err := checkSize(req); err != nil {
		return nil, s.answer(call.FullMethod, err)
	}
	resp, err := handle(ctx, req)
	return resp, s.answer(call.FullMethod, err)
}

// answerStream is answerUnary for streams.
func (s *Server) answerStream(
	srv any, stream grpc.ServerStream, call *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	return s.answer(call.FullMethod, handle(srv, stream))
}

// answer logs what a client is not told.
func (s *Server) answer(method string, err error) error {
	if err == nil {
		return nil
	}
	st := statusOf(err)
	switch st.Code() {
	case codes.Internal, codes.DataLoss, codes.Unknown:
		s.cfg.Log.Error("call failed", "method", method, "error", err)
	default:
		s.cfg.Log.Debug("call refused", "method", method, "code", st.Code(), "error", err)
	}
	return st.Err()
}

// recoverUnary makes a panic the error of its call: one call never ends the daemon.
func recoverUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (resp any, err error) {
	defer recovered(&err)
	return handle(ctx, req)
}

// recoverStream is recoverUnary for streams.
func recoverStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer recovered(&err)
	return handle(srv, stream)
}

// recovered must be deferred itself.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("panic: %v\n%s", v, debug.Stack()) // foreign, so the client is told of an internal error only
	}
}

// drainStream ends the stream's context when the server stops, and tells the client why.
func (s *Server) drainStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.drain, func() { cancel(context.Cause(s.drain)) })()
	err := handle(srv, drained{stream, ctx})
	if err != nil && isDraining(ctx) {
		return context.Cause(ctx)
	}
	return err
}

// isDraining tells whether the context of a stream ended because the server stops.
func isDraining(ctx context.Context) bool {
	return errdefs.Is(context.Cause(ctx), errdefs.ShuttingDown)
}

// drained is a stream whose context ends when the server stops.
type drained struct {
	grpc.ServerStream
	ctx context.Context
}

// Context ends when the client goes away or the server stops.
func (d drained) Context() context.Context { return d.ctx }

// RecvMsg refuses what is too large.
func (d drained) RecvMsg(m any) error {
	if err := d.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return checkSize(m)
}

// checkSize refuses a request that is too large as N8 has it. Only what is much larger gRPC refuses unread, with
// RESOURCE_EXHAUSTED.
func checkSize(request any) error {
	if m, ok := request.(proto.Message); ok && proto.Size(m) > maxRequest {
		return &errdefs.Error{
			Kind: errdefs.InvalidArgument, Reason: errdefs.TooLarge, Subject: "request", Field: "request",
			Message: fmt.Sprintf("request: it has %d bytes; the limit is %d", proto.Size(m), maxRequest),
		}
	}
	return nil
}

// brokenStream is an error of a stream's own Send: the client is gone.
type brokenStream struct{ cause error }

// Error is for the log.
func (b brokenStream) Error() string { return "the client is gone: " + b.cause.Error() }

// Unwrap gives gRPC's error.
func (b brokenStream) Unwrap() error { return b.cause }

// sent marks the error of a Send, unless it is of the message itself.
func sent(err error) error {
	switch status.Code(err) {
	case codes.OK, codes.Internal, codes.ResourceExhausted:
		return err
	default:
		return brokenStream{err}
	}
}

// clientLeft tells whether a stream ended because its client went away, and not for a fault or a stop of the server.
func clientLeft(ctx context.Context, err error) bool {
	if err == nil || isDraining(ctx) {
		return false
	}
	_, broken := errors.AsType[brokenStream](err)
	return broken || ctx.Err() != nil
}
