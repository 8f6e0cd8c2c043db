package runtime

import (
	"context"
	"time"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/agent"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// await waits until a task has ended, or come to rest, mail comes for the agent, or the timeout passes; 0 is none. Unless one of
// it is so already, the agent is WAITING meanwhile and holds no slot.
func (f *family) await(ctx context.Context, id task.ID, timeout time.Duration) (tool.WaitEnd, error) {
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	end, err := f.reached(ctx, id)
	if err != nil || end != 0 {
		return end, err
	}
	err = f.aside(ctx, func() (err error) {
		end, err = f.watch(ctx, id, over)
		return err
	})
	return end, err
}

// watch looks again at each change, until the wait is over.
func (f *family) watch(ctx context.Context, id task.ID, over <-chan time.Time) (tool.WaitEnd, error) {
	bell := f.s.cfg.Journal.Bell()
	defer bell.Close()
	bell.Transcript(f.task.Team, id)
	for _, box := range f.s.mailOf(f.task).Boxes() {
		bell.Mail(f.task.Team, box)
	}
	for {
		end, err := f.reached(ctx, id)
		if err != nil || end != 0 {
			return end, err
		}
		select {
		case <-bell.Rings():
		case <-over:
			return tool.TimeOver, nil
		case <-f.s.draining:
			return 0, agent.ErrDrained
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// reached tells whether a wait for a task is over by what the store says; 0 when it is not.
func (f *family) reached(ctx context.Context, id task.ID) (tool.WaitEnd, error) {
	row, err := f.s.cfg.Journal.Task(ctx, id)
	switch {
	case err != nil:
		return 0, err
	case row.Value.State.Terminal():
		return tool.TaskEnded, nil
	}
	if rests, err := f.s.rests(ctx, row.Value); err != nil || rests {
		return tool.TurnOver, err
	}
	news, err := f.news(ctx)
	if err == nil && news {
		return tool.MailCame, nil
	}
	return 0, err
}

// news tells whether there is mail for which the agent ends its wait: what it would be given at its next step, and goes on
// for. That a task has ended or come to rest which a call of the same step asks about is none: that call tells it.
func (f *family) news(ctx context.Context) (bool, error) {
	mail, err := f.s.mailOf(f.task).Rousing(ctx, f.s.cfg.Now())
	for _, m := range mail {
		if m.Delivery != mailbox.AtTurn && (m.About == "" || !f.knows(m.About)) {
			return true, nil
		}
	}
	return false, err
}

// Expect takes up which tasks the calls that start now ask about. What the calls before them have told is settled.
func (f *family) Expect(ids []task.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.known)
	for _, id := range ids {
		f.known[id] = true
	}
}

// learn takes up whether the end of a task is news.
func (f *family) learn(id task.ID, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[id] = known
}

func (f *family) knows(id task.ID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[id]
}

// aside waits while the agent is WAITING and holds no slot. However the wait ends, also by a panic, the agent runs again
// after it, unless the daemon stops.
func (f *family) aside(ctx context.Context, wait func() error) (err error) {
	if err := f.pause(ctx); err != nil {
		return err
	}
	defer func() {
		if back := f.proceed(ctx); back != nil {
			err = back
		}
	}()
	return wait()
}

// pause makes the agent WAITING and gives its slot back, when this is the first call of the step that waits.
func (f *family) pause(ctx context.Context) error {
	if err := f.takeTurn(ctx); err != nil {
		return err
	}
	defer f.giveTurn()
	if f.paused == 0 {
		if err := (pauser{f.s, f.loop}).Pause(ctx); err != nil {
			return err
		}
	}
	f.paused++
	return nil
}

// proceed takes a pause back: with the last one the agent runs again, once it has a slot. When the daemon stops it stays
// as it is.
func (f *family) proceed(ctx context.Context) error {
	if err := f.takeTurn(ctx); err != nil {
		return err
	}
	defer f.giveTurn()
	f.paused--
	switch {
	case f.paused > 0:
		return nil
	case f.s.isDraining():
		return agent.ErrDrained
	}
	return pauser{f.s, f.loop}.Proceed(ctx)
}

func (f *family) takeTurn(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *family) giveTurn() { <-f.turn }
