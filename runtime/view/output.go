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
	if !req.Terminal || t.State.Terminal() {
		if err := req.reaches(t); err != nil {
			return err
		}
	}
	f := &follower{view: v, req: req, task: t.Task, sink: send, beat: time.NewTimer(heartbeatEvery)}
	defer f.beat.Stop()
	if err := f.send(Item{Task: &t}); err != nil {
		return err
	}
	if req.Terminal {
		if over, err := f.awaitTerminal(ctx); over || err != nil {
			return err
		}
		if t, err = v.Task(ctx, t.ID); err != nil {
			return err
		}
		if err := req.reaches(t); err != nil {
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

// reaches tells whether the transcript has what is wanted, or may get it.
func (r OutputRequest) reaches(t Task) error {
	if r.Follow || r.From <= t.LastSeq {
		return nil
	}
	return errdefs.New(errdefs.OutOfRange, errdefs.SeqOutOfRange, string(t.ID),
		"task %s ends at %d, before from_seq %d; follow waits for more", t.ID, t.LastSeq, r.From)
}

// follower is one reader of one transcript.
type follower struct {
	view   *View
	req    OutputRequest
	task   task.Task
	sink   func(Item) error
	beat   *time.Timer // fires after a silence
	cursor task.Seq    // the newest entry that was seen
	step   int         // the newest step that was seen; its deltas are void
	deltas <-chan task.Delta
}

// send gives an item to the reader and puts the next heartbeat off.
func (f *follower) send(i Item) error {
	f.beat.Reset(heartbeatEvery)
	return f.sink(i)
}

// refresh reads the task as it is now, and while it lives gives what is closed when its transcript grows. Only a living
// task is followed: an ended one would be waited for in vain.
func (f *follower) refresh(ctx context.Context) (more <-chan struct{}, err error) {
	if f.task.State.Terminal() {
		return nil, nil
	}
	more = f.view.journal.Follow(f.task.Team, string(f.task.ID))
	row, err := f.view.journal.Task(ctx, f.task.ID)
	if err == nil {
		f.task = row.Value
	}
	if f.task.State.Terminal() {
		f.view.journal.Unfollow(f.task.Team, string(f.task.ID))
	}
	return more, err
}

// awaitTerminal waits for the end. When the time is over it sends the task as it is: over.
func (f *follower) awaitTerminal(ctx context.Context) (over bool, err error) {
	var limit <-chan time.Time
	if f.req.Timeout > 0 {
		limit = time.After(f.req.Timeout)
	}
	for {
		more, err := f.refresh(ctx)
		if err != nil || f.task.State.Terminal() {
			return false, err
		}
		select {
		case <-more:
		case <-limit:
			t, err := f.view.Task(ctx, f.task.ID)
			if err != nil {
				return true, err
			}
			return true, f.send(Item{Task: &t})
		case <-f.beat.C:
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
	// Mostly every other entry is hidden at most. If not, look further back.
	for n := 2*f.req.Tail + 1; ; n *= 2 {
		last, err := f.view.journal.LastEntries(ctx, f.task.Team, f.task.ID, n)
		if err != nil {
			return err
		}
		before, found := beforeTail(last, f.req.Tail)
		if found || len(last) < n {
			f.cursor = before
			return nil
		}
	}
}

// beforeTail gives the position before the last n shown entries, and whether there are as many.
func beforeTail(entries []task.Entry, n int) (before task.Seq, found bool) {
	for i := len(entries) - 1; i >= 0 && n > 0; i-- {
		if shown(entries[i]) {
			before, n = entries[i].Seq-1, n-1
		}
	}
	return before, n == 0
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
		more, err := f.refresh(ctx)
		if err != nil {
			return err
		}
		if err := f.entries(ctx); err != nil {
			return err
		}
		if f.task.State.Terminal() {
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
	for {
		select {
		case <-more:
			return nil
		case d := <-f.deltas:
			if err := f.delta(ctx, d, more); err != nil {
				return err
			}
		case <-f.beat.C:
			if err := f.send(Item{Heartbeat: f.view.now()}); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// delta sends live text behind the entries that came before it, unless its step's entry is among them.
func (f *follower) delta(ctx context.Context, d task.Delta, more <-chan struct{}) error {
	select {
	case <-more:
		if err := f.entries(ctx); err != nil {
			return err
		}
	default:
	}
	if d.Step <= f.step {
		return nil
	}
	return f.send(Item{Delta: &d})
}
