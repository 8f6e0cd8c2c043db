package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/team"
)

// endTurn ends the task with the turn, in one commit with the last answer (D3). Mail that came meanwhile keeps the task
// going: then only the answer is committed.
func (a *Agent) endTurn(ctx context.Context, entry *task.Assistant) (ended bool, err error) {
	cut := ctx
	ctx = context.WithoutCancel(ctx) // what the turn gave is not lost to a stop
	var e ending
	if entry != nil {
		e.last, e.used = []task.Body{entry}, countStep(entry)
	}
	for {
		row, err := a.row(ctx)
		if err != nil {
			return false, err
		}
		on := false
		e.guard = nil
		e.finish, err = a.naturalEnd(ctx, row.Value, entry)
		if err == nil && e.finish.State == task.Completed {
			on, err = a.goesOn(cut, row.Value, &e)
		}
		if err == nil && !on {
			err = a.conclude(ctx, row, e)
		}
		if !errors.Is(err, errOvertaken) {
			return err == nil && !on, err
		}
	}
}

// conclude commits the end of a turn, which is the end of the task, or a teammate's rest.
func (a *Agent) conclude(ctx context.Context, row journal.Row[task.Task], e ending) error {
	if a.Task.Kind == task.Teammate && e.finish.State == task.Completed && row.Value.Stop == nil {
		return a.rest(ctx, row, e)
	}
	return a.finish(ctx, row, e)
}

// rest commits the end of a teammate's turn (D3), and what the leader learns of it. Mail that came meanwhile begins the next
// turn.
func (a *Agent) rest(ctx context.Context, row journal.Row[task.Task], e ending) error {
	taken, err := a.unread(ctx, true)
	if err != nil {
		return err
	}
	b := a.batch()
	after, err := task.Apply(row.Value, task.Rest{}, b.Now())
	if err != nil {
		return errOvertaken
	}
	e.guard.Add(b)
	b.Append(a.Task.ID, e.last...)
	b.RestTask(row, after, taken.Rouses())
	if a.History.stirred { // else there was no turn
		e.used.Turns++
		b.AddUsage(a.Task, e.used)
		if err := a.Post.Rested(ctx, b, row.Value, a.turnText(e.last), a.textAfter(e.last)); err != nil {
			return err
		}
	}
	err = a.overtaken(ctx, a.Journal.Commit(ctx, b))
	a.rested = err == nil
	return err
}

// restAgain is the rest of a teammate that was woken for nothing that it can still be given.
func (a *Agent) restAgain(ctx context.Context) (ended bool, err error) {
	for {
		row, err := a.row(ctx)
		if err != nil {
			return false, err
		}
		guard, err := a.mail().Revisions(ctx)
		if err != nil {
			return false, err
		}
		err = a.rest(ctx, row, ending{guard: guard})
		if !errors.Is(err, errOvertaken) {
			return err == nil, err
		}
		if row.Value.Stop != nil {
			return true, a.end(ctx, nil, task.Usage{}, row.Value.Stop.Finish())
		}
	}
}

// textAfter is the position of the transcript behind which the last text of the turn stands, or will.
func (a *Agent) textAfter(last []task.Body) task.Seq {
	speaks := slices.ContainsFunc(last, func(body task.Body) bool {
		answer, ok := body.(*task.Assistant)
		return ok && answer.Text != ""
	})
	if a.History.spoke == "" || speaks && !a.History.cut {
		return a.last
	}
	return a.History.before
}

// turnText is the last text of the turn, with the entries that are about to be committed.
func (a *Agent) turnText(last []task.Body) string {
	text := a.History.spoke
	for _, body := range last {
		if answer, ok := body.(*task.Assistant); ok && answer.Text != "" {
			text = a.History.said(answer.Text)
		}
	}
	return text
}

// ending is how a task ends.
type ending struct {
	finish  task.Finish
	last    []task.Body // entries that belong to it
	used    task.Usage
	verdict *verdict   // of the daemon's checks; nil: there were none
	guard   team.Guard // mail since then overtakes it; nil: none does
}

