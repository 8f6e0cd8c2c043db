package launch

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestInheritedFlags(t *testing.T) {
	vars := map[string]string{
		"OPENAI_BASE_URL": "http://a", "AGENTD_BASE_URL": "http://b", "AGENTD_API_KEY_ENV": "KEY", "AGENTD_CONFIG": "/c.yaml",
		"AGENTD_WORKSPACE": "/a,/b", "AGENTD_LISTEN": "unix:///elsewhere", "AGENTD_TASK": "x",
	}
	got := inheritedFlags(func(name string) string { return vars[name] })
	want := []string{"--config=/c.yaml", "--workspace=/a", "--workspace=/b", "--base-url=http://b", "--api-key-env=KEY"}
	if !slices.Equal(got, want) {
		t.Errorf("flags %v, want %v", got, want)
	}
	vars["AGENTD_BASE_URL"] = "" // then OPENAI_BASE_URL counts, but it ranks below the file
	if got := inheritedFlags(func(name string) string { return vars[name] }); strings.Contains(strings.Join(got, " "), "base-url") {
		t.Errorf("flags %v: OPENAI_BASE_URL must not outrank the file", got)
	}
	env := inheritedEnv([]string{"KEY=1", "OPENAI_API_KEY=2", "OPENAI_BASE_URL=u", "TZ=UTC", "AGENTD_MODEL=m", "XDGX=1"}, "KEY")
	if want := []string{"KEY=1", "OPENAI_BASE_URL=u", "TZ=UTC"}; !slices.Equal(env, want) {
		t.Errorf("environment %v, want %v", env, want)
	}
}

// TestEveryVariableOfTheDaemonIsInherited compares the flags with the table of agentd's configuration.
func TestEveryVariableOfTheDaemonIsInherited(t *testing.T) {
	docs, err := os.ReadFile("../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	inherited := strings.Join(inheritedFlags(func(string) string { return "1" }), " ")
	rows := regexp.MustCompile("`--([a-z-]+) [A-Z:]+` \\| `AGENTD_").FindAllStringSubmatch(string(docs), -1)
	if len(rows) < 10 {
		t.Fatalf("the table has only %d rows", len(rows))
	}
	for _, row := range rows {
		switch flag := row[1]; {
		case flag == "state-dir" || flag == "listen" || flag == "env-pass":
		case !strings.Contains(inherited, "--"+flag+"="):
			t.Errorf("the variable of --%s is lost when agentctl starts the daemon", flag)
		}
	}
}

func TestInheritedStateDir(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", "/x")
	for value, want := range map[string]string{"/s": "/s", "": "/x/agentd"} {
		if got, err := inheritedStateDir(func(string) string { return value }); got != want || err != nil {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}
