package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// Each wait of a script is bounded: so many looks, so far apart.
const (
	looks     = 1500
	lookEvery = 20 * time.Millisecond
)

// TestScripts runs both commands, as they are built, for a user with an empty home. UPDATE_SCRIPTS=1 rewrites what the
// scripts compare with.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", slices.Concat([]string{"build"}, raceFlags, []string{"-o", bin, ".", "../agentctl"})...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Deadline:      time.Now().Add(2 * time.Minute), // a program that hangs ends the script, not the whole run
		Setup:         func(env *testscript.Env) error { return newUser(env, bin) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": runProgram, "until": runUntil, "start": startProgram, "await": awaitText, "capture": capture,
			"signal": signalProgram, "insist": insist, "ends": awaitEnd, "rest": callREST, "same-entries": sameEntries,
			"damage": damage,
		},
	})
}

// newUser gives the script a home of its own, and ends in the end what it has started.
func newUser(env *testscript.Env, bin string) error {
	runtimeDir, err := os.MkdirTemp("", "agentd") // short: a socket's path has 107 bytes
	if err != nil {
		return err
	}
	started := map[string]*program{}
	env.Values[programs] = started
	env.Defer(func() {
		for _, p := range started {
			_ = p.cmd.Process.Kill() // it may have ended
			<-p.ended
		}
		endProcesses(env.T(), env.WorkDir)
		_ = os.RemoveAll(runtimeDir)
	})
	env.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
	env.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each process, with -race
	return nil
}

// endProcesses kills, by their ids, the processes that have the directory in their command line or environment: daemons
// that agentctl started, and commands of agents.
func endProcesses(t interface{ Fatal(...any) }, dir string) {
	for range looks {
		left := processesOf(dir)
		if len(left) == 0 {
			return
		}
		for _, process := range left {
			_ = process.Kill() // it may have ended
		}
		time.Sleep(lookEvery)
	}
	t.Fatal("processes are left that do not end: ", processesOf(dir))
}

func processesOf(dir string) []*os.Process {
	var found []*os.Process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range dirs {
		line, _ := os.ReadFile(filepath.Join(proc, "cmdline")) // it may have ended, or be another user's
		env, _ := os.ReadFile(filepath.Join(proc, "environ"))
		pid, _ := strconv.Atoi(filepath.Base(proc))
		if mentions(string(line)+string(env), dir) && pid != os.Getpid() {
			if process, err := os.FindProcess(pid); err == nil {
				found = append(found, process)
			}
		}
	}
	return found
}

// mentions tells whether a text with zeros between its parts has the directory in it, and not only one whose name begins
// the same.
func mentions(text, dir string) bool {
	for _, after := range strings.Split(text, dir)[1:] {
		if after == "" || after[0] == '/' || after[0] == 0 {
			return true
		}
	}
	return false
}

func TestMentions(t *testing.T) {
	for text, want := range map[string]bool{
		"HOME=/tmp/script-a": true, "sh\x00/tmp/script-a/x": true, "/tmp/script-a\x00": true, "/tmp/script-ab": false,
		"/tmp/script-ab\x00/tmp/script-a": true, "/tmp": false,
	} {
		if mentions(text, "/tmp/script-a") != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}

// exitCodeOf runs a program to its end; what it prints is the script's stdout and stderr.
func exitCodeOf(ts *testscript.TestScript, args []string) int {
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		ts.Fatalf("%s did not run: %v", args[0], err)
	}
	return 0
}

