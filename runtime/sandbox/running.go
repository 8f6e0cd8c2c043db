package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// drainPatience is how long the rest of the output may take once the tree is dead. Only what could not be killed, and
// still writes, makes use of it.
const drainPatience = time.Second

// running is one command from its start behind the latch to its end.
type running struct {
	box     *Sandbox
	cmd     *exec.Cmd
	process Process // the main process
	tree    *tree
	latch   *os.File // a byte lets the command go, closing it does not
	pipe    *os.File // our end of stdout and stderr
	out     output
	left    error         // of the kill: what resisted it
	exited  chan struct{} // closed when the main process is a zombie
	reap    chan struct{} // closed when it may be reaped
	reaped  chan struct{} // closed when it is
	drained chan struct{} // closed when out is complete
}

// start starts the helper of a command, which waits at the latch.
func (s *Sandbox) start(o Owner, c Command) (*running, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	env, err := s.environ(o)
	if err != nil {
		return nil, err
	}
	r := &running{
		box: s, out: output{quota: s.cfg.Quota},
		exited: make(chan struct{}), reap: make(chan struct{}), reaped: make(chan struct{}), drained: make(chan struct{}),
	}
	if err := r.launch(o, env, c); err != nil {
		if _, statErr := os.Stat(c.Dir); statErr != nil {
			return nil, errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.NoWorkspace, c.Dir,
				"%s is no directory to work in", c.Dir)
		}
		return nil, errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, c.CallID, "cannot start the command")
	}
	s.enroll(r.process, o)
	go r.wait()
	go r.drain()
	return r, nil
}

// launch makes the pipes and starts the helper.
func (r *running) launch(o Owner, env []string, c Command) error {
	latch, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer latch.Close()
	pipe, output, err := os.Pipe()
	if err != nil {
		_ = release.Close()
		return err
	}
	defer output.Close()
	cmd, cgroup, err := r.box.spawn(o, func() *exec.Cmd {
		argv := append(append([]string(nil), r.box.cfg.Helper...), "--", c.Line)
		return &exec.Cmd{
			Path: argv[0], Args: argv, Dir: c.Dir, Env: env, Stdout: output, Stderr: output,
			ExtraFiles:  []*os.File{latch}, // becomes latchFD
			SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		}
	})
	if err != nil {
		_ = release.Close()
		_ = pipe.Close()
		return err
	}
	main, _ := readProc(cmd.Process.Pid) // not reaped, so it is there
	r.cmd, r.latch, r.pipe = cmd, release, pipe
	r.process = Process{PID: main.pid, StartTime: main.start, BootID: r.box.bootID}
	own := r.box.mark(o)
	r.tree = r.box.treeOf(func(m mark) bool { return m == own })
	r.tree.roots = []Process{r.process}
	if cgroup != "" {
		r.tree.cgroups = []string{cgroup}
	}
	return nil
}

// spawn starts the command that build makes, in a cgroup of its own where the kernel lets it.
func (s *Sandbox) spawn(o Owner, build func() *exec.Cmd) (cmd *exec.Cmd, cgroup string, err error) {
	cmd = build()
	cgroup, file := s.cgroups.make(o, cmd.SysProcAttr)
	err = cmd.Start()
	if file != nil {
		_ = file.Close()
	}
	if err == nil || cgroup == "" {
		return cmd, cgroup, err
	}
	removeCgroup(cgroup)
	cmd = build()
	if cmd.Start() != nil {
		return nil, "", err
	}
	if startsNone(err) {
		s.cgroups.off.Store(true)
		s.cfg.Log.Warn("no cgroups from now on: the kernel starts no process in one", "cause", err)
	}
	return cmd, "", nil
}

// startsNone tells whether a start failed because of its cgroup, as every other in one will, and not for want of
// something that may be there again in a moment.
func startsNone(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.EACCES, unix.EBUSY,
	}, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// wait watches the main process, and reaps it when its tree has been dealt with.
func (r *running) wait() {
	_ = awaitExit(r.process.PID) // an error would say that it is no child of ours
	close(r.exited)
	<-r.reap
	_ = r.cmd.Wait() // an exit code is an error here; the state has it
	close(r.reaped)
}

// drain reads the output to its end.
func (r *running) drain() {
	_, _ = io.Copy(&r.out, r.pipe) // ends with an error when its patience does
	close(r.drained)
}

// end kills the tree, whatever the cause, and gathers what the command left. It fails when the main process cannot be
// killed; what else resists is logged.
func (r *running) end(ctx context.Context) (Exit, error) {
	select {
	case <-r.exited:
		r.tree.exited = r.process.PID
	default:
	}
	if _, r.left = r.tree.kill(ctx); r.left != nil {
		r.box.cfg.Log.Error("a command left processes behind", "error", r.left)
	}
	r.box.dismiss(r.process)
	close(r.reap)
	_ = r.latch.Close()
	_ = r.pipe.SetReadDeadline(time.Now().Add(drainPatience))
	<-r.drained
	_ = r.pipe.Close()

	var exit Exit
	exit.Output, exit.Dropped = r.out.result()
	if r.left != nil {
		select {
		case <-r.exited:
		default:
			return exit, r.left
		}
	}
	<-r.reaped
	exit.Code = r.cmd.ProcessState.ExitCode()
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = unix.SignalName(status.Signal())
	}
	return exit, nil
}
