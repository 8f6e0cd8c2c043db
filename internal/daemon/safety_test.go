package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// commandRules run the command of the prompt and report what it printed.
const commandRules = `
rules:
  - step: 1
    last: 'run: (.*)'
    tool_calls:
      - {name: bash, arguments: {command: "{{index .Match 1}}"}}
  - step: 2
    text: "{{.Last}}"
`

// clientMain is a client in a process of its own: it prints the code with which the daemon answers.
func clientMain(socket string) int {
	r := &rig{settings: settings{Socket: socket}}
	conn, err := r.dial()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_, err = agentdv1.NewDaemonServiceClient(conn).GetStatus(context.Background(), &agentdv1.GetStatusRequest{})
	fmt.Println("answer:", err)
	return 0
}

// proves P8: a process of a task is no client, whatever its uid, also from a session of its own.
func TestProcessesOfATaskAreNoClients(t *testing.T) {
	r := newRig(t, commandRules, 4)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "setsid ", "env -u AGENTD_TASK "} {
		_, outcome := r.finish("peer"+prefix, fmt.Sprintf("run: %s%s %s %s", prefix, self, clientName, r.settings.Socket))
		if !strings.Contains(outcome.GetSummary(), "PermissionDenied") {
			t.Errorf("%q: %s", prefix, outcome.GetSummary())
		}
	}
}

// proves P7; case SAF-7: a command gets a built environment, nothing of the daemon's.
func TestCommandsGetABuiltEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("HTTPS_PROXY", "http://proxy.invalid")
	r := newRig(t, commandRules, 4)
	_, outcome := r.finish("env", "run: env | sort")
	for line := range strings.Lines(outcome.GetSummary()) {
		name, _, isVar := strings.Cut(line, "=")
		switch name {
		case "PATH", "LANG", "TZ", "HOME", "AGENTD_TASK", "PWD", "OLDPWD", "SHLVL", "_":
		default:
			if isVar {
				t.Errorf("the environment has %s", line)
			}
		}
	}
	if !strings.Contains(outcome.GetSummary(), "HOME="+r.settings.StateDir) {
		t.Errorf("HOME is not private: %s", outcome.GetSummary())
	}
}

// proves S3: a stop of the daemon is no end of an agent; the next start resumes it, and it is not counted as a crash.
func TestTasksOutliveAStopInOrder(t *testing.T) {
	r := newRig(t, `
rules:
  - step: 1
    tool_calls:
      - {name: bash, arguments: {command: "echo before >> log; until test -e go; do sleep 0.05; done"}}
  - step: 2
    text: went on
`, 4)
	l := &load{rig: r}
	id := l.spawn("outlive")
	r.awaitFile(filepath.Join(r.workspace, "log"))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.end(syscall.SIGTERM)
	}()
	if err := os.WriteFile(filepath.Join(r.workspace, "go"), nil, 0o600); err != nil { // the running step gets its time
		t.Fatal(err)
	}
	<-ended
	r.start()
	w := &watched{}
	l.follow(id, w)
	if w.outcome.GetSummary() != "went on" {
		t.Errorf("outcome: %v", w.outcome)
	}
	if log, err := os.ReadFile(filepath.Join(r.workspace, "log")); err != nil || string(log) != "before\n" {
		t.Errorf("the command ran like this: %q, %v", log, err)
	}
}

// REST says the same as gRPC, to the bearer of the token alone.
func TestRESTSpeaksOnlyToTheTokensBearer(t *testing.T) {
	r := newRig(t, doneRules, 4, func(s *settings) { s.REST = "127.0.0.1:0" })
	base := "http://" + r.status().GetRest()
	token, err := os.ReadFile(filepath.Join(r.settings.StateDir, "rest.token"))
	if err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"request_id":"rest-1","workspace":%q,"single":{"prompt":"say hello"}}`, r.workspace)
	if code, _ := call(t, base, "/v1/tasks", "", body); code != http.StatusUnauthorized {
		t.Errorf("without a token: %d", code)
	}
	code, answer := call(t, base, "/v1/tasks", strings.TrimSpace(string(token)), body)
	lines := strings.Split(strings.TrimSpace(answer), "\n")
	var last struct {
		Result struct {
			Outcome struct{ State, Summary string }
		}
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatalf("%d %s: %v", code, answer, err)
	}
	if code != http.StatusOK || last.Result.Outcome.State != "TASK_STATE_COMPLETED" || last.Result.Outcome.Summary != "hello" {
		t.Errorf("%d %s", code, answer)
	}
}

func call(t *testing.T, base, path, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}
