package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// case STP-4
func TestExitIsWhatWaitReports(t *testing.T) {
	for _, tt := range []struct {
		name, line, output string
		code               int
		signal             string
	}{
		{"success", "echo out; echo err >&2; echo out", "out\nerr\nout\n", 0, ""},
		{"failure", "echo no; exit 3", "no\n", 3, ""},
		{"signal", "kill -TERM $$", "", -1, "SIGTERM"},
		{"not found", "exec /no/such/program 2>/dev/null", "", 127, ""},
		{"stdin is empty", "cat; echo end", "end\n", 0, ""},
		{"a child holds the pipe", "sleep 1000 & echo built", "built\n", 0, ""},
		{"a stopped shell's child", "sh -c 'kill -STOP $$' & echo built", "built\n", 0, ""},
		{"a line like an option", "-x", "", 127, ""},
		{"no descriptor but the three, and that of the list", "exec ls /proc/self/fd", "0\n1\n2\n3\n", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			box := newBox(t)
			exit, err := shellOf(box).Run(t.Context(), Command{Line: tt.line, Dir: "/"})
			if err != nil {
				t.Fatal(err)
			}
			if len(box.roots) > 0 {
				t.Error("the ended process is still enrolled")
			}
			if tt.name == "a line like an option" {
				exit.Output = nil // the shell's own words
			}
			if exit.Code != tt.code || exit.Signal != tt.signal || string(exit.Output) != tt.output || exit.TimedOut {
				t.Errorf("got %+v, output %q", exit, exit.Output)
			}
		})
	}
}

// brood is a command line that starts processes in all the ways to get away, each of which appends its pid to the file
// pids, and that goes on when all have done so.
const brood = `
stay='echo $$ >> pids; exec sleep 1000'
sh -c "$stay" &
nohup sh -c "$stay" >/dev/null 2>&1 &
setsid sh -c "$stay" &
( (setsid nohup sh -c "$stay" >/dev/null 2>&1 &) & )
sh -c "sh -c '$stay; :' & wait" &
until [ "$(wc -l 2>/dev/null < pids)" = %d ]; do sleep 0.01; done
`

// scrubbed processes have cleared the mark from their environment, too.
const scrubbed = `
env -i /bin/sh -c '(setsid sh -c "echo \$\$ >> pids; exec sleep 1000" >/dev/null 2>&1 &)' &
`

// pidsIn reads the pids that a brood has written.
func pidsIn(t *testing.T, dir string) []int {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(dir, "pids"))
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for line := range strings.Lines(string(list)) {
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// proves T3
func TestNothingIsLeftOfATree(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		living := fmt.Sprintf(scrubbed+brood, 6)
		ended := fmt.Sprintf(brood, 5)
		if box.cgroups != nil {
			ended = living
		}
		deaf := "trap '' TERM INT HUP;" + living + ": > all; while :; do sleep 0.01; done"
		for _, tt := range []struct {
			name, line string
			stop       bool
		}{
			{"at its own end", ended + "exit 7", false},
			{"when stopped", living + ": > all; sleep 1000", true},
			{"when stopped and deaf to signals", deaf, true},
		} {
			t.Run(tt.name, func(t *testing.T) {
				dir := t.TempDir()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				done := make(chan Exit, 1)
				go func() {
					exit, _ := shellOf(box).Run(ctx, Command{Line: tt.line, Dir: dir})
					done <- exit
				}()
				if tt.stop {
					await(t, "the brood", func() bool { _, err := os.Stat(filepath.Join(dir, "all")); return err == nil })
					stop()
				}
				if exit := <-done; tt.stop != (exit.Signal == "SIGKILL") || !tt.stop && exit.Code != 7 {
					t.Errorf("got %+v, output %q", exit, exit.Output)
				}
				pids := pidsIn(t, dir)
				if len(pids) < 5 {
					t.Fatalf("only %d processes were started", len(pids))
				}
				if i := slices.IndexFunc(pids, runs); i >= 0 {
					t.Errorf("process %d of %d lives", i+1, len(pids))
				}
			})
		}
	})
}

func TestTimeout(t *testing.T) {
	exit, err := shellOf(newBox(t)).
		Run(t.Context(), Command{Line: "trap '' TERM; echo begun; sleep 1000; echo over", Dir: "/", Timeout: 300 * time.Millisecond})
	if err != nil || !exit.TimedOut || exit.Signal != "SIGKILL" || exit.Code != -1 {
		t.Errorf("got %+v, error %v", exit, err)
	}
	if out := string(exit.Output); out != "begun\n" && out != "" { // empty on a machine too slow for the timeout
		t.Errorf("got output %q", out)
	}
}

