package auth

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// httpPort is the one that clients leave out of the Host header.
const httpPort = 80

// LocalHosts are the Host headers of requests to a loopback listener at the address.
func LocalHosts(address *net.TCPAddr) []string {
	var hosts []string
	for _, host := range []string{"127.0.0.1", "localhost", "::1", address.IP.String()} {
		withPort := net.JoinHostPort(host, strconv.Itoa(address.Port))
		hosts = append(hosts, withPort)
		if address.Port == httpPort {
			hosts = append(hosts, strings.TrimSuffix(withPort, ":80"))
		}
	}
	return hosts
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
