package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) transcriptCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "transcript TASK",
		Short: "Print a task's whole transcript as Markdown",
		Long: `transcript prints all that a task has done and was told up to now, over all its lives, as Markdown; long outputs of tools
are cut. With -o json it prints every item whole, one a line. TASK is an id or a teammate's name.`,
		Example: "  agentctl transcript reviewer >review.md",
		Args:    takes("TASK"),
	}
	return a.command(c, func(ctx context.Context, args []string) error {
		at, err := a.place()
		if err != nil {
			return err
		}
		req := &agentdv1.ExportTranscriptRequest{TaskId: args[0], Team: at.team, Workspace: at.workspace}
		if isTaskID(args[0]) { // which needs no team
			req.Team, req.Workspace = "", ""
		}
		return a.export(ctx, req)
	})
}

// export prints each item of a transcript once: after a break the daemon gives it from the start again.
func (a *app) export(ctx context.Context, req *agentdv1.ExportTranscriptRequest) error {
	show := (&markdown{out: a.out}).show
	if a.json {
		show = func(r *agentdv1.ExportTranscriptResponse) error { return a.emit(r) }
	}
	told, last := false, uint64(0)
	return a.resume(ctx, func(c *client, came func()) error {
		stream, err := c.teams.ExportTranscript(ctx, req)
		for err == nil {
			var r *agentdv1.ExportTranscriptResponse
			if r, err = stream.Recv(); err != nil {
				break
			}
			came()
			switch {
			case r.GetTask() != nil && told, r.GetEntry() != nil && r.GetEntry().GetSeq() <= last:
				continue
			case r.GetEntry() != nil:
				last = r.GetEntry().GetSeq()
			}
			told = true
			err = show(r)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
}