// One owner's commands wait for each other: the end of the first would take the second along.
func TestCommandsOfAnOwnerTakeTurns(t *testing.T) {
	shell, dir := shellOf(newBox(t)), t.TempDir()
	done := make(chan Exit, 3)
	for range cap(done) {
		go func() {
			exit, err := shell.Run(t.Context(), Command{Line: "mkdir busy && sleep 0.05 && rmdir busy", Dir: dir})
			if err != nil {
				t.Error(err)
			}
			done <- exit
		}()
	}
	for range cap(done) {
		if exit := <-done; exit.Code != 0 || exit.Signal != "" {
			t.Errorf("got %+v, output %q", exit, exit.Output)
		}
	}
}

// case STP-2
func TestStopFreesThePort(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		file := filepath.Join(dir, "address")
		ctx, stop := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		done := make(chan error, 1)
		go func() {
			exit, err := shellOf(box).Run(ctx, Command{
				Line: fmt.Sprintf("echo ready; setsid '%s' server '%s' & sleep 1000 & wait", exe, file), Dir: dir,
			})
			if exit.Signal != "SIGKILL" || string(exit.Output) != "ready\n" {
				err = fmt.Errorf("exit %+v, output %q: %w", exit, exit.Output, err)
			}
			done <- err
		}()
		var address []byte
		await(t, "the server", func() bool { address, err = os.ReadFile(file); return err == nil })
		c, err := net.Dial("tcp", string(address))
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		stop(stopped)
		if err := <-done; !errors.Is(err, stopped) {
			t.Errorf("got error %v", err)
		}
		if c, err := net.Dial("tcp", string(address)); err == nil {
			_ = c.Close()
			t.Error("the server still answers")
		}
	})
}

// case STP-6
func TestFloodStaysInBounds(t *testing.T) {
	box := newBox(t)
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	exit, err := shellOf(box).Run(t.Context(), Command{Line: "yes 'zwölf Äpfel'", Dir: "/", Timeout: time.Second})
	goruntime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if !exit.TimedOut || exit.Dropped < 8*defaultQuota {
		t.Errorf("timed out: %v, dropped: %d", exit.TimedOut, exit.Dropped)
	}
	if size := len(exit.Output); size > defaultQuota+tailSize+100 || size < defaultQuota+tailSize-100 {
		t.Errorf("kept %d bytes", size)
	}
	if !strings.HasPrefix(string(exit.Output), "zwölf Äpfel\nzwölf") || !strings.Contains(string(exit.Output), "bytes dropped]") {
		t.Error("the output lacks its head or the mark")
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16*defaultQuota {
		t.Errorf("allocated %d bytes for %d bytes of output", grown, exit.Dropped)
	}
}

// proves T3
func TestCommandWaitsForItsRecord(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		dir := t.TempDir()
		refused := errors.New("store stalled")
		var process Process
		shell := box.Shell(Owner{TaskID: "sub-1", TeamID: "t-1", Start: 1}, Events{Started: func(_ context.Context, callID string, p Process) error {
			process = p
			if s, ok := readProc(p.PID); !ok || s.start != p.StartTime || s.session != p.PID || callID != "call-1" {
				t.Errorf("call %s: %+v does not describe %+v", callID, p, s)
			}
			return refused
		}, Killed: ignored, Ended: func(context.Context, string) error {
			t.Error("ended without a record")
			return nil
		}})
		_, err := shell.Run(t.Context(), Command{CallID: "call-1", Line: "touch ran", Dir: dir})
		if !errors.Is(err, refused) {
			t.Errorf("got error %v", err)
		}
		if runs(process.PID) {
			t.Error("the helper lives")
		}
		if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
			t.Error("the command ran")
		}
	})
}

func TestEndIsRecordedWhenNothingIsLeft(t *testing.T) {
	box, lost := newBox(t), errors.New("store stalled")
	dir := t.TempDir()
	shell := box.Shell(Owner{TaskID: "sub-1", TeamID: "t-1", Start: 1}, Events{Started: recorded, Killed: ignored, Ended: func(ctx context.Context, callID string) error {
		if slices.ContainsFunc(pidsIn(t, dir), runs) || callID != "call-1" || ctx.Err() != nil {
			t.Errorf("call %s: ended too early", callID)
		}
		return lost
	}})
	exit, err := shell.Run(t.Context(), Command{CallID: "call-1", Line: fmt.Sprintf(brood, 5), Dir: dir})
	if !errors.Is(err, lost) || exit.Code != 0 {
		t.Errorf("got %+v, error %v", exit, err)
	}
}

