package server

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/server/auth"
)

// agents is the AgentService.
type agents struct {
	agentdv1.UnimplementedAgentServiceServer
	supervisor *runtime.Supervisor
	view       *view.View
	log        *slog.Logger
}

// Spawn starts a task and follows it. The task belongs to the supervisor: a client that goes away ends it only when it
// asked for that (T6).
func (s agents) Spawn(req *agentdv1.SpawnRequest, stream grpc.ServerStreamingServer[agentdv1.SpawnResponse]) error {
	ctx := stream.Context()
	assignment, err := assignmentOf(req)
	if err != nil {
		return err
	}
	assignment.Caller = auth.CallerOf(ctx).String()
	if req.GetDetach() {
		id, err := s.supervisor.Spawn(ctx, assignment)
		if err != nil {
			return inRequest(err, req)
		}
		t, err := s.view.Task(ctx, id)
		if err != nil {
			return err
		}
		return stream.Send(spawnItem(view.Item{Task: &t}))
	}
	id, err := s.supervisor.SpawnAttached(ctx, assignment)
	if err != nil {
		return inRequest(err, req)
	}
	err = s.view.Output(ctx, view.OutputRequest{
		TaskID: id, Follow: true, Deltas: true, EndIdle: endsIdle(assignment),
	}, func(i view.Item) error { return sent(stream.Send(spawnItem(i))) })
	s.detach(ctx, id, clientLeft(ctx, err))
	return err
}

// endsIdle tells whether the stream of a spawn ends with its first turn: a teammate lives on, unless it is a lead that ends
// when its team is quiet.
func endsIdle(a task.Assignment) bool { return a.Teammate != nil && !a.Teammate.UntilQuiet }

// detach tells the supervisor that a client no longer follows its spawn.
func (s agents) detach(ctx context.Context, id task.ID, broke bool) {
	if err := s.supervisor.Detach(context.WithoutCancel(ctx), id, broke); err != nil {
		s.log.Error("the task of a client that left may run on", "task", id, "error", err)
	}
}

// TaskOutput reads a transcript.
func (s agents) TaskOutput(
	req *agentdv1.TaskOutputRequest, stream grpc.ServerStreamingServer[agentdv1.TaskOutputResponse],
) error {
	output, err := outputOf(req)
	if err != nil {
		return err
	}
	return s.view.Output(stream.Context(), output, func(i view.Item) error { return sent(stream.Send(outputItem(i))) })
}

// TaskStop ends a task and its children, and reports the end.
func (s agents) TaskStop(req *agentdv1.TaskStopRequest, stream grpc.ServerStreamingServer[agentdv1.TaskStopResponse]) error {
	ctx := stream.Context()
	stop, err := stopOf(req)
	if err != nil {
		return err
	}
	stop.Caller = auth.CallerOf(ctx).String()
	err = s.supervisor.Stop(ctx, stop, func(p runtime.StopProgress) error {
		return sent(stream.Send(&agentdv1.TaskStopResponse{
			Item: &agentdv1.TaskStopResponse_Progress{Progress: progressToWire(p)},
		}))
	})
	if err != nil {
		return err
	}
	t, err := s.view.Task(ctx, stop.TaskID)
	if err != nil {
		return err
	}
	return stream.Send(&agentdv1.TaskStopResponse{Item: &agentdv1.TaskStopResponse_Task{Task: taskToWire(t)}})
}