// runProgram is `exits CODE PROGRAM ARGS...`.
func runProgram(ts *testscript.TestScript, _ bool, args []string) {
	if got := exitCodeOf(ts, args[1:]); strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// runUntil is `until REGEXP PROGRAM ARGS...`: again and again until its stdout matches.
func runUntil(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	var out []byte
	for range looks {
		out, _ = command(ts, args[1:]).Output() // it may fail at first
		if want.Match(out) {
			return
		}
		time.Sleep(lookEvery)
	}
	ts.Fatalf("it never printed %s, but %s", args[0], out)
}

// capture is `capture VARIABLE REGEXP`: what the first group matches in stdout.
func capture(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("no match for %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}

// awaitText is `await FILE REGEXP [VARIABLE]`: until the file matches; the variable gets the first group.
func awaitText(ts *testscript.TestScript, _ bool, args []string) {
	want, path := regexp.MustCompile("(?m)"+args[1]), ts.MkAbs(args[0])
	var text []byte
	for range looks {
		text, _ = os.ReadFile(path) // it may not be there yet
		if found := want.FindSubmatch(text); found != nil {
			if len(args) > 2 {
				ts.Setenv(args[2], string(found[1]))
			}
			return
		}
		time.Sleep(lookEvery)
	}
	ts.Fatalf("%s never matched %s: %s", args[0], args[1], text)
}

// callREST is `rest STATUS METHOD URL [NAME=VALUE...]`, with the fields token, host and body; the answer is stdout.
func callREST(ts *testscript.TestScript, _ bool, args []string) {
	fields := map[string]string{}
	for _, arg := range args[3:] {
		name, value, _ := strings.Cut(arg, "=")
		fields[name] = value
	}
	req, err := http.NewRequest(args[1], args[2], strings.NewReader(fields["body"]))
	ts.Check(err)
	if fields["token"] != "" {
		req.Header.Set("Authorization", "Bearer "+fields["token"])
	}
	req.Host = fields["host"]
	client := http.Client{Timeout: looks * lookEvery}
	answer, err := client.Do(req)
	ts.Check(err)
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(ts.Stdout(), answer.Body)
	ts.Check(err)
	if strconv.Itoa(answer.StatusCode) != args[0] {
		ts.Fatalf("status %s, want %s", answer.Status, args[0])
	}
}

// sameEntries is `same-entries STREAM`: the stream of a task, as `-o json` printed it into a file, and stdout, its
// transcript, hold the same entries, each once, and one answer for each call.
func sameEntries(ts *testscript.TestScript, _ bool, args []string) {
	streamed, stored := entriesOf(ts, ts.ReadFile(args[0])), entriesOf(ts, ts.ReadFile("stdout"))
	if len(stored) == 0 || !slices.Equal(streamed, stored) {
		ts.Fatalf("streamed\n%s\nstored\n%s", strings.Join(streamed, "\n"), strings.Join(stored, "\n"))
	}
	answers := map[string]int{}
	for _, call := range regexp.MustCompile(`"call_id":"([^"]+)"`).FindAllStringSubmatch(strings.Join(stored, "\n"), -1) {
		answers[call[1]]++
	}
	for id, n := range answers {
		if n != 1 {
			ts.Fatalf("call %s has %d answers", id, n)
		}
	}
}

// entriesOf gives the lines with an entry; their positions must rise.
func entriesOf(ts *testscript.TestScript, text string) []string {
	var entries []string
	last := 0
	for line := range strings.Lines(text) {
		found := regexp.MustCompile(`^\{"entry":\{"seq":"(\d+)"`).FindStringSubmatch(line)
		if found == nil {
			continue
		}
		seq, err := strconv.Atoi(found[1])
		ts.Check(err)
		if seq <= last {
			ts.Fatalf("entry %d comes after %d", seq, last)
		}
		last, entries = seq, append(entries, line)
	}
	return entries
}

// damage is `damage FILE`: it writes over the heads of all pages but the first four.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	file, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	defer file.Close()
	stat, err := file.Stat()
	ts.Check(err)
	page := int64(os.Getpagesize())
	for at := 4 * page; at < stat.Size(); at += page {
		_, err := file.WriteAt([]byte(strings.Repeat("\xff", 64)), at)
		ts.Check(err)
	}
	fmt.Fprintln(ts.Stdout(), "damaged", stat.Size()/page-4, "pages")
}
