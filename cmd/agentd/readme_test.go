package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestREADME types the commands of README.md in their order, but for the build and the demo, with a scripted model.
func TestREADME(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	o := newOrdinary(t)
	rules := filepath.Join(o.home, "model.yaml")
	if err := os.WriteFile(rules, []byte("default:\n  text: The cause was a comma.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	project := filepath.Join(o.home, "my-project")
	if err := os.Mkdir(project, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(project, 0o777); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	url := o.start(t, `listening on (\S+)`, "agentd", "model-server", "--script", rules)
	t.Cleanup(func() { endProcesses(t, o.home) })
	out, err := o.command("bash", "-eu", "-o", "pipefail", "-c", typed(t, url)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{
		"started agentd (pid ", "\nThe cause was a comma.\n", "tm-1  COMPLETED", "state           COMPLETED (DONE)",
		"started by agentctl", "TASK_STATE_COMPLETED",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("nothing says %q: %s", want, out)
		}
	}
	if got := strings.Count(string(out), "started agentd (pid "); got != 2 {
		t.Errorf("agentctl started the daemon %d times, want 2: %s", got, out)
	}
}

// typed is the shell of README.md, as a user with the model at the URL types it.
func typed(t *testing.T, url string) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var shell strings.Builder
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		shell.WriteString(block[1])
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	script := shell.String()
	for _, change := range [][2]string{
		{"go run ./cmd/agentctl demo\n", ""}, // agentctl's own tests run it
		{"make build\nexport PATH=\"$PWD/bin:$PATH\"\n", ""},
		{"=MODEL ", "=scripted "},
		{"# export OPENAI_BASE_URL=http://127.0.0.1:8080/v1", "export OPENAI_BASE_URL=" + url},
		{"kill PID", `kill "$(agentctl status -o json | sed 's/.*"pid":\([0-9]*\).*/\1/')"`},
		{"REST=127.0.0.1:7433", "REST=" + free.Addr().String()},
		{"http://127.0.0.1:7433", "http://" + free.Addr().String()},
	} {
		if strings.Count(script, change[0]) != 1 {
			t.Fatalf("README.md does not have %q once:\n%s", change[0], script)
		}
		script = strings.Replace(script, change[0], change[1], 1)
	}
	return script
}
