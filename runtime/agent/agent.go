// Package agent is the loop of one agent: steps until the model asks for no more tools. It goes on from wherever its
// transcript stands, so a first start, a restart after SIGKILL and the end of a stall are one code path.
//
// A step is: settle the calls of the last answer, take mail and look at stops and budgets (the boundary), ask the
// model, commit its answer. When the history gets too long for the model, a step is a summary instead, which stands for
// what came before it. Every commit carries the live record's revision; when it fails for that, another loop has
// taken over or the task has ended, and this loop ends without a word.
package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/sandbox"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// ErrGone says that the task has ended or has another loop: nothing more is to be done here.
var ErrGone = errors.New("the task has ended or has a newer loop")

// ErrDrained says that the daemon stops: the task stays at its last commit.
var ErrDrained = errors.New("the daemon stops; the task stays as it is")

// Slots is how the loop gives its slot back while it waits for the provider.
type Slots interface {
	// Pause commits WAITING and gives the slot back.
	Pause(ctx context.Context) error
	// Proceed waits for a slot and commits RUNNING.
	Proceed(ctx context.Context) error
}

// Agent is one loop of one task. It is used once.
type Agent struct {
	Journal  *journal.Journal
	Model    model.Model
	Tools    tool.Set // all there are: a call of one that is not granted is answered so (P4)
	Scope    *tool.Scope
	Slots    Slots
	Post     *team.Post
	Draining <-chan struct{}  // closed when no new step may begin
	Deltas   func(task.Delta) // takes live text; must not block
	Now      func() time.Time
	Log      *slog.Logger

	Task     task.Task   // as the start's commit left it
	Spec     task.Spec   // what it was given beside its record
	Facts    model.Facts // of its model
	CacheKey string      // of its prompts at the provider
	Above    []task.Task // tasks above it whose budgets its calls count against (R4)
	LiveRev  journal.Rev // of the start's commit
	History  *History

	specs    []model.Tool       // those granted, as the model sees them
	reading  []model.Tool       // those of them that it has until its plan is approved
	last     task.Seq           // all that the loop knows of the transcript stands up to here
	rested   bool               // the loop has ended with a rest
	turnOver bool               // the turn would have ended, but for mail that keeps it going
	partial  *task.Assistant    // text of a model call that was cut short
	whole    bool               // the answer that ends the turn was not cut
	spent    task.Usage         // of a summary that was cut short
	ran      []*task.ToolResult // answers of a group that was cut short; nil where there is none
	before   *before            // the repository before the first command; nil: not looked yet

	mu    sync.Mutex
	ended []string                // calls whose processes are gone; the next batch says so
	drop  context.CancelCauseFunc // ends the ctx of the advance under way; nil between two
	due   bool                    // a message came between two advances that interrupts the next
	taken []string                // messages that interrupt and are in the transcript
}

// Run goes on until the task is terminal (nil), or this loop must not go on: ErrGone, ErrDrained, or the store's error,
// after which the supervisor starts the task again once the store has recovered.
func (a *Agent) Run(ctx context.Context) error {
	a.last = task.Seq(a.LiveRev)
	granted := a.Tools.Filter(a.Task.Grant.Tools)
	a.specs, a.reading = withOutput(specs(granted), a.Spec.Schema), specs(beforePlan(granted))
	for ctx.Err() == nil {
		part, done := a.droppable(ctx)
		ended, err := a.advance(part)
		if cut := done(); cut && ctx.Err() == nil && !isOurs(err) && (err != nil || !ended) {
			ended, err = false, a.dropped(ctx)
		}
		if (ended || err != nil) && !isCut(ctx, err) {
			return err
		}
	}
	return a.interrupted(ctx)
}

// isCut tells whether an error says no more than that ctx has ended.
func isCut(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && !isOurs(err)
}

// advance does the next thing that the history asks for.
func (a *Agent) advance(ctx context.Context) (ended bool, err error) {
	switch {
	case len(a.History.pending) > 0:
		return a.settle(ctx)
	case a.History.fresh:
		return a.endTurn(ctx, nil)
	}
	finish, err := a.boundary(ctx)
	if err != nil || finish != nil {
		return finish != nil, err
	}
	if !a.History.stirred && a.Task.Kind == task.Teammate {
		return a.restAgain(ctx)
	}
	if a.crowded() {
		return a.compact(ctx, false)
	}
	return a.step(ctx)
}

// boundary is the place between two steps: stops, mail, budgets. It gives the terminal change that it committed, if any.
func (a *Agent) boundary(ctx context.Context) (*task.Finish, error) {
	select {
	case <-a.Draining:
		return nil, ErrDrained
	default:
	}
	row, err := a.row(ctx)
	if err != nil {
		return nil, err
	}
	if agreed := agreedToEnd(row.Value); agreed != nil {
		return agreed, a.end(ctx, nil, task.Usage{}, *agreed)
	}
	if err := a.takeMail(ctx); err != nil {
		return nil, err
	}
	near, over, err := a.budgets(ctx)
	if err != nil {
		return nil, err
	}
	wrapUp, end := a.limits(row.Value, near, over)
	switch {
	case end != 0:
		finish, err := a.failed(ctx, row.Value, end)
		if err != nil {
			return nil, err
		}
		return &finish, a.end(ctx, nil, task.Usage{}, finish)
	case wrapUp != 0 && a.History.wrapUp == 0:
		return nil, a.commit(ctx, task.Usage{}, &task.Notice{Text: wrapUpText(wrapUp) + lastOutput(a.Spec), WrapUp: wrapUp})
	}
	return nil, nil
}

