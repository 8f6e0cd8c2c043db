package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// proves T3
func TestDaemonDiesBeforeTheGo(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		ran := filepath.Join(t.TempDir(), "ran")
		p, kill := startDaemon(t, box, "hold", "touch '"+ran+"'")
		if !runs(p.PID) {
			t.Fatal("the helper does not wait")
		}
		kill()
		await(t, "the helper's end", func() bool { return !runs(p.PID) })
		if _, err := os.Stat(ran); err == nil {
			t.Error("the command ran")
		}
		if _, err := box.Sweep(t.Context(), nil); err != nil { // the cgroup, if any, is left over
			t.Error(err)
		}
	})
}

// proves T3
func TestSweepFindsHelperBeforeTheGo(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		p, _ := startDaemon(t, box, "hold", "true")
		// The process exists as a copy of the daemon for a moment, before it bears the mark.
		await(t, "the mark", func() bool { m, _ := markOf(p.PID); return m.store == box.cfg.StoreID })
		if n, err := box.Sweep(t.Context(), nil); n != 1 || err != nil || runs(p.PID) {
			t.Errorf("reaped %d, error %v", n, err)
		}
	})
}

// proves T3
// proves D4
func TestSweepAfterSIGKILL(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		dir := t.TempDir()
		line := "cd '" + dir + "'; " + strings.ReplaceAll(scrubbed+brood, "%d", "6") + "touch all; sleep 1000"
		p, kill := startDaemon(t, box, "go", line)
		await(t, "the brood", func() bool { _, err := os.Stat(filepath.Join(dir, "all")); return err == nil })
		kill()
		pids := append(pidsIn(t, dir), p.PID)
		for _, pid := range pids {
			if !runs(pid) {
				t.Fatal("a process died with its daemon: this test shows nothing")
			}
		}
		other := newBox(t)
		if n, err := other.Sweep(t.Context(), nil); n != 0 || err != nil {
			t.Errorf("of another store reaped %d, error %v", n, err)
		}
		n, err := box.Sweep(t.Context(), []Process{p})
		if n < len(pids) || err != nil {
			t.Errorf("reaped %d of at least %d, error %v", n, len(pids), err)
		}
		for i, pid := range pids {
			if runs(pid) {
				t.Errorf("process %d of %d lives", i+1, len(pids))
			}
		}
		if n, err := box.Sweep(t.Context(), []Process{p}); n != 0 || err != nil {
			t.Errorf("the second time reaped %d, error %v", n, err)
		}
	})
}

func TestKillEndsAllOfATask(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		dir := t.TempDir()
		line := "echo $$ >> pids; setsid sleep 1000 & touch $0.$$; : > up-NAME; sleep 1000"
		done := make(chan Exit, 2)
		run := func(o Owner) {
			exit, err := box.Shell(o, Events{recorded, nothing, ignored}).
				Run(t.Context(), Command{Line: strings.ReplaceAll(line, "NAME", o.TaskID), Dir: dir})
			if err != nil {
				t.Error(err)
			}
			done <- exit
		}
		up := func(task string) func() bool {
			return func() bool { _, err := os.Stat(filepath.Join(dir, "up-"+task)); return err == nil }
		}
		go run(Owner{TaskID: "sub-1", TeamID: "t-1", Start: 2})
		go run(Owner{TaskID: "sub-11", TeamID: "t-1", Start: 1})
		await(t, "the commands", func() bool { return up("sub-1")() && up("sub-11")() })
		if killed, err := box.Kill(t.Context(), "sub-1"); len(killed) < 2 || err != nil {
			t.Errorf("reaped %d, error %v", len(killed), err)
		}
		if exit := <-done; exit.Signal != "SIGKILL" || exit.TimedOut {
			t.Errorf("got %+v", exit)
		}
		if killed, err := box.Kill(t.Context(), "sub-1"); len(killed) != 0 || err != nil {
			t.Errorf("the second time reaped %d, error %v", len(killed), err)
		}
		if len(done) > 0 {
			t.Error("the other task's command ended too")
		}
		if killed, err := box.Kill(t.Context(), "sub-11"); len(killed) < 2 || err != nil {
			t.Errorf("reaped %d, error %v", len(killed), err)
		}
		<-done
	})
}

