package auth

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// LocalHosts are the Host headers of requests to a loopback listener on the port.
func LocalHosts(port int) []string {
	p := strconv.Itoa(port)
	return []string{net.JoinHostPort("127.0.0.1", p), net.JoinHostPort("localhost", p), net.JoinHostPort("::1", p)}
}

// CheckHost answers 403 to requests whose Host header is none of the allowed: a page in a browser may have a name of its
// own that leads to the loopback address.
func CheckHost(allowed []string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slices.Contains(allowed, strings.ToLower(r.Host)) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				_, _ = io.WriteString(w, `{"code":7,"message":"this Host is not served"}`+"\n") // as google.rpc.Status
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}
