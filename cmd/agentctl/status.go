package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) statusCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "status", Short: "Show how the daemon is",
		Long:    "status shows how the daemon is. It exits with 8 when the daemon can't write to its store.",
		Example: "  agentctl status -o json",
		Args:    cobra.NoArgs,
	}
	return a.command(c, func(ctx context.Context, _ []string) error {
		var s *agentdv1.GetStatusResponse
		err := a.persist(ctx, func(c *client) (err error) {
			s, err = c.daemon.GetStatus(ctx, &agentdv1.GetStatusRequest{})
			return err
		})
		if err != nil {
			return err
		}
		show := a.showStatus
		if a.json {
			show = func(s *agentdv1.GetStatusResponse) error { return a.emit(s) }
		}
		if err := show(s); err != nil {
			return err
		}
		if s.GetStore().GetStalled() {
			return exitError{exitUnavailable}
		}
		return nil
	})
}

func (a *app) showStatus(s *agentdv1.GetStatusResponse) error {
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	source := "started by hand"
	if s.GetAutoStarted() {
		source = "started by agentctl"
	}
	row("daemon", "agentd %s, pid %d, %s, up %s", s.GetVersion(), s.GetPid(), source,
		clock(time.Since(s.GetStartedAt().AsTime())))
	row("listens", "%s", strings.Join(s.GetListen(), ", "))
	if s.GetRest() != "" {
		row("rest", "%s", s.GetRest())
	}
	row("state", "%s (store %s, %d bytes)", s.GetStateDir(), s.GetStoreId(), s.GetStore().GetSizeBytes())
	if s.GetStore().GetStalled() {
		row("STALLED", "nothing can be written: %s", s.GetStore().GetError())
	}
	if s.GetStore().GetQuarantined() > 0 {
		row("QUARANTINE", "%d damaged records were set aside", s.GetStore().GetQuarantined())
	}
	if s.GetStore().GetSalvagedFrom() != "" {
		row("SALVAGED", "the store was damaged; what could be read is in use, the old file is %s", s.GetStore().GetSalvagedFrom())
	}
	if s.GetModel().GetConfigured() {
		row("model", "%s at %s, %s", s.GetModel().GetModel(), s.GetModel().GetBaseUrl(), keySource(s.GetModel().GetApiKeyEnv()))
	} else {
		row("model", "none: %s", s.GetModel().GetHint())
	}
	for _, p := range s.GetProviders() {
		models := cmp.Or(strings.Join(p.GetModels(), ", "), "no models")
		row("provider", "%s at %s, %s: %s", p.GetName(), p.GetBaseUrl(), keySource(p.GetApiKeyEnv()), models)
	}
	row("tasks", "%d running, %d queued", s.GetTasksRunning(), s.GetTasksQueued())
	if s.GetTasksStuck() > 0 {
		row("STUCK", "%d loops did not end after a kill", s.GetTasksStuck())
	}
	return table.Flush()
}

// keySource tells where the key of a provider comes from: the variable of that name, if any.
func keySource(variable string) string {
	if variable == "" {
		return "no key"
	}
	return "key from " + variable
}
