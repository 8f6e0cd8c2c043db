package server

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime/task"
)

// proves T6
// case STP-5
func TestClientThatLeavesCancelsNothing(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	ctx, leave := context.WithCancel(h.ctx())
	id, stream := h.follow(ctx, h.request("do it"))
	other, err := h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{TaskId: id, Follow: true})
	must(t, err)
	_, err = other.Recv()
	must(t, err)
	leave()
	if _, err := all(stream, nil); err == nil {
		t.Error("the stream of the client that left ended well")
	}
	h.await("method=/agentd.v1.AgentService/Spawn") // the server has seen it too
	close(m.more)
	items, err := all(other, nil)
	must(t, err)
	if o := items[len(items)-1].GetOutcome(); o.GetState() != agentdv1.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("outcome: %v", o)
	}
}

// proves T6
func TestClientThatLeavesCancelsWhatItAskedToCancel(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	ctx, leave := context.WithCancel(h.ctx())
	req := h.request("do it")
	req.CancelOnDisconnect = true
	id, _ := h.follow(ctx, req)
	<-m.begun
	leave()
	if o := h.end(id); o.GetState() != agentdv1.TaskState_TASK_STATE_KILLED ||
		o.GetReason() != agentdv1.TaskReason_TASK_REASON_STOPPED_BY_CLIENT {
		t.Errorf("outcome: %v", o)
	}
}

// proves T6
// case STP-5: who repeats a spawn under its request id follows it too, and the task lives until the last one has left.
func TestClientThatLeavesOthersCancelsNothing(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	req := h.request("do it")
	req.CancelOnDisconnect, req.RequestId = true, "once"
	first, leaveFirst := context.WithCancel(h.ctx())
	id, _ := h.follow(first, req)
	second, leaveSecond := context.WithCancel(h.ctx())
	again, _ := h.follow(second, req)
	if again != id {
		t.Fatalf("the retry follows %s, not %s", again, id)
	}
	<-m.begun
	leaveFirst()
	h.await("method=/agentd.v1.AgentService/Spawn") // the server has seen it too
	got, err := h.view.Task(h.ctx(), task.ID(id))
	must(t, err)
	if got.Stop != nil || got.State != task.Running {
		t.Fatalf("one of two left, and it is %s, stop %+v", got.State, got.Stop)
	}
	leaveSecond()
	if o := h.end(id); o.GetState() != agentdv1.TaskState_TASK_STATE_KILLED {
		t.Errorf("outcome: %v", o)
	}
}

// A stop of the daemon is no departure of the client: it finds its task again.
//
// proves T6
func TestStopOfTheServerEndsStreamsNotTasks(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	req := h.request("do it")
	req.CancelOnDisconnect = true
	id, spawn := h.follow(h.ctx(), req)
	output, err := h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{TaskId: id, Follow: true})
	must(t, err)
	_, err = output.Recv()
	must(t, err)
	watch, err := healthv1.NewHealthClient(h.dial()).Watch(h.ctx(), &healthv1.HealthCheckRequest{})
	must(t, err)
	_, err = watch.Recv()
	must(t, err)
	h.stop()
	_, err = all(watch, nil)
	refused(t, err, codes.Unavailable, "SHUTTING_DOWN")
	_, err = all(spawn, nil)
	refused(t, err, codes.Unavailable, "SHUTTING_DOWN")
	_, err = all(output, nil)
	refused(t, err, codes.Unavailable, "SHUTTING_DOWN")
	got, err := h.view.Task(h.ctx(), "sub-1")
	must(t, err)
	if string(got.ID) != id || got.State.Terminal() || got.Stop != nil {
		t.Errorf("the task: %+v", got.Task)
	}
	close(m.more)
}
