package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/agentd-dev/agentd/examples/demo"
	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/launch"
)

// demoTimeout bounds the demo after the build.
const demoTimeout = time.Minute

func (a *app) demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "See an agent, then a team, at work while the daemon is killed, without key or network",
		Long: `demo starts a private daemon in a temporary directory, with a scripted model instead of a real one. An agent
fixes a failing test there with the real tools; half way the daemon is killed with SIGKILL and started
again. Then a lead has two teammates review it; one of them ends, and a message after another SIGKILL
brings it back. The demo checks what it shows, and leaves nothing behind.`,
		Example: "  agentctl demo",
		Args:    cobra.NoArgs,
	}
	return a.command(c, func(ctx context.Context, _ []string) error { return a.demo(ctx) })
}

// stage is a demo under way.
type stage struct {
	app     *app
	dir     string
	options launch.Options
	model   *launch.ModelServer
	daemon  *launch.Daemon
	chapter int
	killed  int // pid of the daemon that was killed; 0: not yet
	story   *transcript
	entries []*agentdv1.Entry // as they were streamed
}

// demo plays the demo and removes what it made, whatever happens.
func (a *app) demo(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "agentd-demo-")
	if err != nil {
		return err
	}
	s := &stage{app: a, dir: dir, story: &transcript{out: a.out}}
	binary, err := launch.Binary(ctx, dir, a.err)
	if err != nil {
		return errors.Join(err, s.clear())
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	if err := errors.Join(s.play(ctx, binary), s.clear()); err != nil {
		return err
	}
	s.say("That took %.1f s. The processes are ended and %s is removed.", time.Since(begin).Seconds(), dir)
	return nil
}

// clear ends the processes and removes the files.
func (s *stage) clear() error {
	var errs []error
	if s.daemon != nil {
		errs = append(errs, s.daemon.Kill())
	}
	if s.model != nil {
		errs = append(errs, s.model.Kill())
	}
	return errors.Join(append(errs, os.RemoveAll(s.dir))...)
}

// play shows chapter after chapter.
func (s *stage) play(ctx context.Context, binary string) (err error) {
	if err := s.repository(ctx); err != nil {
		return err
	}
	script, log := filepath.Join(s.dir, "script.yaml"), filepath.Join(s.dir, "model.log")
	if s.model, err = launch.StartModelServer(ctx, binary, script, log); err != nil {
		return err
	}
	s.options = launch.Options{
		Binary:   binary,
		StateDir: filepath.Join(s.dir, "state"),
		Socket:   filepath.Join(s.dir, "agentd.sock"),
		Args:     []string{"--base-url=" + s.model.URL, "--model=demo"},
		Env:      []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir},
	}
	if s.daemon, err = launch.Start(ctx, s.options, s.app.err); err != nil {
		return err
	}
	s.say("A private daemon runs as pid %d, with a scripted model at %s: no key, no network.", s.daemon.PID(), s.model.URL)
	outcome, err := s.agent(ctx)
	if err != nil {
		return err
	}
	if err := s.check(ctx, outcome); err != nil {
		return err
	}
	return s.team(ctx)
}

// say begins a chapter.
func (s *stage) say(format string, args ...any) {
	s.chapter++
	fmt.Fprintf(s.app.out, "\n%d. %s\n", s.chapter, fmt.Sprintf(format, args...))
}

// repository lays the files out and shows that the test fails.
func (s *stage) repository(ctx context.Context) error {
	if err := os.CopyFS(s.dir, demo.Files()); err != nil {
		return err
	}
	s.say("A small repository in %s has a test that fails:", s.workspace())
	failed, err := s.test(ctx)
	if err == nil && !failed {
		err = errors.New("demo: the test passes before anybody has fixed the bug")
	}
	return err
}

func (s *stage) workspace() string { return filepath.Join(s.dir, "repository") }