// goesOn keeps a task that has concluded going: for mail that came, for children that run, for checks that fail. These run
// when the last answer is on disk: it is paid for, and after a crash they run again without asking for another one. An agent
// whose single step this was has none left for mail, which is undeliverable.
func (a *Agent) goesOn(cut context.Context, t task.Task, e *ending) (bool, error) {
	ctx := context.WithoutCancel(cut)
	var err error
	if e.guard, err = a.mail().Revisions(ctx); err != nil {
		return false, err
	}
	if a.Task.Kind != task.Teammate { // which rests: mail begins its next turn, and its children live on
		if on, err := a.distracted(ctx, t, e); on || err != nil {
			return on, err
		}
	}
	switch {
	case !a.hasChecks():
		return false, nil
	case len(e.last) > 0:
		return true, a.commit(ctx, e.used, e.last...)
	case e.verdict == nil:
		if on, err := a.cutIn(ctx); on || err != nil {
			return on, err
		}
		if e.verdict, err = a.verify(cut); err == nil {
			err = errOvertaken // that took its time: what has happened meanwhile goes first
		}
		return false, err
	case e.verdict.reason != 0:
		return a.repair(ctx, t, e)
	}
	return false, nil
}

// cutIn keeps an agent going for mail that does not wait for the checks of what it has concluded.
func (a *Agent) cutIn(ctx context.Context) (bool, error) {
	taken, err := a.unread(ctx, true)
	if err != nil || a.History.wrapUp != 0 {
		return false, err
	}
	if !slices.ContainsFunc(taken.Mail(), func(m mailbox.Message) bool { return m.Delivery == mailbox.Interrupt }) {
		return false, nil
	}
	return true, a.goOn(ctx, task.Usage{}, nil)
}

// distracted keeps an agent going for mail that came, and for children that its end would end.
func (a *Agent) distracted(ctx context.Context, t task.Task, e *ending) (bool, error) {
	taken, err := a.unread(ctx, true)
	if err != nil {
		return false, err
	}
	if taken.Rouses() && a.History.wrapUp == 0 {
		return true, a.goOn(ctx, e.used, e.last)
	}
	return a.warnOfChildren(ctx, t, e)
}

// warnOfChildren tells an agent that the end of its turn ends the tasks that it started, and keeps it going: once, and again
// when it has started more. Near a limit it could do nothing about them any more, and ends. The limits count the last answer
// when it is on disk.
func (a *Agent) warnOfChildren(ctx context.Context, t task.Task, e *ending) (goesOn bool, err error) {
	if a.History.warned || a.History.wrapUp != 0 {
		return false, nil
	}
	living, err := a.children(ctx)
	switch {
	case err != nil || len(living) == 0:
		return false, err
	case len(e.last) > 0:
		return true, a.commit(ctx, e.used, e.last...)
	}
	if limit, err := a.nearest(ctx, t); limit != 0 || err != nil {
		return false, err
	}
	var ids []string
	for _, t := range living {
		ids = append(ids, string(t.ID))
	}
	return true, a.commit(ctx, task.Usage{}, &task.Notice{Text: childrenNotice + strings.Join(ids, ", ") + ". They are " +
		"stopped when you end. Wait for them with task_output, or conclude again if you do not need them."})
}

