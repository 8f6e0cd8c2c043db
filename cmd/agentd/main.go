// Command agentd is the daemon. Without a sub-command it serves until SIGTERM or SIGINT; it needs no configuration.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/agentd-dev/agentd/internal/config"
	"github.com/agentd-dev/agentd/internal/daemon"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/internal/launch"
	"github.com/agentd-dev/agentd/runtime/sandbox"
)

// latchName is the hidden sub-command that a command of an agent waits in until its process is on disk (T3). It comes
// before everything else: it must start fast and read nothing.
const latchName = "latch"

func main() {
	if len(os.Args) > 1 && os.Args[1] == latchName {
		os.Exit(sandbox.Latch(os.Args[2:]))
	}
	hideFromCommands()
	ctx, stop := untilSignal(context.Background())
	defer stop()
	running := false
	root := newRoot()
	root.PersistentPreRun = func(*cobra.Command, []string) { running = true }
	err := root.ExecuteContext(ctx)
	if err != nil && !running { // cobra refused the command line before a command ran
		err = errdefs.New(errdefs.InvalidArgument, errdefs.BadArgument, "", "%v; see agentd --help", err)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agentd:", errdefs.Text(err))
		os.Exit(errdefs.KindOf(err).ExitCode())
	}
}

// hideFromCommands keeps the environment and the memory of this process, with the provider's key in them, from the
// commands of agents, which run as the same user: only root can read a process that can't be dumped (P7).
func hideFromCommands() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // fails for other values only
}

// untilSignal ends the context at the first SIGTERM or SIGINT, and the process at the second.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := signal.NotifyContext(parent, syscall.SIGTERM, syscall.SIGINT)
	context.AfterFunc(ctx, cancel) // gives the signals back: the next one has its default effect
	return ctx, cancel
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "agentd",
		Short: "Host LLM agents that survive a kill",
		Long: "agentd hosts LLM agents behind a gRPC API. Kill it at any instant and start it again: every agent goes on.\n" +
			"It needs no configuration; `agentd config` shows what is in force. agentctl is its client.",
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true, Version: version(),
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd) },
	}
	root.SetVersionTemplate("agentd {{.Version}}\n")
	config.Flags(root.Flags())
	root.AddCommand(newConfig(), newStore(), newModelServer())
	return root
}

func load(cmd *cobra.Command) (config.Config, error) {
	return config.Load(cmd.Flags(), config.Surroundings{
		Getenv: os.Getenv, StateDir: launch.StateDir, SocketPath: launch.SocketPath,
	})
}

func serve(cmd *cobra.Command) error {
	c, err := load(cmd)
	if err != nil {
		return err
	}
	log := newLog(c)
	stop := context.AfterFunc(cmd.Context(), func() {
		log.Info("agentd stops: steps at work may finish; a second signal ends it at once")
	})
	defer stop()
	return daemon.Run(cmd.Context(), daemon.Options{
		Config: c, Version: version(), Latch: []string{"/proc/self/exe", latchName}, Log: log,
	})
}

func newLog(c config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == config.JSON {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

func newConfig() *cobra.Command {
	var requireModel bool
	cmd := &cobra.Command{
		Use: "config", Short: "Print the configuration in force, with the source of each value",
		Long: "config prints the configuration that agentd would run with, as an agentd.yaml, with the source of each value\n" +
			"beside it. The provider's key is masked.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			text, err := c.Effective()
			if err != nil {
				return err
			}
			if _, err := fmt.Fprint(cmd.OutOrStdout(), text); err != nil {
				return err
			}
			if requireModel && !c.ModelConfigured() {
				return errdefs.New(errdefs.FailedPrecondition, errdefs.ModelNotConfigured, "", "%s", c.ModelHint())
			}
			return nil
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&requireModel, "require-model", false, "exit with 4 when no model is configured")
	return cmd
}

// stamped is the version that a build sets which has no git to ask: -ldflags "-X main.stamped=v1.2.3".
var stamped string //nolint:gochecknoglobals // the linker can set nothing else

// version is the module's version, or the commit of a build from a checkout.
func version() string {
	if stamped != "" {
		return stamped
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(len(s.Value), 12)]
		}
	}
	return "devel"
}
