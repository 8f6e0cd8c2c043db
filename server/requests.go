package server

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
)

// taskID is the id in the field task_id, which must be given.
func taskID(id string) (task.ID, error) {
	if id == "" {
		return "", errdefs.BadField("task_id", "is missing; give the id of a task")
	}
	return task.ID(id), nil
}

// durationOf is a duration in a field; 0 when it is not given.
func durationOf(field string, d *durationpb.Duration) (time.Duration, error) {
	if d == nil {
		return 0, nil
	}
	if err := d.CheckValid(); err != nil {
		return 0, errdefs.BadField(field, "is not a duration")
	}
	return d.AsDuration(), nil
}

// outputOf unpacks what of a transcript is wanted.
func outputOf(req *agentdv1.TaskOutputRequest) (view.OutputRequest, error) {
	id, err := taskID(req.GetTaskId())
	if err != nil {
		return view.OutputRequest{}, err
	}
	timeout, err := durationOf("timeout", req.GetTimeout())
	if err != nil {
		return view.OutputRequest{}, err
	}
	terminal, idle, err := waitOf(req.GetWaitFor())
	return view.OutputRequest{
		TaskID: id, From: task.Seq(req.GetFromSeq()), Tail: int(req.GetTail()), Follow: req.GetFollow(),
		Deltas: req.GetDeltas(), Terminal: terminal, Idle: idle, Timeout: timeout,
	}, err
}

// stopOf unpacks a stop. Its Caller is left to be set.
func stopOf(req *agentdv1.TaskStopRequest) (runtime.StopRequest, error) {
	id, err := taskID(req.GetTaskId())
	if err != nil {
		return runtime.StopRequest{}, err
	}
	level, err := levelOf(req.GetLevel(), task.WrapUp)
	if err != nil {
		return runtime.StopRequest{}, err
	}
	wrapUp, err := durationOf("wrap_up_timeout", req.GetWrapUpTimeout())
	if err != nil {
		return runtime.StopRequest{}, err
	}
	cancel, err := durationOf("cancel_timeout", req.GetCancelTimeout())
	return runtime.StopRequest{
		RequestID: req.GetRequestId(), TaskID: id, Level: level, WrapUp: wrapUp, Cancel: cancel, Reason: req.GetReason(),
	}, err
}

// stopTeamOf unpacks a team's stop. Its Caller is left to be set.
func stopTeamOf(req *agentdv1.StopTeamRequest) (runtime.StopTeamRequest, error) {
	level, err := levelOf(req.GetLevel(), task.WrapUp)
	if err != nil {
		return runtime.StopTeamRequest{}, err
	}
	wrapUp, err := durationOf("wrap_up_timeout", req.GetWrapUpTimeout())
	if err != nil {
		return runtime.StopTeamRequest{}, err
	}
	cancel, err := durationOf("cancel_timeout", req.GetCancelTimeout())
	return runtime.StopTeamRequest{
		RequestID: req.GetRequestId(), Team: req.GetTeam(), Level: level, WrapUp: wrapUp, Cancel: cancel,
		Reason: req.GetReason(),
	}, err
}

// filterOf unpacks which tasks are wanted.
func filterOf(req *agentdv1.ListTasksRequest) (view.Filter, error) {
	kind, err := kindOf(req.GetKind())
	if err != nil {
		return view.Filter{}, err
	}
	state, err := stateOf(req.GetState())
	return view.Filter{
		Team: req.GetTeam(), Kind: kind, State: state, Parent: task.ID(req.GetParentTaskId()), Living: req.GetLiving(),
		PageSize: int(req.GetPageSize()), PageToken: req.GetPageToken(),
	}, err
}
