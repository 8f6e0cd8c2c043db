package auth

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
)

// proves P8
func TestCheckHost(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	port := server.Listener.Addr().(*net.TCPAddr).Port
	server.Config.Handler = CheckHost(LocalHosts(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 2), Port: port}))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	server.Start()
	defer server.Close()
	p := ":" + strconv.Itoa(port)
	for host, want := range map[string]int{
		"127.0.0.1" + p: 204, "127.0.0.2" + p: 204, "127.0.0.3" + p: 403, "localhost" + p: 204, "LOCALHOST" + p: 204, "[::1]" + p: 204,
		"evil.example" + p: 403, "localhost": 403, "localhost:1": 403, "127.0.0.1.evil.example" + p: 403, "localhost." + p: 403,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: got %d, want %d", host, resp.StatusCode, want)
		}
	}
}

// TestLocalHostsOfHTTP: clients leave out the port that http implies.
func TestLocalHostsOfHTTP(t *testing.T) {
	hosts := LocalHosts(&net.TCPAddr{IP: net.IPv6loopback, Port: 80})
	for _, want := range []string{"localhost", "localhost:80", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:80"} {
		if !slices.Contains(hosts, want) {
			t.Errorf("no %s in %q", want, hosts)
		}
	}
}
