package grant_test

import (
	"testing"

	"github.com/agentd-dev/agentd/runtime/grant"
)

func TestBeneath(t *testing.T) {
	tests := []struct {
		root, path string
		want       bool
	}{
		{"/a", "/a", true},
		{"/a", "/a/b/c", true},
		{"/a", "/a/..b", true},
		{"/a", "/a/...", true},
		{"/", "/a", true},
		{"/a", "/ab", false},
		{"/a", "/", false},
		{"/a/b", "/a", false},
		{"/a/b", "/a/c", false},
		{"/a", "a", false},
	}
	for _, tt := range tests {
		if got := grant.Beneath(tt.root, tt.path); got != tt.want {
			t.Errorf("Beneath(%q, %q) = %v", tt.root, tt.path, got)
		}
	}
}

func TestRoots(t *testing.T) {
	g := grant.Grant{Readable: []string{"/lib", "/ws/docs"}, Writable: []string{"/ws", "/ws/out/deep"}}
	tests := []struct{ path, readable, writable string }{
		{"/lib/x", "/lib", ""},
		{"/ws", "/ws", "/ws"},
		{"/ws/docs/a", "/ws/docs", "/ws"}, // the longest root that holds it
		{"/ws/out/deep/a", "/ws/out/deep", "/ws/out/deep"},
		{"/works", "", ""},
		{"/", "", ""},
	}
	for _, tt := range tests {
		if got := g.ReadableRoot(tt.path); got != tt.readable {
			t.Errorf("ReadableRoot(%q) = %q, want %q", tt.path, got, tt.readable)
		}
		if got := g.WritableRoot(tt.path); got != tt.writable {
			t.Errorf("WritableRoot(%q) = %q, want %q", tt.path, got, tt.writable)
		}
	}
}

// TestForWorkspace: a grant is a value of its own; the tools it was made from can't widen it later.
func TestForWorkspace(t *testing.T) {
	tools := []string{"read", "ls"}
	g := grant.ForWorkspace("/ws", tools, 5)
	tools[0] = "bash"
	if !g.AllowsTool("read") || g.AllowsTool("bash") || g.AllowsTool("") {
		t.Errorf("tools are %q", g.Tools)
	}
	if g.WritableRoot("/ws/a") != "/ws" || g.ReadableRoot("/etc") != "" {
		t.Errorf("roots are %q, %q", g.Readable, g.Writable)
	}
	if (grant.Grant{}).AllowsTool("read") || (grant.Grant{}).ReadableRoot("/") != "" {
		t.Error("the empty grant allows something")
	}
}
