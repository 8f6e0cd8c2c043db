package server

import (
	"math"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// proves T2, T4
func TestStopTeamStopsAllOfIt(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	client := agentdv1.NewTeamServiceClient(h.dial())
	ids := []string{h.detached("one"), h.detached("two")}
	_, spawn := h.follow(h.ctx(), h.group("three", "four"))
	for range 4 {
		<-m.begun
	}
	team, err := h.tasks.GetTask(h.ctx(), &agentdv1.GetTaskRequest{TaskId: ids[0]})
	must(t, err)
	req := &agentdv1.StopTeamRequest{
		RequestId: "once", Team: team.GetTask().GetTeam(), Level: agentdv1.StopLevel_STOP_LEVEL_CANCEL, Reason: "closing time",
	}
	items, err := all(client.StopTeam(h.ctx(), req))
	must(t, err)
	if last := items[len(items)-1].GetProgress(); last.GetTasksRemaining() != 0 || last.GetLevel() < req.GetLevel() {
		t.Errorf("the last progress: %v", last)
	}
	for _, id := range ids {
		if o := h.end(id); o.GetState() != agentdv1.TaskState_TASK_STATE_KILLED || o.GetError() != "closing time" {
			t.Errorf("%s: %v", id, o)
		}
	}
	group, err := all(spawn, nil)
	must(t, err)
	if o := group[len(group)-1].GetOutcome(); o.GetState() != agentdv1.TaskState_TASK_STATE_KILLED {
		t.Errorf("the group: %v", o)
	}
	items, err = all(client.StopTeam(h.ctx(), req))
	must(t, err)
	if len(items) != 1 || items[0].GetProgress().GetTasksRemaining() != 0 {
		t.Errorf("a retry: %v", items)
	}
	close(m.more)
}

func TestStopTeamRefusals(t *testing.T) {
	h := newHouse(t, says("done"))
	client := agentdv1.NewTeamServiceClient(h.dial())
	stop := func(req *agentdv1.StopTeamRequest) error {
		_, err := all(client.StopTeam(h.ctx(), req))
		return err
	}
	refused(t, stop(&agentdv1.StopTeamRequest{Team: "nobody"}), codes.NotFound, "TEAM_NOT_FOUND")
	bad := &durationpb.Duration{Seconds: math.MaxInt64}
	for want, req := range map[string]*agentdv1.StopTeamRequest{
		"team":            {},
		"level":           {Team: "nobody", Level: 9},
		"wrap_up_timeout": {Team: "nobody", WrapUpTimeout: bad},
		"cancel_timeout":  {Team: "nobody", CancelTimeout: &durationpb.Duration{Seconds: 3601}},
	} {
		if field := refused(t, stop(req), codes.InvalidArgument, "INVALID_ARGUMENT"); field != want {
			t.Errorf("the field is %q, want %q", field, want)
		}
	}
}
