package view

import (
	"context"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
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
	EndIdle  bool          // what is followed ends with the first turn that is shown to its end and leaves a teammate idle
	Deltas   bool          // with live text
	Terminal bool          // nothing before the task is terminal
	Idle     bool          // nothing before the teammate is idle with nothing to wake for, or the task is terminal
	Timeout  time.Duration // longest wait for Terminal or Idle; 0: no limit
}

// waits tells whether the task has to come to something first.
func (r OutputRequest) waits() bool { return r.Terminal || r.Idle }

// Item is one item of an output: exactly one field is set.
type Item struct {
	Task      *Task
	Entry     *task.Entry
	Delta     *task.Delta
	Heartbeat time.Time
	Idle      *Idle
	Outcome   *task.Result
}

// Idle says that a teammate's turn has ended and that it waits for mail.
type Idle struct {
	TaskID task.ID
	Seq    task.Seq // of the last entry of the turn
	Text   string   // its last text; of a turn that was read from its middle the last one behind that
}

// Output sends a task's transcript to send, in order, each entry once: first the task, then entries, last the outcome of
// an ended task, or Idle when that is what ends it. It returns send's error, ctx's cause, or why the request can't be served.
func (v *View) Output(ctx context.Context, req OutputRequest, send func(Item) error) error {
	if err := v.checkOutput(req); err != nil {
		return err
	}
	t, err := v.Task(ctx, req.TaskID)
	if err != nil {
		return err
	}
	if !req.waits() || t.State.Terminal() {
		if err := req.reaches(t); err != nil {
			return err
		}
	}
	f := &follower{
		view: v, req: req, task: t.Task, sink: send, beat: time.NewTimer(heartbeatEvery), bell: v.journal.Bell(),
	}
	defer f.beat.Stop()
	defer f.bell.Close()
	f.bell.Transcript(t.Team, t.ID)
	if err := f.send(Item{Task: &t}); err != nil {
		return err
	}
	if req.waits() {
		if over, err := f.await(ctx); over || err != nil {
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
	if req.Idle && !f.task.State.Terminal() {
		return f.toRest(ctx)
	}
	return f.run(ctx)
}

// Transcript sends a task's whole transcript as it is now, over all incarnations: first the task, then entries, last the
// outcome of an ended task.
func (v *View) Transcript(ctx context.Context, id task.ID, send func(Item) error) error {
	return v.Output(ctx, OutputRequest{TaskID: id}, send)
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
	case req.EndIdle && !req.Follow:
		return errdefs.BadField("follow", "must be set for what ends when the teammate is idle")
	case req.Timeout > 0 && !req.waits():
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
	stop   task.Seq    // nothing behind it is sent; 0: all is
	turn   journal.Ending
	bell   *journal.Bell // listens to the transcript
	deltas <-chan task.Delta
	held   *task.Delta // live text that waits for the entries in front of it
}

// send gives an item to the reader and puts the next heartbeat off.
func (f *follower) send(i Item) error {
	f.beat.Reset(heartbeatEvery)
	return f.sink(i)
}

// refresh reads the task as it is now, unless it has ended: then its end is what this reader is told.
func (f *follower) refresh(ctx context.Context) error {
	if f.task.State.Terminal() {
		return nil
	}
	row, err := f.view.journal.Task(ctx, f.task.ID)
	if err == nil {
		f.task = row.Value
	}
	return err
}

// await waits for what is asked for. When the time is over it sends the task as it is: over.
func (f *follower) await(ctx context.Context) (over bool, err error) {
	var limit <-chan time.Time
	if f.req.Timeout > 0 {
		limit = time.After(f.req.Timeout)
	}
	for {
		if reached, err := f.reached(ctx); reached || err != nil {
			return false, err
		}
		select {
		case <-f.bell.Rings():
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

// reached tells whether the task has come to what is waited for.
func (f *follower) reached(ctx context.Context) (bool, error) {
	err := f.refresh(ctx)
	switch {
	case err != nil || f.task.State.Terminal():
		return true, err
	case f.req.Idle && f.task.State == task.Idle:
		return f.view.rests(ctx, f.task)
	}
	return false, nil
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
		if err := f.refresh(ctx); err != nil {
			return err
		}
		if over, err := f.entries(ctx); over || err != nil {
			return err
		}
		if f.task.State.Terminal() {
			return f.outcome(ctx)
		}
		if !f.req.Follow {
			return nil
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// entries sends what is behind the cursor. It is over with the end of a turn that the reader waits for.
func (f *follower) entries(ctx context.Context) (over bool, err error) {
	for e, err := range f.view.journal.Entries(ctx, f.task.Team, f.task.ID, f.cursor) {
		if err != nil {
			return false, err
		}
		if f.stop != 0 && e.Seq > f.stop {
			break
		}
		f.cursor = e.Seq
		if a, ok := e.Body.(*task.Assistant); ok {
			f.step = a.Step
		}
		if shown(e) {
			if err := f.send(Item{Entry: &e}); err != nil {
				return false, err
			}
		}
		if !f.turn.See(e) {
			continue
		}
		turn := f.turn
		f.turn = journal.Ending{}
		if f.req.EndIdle && turn.State == task.Idle {
			return true, f.idle(turn)
		}
	}
	return false, nil
}

// toRest sends what there is up to the end of the turn after which the teammate rests.
func (f *follower) toRest(ctx context.Context) error {
	turn, err := f.view.lastTurn(ctx, f.task)
	if err != nil {
		return err
	}
	f.stop, f.req.EndIdle = turn.Seq, false
	if _, err := f.entries(ctx); err != nil {
		return err
	}
	return f.idle(turn)
}

func (f *follower) idle(turn journal.Ending) error {
	return f.send(Item{Idle: &Idle{TaskID: f.task.ID, Seq: turn.Seq, Text: turn.Text}})
}

func (f *follower) outcome(ctx context.Context) error {
	result, err := f.view.result(ctx, f.task)
	if err != nil {
		return err
	}
	return f.send(Item{Outcome: &result})
}

// wait passes deltas on until there are more entries. Live text stays behind the entries that came before it.
func (f *follower) wait(ctx context.Context) error {
	if d := f.held; d != nil {
		f.held = nil
		if err := f.delta(*d); err != nil {
			return err
		}
	}
	for {
		select {
		case <-f.bell.Rings():
			return nil
		case d := <-f.deltas:
			select {
			case <-f.bell.Rings():
				f.held = &d
				return nil
			default:
			}
			if err := f.delta(d); err != nil {
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

// delta sends live text, unless its step's entry has replaced it.
func (f *follower) delta(d task.Delta) error {
	if d.Step <= f.step {
		return nil
	}
	return f.send(Item{Delta: &d})
}
