package gateway

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgentsOverREST: the workspace is a parameter of the query, and Reload is a POST.
func TestAgentsOverREST(t *testing.T) {
	f := newFront(t)
	dir := filepath.Join(f.workspace, ".agentd", "agents")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "mine.md"), []byte("---\ndescription: d\n---\nDo it."), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "bad.md"), []byte("x"), 0o600))
	for path, mine := range map[string]bool{"/v1/agents": false, "/v1/agents?workspace=" + url.QueryEscape(f.workspace): true} {
		resp, body := f.do(f.request(http.MethodGet, path, ""))
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"explorer"`) || strings.Contains(body, `"mine"`) != mine {
			t.Errorf("%s: %d, %s", path, resp.StatusCode, body)
		}
	}
	resp, body := f.do(f.request(http.MethodGet, "/v1/agents?team=x", ""))
	checkFailure(t, f.refused(resp, body, http.StatusBadRequest), "INVALID_ARGUMENT", "team")
	resp, body = f.do(f.request(http.MethodPost, "/v1/daemon:reload", "{}"))
	told := strings.ReplaceAll(body, " ", "") // protobuf varies its spaces on purpose
	if resp.StatusCode != http.StatusOK || !strings.Contains(told, `"agents":1,`) || !strings.Contains(told, `bad.md","line":1,`) {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
}
