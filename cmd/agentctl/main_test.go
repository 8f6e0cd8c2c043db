package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protojson"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"agentctl": main})
}

// TestScripts runs the command as a process against a daemon with scripted answers.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			runtimeDir := filepath.Join(env.WorkDir, "run")
			d := &daemon{}
			d.serve(env.T().(testing.TB), runtimeDir)
			env.Values["daemon"] = d
			env.Setenv("XDG_RUNTIME_DIR", runtimeDir)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each process, when the tests run with -race
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ctl":      runAgentctl,
			"requests": checkRequests,
			"spawned":  checkSpawned,
			"listed":   checkListed,
			"asked":    checkAsked,
		},
	})
}

// runAgentctl is `ctl EXITCODE ARGS...`.
func runAgentctl(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec("agentctl", args[1:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("agentctl did not run: %v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// checkRequests is `requests N DISTINCT`: so many mutations have arrived, with so many different request ids.
func checkRequests(ts *testscript.TestScript, _ bool, args []string) {
	ids := ts.Value("daemon").(*daemon).requestIDs()
	if slices.Contains(ids, "") {
		ts.Fatalf("a mutation has no request id")
	}
	total := len(ids)
	slices.Sort(ids)
	distinct := len(slices.Compact(ids))
	if got := fmt.Sprint(total, distinct); got != strings.Join(args, " ") {
		ts.Fatalf("requests and distinct ids: %s, want %s", got, args)
	}
}

// checkSpawned is `spawned REGEXP`, on the last request.
func checkSpawned(ts *testscript.TestScript, _ bool, args []string) {
	d := ts.Value("daemon").(*daemon)
	d.mu.Lock()
	text := d.spawned.String()
	d.mu.Unlock()
	text = strings.ReplaceAll(text, "  ", " ") // protobuf varies its spaces on purpose
	if !strings.Contains(text, args[0]) {
		ts.Fatalf("the request has no %s: %s", args[0], text)
	}
}

// started runs agentctl on the given stdin and stderr until its stderr shows the text.
func started(t *testing.T, in, errOut *os.File, showing *bufio.Reader, text string, args ...string) *exec.Cmd {
	t.Helper()
	runtimeDir := t.TempDir()
	(&daemon{}).serve(t, runtimeDir)
	cmd := exec.Command("agentctl", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + runtimeDir, "NO_COLOR=" + os.Getenv("NO_COLOR")}
	cmd.Stdin, cmd.Stderr = in, errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	hung := time.AfterFunc(30*time.Second, func() { // a test that fails must also end
		_ = cmd.Process.Kill()
		errOut.Close()
	})
	t.Cleanup(func() { hung.Stop() })
	readUntil(t, showing, text)
	return cmd
}

// readUntil reads until the text has come.
func readUntil(t *testing.T, r *bufio.Reader, text string) string {
	t.Helper()
	var seen strings.Builder
	for !strings.Contains(seen.String(), text) {
		b, err := r.ReadByte()
		if err != nil {
			t.Fatalf("%q did not come: %v, but %q", text, err, seen.String())
		}
		seen.WriteByte(b)
	}
	return seen.String()
}

func TestInterruptDetachesInAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := bufio.NewReader(r)
	cmd := started(t, nil, w, stderr, "bash: sh test.sh", "run", "hang")
	w.Close()
	_ = cmd.Process.Signal(os.Interrupt)
	rest, _ := io.ReadAll(stderr)
	_ = cmd.Wait()
	if want := "tm-1 goes on; come back with: agentctl output tm-1 --follow"; !strings.Contains(string(rest), want) {
		t.Errorf("stderr %q, want %q", rest, want)
	}
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d", code, exitInterrupted)
	}
}

func TestInterruptAsksOnATerminal(t *testing.T) {
	for _, test := range []struct{ answer, then string }{
		{"s\n", "tm-1 KILLED"},
		{"\n", ""},
	} {
		master, slave := terminal(t)
		screen := bufio.NewReader(master)
		cmd := started(t, slave, slave, screen, "bash: sh test.sh", "run", "hang")
		_ = cmd.Process.Signal(os.Interrupt)
		readUntil(t, screen, "agentctl output tm-1 --follow")
		readUntil(t, screen, "[s/D] ")
		_, _ = io.WriteString(master, test.answer)
		if test.then != "" {
			readUntil(t, screen, test.then)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
			t.Errorf("after %q: exit code %d, want %d", test.answer, code, exitInterrupted)
		}
	}
}

func TestSecondInterruptEndsTheQuestion(t *testing.T) {
	master, slave := terminal(t)
	screen := bufio.NewReader(master)
	cmd := started(t, slave, slave, screen, "bash: sh test.sh", "run", "hang")
	_ = cmd.Process.Signal(os.Interrupt)
	readUntil(t, screen, "[s/D] ")
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != os.Interrupt {
		t.Errorf("it ended with %v, want by SIGINT, which a shell tells as 130", cmd.ProcessState)
	}
}

// terminal opens a pseudo-terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

func TestTokens(t *testing.T) {
	for n, want := range map[int64]string{
		999: "999 tok", 1_000: "1.0k tok", 999_949: "999.9k tok", 999_950: "1.0M tok", 12_340_000: "12.3M tok",
	} {
		if got := tokens(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestJSONIsHarmless: what steers a terminal is escaped in JSON too, and means the same.
func TestJSONIsHarmless(t *testing.T) {
	var out strings.Builder
	sent := &agentdv1.Delta{Content: &agentdv1.Delta_Text{Text: "\u009b31m \x1b[0m\x7f \u00a0\u00e9"}}
	if err := (&app{out: &stdout{w: &out}}).emit(sent); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\u009b\x1b\x7f") || !strings.Contains(out.String(), "\u00e9") {
		t.Errorf("printed %q", out.String())
	}
	var read agentdv1.Delta
	if err := protojson.Unmarshal([]byte(out.String()), &read); err != nil || read.GetText() != sent.GetText() {
		t.Errorf("%v: it reads %q", err, read.GetText())
	}
}

// TestStdoutThatCannotBeWritten: whatever a command says on stdout, it fails when that is lost.
func TestStdoutThatCannotBeWritten(t *testing.T) {
	runtimeDir := t.TempDir()
	(&daemon{}).serve(t, runtimeDir)
	for args, goesOn := range map[string]bool{
		"run hello": false, "run hello -o json": false, "run fail": false, "spawn hello": true, "spawn hello --detach": true,
		"spawn hello --cancel-on-disconnect": false, "output sub-1": false, "output sub-1 -f": false,
		"output sub-1 -f --deltas": false, "output sub-1 --wait terminal -o json": false, "send sub-1 hello": false,
		"stop sub-1": false, "stop --all --team shop": false, "watch --team shop": false, "spawn --shell ls": false,
		"team list": false, "team show": false, "roster": false, "roster -o json": false, "inbox": false, "inbox ack 3": false,
		"transcript lisa": false, "transcript lisa -o json": false, "dismiss lisa": false, "send lisa hello --until answered": false,
		"spawn hello --teammate ann": false, "output lisa --wait idle": false,
		"ps": false, "ps --tree": false, "ps -o json": false,
		"agents": false, "agents -o json": false, "status": false, "version": false, "--help": false,
		"completion bash": false,
	} {
		t.Run(args, func(t *testing.T) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer full.Close()
			var said strings.Builder
			cmd := exec.Command("agentctl", strings.Fields(args)...)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + runtimeDir}
			cmd.Stdout, cmd.Stderr = full, &said
			_ = cmd.Run() // the exit code tells
			if code := cmd.ProcessState.ExitCode(); code != exitOther {
				t.Errorf("exit code %d, want %d", code, exitOther)
			}
			if !strings.HasSuffix(said.String(), "agentctl: stdout can't be written: write /dev/stdout: no space left on device\n") {
				t.Errorf("it does not tell: %s", said.String())
			}
			if strings.Contains(said.String(), "sub-1 goes on; come back with") != goesOn {
				t.Errorf("that the task goes on: want %v: %s", goesOn, said.String())
			}
		})
	}
}

func TestInputFilesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(path, make([]byte, maxText+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := new(inputsFlag).Set("a=@" + path); err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestBudgetNamesABoundOnce(t *testing.T) {
	var f budgetFlag
	if err := f.Set("steps=3"); err != nil {
		t.Fatal(err)
	}
	if err := f.Set("tokens=1,steps=4"); err == nil || err.Error() != "steps is given twice" {
		t.Errorf("got %v", err)
	}
}
