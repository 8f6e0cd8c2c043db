package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	gwruntime "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// storeService is the health service's name for the store: NOT_SERVING while it is stalled, and when the server stops.
const storeService = "agentd.store"

// readyTime bounds the question whether the daemon is ready.
const readyTime = 2 * time.Second

// newMux leads paths to methods. JSON has the names of the protos, and unknown fields and query parameters are refused.
func newMux() *gwruntime.ServeMux {
	nothing := func(string) (string, bool) { return "", false }
	var mux *gwruntime.ServeMux
	strict := func(next gwruntime.HandlerFunc) gwruntime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, pathParams map[string]string) {
			err := checkURL(r, pathParams)
			if err == nil {
				err = checkBody(r, pathParams)
			}
			if err == nil {
				err = asEvents(r)
			}
			if err != nil {
				_, out := gwruntime.MarshalerForRequest(mux, r)
				gwruntime.HTTPError(r.Context(), mux, out, w, r, err)
				return
			}
			next(w, r, pathParams)
		}
	}
	plain := gwruntime.JSONPb{
		MarshalOptions: protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}, // as agentctl -o json
	}
	mux = gwruntime.NewServeMux(
		gwruntime.WithMarshalerOption(gwruntime.MIMEWildcard, &plain),
		gwruntime.WithMarshalerOption(eventStream, &events{plain}),
		gwruntime.WithIncomingHeaderMatcher(nothing), // but Authorization, which always passes
		gwruntime.WithOutgoingHeaderMatcher(nothing),
		gwruntime.WithErrorHandler(explainedError),
		gwruntime.WithRoutingErrorHandler(routingError),
		gwruntime.WithDisablePathLengthFallback(), // no form stands for a query: nothing checks its names
		gwruntime.WithMiddlewares(strict),
	)
	return mux
}

// explainedError gives what grpc-gateway itself refuses, values that it can't decode, the reason and the field that all
// errors of wrong input have.
func explainedError(
	ctx context.Context, mux *gwruntime.ServeMux, m gwruntime.Marshaler, w http.ResponseWriter, r *http.Request, err error,
) {
	if s := status.Convert(err); s.Code() == codes.InvalidArgument && len(s.Details()) == 0 {
		field := "body"
		if r.Method == http.MethodGet || r.Method == http.MethodDelete {
			field = "query"
		}
		_, text, ok := strings.Cut(s.Message(), "proto:") // and a space that protojson varies on purpose
		if !ok {
			text = s.Message()
		}
		err = badField(field, "%s", strings.TrimSpace(text))
	}
	gwruntime.DefaultHTTPErrorHandler(ctx, mux, m, w, r, err)
}

// routingError answers a method that a path does not have with 405, as HTTP does.
func routingError(
	ctx context.Context, mux *gwruntime.ServeMux, m gwruntime.Marshaler, w http.ResponseWriter, r *http.Request, code int,
) {
	if code != http.StatusMethodNotAllowed {
		gwruntime.DefaultRoutingErrorHandler(ctx, mux, m, w, r, code)
		return
	}
	gwruntime.HTTPError(ctx, mux, m, w, r, &gwruntime.HTTPStatusError{
		HTTPStatus: code, Err: status.Error(codes.Unimplemented, "the path does not have this method"),
	})
}

// refuse answers a request without the token.
func refuse(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("WWW-Authenticate", "Bearer")
	w.WriteHeader(http.StatusUnauthorized)
	// As google.rpc.Status.
	_, _ = io.WriteString(w, `{"code":16,"message":"a bearer token is needed: Authorization: Bearer TOKEN",`+
		`"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNAUTHENTICATED","domain":"agentd.dev"}]}`+
		"\n")
}

// bounded reads the body before anything else does, so that one that is too large is refused as gRPC refuses a request.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			refuseBody(w)
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // the client broke off, or does not speak HTTP
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// refuseBody answers a request with a body that is too large (N8).
func refuseBody(w http.ResponseWriter) {
	message := fmt.Sprintf("request: the body is too large; the limit is %d bytes", maxBody)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	// As google.rpc.Status.
	_, _ = fmt.Fprintf(w, `{"code":3,"message":%[1]q,"details":[`+
		`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TOO_LARGE","domain":"agentd.dev",`+
		`"metadata":{"subject":"request"}},`+
		`{"@type":"type.googleapis.com/google.rpc.BadRequest",`+
		`"field_violations":[{"field":"request","description":%[1]q}]}]}`+"\n", message)
}

// ready asks the gRPC server whether the daemon is there and can commit.
func (g *Gateway) ready(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+g.cfg.Token)
	resp, err := healthv1.NewHealthClient(g.conn).Check(ctx, &healthv1.HealthCheckRequest{Service: storeService})
	return err == nil && resp.GetStatus() == healthv1.HealthCheckResponse_SERVING
}

// writeProbe answers a probe.
func writeProbe(w http.ResponseWriter, ok bool) {
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"status":"NOT_SERVING"}`+"\n")
		return
	}
	_, _ = io.WriteString(w, `{"status":"SERVING"}`+"\n")
}