// children are the living tasks that the agent has started.
func (a *Agent) children(ctx context.Context) ([]task.Task, error) {
	var living []task.Task
	for id, err := range a.Journal.Children(ctx, a.Task.Team, a.Task.ID) {
		if err != nil {
			return nil, err
		}
		row, err := a.Journal.Task(ctx, id)
		if journal.IsLost(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if row.Value.CallID != "" && !row.Value.State.Terminal() {
			living = append(living, row.Value)
		}
	}
	return living, nil
}

// goOn commits a last answer that was none, because mail came.
func (a *Agent) goOn(ctx context.Context, used task.Usage, bodies []task.Body) error {
	if len(bodies) > 0 {
		if err := a.commit(ctx, used, bodies...); err != nil {
			return err
		}
	}
	a.History.fresh, a.turnOver = false, true
	return nil
}

// naturalEnd is what the end of the turn means for the task. One that has a single step is done when that gave its whole
// answer: it was asked to wrap up before it had begun, and nothing is missing. Without an entry the answer is on disk
// already, where only a whole one is put before the end.
func (a *Agent) naturalEnd(ctx context.Context, t task.Task, last *task.Assistant) (task.Finish, error) {
	single := t.Budget.MaxSteps == 1 || t.Budget.Steps == 1
	switch {
	case t.Stop != nil:
		return t.Stop.Finish(), nil
	case single && (last == nil || a.whole && last.Text != ""):
		return task.Finish{State: task.Completed, Reason: task.Done}, nil
	case a.History.wrapUp != 0:
		return a.failed(ctx, t, a.History.wrapUp)
	}
	return task.Finish{State: task.Completed, Reason: task.Done}, nil
}

// errOvertaken says that the task changed or got mail while its end was being written: decide again.
var errOvertaken = errors.New("overtaken")

// end commits a terminal change with the entries and usage that belong to it. A task that is being stopped ends as its stop
// says, whatever kept it from its wrap-up.
func (a *Agent) end(ctx context.Context, bodies []task.Body, used task.Usage, finish task.Finish) error {
	for {
		row, err := a.row(ctx)
		if err != nil {
			return err
		}
		e := ending{finish: finish, last: bodies, used: used}
		if stop := row.Value.Stop; stop != nil {
			e.finish = stop.Finish()
			e.finish.Error = cmp.Or(e.finish.Error, finish.Error)
		}
		err = a.finish(ctx, row, e)
		if !errors.Is(err, errOvertaken) {
			return err
		}
	}
}

// finish commits the end of the task and of its turn, or tells that it was overtaken.
func (a *Agent) finish(ctx context.Context, row journal.Row[task.Task], e ending) error {
	left, err := a.conclusion(ctx, e)
	if err != nil {
		return err
	}
	b := a.batch()
	after, err := task.Apply(row.Value, e.finish, b.Now())
	if err != nil {
		return err
	}
	e.guard.Add(b)
	b.Append(a.Task.ID, e.last...)
	e.used.Turns++
	b.AddUsage(a.Task, e.used)
	if err := a.Post.End(ctx, b, row, after, left); err != nil {
		return err
	}
	return a.overtaken(ctx, a.Journal.Commit(ctx, b))
}

// overtaken tells the conflict of a commit that ends the turn from the end of this loop.
func (a *Agent) overtaken(ctx context.Context, err error) error {
	if !errdefs.Is(err, errdefs.Conflict) {
		return err
	}
	live, liveErr := a.Journal.Live(ctx, a.Task.Team, a.Task.ID)
	switch {
	case errdefs.Is(liveErr, errdefs.RecordNotFound), liveErr == nil && live.Rev != a.LiveRev:
		return ErrGone
	case liveErr != nil:
		return liveErr
	}
	return errOvertaken
}

// interrupted is where a loop arrives whose ctx has ended. A stop keeps what there is and ends the task; anything else
// leaves the task at its last commit. Open calls are answered, so that the history stays valid.
func (a *Agent) interrupted(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	row, err := a.row(ctx)
	if err != nil {
		return err
	}
	if row.Value.Stop == nil || row.Value.Stop.Level < task.Cancel {
		return ErrDrained
	}
	bodies, used := a.remains("the task was stopped")
	return a.end(ctx, bodies, used, row.Value.Stop.Finish())
}

// isOurs tells errors of the store, or of this loop's end, which no answer to the model can cover.
func isOurs(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, ErrDrained) || journal.IsFault(err)
}
