package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// drainPatience is how long the rest of the output may take once the tree is dead. Only what could not be killed, and
// still writes, makes use of it.
const drainPatience = time.Second

// Running is one command from its start behind the latch to its end.
type Running struct {
	box     *Sandbox
	cmd     *exec.Cmd
	process Process // the main process
	tree    *tree
	latch   *os.File       // a byte lets the command go, closing it does not
	pipes   []*os.File     // our ends of stdout and stderr
	drains  sync.WaitGroup // done when nothing more comes from the pipes
	left    error          // of the kill: what resisted it
	exited  chan struct{}  // closed when the main process is a zombie
	reap    chan struct{}  // closed when it may be reaped
	reaped  chan struct{}  // closed when it is
}

// Launch starts a command that waits at the latch until it is released. What it writes goes to the writers as it comes:
// while they do not take it, the command can write no more than its pipe holds. A writer that fails gets nothing more.
// Only End gives back what a command holds.
func (s *Sandbox) Launch(o Owner, c Command, stdout, stderr io.Writer) (*Running, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := unix.Access(shellPath, unix.X_OK); err != nil {
		return nil, errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.Fault, shellPath, "%s can't be run", shellPath)
	}
	env, err := s.environ(o, c.Env)
	if err != nil {
		return nil, err
	}
	r := &Running{box: s, exited: make(chan struct{}), reap: make(chan struct{}), reaped: make(chan struct{})}
	if err := r.launch(o, env, c, stdout, stderr); err != nil {
		if stat, statErr := os.Stat(c.Dir); statErr != nil || !stat.IsDir() {
			return nil, errdefs.Wrap(err, errdefs.FailedPrecondition, errdefs.NoWorkspace, c.Dir,
				"%s is no directory to work in", c.Dir)
		}
		return nil, errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, c.CallID, "cannot start the command")
	}
	s.enroll(r.process, o)
	go r.wait()
	return r, nil
}

// launch makes the pipes, one for a writer that takes both streams, and starts the helper.
func (r *Running) launch(o Owner, env []string, c Command, stdout, stderr io.Writer) (err error) {
	latch, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer latch.Close()
	r.latch = release
	defer func() {
		if err != nil {
			r.closeAll()
		}
	}()
	out, err := r.pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	errs := out
	if stdout != stderr {
		if errs, err = r.pipe(); err != nil {
			return err
		}
		defer errs.Close()
	}
	if err := r.spawn(o, env, c, latch, out, errs); err != nil {
		return err
	}
	for i, to := range []io.Writer{stdout, stderr}[:len(r.pipes)] {
		r.drains.Go(func() { _, _ = io.Copy(to, r.pipes[i]) }) // ends with an error when its patience does
	}
	return nil
}

// pipe makes a pipe whose reading end is ours, and gives the other one.
func (r *Running) pipe() (*os.File, error) {
	ours, theirs, err := os.Pipe()
	if err == nil {
		r.pipes = append(r.pipes, ours)
	}
	return theirs, err
}

func (r *Running) closeAll() {
	_ = r.latch.Close()
	for _, p := range r.pipes {
		_ = p.Close()
	}
}

// spawn starts the helper and takes notice of the tree that it is the root of.
func (r *Running) spawn(o Owner, env []string, c Command, latch, stdout, stderr *os.File) error {
	cmd, cgroup, err := r.box.spawn(o, func() *exec.Cmd {
		argv := append(append([]string(nil), r.box.cfg.Helper...), "--", c.Line)
		return &exec.Cmd{
			Path: argv[0], Args: argv, Dir: c.Dir, Env: env, Stdout: stdout, Stderr: stderr,
			ExtraFiles:  []*os.File{latch}, // becomes latchFD
			SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		}
	})
	if err != nil {
		return err
	}
	main, _ := readProc(cmd.Process.Pid) // not reaped, so it is there
	r.cmd = cmd
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

// Process is the main process: the helper, which becomes the command.
func (r *Running) Process() Process { return r.process }

// Dir is where the command will work, or works: the directory itself, whatever stands at its path by now.
func (r *Running) Dir() (string, error) {
	return os.Readlink("/proc/" + strconv.Itoa(r.process.PID) + "/cwd")
}

// OnKill has tell told of processes right before End kills them. It must not block.
func (r *Running) OnKill(tell func(killed []Process)) { r.tree.strikes = tell }

// Release lets the command go.
func (r *Running) Release() {
	_, _ = r.latch.Write([]byte{1}) // fails only when the helper is dead, which its exit tells
}

// Exited is closed when the main process has ended. What it left behind may still run.
func (r *Running) Exited() <-chan struct{} { return r.exited }

// Terminate asks the command with its process group to end (SIGTERM).
func (r *Running) Terminate() {
	_ = syscall.Kill(-r.process.PID, syscall.SIGTERM) // not reaped before End, so nobody else has the id
}

// Settle waits until none of its process group lives any more, or ctx ends.
func (r *Running) Settle(ctx context.Context) {
	inGroup := func(p proc) bool { return p.group == r.process.PID }
	for {
		members, err := r.tree.members()
		if err != nil || !slices.ContainsFunc(members, inGroup) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(maxPause):
		}
	}
}

// wait watches the main process, and reaps it when its tree has been dealt with.
func (r *Running) wait() {
	_ = awaitExit(r.process.PID) // an error would say that it is no child of ours
	close(r.exited)
	<-r.reap
	_ = r.cmd.Wait() // an exit code is an error here; the state has it
	close(r.reaped)
}

// End kills the tree, whatever the cause, and tells how the command ended; then all that it wrote has been handed over.
// Call it once. It fails when the main process cannot be killed; what else resists is logged, see Resisted. A writer that
// does not return holds it up.
func (r *Running) End(ctx context.Context) (Exit, error) {
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
	for _, p := range r.pipes {
		_ = p.SetReadDeadline(time.Now().Add(drainPatience))
	}
	r.drains.Wait()
	r.closeAll()
	if r.left != nil {
		select {
		case <-r.exited:
		default:
			return Exit{}, r.left
		}
	}
	<-r.reaped
	exit := Exit{Code: r.cmd.ProcessState.ExitCode()}
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = unix.SignalName(status.Signal())
	}
	return exit, nil
}

// Resisted tells, after End, whether something of the tree could not be killed.
func (r *Running) Resisted() bool { return r.left != nil }
