package server

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/mailbox"
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

// assignmentOf unpacks a spawn. Its Caller is left to be set.
func assignmentOf(req *agentdv1.SpawnRequest) (task.Assignment, error) {
	spec := req.GetSingle()
	switch {
	case spec == nil:
		return task.Assignment{}, errdefs.BadField("mode", "is missing; set single")
	case req.GetDetach() && req.GetCancelOnDisconnect():
		return task.Assignment{}, errdefs.BadField("detach", "can't be combined with cancel_on_disconnect; set one of them")
	}
	budget, err := budgetOf(req)
	if err != nil {
		return task.Assignment{}, err
	}
	a := task.Assignment{
		RequestID: req.GetRequestId(), From: mailbox.FromUser, Team: req.GetTeam(), Workspace: req.GetWorkspace(),
		Parent: task.ID(req.GetParentTaskId()), Agent: spec.GetAgent(), Prompt: spec.GetPrompt(), Model: spec.GetModel(),
		Description: req.GetDescription(), Budget: budget, CancelOnDisconnect: req.GetCancelOnDisconnect(),
	}
	for _, in := range spec.GetInputs() {
		a.Inputs = append(a.Inputs, task.NamedText{Name: in.GetName(), Text: in.GetText(), TaskID: task.ID(in.GetTaskId())})
	}
	return a, nil
}

// budgetOf is the budget of a spawn, whose own timeout overrides the wall time.
func budgetOf(req *agentdv1.SpawnRequest) (task.Budget, error) {
	b := req.GetSingle().GetBudget()
	field, limit := "single.budget.wall_time", b.GetWallTime()
	if req.GetTimeout() != nil {
		field, limit = "timeout", req.GetTimeout()
	}
	wall, err := durationOf(field, limit)
	return task.Budget{
		MaxSteps: int(b.GetMaxSteps()), Steps: b.GetSteps(), Tokens: b.GetTokens(), WallTime: wall,
	}, err
}

// inRequest names the wrong field of an assignment as the spawn request has it.
func inRequest(err error, req *agentdv1.SpawnRequest) error {
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok || e.Field == "" {
		return err
	}
	field := e.Field
	switch head := field[:strings.IndexAny(field+".", ".[")]; {
	case field == "budget.wall_time" && req.GetTimeout() != nil:
		field = "timeout"
	case head == "agent", head == "prompt", head == "inputs", head == "model", head == "budget":
		field = "single." + field
	}
	named := *e
	named.Field = field
	if named.Subject == e.Field {
		named.Subject = field
	}
	if text, ok := strings.CutPrefix(e.Message, e.Field+": "); ok {
		named.Message = fmt.Sprintf("%s: %s", field, text)
	}
	return &named
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
	terminal, err := waitOf(req.GetWaitFor())
	return view.OutputRequest{
		TaskID: id, From: task.Seq(req.GetFromSeq()), Tail: int(req.GetTail()), Follow: req.GetFollow(),
		Deltas: req.GetDeltas(), Terminal: terminal, Timeout: timeout,
	}, err
}

// sendOf unpacks a message and the receipt to wait for. Its Caller is left to be set.
func sendOf(req *agentdv1.SendMessageRequest) (runtime.SendRequest, mailbox.State, error) {
	if req.GetBody() == nil {
		return runtime.SendRequest{}, 0, errdefs.BadField("body", "is missing; set text")
	}
	if err := checkDelivery(req.GetDelivery()); err != nil {
		return runtime.SendRequest{}, 0, err
	}
	until, err := untilOf(req.GetUntil())
	return runtime.SendRequest{
		RequestID: req.GetRequestId(), From: mailbox.FromUser, To: req.GetTo(), Text: req.GetText(),
	}, until, err
}

// stopOf unpacks a stop. Its Caller is left to be set.
func stopOf(req *agentdv1.TaskStopRequest) (runtime.StopRequest, error) {
	id, err := taskID(req.GetTaskId())
	if err != nil {
		return runtime.StopRequest{}, err
	}
	level, err := levelOf(req.GetLevel())
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
