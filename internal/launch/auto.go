package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// stopTimeout bounds the wait for a daemon that stops: its steps at work get 20 s.
const stopTimeout = 40 * time.Second

// Ensure makes sure that a daemon answers on the default socket: it finds or builds agentd and starts it detached
// when none does. However many processes call it at once, one daemon is the result. What it does is told on progress.
func Ensure(ctx context.Context, progress io.Writer) error {
	socket := SocketPath()
	if err := CheckSocketPath(socket); err != nil {
		return err
	}
	if err := MakeSocketDir(); err != nil {
		return err
	}
	if Answers(ctx, socket) {
		return nil
	}
	unlock, err := lock(ctx, socket+".start")
	if err != nil {
		return err
	}
	defer unlock()
	if Answers(ctx, socket) {
		return nil // another agentctl has started it meanwhile
	}
	options, err := ofThisShell(ctx, socket, progress)
	if err != nil {
		return err
	}
	if awaitHolder(ctx, options, progress); Answers(ctx, socket) {
		return nil
	}
	return startDetached(ctx, options, progress)
}

// RestartForModel replaces the daemon of the default socket, which agentctl once started as process pid and which has no
// model, by one with the configuration of this shell. When this shell has no model either the daemon stays, and the
// error says what is missing.
func RestartForModel(ctx context.Context, pid int, progress io.Writer) error {
	socket := SocketPath()
	unlock, err := lock(ctx, socket+".start")
	if err != nil {
		return err
	}
	defer unlock()
	process, err := unix.PidfdOpen(pid, 0)
	if err == nil {
		defer func() { _ = unix.Close(process) }()
	}
	if err != nil || listener(ctx, socket) != pid {
		return nil // another agentctl has replaced it meanwhile
	}
	options, err := ofThisShell(ctx, socket, progress)
	if err != nil {
		return err
	}
	if _, err := options.effective(ctx, "--require-model"); err != nil {
		return err
	}
	fmt.Fprintf(progress, "restarting agentd (pid %d): it has no model, and this shell names one\n", pid)
	if err := unix.PidfdSendSignal(process, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return errdefs.Wrap(err, errdefs.PermissionDenied, errdefs.Denied, socket, "agentd (pid %d) can't be ended", pid)
	}
	if err := awaitExit(ctx, process); err != nil {
		return err
	}
	return startDetached(ctx, options, progress)
}

// ofThisShell is how this shell's environment starts the daemon of the default socket.
func ofThisShell(ctx context.Context, socket string, progress io.Writer) (Options, error) {
	stateDir, err := inheritedStateDir(os.Getenv)
	if err != nil {
		return Options{}, err
	}
	binary, err := Binary(ctx, "", progress)
	if err != nil {
		return Options{}, err
	}
	flags := inheritedFlags(os.Getenv)
	o := Options{Binary: binary, StateDir: stateDir, Socket: socket, Args: append(flags, "--auto-started")}
	o.Env = inheritedEnv(os.Environ(), "")
	config, err := o.effective(ctx)
	if err != nil {
		return Options{}, err
	}
	o.Env = inheritedEnv(os.Environ(), keyVariable(config))
	return o, nil
}

// effective is the configuration of a daemon with these options, as `agentd config` prints it. An error says what is
// wrong in it.
func (o Options) effective(ctx context.Context, further ...string) (string, error) {
	cmd := exec.CommandContext(ctx, o.Binary, slices.Concat([]string{"config"}, o.flags(), further)...)
	cmd.Dir = "/"
	cmd.Env = append([]string{}, o.Env...) // never nil, which would inherit everything
	var out, says bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &says
	if err := cmd.Run(); err != nil {
		if says.Len() == 0 {
			return "", errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.Unspecified, o.Binary, "%s does not run", o.Binary)
		}
		return "", errdefs.New(errdefs.InvalidArgument, errdefs.BadArgument, o.Binary, "%s",
			strings.TrimPrefix(strings.TrimSpace(says.String()), "agentd: "))
	}
	return out.String(), nil
}

// keyVariable is the name of the variable that holds the key, in a configuration as `agentd config` prints it.
func keyVariable(config string) string {
	for line := range strings.Lines(config) {
		if value, ok := strings.CutPrefix(line, "api_key_env: "); ok {
			name, _, _ := strings.Cut(value, " ")
			return strings.Trim(name, `"`)
		}
	}
	return ""
}

// startDetached starts a daemon and leaves it running.
func startDetached(ctx context.Context, o Options, progress io.Writer) error {
	daemon, err := Start(ctx, o, progress)
	if err != nil {
		return err
	}
	if listener(ctx, o.Socket) == daemon.PID() { // or it gave way to another one
		fmt.Fprintf(progress, "started agentd (pid %d)\n", daemon.PID())
	}
	return nil
}

// awaitHolder waits while another daemon holds the state directory and does not answer: it is starting or stopping. One
// that serves elsewhere stays, and a start then tells of it.
func awaitHolder(ctx context.Context, o Options, progress io.Writer) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	told := 0
	for ctx.Err() == nil {
		pid := holder(o.StateDir)
		if pid == 0 || Answers(ctx, o.Socket) {
			return
		}
		if told != pid {
			fmt.Fprintf(progress, "agentd (pid %d) has %s and does not answer; waiting for it\n", pid, o.StateDir)
			told = pid
		}
		pause(ctx, pollEvery)
	}
}

// holder is the daemon that has the state directory, as its lock file tells; 0 when none does. Trying the lock itself
// could get into the way of a daemon that starts.
func holder(stateDir string) int {
	text, err := os.ReadFile(filepath.Join(stateDir, "agentd.lock"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0 // it has let go
	}
	stat, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")) // there is none of a dead process
	_, state, found := strings.Cut(string(stat), " (agentd) ")
	if !found || strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
		return 0 // it died, and the pid may be another's by now
	}
	return pid
}

// listener is the process that listens on the socket; 0 when none does.
func listener(ctx context.Context, socket string) int {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) { // the connection is open
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

// awaitExit waits until the process behind a pidfd has ended.
func awaitExit(ctx context.Context, process int) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 0)
		switch {
		case n > 0:
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case ctx.Err() != nil:
			return errdefs.New(errdefs.Unavailable, errdefs.Fault, "agentd", "agentd does not end; its steps at work are not over")
		}
		pause(ctx, pollEvery)
	}
}
