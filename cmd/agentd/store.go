package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentd-dev/agentd/internal/config"
	"github.com/agentd-dev/agentd/internal/daemon"
	"github.com/agentd-dev/agentd/internal/errdefs"
)

func newStore() *cobra.Command {
	store := &cobra.Command{
		Use: "store", Short: "Look after the store while no daemon holds it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }, // without it cobra takes any word
	}
	check := &cobra.Command{
		Use: "check", Short: "Walk the whole store: every page, every checksum",
		Long: "Check walks the whole store and prints each problem on a line of its own, then a summary. It exits with 1\n" +
			"when the store is damaged, and with 4 while a daemon holds it. It changes nothing: a daemon that starts on a\n" +
			"damaged store sets the file aside and goes on with what can be read.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			if err != nil {
				return err
			}
			report, err := daemon.CheckStore(cmd.Context(), c.StateDir, cmd.OutOrStdout())
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), report); err != nil {
				return err
			}
			if !report.OK() {
				return errdefs.New(errdefs.DataLoss, errdefs.RecordCorrupt, c.StateDir, "the store is damaged")
			}
			return nil
		},
	}
	config.Flags(check.Flags())
	store.AddCommand(check)
	return store
}
