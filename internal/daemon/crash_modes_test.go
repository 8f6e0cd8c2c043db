package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// modeRules let agents work in small steps, and some delegate in every way.
const modeRules = `
rules:
  - user: '^work'
    step: 1
    agent: 'task id (sub-\d+)'
    delay: 5ms
    tool_calls:
      - {name: ls, arguments: {}}
      - {name: bash, arguments: {command: "echo {{index .AgentMatch 1}} 1 >> ran.log; sleep 0.0{{len .Last}}"}}
  - user: '^work'
    step: 2
    delay: 5ms
    text: the work is done
    tool_calls:
      - {name: report, arguments: {summary: worked}}
  - user: '^delegate'
    step: 1
    delay: 5ms
    tool_calls:
      - {name: subagent, arguments: {task: work alone}}
  - user: '^delegate'
    step: 2
    tool_calls:
      - {name: subagent, arguments: {tasks: [{task: work left}, {task: work right}], background: true}}
  - user: '^delegate'
    step: 3
    agent: 'task id (sub-\d+)'
    tool_calls:
      - {name: bash, arguments: {command: "echo {{index .AgentMatch 1}} shell >> ran.log; sleep 0.05", background: true}}
  - user: '^delegate'
    step: 4
    tool_calls:
      - {name: subagent, arguments: {chain: [{task: work first}, {task: "work after {previous}"}]}}
  - user: '^delegate'
    last: '<background-task-completed>'
    tool_calls:
      - {name: bash, arguments: {command: "sleep 0.01 # {{.Step}}"}}
  - user: '^delegate'
    step: 5
    text: Now I wait for what runs in the background.
  - user: '^delegate'
    step: 6
    tool_calls:
      - {name: bash, arguments: {command: "sleep 0.1 # {{.Step}}"}}
  - user: '^delegate'
    text: All that I gave away has come back.
default:
  text: I am done.
`