func TestReusedPidIsLeftAlone(t *testing.T) {
	box := newBox(t)
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	p, _ := readProc(cmd.Process.Pid)
	for name, was := range map[string]Process{
		"an earlier process": {PID: p.pid, StartTime: p.start - 1, BootID: box.bootID},
		"an earlier boot":    {PID: p.pid, StartTime: p.start, BootID: "another"},
	} {
		if n, err := box.Sweep(t.Context(), []Process{was}); n != 0 || err != nil || !runs(p.pid) {
			t.Fatalf("%s: reaped %d, error %v", name, n, err)
		}
	}
	if err := (proc{pid: p.pid, start: p.start - 1}).signal(syscall.SIGKILL); err == nil || !runs(p.pid) {
		t.Error("the signal reached another process")
	}
	same := Process{PID: p.pid, StartTime: p.start, BootID: box.bootID}
	if n, err := box.Sweep(t.Context(), []Process{same}); n != 1 || err != nil || runs(p.pid) {
		t.Errorf("what was recorded: reaped %d, error %v", n, err)
	}
}

// proves P8
func TestOwnsProcess(t *testing.T) {
	withAndWithoutCgroups(t, func(t *testing.T, box *Sandbox) {
		dir := t.TempDir()
		p, _ := startDaemon(t, box, "go",
			"cd '"+dir+`'; env -i /bin/sh -c '(setsid sh -c "echo \$\$ > pids; exec sleep 1000" &)'; : > up; sleep 1000`)
		await(t, "the process", func() bool {
			_, err := os.Stat(filepath.Join(dir, "pids"))
			_, upErr := os.Stat(filepath.Join(dir, "up"))
			return err == nil && upErr == nil && len(pidsIn(t, dir)) == 1
		})
		for _, pid := range append(pidsIn(t, dir), p.PID) {
			if !box.OwnsProcess(pid) {
				t.Errorf("does not own process %d", pid)
			}
		}
		if other := newBox(t); other.OwnsProcess(p.PID) || box.OwnsProcess(os.Getpid()) {
			t.Error("owns a foreign process")
		}
		if _, err := box.Sweep(t.Context(), []Process{p}); err != nil {
			t.Fatal(err)
		}
		if !box.OwnsProcess(p.PID) {
			t.Error("lets in a process that has gone")
		}
	})
}

func TestProcessNamesDoNotConfuse(t *testing.T) {
	exe := filepath.Join(t.TempDir(), "a) Z 1 (b")
	if err := os.WriteFile(exe, []byte("#!/bin/sh\nread line\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	p, ok := readProc(cmd.Process.Pid)
	if !ok || p.parent != os.Getpid() || p.dead || p.start == 0 {
		t.Errorf("got %+v", p)
	}
}

// A fault here would end every process of the user.
func TestUnmarkedProcessesAreNobodys(t *testing.T) {
	whoever := func(mark) bool { return true }
	for _, tr := range []*tree{{wanted: whoever}, {store: "store", wanted: whoever}} {
		for _, m := range []mark{{}, {task: "sub-1", start: "1"}, {store: "other", task: "sub-1", start: "1"}} {
			if tr.bears(m) {
				t.Errorf("a tree of store %q has mark %+v", tr.store, m)
			}
		}
	}
	one, _ := readProc(1)
	self, _ := readProc(os.Getpid())
	roots := []Process{{PID: 1, StartTime: one.start}, {PID: self.pid, StartTime: self.start}, {}}
	members, err := (&tree{store: "store", wanted: whoever, roots: roots}).members()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range members {
		if p.pid == 1 || p.pid == self.pid {
			t.Errorf("a tree has process %+v", p)
		}
	}
}
