package view

import (
	"context"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/task"
)

// heartbeatEvery is the silence after which a heartbeat is sent.
const heartbeatEvery = 15 * time.Second

// MaxTail is the largest tail, in entries.
const MaxTail = 1000

// OutputRequest says what of a transcript is wanted.
type OutputRequest struct {
	TaskID   task.ID
	From     task.Seq      // first entry wanted; 0: from the start
	Tail     int           // the last so many instead; 0: From
	Follow   bool          // until the task is terminal
	Deltas   bool          // with live text
	Terminal bool          // nothing before the task is terminal
	Timeout  time.Duration // longest wait for Terminal; 0: no limit
}

// Item is one item of an output: exactly one field is set.
type Item struct {
	Task      *Task
	Entry     *task.Entry
	Delta     *task.Delta
	Heartbeat time.Time
	Outcome   *task.Result
}

// Output sends a task's transcript to send, in order, each entry once: first the task, then entries, last the outcome of
// an ended task. It returns send's error, ctx's cause, or why the request can't be served.
func (v *View) Output(ctx context.Context, req OutputRequest, send func(Item) error) error {
	if err := v.checkOutput(req); err != nil {
		return err
	}
	t, err := v.Task(ctx, req.TaskID)
	if err != nil {
		return err
	}
	if !req.Follow && !req.Terminal && req.From > t.LastSeq {
		return errdefs.New(errdefs.OutOfRange, errdefs.SeqOutOfRange, string(t.ID),
			"task %s ends at %d, before from_seq %d; follow waits for more", t.ID, t.LastSeq, req.From)
	}
	f := &follower{view: v, req: req, task: t.Task, send: send}
	if err := send(Item{Task: &t}); err != nil {
		return err
	}
	if req.Terminal && !t.State.Terminal() {
		if over, err := f.awaitTerminal(ctx); over || err != nil {
			return err
		}
	}
	if err := f.position(ctx); err != nil {
		return err
	}
	return f.run(ctx)
}

func (v *View) checkOutput(req OutputRequest) error {
	switch {
	case req.Tail < 0 || req.Tail > MaxTail:
		return errdefs.BadField("tail", "must be 1 to %d", MaxTail)
	case req.Tail > 0 && req.From > 0:
		return errdefs.BadField("tail", "can't be combined with from_seq; set one of them")
	case req.Deltas && !req.Follow:
		return errdefs.BadField("deltas", "needs follow")
	case req.Timeout < 0:
		return errdefs.BadField("timeout", "must not be negative")
	case req.Timeout > 0 && !req.Terminal:
		return errdefs.BadField("timeout", "needs wait_for")
	}
	return nil
}

// follower is one reader of one transcript.
type follower struct {
	view   *View
	req    OutputRequest
	task   task.Task
	send   func(Item) error
	cursor task.Seq // the newest entry that was seen
	step   int      // the newest step that was seen; its deltas are void
	deltas <-chan task.Delta
}

// awaitTerminal waits for the end. When the time is over it sends the task as it is: over.
func (f *follower) awaitTerminal(ctx context.Context) (over bool, err error) {
	var limit <-chan time.Time
	if f.req.Timeout > 0 {
		limit = time.After(f.req.Timeout)
	}
	for {
		more := f.view.journal.Follow(f.task.Team, string(f.task.ID))
		t, err := f.view.Task(ctx, f.task.ID)
		if err != nil || t.State.Terminal() {
			return false, err
		}
		select {
		case <-more:
		case <-limit:
			return true, f.send(Item{Task: &t})
		case <-time.After(heartbeatEvery):
			if err := f.send(Item{Heartbeat: f.view.now()}); err != nil {
				return false, err
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// position puts the cursor before the first entry wanted.
func (f *follower) position(ctx context.Context) error {
	if f.req.From > 0 {
		f.cursor = f.req.From - 1
	}
	if f.req.Tail == 0 {
		return nil
	}
	// At most every other entry is a CallStarted, which is not shown.
	last, err := f.view.journal.LastEntries(ctx, f.task.Team, f.task.ID, 2*f.req.Tail+1)
	if err != nil {
		return err
	}
	wanted := f.req.Tail
	for i := len(last) - 1; i >= 0 && wanted > 0; i-- {
		if shown(last[i]) {
			f.cursor, wanted = last[i].Seq-1, wanted-1
		}
	}
	return nil
}

func shown(e task.Entry) bool {
	_, hidden := e.Body.(*task.CallStarted)
	return !hidden
}

// run sends entries from the cursor on. The task is read before its entries, so that when it is terminal they are all
// there.
func (f *follower) run(ctx context.Context) error {
	if f.req.Deltas {
		var cancel func()
		f.deltas, cancel = f.view.live.Subscribe(f.task.ID)
		defer cancel()
	}
	for {
		more := f.view.journal.Follow(f.task.Team, string(f.task.ID))
		row, err := f.view.journal.Task(ctx, f.task.ID)
		if err != nil {
			return err
		}
		if err := f.entries(ctx); err != nil {
			return err
		}
		if row.Value.State.Terminal() {
			return f.outcome(ctx)
		}
		if !f.req.Follow {
			return nil
		}
		if err := f.wait(ctx, more); err != nil {
			return err
		}
	}
}

func (f *follower) entries(ctx context.Context) error {
	for e, err := range f.view.journal.Entries(ctx, f.task.Team, f.task.ID, f.cursor) {
		if err != nil {
			return err
		}
		f.cursor = e.Seq
		if a, ok := e.Body.(*task.Assistant); ok {
			f.step = a.Step
		}
		if !shown(e) {
			continue
		}
		if err := f.send(Item{Entry: &e}); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) outcome(ctx context.Context) error {
	result, err := f.view.Result(ctx, f.task.ID)
	if err != nil {
		return err
	}
	return f.send(Item{Outcome: &result})
}

// wait passes deltas on until there are more entries.
func (f *follower) wait(ctx context.Context, more <-chan struct{}) error {
	beat := time.NewTimer(heartbeatEvery)
	defer beat.Stop()
	for {
		select {
		case <-more:
			return nil
		case d := <-f.deltas:
			if d.Step <= f.step {
				continue
			}
			if err := f.send(Item{Delta: &d}); err != nil {
				return err
			}
			beat.Reset(heartbeatEvery)
		case <-beat.C:
			if err := f.send(Item{Heartbeat: f.view.now()}); err != nil {
				return err
			}
			beat.Reset(heartbeatEvery)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
