package server

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

func TestStatusIsWhole(t *testing.T) {
	m := hold()
	h := newHouse(t, m)
	h.stalled.Store(true)
	id := h.detached("do it")
	<-m.begun
	got, err := h.daemon.GetStatus(h.ctx(), &agentdv1.GetStatusRequest{})
	must(t, err)
	if got.GetTasksRunning() != 1 {
		t.Errorf("%s runs, but the status says: %v", id, got)
	}
	noMissing(t, got, "agentd.v1.GetStatusResponse.tasks_queued", "agentd.v1.GetStatusResponse.tasks_stuck")
	close(m.more)
	h.end(id)
}

// proves D8
func TestHealthTellsOfTheStore(t *testing.T) {
	h := newHouse(t, says("done"))
	client := healthv1.NewHealthClient(h.dial())
	check := func(service string) healthv1.HealthCheckResponse_ServingStatus {
		got, err := client.Check(h.ctx(), &healthv1.HealthCheckRequest{Service: service})
		must(t, err)
		return got.GetStatus()
	}
	watch, err := client.Watch(h.ctx(), &healthv1.HealthCheckRequest{Service: StoreService})
	must(t, err)
	next := func() healthv1.HealthCheckResponse_ServingStatus {
		got, err := watch.Recv()
		must(t, err)
		return got.GetStatus()
	}
	for status := next(); status != healthv1.HealthCheckResponse_SERVING; {
		status = next()
	}
	h.stalled.Store(true)
	if got := next(); got != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("a stalled store is %s", got)
	}
	if got := check(""); got != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("a daemon with a stalled store is %s", got)
	}
	h.stalled.Store(false)
	if got := next(); got != healthv1.HealthCheckResponse_SERVING {
		t.Errorf("a store that commits again is %s", got)
	}
}

func TestReflectionListsTheServices(t *testing.T) {
	h := newHouse(t, says("done"))
	stream, err := reflectionv1.NewServerReflectionClient(h.dial()).ServerReflectionInfo(h.ctx())
	must(t, err)
	must(t, stream.Send(&reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}))
	got, err := stream.Recv()
	must(t, err)
	names := map[string]bool{}
	for _, s := range got.GetListServicesResponse().GetService() {
		names[s.GetName()] = true
	}
	for _, want := range []string{
		"agentd.v1.AgentService", "agentd.v1.TaskService", "agentd.v1.DaemonService", "grpc.health.v1.Health",
	} {
		if !names[want] {
			t.Errorf("%s is not listed among %v", want, names)
		}
	}
	must(t, stream.CloseSend())
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
}

// One call's panic ends neither the daemon nor its other calls, and what it says goes to the log alone.
func TestPanicIsAnErrorOfItsCall(t *testing.T) {
	h := newHouse(t, says("done"), func(c *Config) { c.View = nil })
	_, err := h.tasks.GetTask(h.ctx(), &agentdv1.GetTaskRequest{TaskId: "sub-1"})
	refused(t, err, codes.Internal, "INTERNAL")
	_, streamErr := all(h.agents.TaskOutput(h.ctx(), &agentdv1.TaskOutputRequest{TaskId: "sub-1"}))
	refused(t, streamErr, codes.Internal, "INTERNAL")
	if text := status.Convert(err).Proto().String(); strings.Contains(text, "nil pointer") {
		t.Errorf("the client is told: %s", text)
	}
	for _, text := range []string{
		`level=ERROR msg="call failed" method=/agentd.v1.TaskService/GetTask`,
		`level=ERROR msg="call failed" method=/agentd.v1.AgentService/TaskOutput`,
		"nil pointer", "tasks.go", "agents.go", // what, and the stack of each call
	} {
		h.await(text)
	}
	_, err = h.daemon.GetStatus(h.ctx(), &agentdv1.GetStatusRequest{})
	must(t, err)
}

func TestListPagesAndFilters(t *testing.T) {
	h := newHouse(t, says("done"))
	for n := range 3 {
		h.end(h.detached(fmt.Sprint("task ", n)))
	}
	var pages [][]*agentdv1.Task
	req := &agentdv1.ListTasksRequest{PageSize: 2}
	for {
		got, err := h.tasks.ListTasks(h.ctx(), req)
		must(t, err)
		pages = append(pages, got.GetTasks())
		if req.PageToken = got.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	if len(pages) != 2 || len(pages[0]) != 2 || len(pages[1]) != 1 || pages[1][0].GetDescription() != "task 2" {
		t.Errorf("pages: %v", pages)
	}
	for n, req := range map[int]*agentdv1.ListTasksRequest{
		0: {Living: true},
		3: {State: agentdv1.TaskState_TASK_STATE_COMPLETED, Kind: agentdv1.TaskKind_TASK_KIND_SUBAGENT},
	} {
		got, err := h.tasks.ListTasks(h.ctx(), req)
		must(t, err)
		if len(got.GetTasks()) != n {
			t.Errorf("%v lists %d tasks, want %d", req, len(got.GetTasks()), n)
		}
	}
}

func TestTasksRefuseWhatIsWrong(t *testing.T) {
	h := newHouse(t, says("done"))
	for field, req := range map[string]*agentdv1.ListTasksRequest{
		"page_size": {PageSize: 1001}, "page_token": {PageToken: "!"}, "kind": {Kind: 9}, "state": {State: 99},
	} {
		_, err := h.tasks.ListTasks(h.ctx(), req)
		if got := refused(t, err, codes.InvalidArgument, "INVALID_ARGUMENT"); got != field {
			t.Errorf("field %q, want %q", got, field)
		}
	}
	_, err := h.tasks.ListTasks(h.ctx(), &agentdv1.ListTasksRequest{Team: "nobody"})
	refused(t, err, codes.NotFound, "TEAM_NOT_FOUND")
	_, err = h.tasks.GetTask(h.ctx(), &agentdv1.GetTaskRequest{})
	if field := refused(t, err, codes.InvalidArgument, "INVALID_ARGUMENT"); field != "task_id" {
		t.Errorf("field: %q", field)
	}
	_, err = h.tasks.GetTask(h.ctx(), &agentdv1.GetTaskRequest{TaskId: "sub-999"})
	refused(t, err, codes.NotFound, "TASK_NOT_FOUND")
}
