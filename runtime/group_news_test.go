package runtime

import (
	"strings"
	"testing"
	"time"

	"github.com/agentd-dev/agentd/runtime/task"
)

// What a group tells of a task follows from what it told last: each change once, the start always.
func TestNews(t *testing.T) {
	const (
		queued, running, waiting, stopping = task.Queued, task.Running, task.Waiting, task.Stopping
		completed, failed, killed          = task.Completed, task.Failed, task.Killed
	)
	for _, tt := range []struct {
		told, now task.State
		started   bool
		want      string
	}{
		{0, 0, false, ""},
		{0, queued, false, ""},
		{0, running, true, "sub-1 started: what"},
		{0, waiting, true, "sub-1 started: what; sub-1 waits"},
		{0, completed, true, "sub-1 started: what; sub-1 completed"},
		{0, failed, true, "sub-1 started: what; sub-1 failed: TIMEOUT, late"},
		{0, killed, false, "sub-1 was stopped: TIMEOUT, late"}, // it never started
		{running, running, true, ""},
		{running, waiting, true, "sub-1 waits"},
		{waiting, running, true, "sub-1 goes on"},
		{waiting, stopping, true, "sub-1 is being stopped"},
		{stopping, killed, true, "sub-1 was stopped: TIMEOUT, late"},
		{running, failed, true, "sub-1 failed: TIMEOUT, late"},
		{killed, killed, true, ""},
	} {
		at := task.Task{ID: "sub-1", Description: "what", State: tt.now, Reason: task.Timeout, Error: "late"}
		if tt.started {
			at.Started = time.Unix(1, 0)
		}
		var lines []string
		last := tt.told
		for _, body := range news(at, tt.told) {
			n, ok := body.(*task.Notice)
			if !ok || n.TaskID != at.ID {
				t.Fatalf("from %s to %s: %+v", tt.told, tt.now, body)
			}
			lines, last = append(lines, n.Text), n.State
		}
		if got := strings.Join(lines, "; "); got != tt.want {
			t.Errorf("from %s to %s: %q, want %q", tt.told, tt.now, got, tt.want)
		}
		if len(lines) > 0 && last != tt.now {
			t.Errorf("from %s to %s the last notice says %s", tt.told, tt.now, last)
		}
	}
}
