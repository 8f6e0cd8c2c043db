package daemon_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// manyRules let an agent look, run a command, write and report, against a model that takes its time.
const manyRules = `
rules:
  - step: 1
    delay: 50ms
    tool_calls:
      - {name: ls, arguments: {}}
      - {name: grep, arguments: {pattern: needle}}
  - step: 2
    delay: 50ms
    agent: 'task id (sub-\d+)'
    tool_calls:
      - {name: bash, arguments: {command: "echo {{index .AgentMatch 1}} > {{index .AgentMatch 1}}.txt"}}
  - step: 3
    delay: 50ms
    agent: 'task id (sub-\d+)'
    tool_calls:
      - {name: read, arguments: {path: "{{index .AgentMatch 1}}.txt"}}
  - step: 4
    delay: 50ms
    tool_calls:
      - {name: report, arguments: {summary: done}}
`

// manyAgents is how many run at once: 200, or 60 with the race detector.
func manyAgents() int { return sized(200, 60) }

// maxResident bounds the daemon's memory in KiB, with room for the race detector.
const maxResident = 1 << 20

// minLists are answered meanwhile, however slow the machine is: a list that waits for all agents is the last one.
const minLists = 3

// TestManyAgents runs many agents at once: all finish, memory stays bounded, and lists are answered meanwhile.
func TestManyAgents(t *testing.T) {
	r := newRig(t, manyRules, manyAgents())
	if err := os.WriteFile(filepath.Join(r.workspace, "hay.txt"), []byte("needle\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &load{rig: r}
	ids := make([]string, manyAgents())
	var spawns sync.WaitGroup
	for i := range ids {
		spawns.Go(func() { ids[i] = l.spawn(fmt.Sprint("many-", i)) })
	}
	begun := time.Now()
	spawns.Wait()
	done := make(chan struct{})
	var lists int
	var slowest time.Duration
	var lister sync.WaitGroup
	lister.Go(func() { lists, slowest = r.listUntil(done) })
	for _, id := range ids {
		w := &watched{}
		l.follow(id, w)
		if w.outcome.GetReason() != agentdv1.TaskReason_TASK_REASON_DONE {
			t.Errorf("%s: %v", id, w.outcome)
		}
	}
	took := time.Since(begun)
	close(done)
	lister.Wait()
	resident := r.peakResident()
	if resident > maxResident {
		t.Errorf("the daemon took %d KiB; the bound is %d", resident, maxResident)
	}
	if lists < minLists {
		t.Errorf("%d lists were answered in %v, the slowest in %v", lists, took, slowest)
	}
	for _, rejection := range r.model.Rejections() {
		t.Errorf("the model refused a history: %s", rejection)
	}
	t.Logf("%d agents took %v; peak memory %d KiB; %d lists, the slowest %v", manyAgents(), took, resident, lists, slowest)
}

// listUntil lists the living tasks again and again, and tells how often and how long the slowest list took.
func (r *rig) listUntil(done <-chan struct{}) (lists int, slowest time.Duration) {
	for {
		begun := time.Now()
		_, err := r.tasks.ListTasks(context.Background(), &agentdv1.ListTasksRequest{Living: true, PageSize: 1000})
		if err != nil {
			r.t.Errorf("list: %v", err)
		}
		lists, slowest = lists+1, max(slowest, time.Since(begun))
		select {
		case <-done:
			return lists, slowest
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// peakResident is the most memory that the daemon's process took, in KiB.
func (r *rig) peakResident() int { return r.memory("VmHWM:") }
