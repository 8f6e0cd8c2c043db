package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/agentd-dev/agentd/internal/lifecycle"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// How often the live view asks the daemon, and how long it waits for what ends with it.
const (
	lookEvery  = 500 * time.Millisecond
	liveBudget = 5 * time.Second
)

// maxPage is the most tasks that the daemon lists at once.
const maxPage = 1000

// canShowLive tells whether a command that follows an agent or a group shows the live view: people look at a terminal.
func (a *app) canShowLive(s *spawnFlags) bool {
	return !a.json && !s.plain && !s.detach && !s.shell && os.Getenv("TERM") != "dumb" && isTerminal(a.err)
}

// followLive follows a task with the live view at the bottom of the terminal; what is told meanwhile scrolls above it.
func (a *app) followLive(ctx context.Context, f *follower) (err error) {
	looker := *a // it must neither start a daemon nor tell anything: the follower does
	looker.noStart, looker.err = true, io.Discard
	v := &live{app: &looker, met: make(chan struct{})}
	v.screen = newScreen(a.err, os.Getenv("NO_COLOR") == "", v.lines)

	out, errOut := a.out.w, a.err
	a.err = above{v.screen, errOut}
	if isTerminal(out) {
		a.out.w = above{v.screen, out}
	}
	show := f.show
	f.show = func(it item) error {
		v.meet(it)
		return show(it)
	}
	defer func() { a.out.w, a.err, f.show = out, errOut, show }()

	quiet := slog.New(slog.DiscardHandler)
	failed := lifecycle.Run(ctx, quiet,
		lifecycle.Part{Name: "screen", Run: v.screen.run, StopBudget: liveBudget},
		lifecycle.Part{Name: "look", Run: v.look, StopBudget: liveBudget},
		lifecycle.Part{Name: "follow", StopBudget: liveBudget, Run: func(ctx context.Context) error {
			err = f.follow(ctx)
			return nil
		}},
	)
	switch {
	case failed != nil:
		return failed
	case err == nil && !f.over(): // ctx ended before it began
		return ctx.Err()
	}
	return err
}

// live is what is known of a task and those below it while they work.
type live struct {
	app    *app
	screen *screen

	met chan struct{} // closed when the stream has told the root

	mu    sync.Mutex
	tasks []*agentdv1.Task // as they were last told, the root first; none before the daemon told it
	ended bool             // the root has ended
}

// meet takes what the stream tells of the tasks: the root, its state, its end, and the children of a group, which may be
// over before anybody asks for them.
func (v *live) meet(it item) {
	v.mu.Lock()
	defer v.mu.Unlock()
	state, notice := it.GetEntry().GetState(), it.GetEntry().GetNotice()
	switch {
	case v.tasks == nil:
		if it.GetTask() != nil {
			v.tasks = []*agentdv1.Task{it.GetTask()}
			close(v.met)
		}
	case state != nil:
		root := proto.CloneOf(v.tasks[0])
		root.State, root.QueuePosition, root.Activity = state.GetTo(), 0, ""
		v.tasks = merge(v.tasks, []*agentdv1.Task{root})
	case notice.GetTaskId() != "":
		child := &agentdv1.Task{Id: notice.GetTaskId(), ParentTaskId: v.tasks[0].GetId(), CreatedAt: it.GetEntry().GetTime()}
		if i := slices.IndexFunc(v.tasks, func(t *agentdv1.Task) bool { return t.GetId() == child.GetId() }); i >= 0 {
			child = proto.CloneOf(v.tasks[i])
		}
		child.State = notice.GetState()
		v.tasks = merge(v.tasks, []*agentdv1.Task{child})
	case it.GetOutcome() != nil:
		v.ended = true
	}
}

// lines is the block for a screen.
func (v *live) lines(width, height int) []line {
	tasks, _ := v.seen()
	return draw(tasks, width, height, time.Now())
}

// seen gives the tasks, and whether it is worth asking for them.
func (v *live) seen() (tasks []*agentdv1.Task, ask bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.tasks, v.tasks != nil && !v.ended
}

// learn takes how tasks are now.
func (v *live) learn(now []*agentdv1.Task) {
	v.mu.Lock()
	v.tasks = merge(v.tasks, now)
	v.mu.Unlock()
	v.screen.touch()
}

// merge puts newer tasks in the places of those that they were, and what is new behind all.
func merge(tasks, newer []*agentdv1.Task) []*agentdv1.Task {
	var merged []*agentdv1.Task
	place := map[string]int{}
	for _, task := range slices.Concat(tasks, newer) {
		if i, ok := place[task.GetId()]; ok {
			merged[i] = task
			continue
		}
		place[task.GetId()] = len(merged)
		merged = append(merged, task)
	}
	return merged
}

// look asks the daemon again and again how the tasks are, while there is something to see.
func (v *live) look(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-v.met:
	}
	for ctx.Err() == nil {
		// A daemon that went away comes back, or the follower tells.
		_ = v.app.attempt(ctx, func(c *client) error {
			for {
				if tasks, ask := v.seen(); ask {
					now, err := glance(ctx, c, tasks)
					if err != nil {
						return err
					}
					v.learn(now)
				}
				if !pause(ctx, lookEvery) {
					return ctx.Err()
				}
			}
		})
		pause(ctx, 2*lookEvery)
	}
	return nil
}

// pause waits; false means that ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// glance asks how tasks are and which ones are new below them, or in the team of a lead: one list, and one look at each that
// is no longer in it.
func glance(ctx context.Context, c *client, seen []*agentdv1.Task) ([]*agentdv1.Task, error) {
	list, err := c.tasks.ListTasks(ctx, &agentdv1.ListTasksRequest{Team: seen[0].GetTeam(), Living: true, PageSize: maxPage})
	if err != nil {
		return nil, err
	}
	living, below := map[string]*agentdv1.Task{}, map[string]bool{}
	for _, task := range list.GetTasks() {
		living[task.GetId()] = task
	}
	var tasks []*agentdv1.Task
	for _, task := range seen {
		below[task.GetId()] = true
		if now := living[task.GetId()]; now != nil {
			task = now
		} else if task.GetEndedAt() == nil {
			now, err := c.tasks.GetTask(ctx, &agentdv1.GetTaskRequest{TaskId: task.GetId()})
			if err != nil {
				return nil, err
			}
			task = now.GetTask()
		}
		tasks = append(tasks, task)
	}
	led := seen[0].GetName() == leadName
	for _, task := range list.GetTasks() { // parents come before their children
		mate := led && task.GetKind() == agentdv1.TaskKind_TASK_KIND_TEAMMATE
		if (below[task.GetParentTaskId()] || mate) && !below[task.GetId()] {
			below[task.GetId()] = true
			tasks = append(tasks, task)
		}
	}
	return tasks, nil
}