// row reads the task as it is now. A terminal one, or one with another loop, is ErrGone.
func (a *Agent) row(ctx context.Context) (journal.Row[task.Task], error) {
	row, err := a.Journal.Task(ctx, a.Task.ID)
	if err == nil && (row.Value.State.Terminal() || row.Value.Start != a.Task.Start) {
		err = ErrGone
	}
	return row, err
}

// takeMail moves what a boundary takes from the mailbox into the transcript, again when mail left the mailbox meanwhile
// because its time was over, or when there may be more that must not be delivered.
func (a *Agent) takeMail(ctx context.Context) error {
	for {
		more, err := a.takeOnce(ctx)
		if (err == nil && !more) || (err != nil && !errors.Is(err, errOvertaken)) {
			return err
		}
	}
}

// takeOnce is one commit of takeMail (D2). What must not be delivered any more is settled in it, too (M4, M6).
func (a *Agent) takeOnce(ctx context.Context) (more bool, err error) {
	taken, err := a.unread(ctx, a.turnOver || a.History.turn == 0)
	if err != nil || taken.Empty() {
		return false, err
	}
	inputs, err := a.inputs(ctx, taken.Mail())
	if err != nil {
		return false, err
	}
	b := a.batch()
	for _, share := range taken {
		if share.Empty() {
			continue
		}
		b.Settle(share.Box, share.From, append(share.Void, share.Mail...), share.Next)
		if err := a.Post.Lapsed(ctx, b, share.Box, share.Void); err != nil {
			return false, err
		}
		more = more || len(share.Void) > 0
	}
	b.Append(a.Task.ID, inputs...)
	if err := a.overtaken(ctx, a.Journal.Commit(ctx, b)); err != nil {
		return false, err
	}
	a.heard(taken.Mail())
	a.last = b.Last()
	for _, in := range inputs {
		a.turnOver = false
		a.History.Add(in)
	}
	return more, nil
}

// unread gives what the next boundary would take; turnOver when no turn is under way.
func (a *Agent) unread(ctx context.Context, turnOver bool) (team.Taken, error) {
	return a.mail().Take(ctx, mailbox.Boundary{Now: a.Now(), TurnOver: turnOver})
}

// mail is what the agent reads its mail with.
func (a *Agent) mail() team.Mail { return team.Mail{Journal: a.Journal, Task: a.Task} }

// batch starts a batch that only this loop may commit.
func (a *Agent) batch() *journal.Batch {
	b := a.Journal.Batch(a.Task.Team)
	b.GuardLive(a.Task.ID, a.LiveRev)
	for _, callID := range a.takeEnded() {
		b.DeleteProcess(a.Task.ID, callID)
	}
	return b
}

func (a *Agent) takeEnded() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	ended := a.ended
	a.ended = nil
	return ended
}

// ProcessStarted makes a process durable before it is let loose (T3).
func (a *Agent) ProcessStarted(ctx context.Context, callID string, p sandbox.Process) error {
	b := a.batch()
	b.PutProcess(a.Task.ID, callID, p)
	return gone(a.Journal.Commit(ctx, b))
}

// ProcessEnded lets the batch with the call's answer forget the process. When that never comes, the sweep at the next
// start finds nothing of it.
func (a *Agent) ProcessEnded(_ context.Context, callID string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = append(a.ended, callID)
	return nil
}

// commit writes entries and usage, and folds the entries once they are on disk.
func (a *Agent) commit(ctx context.Context, used task.Usage, bodies ...task.Body) error {
	for {
		err := a.commitOnce(ctx, used, bodies)
		if !errors.Is(err, errOvertaken) { // mail that is settled with the entries left the mailbox meanwhile
			return err
		}
	}
}

func (a *Agent) commitOnce(ctx context.Context, used task.Usage, bodies []task.Body) error {
	b := a.batch()
	b.Append(a.Task.ID, bodies...)
	if used != (task.Usage{}) {
		b.AddUsage(a.Task, used)
	}
	if err := a.settleNotices(ctx, b, bodies); err != nil {
		return err
	}
	if err := a.overtaken(ctx, a.Journal.Commit(ctx, b)); err != nil {
		return err
	}
	for _, body := range bodies {
		a.History.place(body, a.last)
		a.History.Add(body)
	}
	a.last = b.Last()
	return nil
}

// settleNotices takes the notices about tasks whose end the answers among the entries tell, in the same batch: an end is
// announced once (R6).
func (a *Agent) settleNotices(ctx context.Context, b *journal.Batch, bodies []task.Body) error {
	var ends []task.ID
	for _, body := range bodies {
		if r, ok := body.(*task.ToolResult); ok {
			ends = append(ends, r.Ends...)
		}
	}
	if len(ends) == 0 {
		return nil
	}
	for _, id := range a.mail().Boxes() {
		mail, box, err := a.Journal.Unread(ctx, a.Task.Team, id)
		if err != nil {
			return err
		}
		if settled, next := mailbox.Settle(box.Value, mail, ends); len(settled) > 0 {
			b.Settle(id, box, settled, next)
		}
	}
	return nil
}

// gone turns the conflict of a commit that was guarded by the live record alone into ErrGone.
func gone(err error) error {
	if errdefs.Is(err, errdefs.Conflict) {
		return ErrGone
	}
	return err
}