func TestUnrunnableCommands(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cmd    Command
		reason errdefs.Reason
	}{
		{"too long", Command{Line: strings.Repeat("x", maxLine), Dir: "/"}, errdefs.TooLarge},
		{"NUL", Command{Line: "echo \x00", Dir: "/"}, errdefs.BadArgument},
		{"no directory", Command{Line: "echo", Dir: "/no/such/directory"}, errdefs.NoWorkspace},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := shellOf(newBox(t)).Run(t.Context(), tt.cmd)
			if !errdefs.Is(err, tt.reason) {
				t.Errorf("got error %v", err)
			}
		})
	}
	longest := Command{Line: ":" + strings.Repeat(" ", maxLine-2), Dir: "/"}
	if exit, err := shellOf(newBox(t)).Run(t.Context(), longest); err != nil || exit.Code != 0 {
		t.Errorf("the longest line: %+v, error %v", exit, err)
	}
}

// case SAF-7
func TestEnvironmentIsBuilt(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "HTTPS_PROXY", "AGENTD_MODEL", "HOME", "TMPDIR"} {
		t.Setenv(name, t.TempDir())
	}
	t.Setenv("EDITOR", "ed")
	cfg := testConfig(rand.Text(), t.TempDir())
	cfg.EnvPass = []string{"EDITOR", "NOT_SET", TaskVariable}
	t.Setenv(TaskVariable, "forged/sub-9/9")
	box, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = box.Close() }()
	shell := box.Shell(Owner{TaskID: "sub-4", TeamID: "t-2", Start: 3}, Events{recorded, nothing, ignored})
	exit, err := shell.Run(t.Context(), Command{Line: "exec env", Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(cfg.Homes, "t-2")
	want := []string{
		"AGENTD_TASK=" + cfg.StoreID + "/sub-4/3", "EDITOR=ed", "HOME=" + home, "LANG=C.UTF-8",
		"PATH=" + cfg.Path, "TZ=UTC",
	}
	got := slices.DeleteFunc(strings.Fields(string(exit.Output)), func(v string) bool {
		return strings.HasPrefix(v, "PWD=") || strings.HasPrefix(v, "OLDPWD=") || strings.HasPrefix(v, "SHLVL=") ||
			strings.HasPrefix(v, "_=") // the shell's own
	})
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if stat, err := os.Stat(home); err != nil || stat.Mode().Perm() != 0o700 {
		t.Errorf("home: %v, error %v", stat.Mode(), err)
	}
}

// A shell tells which processes its end killed, and none when all ended by themselves.
func TestShellTellsWhatItKilled(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		var told []Process
		shell := box.Shell(Owner{TaskID: "sub-1", TeamID: "t-1", Start: 1}, Events{
			Started: recorded, Ended: nothing, Killed: func(killed []Process) { told = append(told, killed...) },
		})
		if _, err := shell.Run(t.Context(), Command{Line: "true", Dir: "/"}); err != nil || len(told) != 0 {
			t.Errorf("nothing was left: %v, error %v", told, err)
		}
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for _, err := os.Stat(filepath.Join(dir, "up")); err != nil; _, err = os.Stat(filepath.Join(dir, "up")) {
				time.Sleep(5 * time.Millisecond)
			}
		}()
		_, err := shell.Run(ctx, Command{Line: "sleep 1000 & sleep 1000 & : > up; wait", Dir: dir})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if len(told) != 3 || told[0].BootID != box.bootID || told[0].PID == 0 || told[0].StartTime == 0 {
			t.Errorf("killed the shell and its two children: %+v", told)
		}
	})
}

// Cgroups stay on when a start in one fails for a reason that may be gone at the next.
func TestPassingFaultKeepsCgroups(t *testing.T) {
	box := newBox(t)
	_ = box.Close()
	box.cgroups = &cgroups{dir: t.TempDir()} // no cgroup: the kernel says EBADF, which is none of the lasting reasons
	cmd, cgroup, err := box.spawn(Owner{TaskID: "sub-1"}, func() *exec.Cmd {
		return &exec.Cmd{Path: "/bin/true", SysProcAttr: &syscall.SysProcAttr{}}
	})
	if err != nil || cgroup != "" {
		t.Fatalf("the second try: %q, %v", cgroup, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if box.cgroups.off.Load() {
		t.Error("cgroups are off for good")
	}
	for err, want := range map[error]bool{
		syscall.EMFILE: false, syscall.ENFILE: false, syscall.ENOMEM: false, syscall.EAGAIN: false,
		syscall.EINVAL: true, syscall.ENOSYS: true, syscall.EOPNOTSUPP: true, syscall.EPERM: true, syscall.EACCES: true,
		syscall.EBUSY: true,
	} {
		if got := startsNone(&os.PathError{Op: "fork/exec", Path: "x", Err: err}); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}