// TestCrashModes kills the daemon at random instants while groups, chains, shells and delegating agents run, and a watcher
// follows them all by its cursor.
//
// proves D4, D5, S1, S3, N4, O3, R6, T3; case STA-2, STA-5
func TestCrashModes(t *testing.T) {
	kills, seed := crashKills(t), crashSeed(t)
	t.Logf("AGENTD_CRASH_SEED=%d AGENTD_CRASH_KILLS=%d", seed, kills)
	fmt.Printf("TestCrashModes: AGENTD_CRASH_SEED=%d AGENTD_CRASH_KILLS=%d\n", seed, kills) // also when it passes
	r := newRig(t, modeRules, 32)
	if err := os.WriteFile(filepath.Join(r.workspace, "ran.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLoad(r, seed)
	w := newWatcher(r)
	ctx, stopWatching := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { w.run(ctx) })
	l.run(seed, kills, l.anyMode)
	l.checkTree(w)
	stopWatching()
	watching.Wait()
	l.check()
}

// anyMode is a spawn of any mode.
func (l *load) anyMode(request, _ string) *agentdv1.SpawnRequest {
	req := &agentdv1.SpawnRequest{RequestId: request, Workspace: l.rig.workspace, Detach: true}
	work := func(n int) (items []*agentdv1.AgentSpec) {
		for i := range n {
			prompt := fmt.Sprintf("work %s.%d", request, i)
			if i > 0 {
				prompt += " after {previous}"
			}
			items = append(items, &agentdv1.AgentSpec{Prompt: prompt})
		}
		return items
	}
	switch l.random(5) {
	case 0:
		req.Mode = &agentdv1.SpawnRequest_Parallel{Parallel: &agentdv1.Parallel{Items: work(4), MaxConcurrency: 2}}
	case 1:
		req.Mode = &agentdv1.SpawnRequest_Chain{Chain: &agentdv1.Chain{Items: work(3)}}
	case 2:
		req.Mode = &agentdv1.SpawnRequest_Shell{Shell: &agentdv1.Shell{
			Command: "echo " + request + " shell >> ran.log; for i in 1 2 3 4; do echo line $i; sleep 0.02; done",
		}}
	default:
		req.Mode = &agentdv1.SpawnRequest_Single{Single: &agentdv1.AgentSpec{Prompt: "delegate " + request}}
	}
	return req
}

// checkTree checks all tasks that there are, those that agents and groups spawned too: each has ended, once in its own
// transcript and once for the watcher, and an agent that completed was told once of each that it started.
func (l *load) checkTree(w *watcher) {
	t := l.rig.t
	tasks := l.all()
	whole := map[string]*watched{}
	for _, task := range tasks {
		whole[task.GetId()] = &watched{}
		l.follow(task.GetId(), whole[task.GetId()])
	}
	tasks = l.all() // as they are now
	w.await(len(tasks))
	for _, task := range tasks {
		id := task.GetId()
		if n := terminalEntries(whole[id]); n != 1 {
			t.Errorf("%s has %d terminal entries", id, n)
		}
		if n := w.endsOf(id); n != 1 {
			t.Errorf("the watcher saw %d ends of %s", n, id)
		}
	}
	l.checkTold(tasks, whole)
}

// checkTold: an agent is told once of the end of each task that it started and that ended before it.
func (l *load) checkTold(tasks []*agentdv1.Task, whole map[string]*watched) {
	byID := map[string]*agentdv1.Task{}
	for _, task := range tasks {
		byID[task.GetId()] = task
	}
	for _, child := range tasks {
		parent := byID[child.GetParentTaskId()]
		if parent.GetKind() != agentdv1.TaskKind_TASK_KIND_SUBAGENT {
			continue
		}
		told := 0
		for _, e := range whole[parent.GetId()].entries {
			told += strings.Count(e.GetInput().GetText(), "<task-id>"+child.GetId()+"</task-id>")
			told += strings.Count(e.GetToolResult().GetText(),
				fmt.Sprintf(`{"task_id":%q,"status":"%s"`, child.GetId(), endOf(child)))
		}
		completed := parent.GetState() == agentdv1.TaskState_TASK_STATE_COMPLETED
		before := child.GetEndedAt().AsTime().Before(parent.GetEndedAt().AsTime())
		if told > 1 || (told == 0 && completed && before) {
			l.rig.t.Errorf("%s was told %d times of the end of %s", parent.GetId(), told, child.GetId())
		}
	}
}

// endOf is the terminal state of a task as agents read it.
func endOf(t *agentdv1.Task) string {
	return strings.ToLower(strings.TrimPrefix(t.GetState().String(), "TASK_STATE_"))
}

func terminalEntries(w *watched) int {
	n := 0
	for _, e := range w.entries {
		if e.GetState().GetTo() >= agentdv1.TaskState_TASK_STATE_COMPLETED {
			n++
		}
	}
	return n
}

// all lists all tasks of the daemon.
func (l *load) all() []*agentdv1.Task {
	var tasks []*agentdv1.Task
	token := ""
	for {
		page, err := l.rig.tasks.ListTasks(context.Background(), &agentdv1.ListTasksRequest{PageSize: 1000, PageToken: token})
		if err != nil {
			l.rig.t.Fatal(err)
		}
		tasks = append(tasks, page.GetTasks()...)
		if token = page.GetNextPageToken(); token == "" {
			return tasks
		}
	}
}

// watcher follows the events of the whole daemon over all restarts.
type watcher struct {
	rig    *rig
	events agentdv1.EventServiceClient
	cursor string

	mu   sync.Mutex
	ends map[string]int // terminal events by task
	more chan struct{}  // closed at the next one
}

// newWatcher stands before the first event.
func newWatcher(r *rig) *watcher {
	w := &watcher{rig: r, events: agentdv1.NewEventServiceClient(r.conn), ends: map[string]int{}, more: make(chan struct{})}
	stream, err := w.events.Watch(context.Background(), &agentdv1.WatchRequest{})
	if err == nil {
		var item *agentdv1.WatchResponse
		if item, err = stream.Recv(); err == nil {
			w.cursor = item.GetCursor()
		}
	}
	if err != nil || w.cursor == "" {
		r.t.Fatalf("the first item of a watch: %v", err)
	}
	return w
}

// run watches until ctx ends, reconnecting with its cursor.
func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		stream, err := w.events.Watch(ctx, &agentdv1.WatchRequest{Cursor: w.cursor}, grpc.WaitForReady(true))
		for err == nil {
			var item *agentdv1.WatchResponse
			if item, err = stream.Recv(); err == nil {
				w.take(item)
			}
		}
		if !again(err) {
			w.rig.t.Errorf("watch: %v", err)
			return
		}
	}
}

func (w *watcher) take(item *agentdv1.WatchResponse) {
	w.cursor = item.GetCursor()
	if item.GetGap() != nil {
		w.rig.t.Errorf("events are missing: %s", item.GetGap().GetReason())
	}
	if item.GetEvent().GetState().GetTo() < agentdv1.TaskState_TASK_STATE_COMPLETED {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[item.GetEvent().GetTaskId()]++
	close(w.more)
	w.more = make(chan struct{})
}

// await waits until the watcher has seen the ends of so many tasks.
func (w *watcher) await(tasks int) {
	patience := time.After(time.Minute)
	for {
		w.mu.Lock()
		seen, more := len(w.ends), w.more
		w.mu.Unlock()
		if seen >= tasks {
			return
		}
		select {
		case <-more:
		case <-patience:
			w.rig.t.Errorf("the watcher saw the ends of %d tasks of %d", seen, tasks)
			return
		}
	}
}

func (w *watcher) endsOf(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ends[id]
}
