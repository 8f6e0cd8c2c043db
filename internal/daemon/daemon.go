// Package daemon is the wiring: it alone knows the wire, the disk and the loops, and puts them into one ordered list.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/agentd-dev/agentd/internal/config"
	"github.com/agentd-dev/agentd/internal/lifecycle"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team/wire"
	"github.com/agentd-dev/agentd/runtime/tool"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/store"
)

// Budgets of the parts when the daemon stops.
const (
	superviseBudget = 30 * time.Second // 20 s for running steps, and what it takes to cut them off
	serveBudget     = 5 * time.Second
)

// Options are what a daemon needs beside its configuration.
type Options struct {
	Config  config.Config
	Version string
	Latch   []string // argv that runs sandbox.Latch with the arguments after it
	Log     *slog.Logger
	Wrap    func(store.Store) store.Store // around the store, to make it fail in tests; nil: none
}

// Run is the daemon: it takes the state directory and the sockets, recovers, serves, and returns when ctx has ended and
// everything stands at its last commit.
func Run(ctx context.Context, o Options) (err error) {
	home, err := openHome(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, home.close()) }()
	j, err := journal.Open(ctx, home.store, time.Now, o.Log)
	if err != nil {
		return err
	}
	box, err := sandbox.New(sandbox.Config{
		StoreID: j.StoreID(), Helper: o.Latch, Homes: filepath.Join(o.Config.StateDir, "homes"), Path: o.Config.Path,
		Lang: o.Config.Lang, TZ: o.Config.TZ, EnvPass: o.Config.EnvPass, Log: o.Log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	models, err := newCatalog(o.Config)
	if err != nil {
		return err
	}
	live, tools := view.NewLive(), tool.NewSet(tool.Builtin()...)
	d := &daemon{options: o, home: home, journal: j, box: box, started: time.Now()}
	d.view = view.New(j, live, func(id task.ID) int { return d.supervisor.QueuePosition(id) }, time.Now)
	d.supervisor = runtime.New(runtime.Config{
		Journal: j, Model: models, DefaultModel: o.Config.Model, Facts: models.Facts,
		Tools: tools, Processes: box, View: d.view, Live: live,
		Workspaces: o.Config.Workspaces, MaxRunning: o.Config.MaxRunning, MaxShells: o.Config.MaxShells,
		MaxDepth: o.Config.MaxDepth, MaxItems: o.Config.MaxItems, MaxAtOnce: o.Config.MaxAtOnce, MaxHops: o.Config.MaxHops, Now: time.Now, Log: o.Log,
		Definitions: definitions(os.Getenv, tools.Names()), Protocol: wire.Protocol(),
	})
	return d.run(ctx)
}

// daemon is what the parts share.
type daemon struct {
	options    Options
	home       *home
	journal    *journal.Journal
	box        *sandbox.Sandbox
	view       *view.View
	supervisor *runtime.Supervisor
	started    time.Time
	rest       string // address that REST listens on; empty: off
}

// run is the ordered list. It stops in reverse: first nobody new is let in, then the loops, then the journal.
func (d *daemon) run(ctx context.Context) error {
	sockets, err := listen(d.options.Config.Listen)
	if err != nil {
		return err
	}
	defer sockets.close()
	parts := []lifecycle.Part{
		{Name: "journal", Run: d.journal.Run, StopBudget: serveBudget},
		{Name: "supervisor", Run: d.supervisor.Serve, Ready: d.supervisor.Reachable(), StopBudget: superviseBudget},
	}
	front, err := d.front(ctx, sockets)
	if err != nil {
		return err
	}
	parts = append(parts, front...)
	parts = append(parts, lifecycle.Part{Name: "announcement", Run: d.announce, StopBudget: serveBudget})
	if err := lifecycle.Run(ctx, d.options.Log, parts...); err != nil {
		return err
	}
	if err := d.journal.MarkClean(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	d.options.Log.Info("agentd has stopped; every task stands at its last commit")
	return nil
}
