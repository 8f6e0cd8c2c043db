// Command agentctl is the client of agentd: flags in, tables or JSON out. Data goes to stdout, everything else to
// stderr, and the exit code tells what happened. It starts the daemon when none runs.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// execute runs one command line and gives its exit code.
func execute(args []string, in *os.File, out, errOut io.Writer) int {
	ctx, release := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer release()
	a := &app{in: in, out: &stdout{w: out}, err: errOut, releaseSignals: release}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(a.out)
	root.SetErr(errOut)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !a.running {
		err = usageError{err} // cobra refused the command line before a command ran
	}
	return a.finish(err, command.CommandPath())
}

// app is one run of agentctl: its streams and global flags.
type app struct {
	in  *os.File
	out *stdout
	err io.Writer

	json    bool
	addr    string
	team    string
	noStart bool

	running        bool   // a command has begun, so an error is not one of usage
	connected      bool   // a daemon has answered, so losing it is worth waiting for
	releaseSignals func() // gives Ctrl-C its usual effect back
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "agentctl",
		Short: "Spawn, steer, watch and stop the agents of agentd",
		Long: `agentctl is the client of agentd, the daemon that hosts LLM agents.

Data goes to stdout, everything else to stderr. Without a daemon it starts one.

Exit codes: 0 ok, 2 usage, 3 not found, 4 conflict or precondition, 6 exhausted, 7 not allowed,
8 unavailable, 130 interrupted, 1 anything else. run, spawn and output --wait tell how the task ended:
0 completed, or a teammate whose turn is over; 10 failed, 11 killed.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	flags := root.PersistentFlags()
	flags.VarP(choose(&a.json, option[bool]{"table", false}, option[bool]{"json", true}), "output", "o",
		"output format: table, or json with one object a line")
	flags.Func("addr", "daemon to use, as `unix:///PATH`; it is never started then", func(addr string) error {
		if !strings.HasPrefix(addr, unixScheme) {
			return fmt.Errorf("it is not unix:///PATH")
		}
		a.addr = addr
		return nil
	})
	flags.StringVar(&a.team, "team", "", "team `NAME` to use; default: the team of the directory; for ps and watch all")
	flags.BoolVar(&a.noStart, "no-start", false, "do not start a daemon when none runs")
	root.AddCommand(a.runCommand(), a.spawnCommand(), a.outputCommand(), a.sendCommand(), a.stopCommand(),
		a.psCommand(), a.teamCommand(), a.rosterCommand(), a.inboxCommand(), a.transcriptCommand(), a.dismissCommand(),
		a.agentsCommand(), a.watchCommand(), a.statusCommand(), a.demoCommand(), a.versionCommand())
	completeWords(root)
	a.completeNames(root)
	return root
}

// command gives a command its body, and marks that it has begun.
func (a *app) command(c *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	c.RunE = func(cmd *cobra.Command, args []string) error {
		a.running = true
		return run(cmd.Context(), args)
	}
	return c
}

// takes checks that a command has one argument for each name.
func takes(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		return fmt.Errorf("%s takes %s, but got %s", cmd.Name(), strings.Join(names, " and "),
			count(len(args), "argument", "arguments"))
	}
}

// stamped is the version that a build sets which has no git to ask: -ldflags "-X main.stamped=v1.2.3".
var stamped string //nolint:gochecknoglobals // the linker can set nothing else

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print the version of agentctl", Example: "  agentctl version", Args: cobra.NoArgs}
	return a.command(c, func(context.Context, []string) error {
		version := "(devel)"
		if stamped != "" {
			version = stamped
		} else if built, ok := debug.ReadBuildInfo(); ok && built.Main.Version != "" {
			version = built.Main.Version
		}
		_, err := fmt.Fprintf(a.out, "agentctl %s\n", version)
		return err
	})
}

// note tells people something beside the data.
func (a *app) note(format string, args ...any) {
	fmt.Fprintln(a.err, clean(fmt.Sprintf(format, args...)))
}
