package launch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// Options say how to run a daemon.
type Options struct {
	Binary   string   // path of agentd
	StateDir string   // absolute; made when missing; its log goes to agentd.log there
	Socket   string   // absolute path of its unix socket
	Args     []string // further flags
	Env      []string // its whole environment
}

// flags are all flags of the daemon.
func (o Options) flags() []string {
	return append([]string{"--state-dir=" + o.StateDir, "--listen=unix://" + o.Socket}, o.Args...)
}

// Process is a process that this program started, in a session of its own.
type Process struct {
	cmd *exec.Cmd
	log logPart
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends it with SIGKILL and reaps it. Killing what has ended succeeds.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = p.cmd.Process.Wait() // how it ended is no error
	return err
}

// exited tells whether it has ended, without reaping it.
func (p *Process) exited() bool {
	var state unix.Siginfo
	err := unix.Waitid(unix.P_PID, p.PID(), &state, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return errors.Is(err, unix.ECHILD) || err == nil && state.Signo != 0
}

// Daemon is a running agentd.
type Daemon struct {
	Process
	socket string
}

// Addr is where it listens: `unix:///PATH`.
func (d *Daemon) Addr() string { return "unix://" + d.socket }

// Start runs a daemon in the directory `/` and returns once it answers. It outlives ctx and this program unless it is
// ended: with an error comes the daemon too when it was started, for it may still be at its store.
func Start(ctx context.Context, o Options, progress io.Writer) (*Daemon, error) {
	if err := CheckSocketPath(o.Socket); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.Unspecified, o.StateDir, "the state directory can't be made")
	}
	process, err := spawn(ctx, o.Binary, o.flags(), o.Env, filepath.Join(o.StateDir, "agentd.log"), nil)
	if err != nil {
		return nil, err
	}
	d := &Daemon{Process: process, socket: o.Socket}
	return d, awaitReady(ctx, d, patience{tellAfter, startTimeout}, progress)
}

// ModelServer is a running `agentd model-server`.
type ModelServer struct {
	Process
	// URL is its base URL, as --base-url takes it.
	URL string
}

// StartModelServer serves a scripted model on a free port of the loopback interface; its log goes to logFile.
func StartModelServer(ctx context.Context, binary, script, logFile string) (*ModelServer, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	process, err := spawn(ctx, binary, []string{"model-server", "--script=" + script, "--listen=127.0.0.1:0"}, nil, logFile, w)
	w.Close()
	if err != nil {
		return nil, err
	}
	server := &ModelServer{Process: process}
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	_ = r.SetReadDeadline(time.Now().Add(modelServerTimeout)) // pipes have deadlines
	line, err := bufio.NewReader(r).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		_ = server.Kill()
		return nil, errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, binary,
			"the model server did not start:\n%s", server.log.text())
	}
	server.URL = url
	return server, nil
}

// spawn starts a process in a session of its own with cwd `/`. Its output goes to logFile, but stdout to out unless nil.
func spawn(ctx context.Context, binary string, args, env []string, logFile string, out *os.File) (Process, error) {
	part, log, err := openLog(logFile)
	if err != nil {
		return Process{}, errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.Unspecified, logFile, "the log can't be opened")
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, args...) // it outlives who starts it
	cmd.Dir = "/"
	cmd.Env = append([]string{}, env...) // never nil, which would inherit everything
	cmd.Stdout, cmd.Stderr = log, log
	if out != nil {
		cmd.Stdout = out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Process{}, errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.Unspecified, binary, "%s can't be started", binary)
	}
	return Process{cmd: cmd, log: part}, nil
}

// Output runs a program to its end and gives what it wrote and its exit code; for the demo's own check.
func Output(ctx context.Context, dir, name string, args ...string) (out []byte, exit int, err error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err = cmd.CombinedOutput()
	if ctx.Err() != nil {
		return out, 0, ctx.Err()
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return out, failed.ExitCode(), nil
	}
	return out, 0, err
}
