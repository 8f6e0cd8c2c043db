package main

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// item is one item of a task's stream, as Spawn and TaskOutput give it.
type item interface {
	GetTask() *agentdv1.Task
	GetEntry() *agentdv1.Entry
	GetDelta() *agentdv1.Delta
	GetOutcome() *agentdv1.Outcome
	GetIdle() *agentdv1.Idle
}

// receive gives the next item of a stream.
type receive func() (item, error)

// items reads a stream of either RPC.
func items[R any, P interface {
	*R
	item
}](stream grpc.ServerStreamingClient[R], err error) (receive, error) {
	return func() (item, error) {
		r, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		return P(r), nil
	}, err
}

// follower reads a task's stream to its end, over as many connections as that takes, and shows each entry once.
type follower struct {
	app      *app
	open     func(context.Context, *client) (receive, error) // from after last
	toEnd    bool                                            // the stream is not over before the outcome
	toIdle   bool                                            // the end of a turn ends the stream too
	deltas   bool
	show     func(item) error
	task     *agentdv1.Task    // as it was last told
	last     uint64            // seq of the newest entry shown
	outcome  *agentdv1.Outcome // how it ended
	idle     *agentdv1.Idle    // the end of its newest turn
	resuming bool              // the connection is not the first
}

// over tells whether all that was asked for has come.
func (f *follower) over() bool { return f.outcome != nil || f.toIdle && f.idle != nil }

// follow returns when the stream is over; f.outcome is set then if the task had ended.
func (f *follower) follow(ctx context.Context) error {
	p := f.app.newPatience()
	for {
		err := f.app.attempt(ctx, func(c *client) error { return f.read(ctx, c, p) })
		if err == nil {
			return nil
		}
		if err := p.bear(ctx, err); err != nil {
			return err
		}
		if !f.resuming {
			f.app.note("lost the daemon; waiting for it")
		}
		f.resuming = true
	}
}

// read shows what one connection gives.
func (f *follower) read(ctx context.Context, c *client, p *patience) error {
	recv, err := f.open(ctx, c)
	if err != nil {
		return err
	}
	for !f.over() {
		it, err := recv()
		switch {
		case errors.Is(err, io.EOF) && f.toEnd:
			return errCut
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		p.reset()
		if err := f.take(it); err != nil {
			return err
		}
	}
	return nil
}

// take shows an item, unless a connection before has shown it.
func (f *follower) take(it item) error {
	if task := it.GetTask(); task != nil {
		again := f.resuming && f.task != nil
		f.task, f.resuming = task, false
		if again {
			f.app.note("back on %s", task.GetId())
			return nil
		}
	}
	if entry := it.GetEntry(); entry != nil {
		if entry.GetSeq() <= f.last {
			return nil
		}
		f.last = entry.GetSeq()
	}
	if idle := it.GetIdle(); idle != nil {
		f.idle = idle
	}
	f.outcome = it.GetOutcome()
	if it.GetDelta() != nil && !f.deltas {
		return nil
	}
	return f.show(it)
}

// taskID is the task that is followed; empty when the daemon has not told it yet.
func (f *follower) taskID() string { return f.task.GetId() }

// comeBack tells how to go on following.
func (f *follower) comeBack() string {
	return "agentctl output " + f.taskID() + " --follow" + f.app.addrFlag()
}

// addrFlag repeats --addr in a command that is shown to people.
func (a *app) addrFlag() string {
	if a.addr == "" {
		return ""
	}
	return " --addr " + a.addr
}
