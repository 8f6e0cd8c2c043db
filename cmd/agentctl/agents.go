package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func (a *app) agentsCommand() *cobra.Command {
	var s spawnFlags // its workspace is found as that of a spawn
	var reload bool
	c := &cobra.Command{
		Use:   "agents",
		Short: "List the agent definitions that a spawn can name",
		Long: `agents lists the agent definitions that a spawn in the workspace can name with --agent: the built-in ones, the user's
own, and the workspace's. What is wrong with a file is told on stderr, as FILE:LINE: message; it keeps no other from
being used, so it is no failure.`,
		Example: "  agentctl agents --workspace ~/src/shop --reload",
		Args:    cobra.NoArgs,
	}
	c.Flags().StringVar(&s.workspace, "workspace", "",
		"`DIR` whose definitions count too (default the repository around this one, or this one)")
	c.Flags().BoolVar(&reload, "reload", false, "read all files anew before")
	return a.command(c, func(ctx context.Context, _ []string) error {
		if a.team != "" {
			return usageError{errors.New("agents takes no --team: definitions belong to a workspace; give --workspace DIR")}
		}
		workspace, err := a.workspace(&s)
		if err != nil {
			return usageError{err}
		}
		var list *agentdv1.ListAgentsResponse
		err = a.persist(ctx, func(c *client) (err error) {
			if reload {
				if _, err := c.daemon.Reload(ctx, &agentdv1.ReloadRequest{}); err != nil {
					return err
				}
			}
			list, err = c.daemon.ListAgents(ctx, &agentdv1.ListAgentsRequest{Workspace: workspace})
			return err
		})
		if err != nil {
			return err
		}
		if err := a.showAgents(list.GetAgents()); err != nil {
			return err
		}
		for _, p := range list.GetProblems() {
			a.note("%s", problemLine(p))
		}
		return nil
	})
}

func (a *app) showAgents(agents []*agentdv1.AgentDefinition) error {
	if a.json {
		for _, d := range agents {
			if err := a.emit(d); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSOURCE\tMODEL\tTOOLS\tDESCRIPTION")
	for _, d := range agents {
		model := d.GetModel()
		if model == "" {
			model = "default"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", clean(d.GetName()), sourceWord(d), oneLine(model, 30),
			oneLine(toolsWord(d), 50), oneLine(d.GetDescription(), 80))
	}
	return table.Flush()
}

// sourceWord tells where a definition comes from, and whether it was written for Claude Code.
func sourceWord(d *agentdv1.AgentDefinition) string {
	source := strings.ToLower(strings.TrimPrefix(d.GetSource().String(), "AGENT_SOURCE_"))
	if filepath.Base(filepath.Dir(filepath.Dir(d.GetPath()))) == ".claude" {
		source += " (.claude)"
	}
	return source
}

// toolsWord is the tools of a definition as one text.
func toolsWord(d *agentdv1.AgentDefinition) string {
	tools := strings.Join(d.GetTools(), " ")
	if tools == "" {
		tools = "all"
	}
	if not := d.GetDisallowedTools(); len(not) > 0 {
		tools += " but " + strings.Join(not, " ")
	}
	return tools
}

// problemLine is a problem as compilers write theirs.
func problemLine(p *agentdv1.AgentProblem) string {
	at := p.GetPath()
	if p.GetLine() > 0 {
		at = fmt.Sprintf("%s:%d", at, p.GetLine())
	}
	if p.GetWarning() {
		at += ": warning"
	}
	return oneLine(at+": "+p.GetMessage(), 1000)
}