// test runs the repository's test and shows what it prints.
func (s *stage) test(ctx context.Context) (failed bool, err error) {
	out, exit, err := launch.Output(ctx, s.workspace(), "sh", "test.sh")
	fmt.Fprintf(s.app.out, "   $ sh test.sh\n   %s\n   exit code %d\n",
		strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", "\n   "), exit)
	return exit != 0, err
}

// agent spawns the agent and follows it; the daemon is killed and started again on the way.
func (s *stage) agent(ctx context.Context) (*agentdv1.Outcome, error) {
	prompt := "The test `sh test.sh` fails. Find the bug in cart.sh and fix it."
	s.say("An agent is asked: %s", prompt)
	s.app.addr = s.daemon.Addr()
	show := func(it item) error {
		if err := s.story.show(it); err != nil || it.GetEntry() == nil {
			return err
		}
		s.entries = append(s.entries, it.GetEntry())
		result := it.GetEntry().GetToolResult()
		if s.killed == 0 && result.GetTool() == "bash" && strings.Contains(result.GetText(), "FAIL") {
			return s.crash(ctx)
		}
		return nil
	}
	req, err := s.app.spawnRequest(&spawnFlags{workspace: s.workspace()}, []string{prompt})
	if err != nil {
		return nil, err
	}
	f := s.app.spawning(req, show)
	err = f.follow(ctx)
	return f.outcome, err
}

// crash kills the daemon and starts another one on the same state.
func (s *stage) crash(ctx context.Context) error {
	s.killed = s.daemon.PID()
	s.say("The agent knows that the test fails and has not fixed it. Now: kill -9 %d", s.killed)
	if err := s.kill(ctx); err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(s.workspace(), "cart.sh"))
	if err == nil && !strings.Contains(string(content), "-gt 10") {
		err = errors.New("demo: the daemon was not killed before the fix")
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(s.app.out, "   It is dead, nobody answers on its socket, and the bug is still there.")
	if s.daemon, err = launch.Start(ctx, s.options, s.app.err); err != nil {
		return err
	}
	s.say("Another daemon starts on the same state, pid %d. The agent goes on where it was:", s.daemon.PID())
	return nil
}

// kill ends the daemon with SIGKILL.
func (s *stage) kill(ctx context.Context) error {
	if err := s.daemon.Kill(); err != nil {
		return err
	}
	if launch.Answers(ctx, s.options.Socket) {
		return errors.New("demo: the killed daemon still answers")
	}
	return nil
}

// restart is kill -9 and a new daemon on the same state.
func (s *stage) restart(ctx context.Context) (err error) {
	fmt.Fprintf(s.app.out, "   And the daemon too: kill -9 %d\n", s.daemon.PID())
	if err := s.kill(ctx); err != nil {
		return err
	}
	if s.daemon, err = launch.Start(ctx, s.options, s.app.err); err == nil {
		fmt.Fprintf(s.app.out, "   Another one starts on the same state, pid %d.\n", s.daemon.PID())
	}
	return err
}

// check compares what happened with what agentd promises.
func (s *stage) check(ctx context.Context, outcome *agentdv1.Outcome) error {
	if s.killed == 0 || s.killed == s.daemon.PID() {
		return errors.New("demo: the daemon was not killed")
	}
	if outcome.GetState() != agentdv1.TaskState_TASK_STATE_COMPLETED {
		return fmt.Errorf("demo: the agent ended %s", stateWord(outcome.GetState()))
	}
	s.say("The agent says that the test passes. The demo runs it itself:")
	if failed, err := s.test(ctx); err != nil || failed {
		return errors.Join(errors.New("demo: the test still fails"), err)
	}
	stored, err := s.transcript(ctx, outcome.GetTaskId())
	if err != nil {
		return err
	}
	if !slices.EqualFunc(stored, s.entries, func(a, b *agentdv1.Entry) bool { return proto.Equal(a, b) }) {
		return fmt.Errorf("demo: the stored transcript has %d entries, and differs from the %d streamed", len(stored), len(s.entries))
	}
	calls, err := answeredOnce(stored)
	if err != nil {
		return err
	}
	s.say("The transcript on disk is what was streamed above, over the crash: %d entries, none lost, none twice;\n"+
		"   each of its %d tool calls has exactly one answer.", len(stored), calls)
	return nil
}

// transcript reads all entries of a task again.
func (s *stage) transcript(ctx context.Context, id string) ([]*agentdv1.Entry, error) {
	var entries []*agentdv1.Entry
	f := &follower{app: s.app, toEnd: true}
	f.show = func(it item) error {
		if entry := it.GetEntry(); entry != nil {
			entries = append(entries, entry)
		}
		return nil
	}
	f.open = func(ctx context.Context, c *client) (receive, error) {
		return items(c.agents.TaskOutput(ctx, &agentdv1.TaskOutputRequest{TaskId: id, Follow: true}))
	}
	err := f.follow(ctx)
	return entries, err
}

// answeredOnce counts the tool calls of a transcript, each of which must have one answer.
func answeredOnce(entries []*agentdv1.Entry) (calls int, err error) {
	answers := map[string]int{}
	for _, entry := range entries {
		if result := entry.GetToolResult(); result != nil {
			answers[result.GetCallId()]++
		}
	}
	for _, entry := range entries {
		for _, call := range entry.GetAssistant().GetToolCalls() {
			calls++
			if answers[call.GetId()] != 1 {
				return 0, fmt.Errorf("demo: the call %s has %d answers", call.GetId(), answers[call.GetId()])
			}
		}
	}
	return calls, nil
}
