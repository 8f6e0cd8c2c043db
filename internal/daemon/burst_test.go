package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// burstRules let a teammate think for a moment, so that its mail piles up.
const burstRules = `
default:
  delay: 20ms
  text: done
`

// case MSG-13, proves M2, M11: of ten thousand messages at once, or 2,500 with the race detector, each is delivered once, in its
// sender's order. What was refused at the mailbox's bound was not accepted: it is sent again.
func TestBurst(t *testing.T) {
	const senders = 50
	each := sized(200, 50)
	r := newRig(t, burstRules, 16)
	l := newLoad(r, 0)
	id := l.spawnMate("ann", "hello")
	var refused atomic.Int64
	var all sync.WaitGroup
	for n := range senders {
		all.Go(func() {
			for i := range each {
				refused.Add(r.insist("ann", fmt.Sprintf("burst-%d-%d.", n, i)))
			}
		})
	}
	all.Wait()
	r.quiet()
	got := map[string]int{} // how many of a sender stand in the transcript
	mark := regexp.MustCompile(`^burst-(\d+)-(\d+)\.$`)
	for _, e := range l.transcript(id) {
		m := mark.FindStringSubmatch(e.GetInput().GetText())
		if m == nil {
			continue
		}
		if m[2] != strconv.Itoa(got[m[1]]) {
			t.Errorf("of sender %s came message %s as number %d", m[1], m[2], got[m[1]])
		}
		got[m[1]]++
	}
	for n := range senders {
		if got[strconv.Itoa(n)] != each {
			t.Errorf("of sender %d %d messages of %d were delivered", n, got[strconv.Itoa(n)], each)
		}
	}
	t.Logf("%d messages, refused %d times, in %d requests to the model", senders*each, refused.Load(), r.model.Requests())
	if refused.Load() == 0 {
		t.Error("the bound was not reached")
	}
}

// insist sends a message to a name until it is accepted, and tells how often it was refused for a full mailbox.
func (r *rig) insist(to, text string) (refused int64) {
	for {
		err := r.write(to, text)
		if err == nil {
			return refused
		}
		if status.Code(err) != codes.ResourceExhausted {
			r.t.Error(err)
			return refused
		}
		refused++
		time.Sleep(10 * time.Millisecond)
	}
}

// write sends a message to a name, until it is accepted or refused.
func (r *rig) write(to, text string) error {
	stream, err := r.agents.SendMessage(context.Background(), &agentdv1.SendMessageRequest{
		To: to, Workspace: r.workspace, Body: &agentdv1.SendMessageRequest_Text{Text: text},
	})
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// transcript is a task's transcript as it is.
func (l *load) transcript(id string) []*agentdv1.Entry {
	w := &watched{}
	stream, err := l.rig.agents.TaskOutput(context.Background(), &agentdv1.TaskOutputRequest{TaskId: id})
	for err == nil {
		var item *agentdv1.TaskOutputResponse
		if item, err = stream.Recv(); err == nil {
			w.take(item)
		}
	}
	if !errors.Is(err, io.EOF) {
		l.rig.t.Errorf("the transcript of %s: %v", id, err)
	}
	return w.entries
}
