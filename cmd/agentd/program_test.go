package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// programs is the key of the programs that a script has started, by name.
const programs = "started"

// program runs beside the script, with its output in NAME.out and NAME.err.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

func programOf(ts *testscript.TestScript, name string) *program {
	p := ts.Value(programs).(map[string]*program)[name]
	if p == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return p
}

// variables are what the programs of a script get of its environment.
func variables() []string {
	return []string{
		"PATH", "HOME", "TMPDIR", "GORACE", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME",
		"AGENTD_MODEL", "AGENTD_REST", "OPENAI_BASE_URL", "OPENAI_API_KEY", "OTHER_KEY",
	}
}

// command makes a process with the script's environment.
func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.Command("env", args...) // finds the program in the script's PATH
	cmd.Dir = ts.MkAbs(".")
	for _, name := range variables() {
		if value := ts.Getenv(name); value != "" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// startProgram is `start NAME PROGRAM ARGS...`.
func startProgram(ts *testscript.TestScript, _ bool, args []string) {
	cmd := command(ts, args[1:])
	out, err := os.Create(filepath.Join(ts.Getenv("WORK"), args[0]+".out"))
	ts.Check(err)
	defer out.Close()
	says, err := os.Create(filepath.Join(ts.Getenv("WORK"), args[0]+".err"))
	ts.Check(err)
	defer says.Close()
	cmd.Stdout, cmd.Stderr = out, says
	ts.Check(cmd.Start())
	p := &program{cmd: cmd, ended: make(chan struct{})}
	ts.Value(programs).(map[string]*program)[args[0]] = p
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.ended)
	}()
}

func signalOf(ts *testscript.TestScript, name string) syscall.Signal {
	sig, ok := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}[name]
	if !ok {
		ts.Fatalf("no signal %s", name)
	}
	return sig
}

// signalProgram is `signal NAME|PID TERM|INT|KILL`.
func signalProgram(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		pid = programOf(ts, args[0]).cmd.Process.Pid
	}
	ts.Check(syscall.Kill(pid, signalOf(ts, args[1])))
}

// insist is `insist NAME SIGNAL`: the signal comes again and again, and must end the program by itself, not by its grace.
func insist(ts *testscript.TestScript, _ bool, args []string) {
	p, sig := programOf(ts, args[0]), signalOf(ts, args[1])
	for range looks {
		_ = p.cmd.Process.Signal(sig) // it may have ended
		select {
		case <-p.ended:
			if status := p.cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != sig {
				ts.Fatalf("it ended with %v, want by %v", p.cmd.ProcessState, sig)
			}
			return
		case <-time.After(lookEvery):
		}
	}
	ts.Fatalf("it does not end")
}

// awaitEnd is `ends NAME CODE`.
func awaitEnd(ts *testscript.TestScript, _ bool, args []string) {
	p := programOf(ts, args[0])
	select {
	case <-p.ended:
	case <-time.After(looks * lookEvery):
		ts.Fatalf("%s does not end", args[0])
	}
	if got := p.cmd.ProcessState.ExitCode(); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s ended with %v, want exit code %s", args[0], p.cmd.ProcessState, args[1])
	}
}
