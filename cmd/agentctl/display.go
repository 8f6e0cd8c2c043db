package main

import (
	"context"
	"fmt"
	"io"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// display shows a task's stream for people as fits its kind: what a shell writes as it is, anything else as a transcript.
type display struct {
	app  *app
	show func(item) error
}

// display shows nothing before the stream's first item, which is the task.
func (a *app) display() *display {
	return &display{app: a, show: func(item) error { return nil }}
}

// take shows an item.
func (d *display) take(it item) error {
	if task := it.GetTask(); task != nil {
		if task.GetKind() == agentdv1.TaskKind_TASK_KIND_SHELL {
			d.show = d.app.shellItem
		} else {
			d.show = (&transcript{out: d.app.out}).show
		}
	}
	return d.show(it)
}

// shellItem gives what a shell wrote to the stream that it wrote it to, and tells the rest on stderr.
func (a *app) shellItem(it item) error {
	entry := it.GetEntry()
	switch {
	case entry.GetOutput() != nil:
		return a.shellOutput(entry.GetOutput())
	case entry.GetNotice() != nil:
		a.note("%s", oneLine(entry.GetNotice().GetText(), maxLine))
	case it.GetOutcome() != nil:
		o := it.GetOutcome()
		a.note("%s  %s", endOf(o), clock(o.GetUsage().GetWallTime().AsDuration()))
		writeError(a.err, o, clean) // such as the exit code
	}
	return nil
}

// shellOutput writes a piece of output: every byte into a pipe, to a terminal without what steers it.
func (a *app) shellOutput(o *agentdv1.Output) error {
	if o.GetDropped() > 0 {
		a.note("(%d bytes are missing here: the quota was full)", o.GetDropped())
	}
	var w io.Writer = a.out
	if o.GetStream() == agentdv1.OutputStream_OUTPUT_STREAM_STDERR {
		w = a.err
	}
	data := o.GetData()
	if toTerminal := isTerminal(w) || w == a.out && isTerminal(a.out.w); toTerminal {
		data = []byte(clean(string(data)))
	}
	_, err := w.Write(data)
	return err
}

// showIdle tells people how a turn ended that was waited for.
func (a *app) showIdle(f *follower) error {
	if a.json {
		return nil
	}
	fmt.Fprintf(a.out, "\n%s IDLE\n", f.taskID())
	if text := f.idle.GetText(); text != "" {
		fmt.Fprintln(a.out, clean(text))
	}
	return a.out.err
}

// results tells people what each item of an ended group achieved, in the order asked.
func (a *app) results(ctx context.Context, group *follower) error {
	if a.json || group.task.GetKind() != agentdv1.TaskKind_TASK_KIND_GROUP {
		return nil
	}
	for i, p := range parts(group.outcome) {
		if p.standing != "" {
			fmt.Fprintf(a.out, "\n%d. %s %s\n", i+1, p.id, p.standing)
			continue
		}
		o, err := a.outcome(ctx, p.id)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "\n%d. %s\n", i+1, endLine(o))
		writeOutcome(a.out, o, clean)
	}
	return a.out.err
}

// outcome reads how a task ended, waiting for that: a group that failed may be gone before its children.
func (a *app) outcome(ctx context.Context, id string) (*agentdv1.Outcome, error) {
	f := &follower{app: a, toEnd: true, show: func(item) error { return nil }}
	f.open = func(ctx context.Context, c *client) (receive, error) {
		return items(c.agents.TaskOutput(ctx, &agentdv1.TaskOutputRequest{
			TaskId: id, Tail: 1, WaitFor: agentdv1.WaitFor_WAIT_FOR_TERMINAL,
		}))
	}
	err := f.follow(ctx)
	return f.outcome, err
}
