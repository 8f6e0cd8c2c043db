package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// daemon answers as agentd does, from a script: the prompt names what happens. The real daemon takes its place in the
// end-to-end scripts; this one can break at any chosen place.
type daemon struct {
	agentdv1.UnimplementedAgentServiceServer
	agentdv1.UnimplementedTaskServiceServer
	agentdv1.UnimplementedTeamServiceServer
	agentdv1.UnimplementedEventServiceServer
	agentdv1.UnimplementedDaemonServiceServer

	mu       sync.Mutex
	calls    int      // of mutations, for those that fail at first
	requests []string // request ids of mutations, in order
	spawned  *agentdv1.SpawnRequest
	stalled  bool // as the status tells, after a prompt that asks for it
	listed   listed
	asked    proto.Message // about a team or a message, last
	exports  int
}

// serve starts the fake on the default socket beneath the runtime directory.
func (d *daemon) serve(t testing.TB, runtimeDir string) string {
	t.Helper()
	dir := filepath.Join(runtimeDir, "agentd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "agentd.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	agentdv1.RegisterAgentServiceServer(server, d)
	agentdv1.RegisterTaskServiceServer(server, d)
	agentdv1.RegisterTeamServiceServer(server, d)
	agentdv1.RegisterEventServiceServer(server, d)
	agentdv1.RegisterDaemonServiceServer(server, d)
	go func() { _ = server.Serve(listener) }() // until Stop
	t.Cleanup(server.Stop)
	return socket
}

// mutation notes a request id and counts the calls.
func (d *daemon) mutation(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	d.requests = append(d.requests, id)
	return d.calls
}

func (d *daemon) requestIDs() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.requests...)
}

func refused(code codes.Code, reason, message string) error {
	return refusedOf("", code, reason, message)
}

// refusedOf is a refusal that tells what it is about.
func refusedOf(subject string, code codes.Code, reason, message string) error {
	s, err := status.New(code, message).WithDetails(&errdetails.ErrorInfo{
		Reason: reason, Domain: "agentd.dev", Metadata: map[string]string{"subject": subject},
	})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func at(seconds int) *timestamppb.Timestamp {
	return timestamppb.New(time.Date(2026, 1, 2, 3, 4, seconds, 0, time.UTC))
}

func fakeTask(state agentdv1.TaskState) *agentdv1.Task {
	return &agentdv1.Task{
		Id: "sub-1", Team: "shop", Kind: agentdv1.TaskKind_TASK_KIND_SUBAGENT, Agent: "general", State: state,
		Description: "Fix it", Workspace: "/w", Incarnation: 1, CreatedAt: at(0), Activity: "bash: sh test.sh",
		Usage: &agentdv1.Usage{InputTokens: 1000, OutputTokens: 234},
	}
}

// fakeEntries is a short life of a task.
func fakeEntries() []*agentdv1.Entry {
	return []*agentdv1.Entry{
		{Seq: 1, Time: at(0), Body: &agentdv1.Entry_Input{Input: &agentdv1.Input{From: "user", Text: "Fix it"}}},
		{Seq: 2, Time: at(1), Body: &agentdv1.Entry_State{State: &agentdv1.StateChange{
			From: agentdv1.TaskState_TASK_STATE_QUEUED, To: agentdv1.TaskState_TASK_STATE_RUNNING}}},
		{Seq: 5, Time: at(3), Body: &agentdv1.Entry_Assistant{Assistant: &agentdv1.Assistant{Step: 1,
			Text:      "I run the test.\nThen I see.",
			ToolCalls: []*agentdv1.ToolCall{{Id: "c1", Name: "bash", Arguments: `{"command":"sh test.sh","timeout_ms":1000}`}},
			Usage:     &agentdv1.Usage{InputTokens: 2000, OutputTokens: 100}}}},
		{Seq: 7, Time: at(9), Body: &agentdv1.Entry_ToolResult{ToolResult: &agentdv1.ToolResult{CallId: "c1", Tool: "bash",
			Text: "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n\x1b[31mFAIL\n"}}},
		{Seq: 8, Time: at(10), Body: &agentdv1.Entry_ToolResult{ToolResult: &agentdv1.ToolResult{CallId: "c2", Tool: "read",
			IsError: true, Text: `{"reason":"NOT_FOUND","message":"no such file","subject":"x"}`}}},
		{Seq: 9, Time: at(12), Body: &agentdv1.Entry_Assistant{Assistant: &agentdv1.Assistant{Step: 2, Text: "Done.",
			Usage: &agentdv1.Usage{InputTokens: 3000, OutputTokens: 10}}}},
	}
}

func fakeOutcome(state agentdv1.TaskState, reason agentdv1.TaskReason) *agentdv1.Outcome {
	return &agentdv1.Outcome{
		TaskId: "sub-1", State: state, Reason: reason, Summary: "The bug is fixed.", Changes: []string{"price.sh"},
		Findings: []*agentdv1.Finding{{Title: "Wrong sign", Path: "price.sh", Line: 3, Detail: "It added\nthe discount."}},
		Usage:    &agentdv1.Usage{InputTokens: 5000, OutputTokens: 110, Steps: 2, ToolCalls: 2, WallTime: durationpb.New(12 * time.Second)},
	}
}

func done() *agentdv1.Outcome {
	return fakeOutcome(agentdv1.TaskState_TASK_STATE_COMPLETED, agentdv1.TaskReason_TASK_REASON_DONE)
}

func (d *daemon) Spawn(req *agentdv1.SpawnRequest, stream grpc.ServerStreamingServer[agentdv1.SpawnResponse]) error {
	calls := d.mutation(req.GetRequestId())
	d.mu.Lock()
	d.spawned = req
	d.mu.Unlock()
	prompt := promptOf(req)
	switch {
	case prompt == "a lead lives":
		return refusedOf(leadName, codes.AlreadyExists, "NAME_TAKEN", "there is a teammate named team-lead already")
	case prompt == "no model":
		return refused(codes.FailedPrecondition, "MODEL_NOT_CONFIGURED", "no model: start agentd with --model or set AGENTD_MODEL")
	case prompt == "too much":
		return refused(codes.PermissionDenied, "GRANT_EXCEEDED", "not granted: tools bash")
	case prompt == "full":
		return refused(codes.ResourceExhausted, "MAILBOX_FULL", "the queue is full")
	case prompt == "stalled":
		d.mu.Lock()
		d.stalled = true
		d.mu.Unlock()
		return refused(codes.Unavailable, "STORE_STALLED", "the disk is full")
	case prompt == "lost at first" && calls < 3:
		return status.Error(codes.Unavailable, "going down")
	}
	if p, ok := modePlay(req); ok {
		return p.spawn(req.GetDetach(), stream)
	}
	send := func(r *agentdv1.SpawnResponse) { _ = stream.Send(r) }
	task := fakeTask(agentdv1.TaskState_TASK_STATE_QUEUED)
	task.Id, task.Name = idOf(req), nameOf(req)
	send(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Task{Task: task}})
	if req.GetDetach() {
		return nil
	}
	for i, entry := range fakeEntries() {
		if strings.HasPrefix(prompt, "break") && i == 3 && (prompt == "break" || calls == 1) {
			return status.Error(codes.Unavailable, "error reading from server: EOF")
		}
		if prompt == "hang" && i == 3 {
			<-stream.Context().Done()
			return nil
		}
		send(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Heartbeat{Heartbeat: &agentdv1.Heartbeat{Time: at(0)}}})
		send(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Entry{Entry: entry}})
	}
	if req.GetTeammate() != nil || req.GetLead() != nil && !req.GetLead().GetUntilQuiet() {
		send(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Idle{Idle: &agentdv1.Idle{TaskId: task.GetId(), Seq: 9, Text: "Done."}}})
		return nil
	}
	outcome := done()
	switch prompt {
	case "fail":
		outcome = fakeOutcome(agentdv1.TaskState_TASK_STATE_FAILED, agentdv1.TaskReason_TASK_REASON_TIMEOUT)
		outcome.Error = "the time ran out"
	case "kill":
		outcome = fakeOutcome(agentdv1.TaskState_TASK_STATE_KILLED, agentdv1.TaskReason_TASK_REASON_STOPPED_BY_CLIENT)
	}
	outcome.TaskId = task.GetId()
	send(&agentdv1.SpawnResponse{Item: &agentdv1.SpawnResponse_Outcome{Outcome: outcome}})
	return nil
}

func (d *daemon) TaskOutput(req *agentdv1.TaskOutputRequest, stream grpc.ServerStreamingServer[agentdv1.TaskOutputResponse]) error {
	if p, ok := endedPlay(req.GetTaskId()); ok {
		return p.output(stream)
	}
	if req.GetTaskId() != "sub-1" && !strings.HasPrefix(req.GetTaskId(), "tm-") {
		return refused(codes.NotFound, "TASK_NOT_FOUND", "no task "+req.GetTaskId())
	}
	d.mu.Lock()
	broken := d.spawned.GetSingle().GetPrompt() == "break"
	d.mu.Unlock()
	if broken && req.GetFromSeq() != 6 {
		return status.Errorf(codes.InvalidArgument, "goes on from %d, not from 6", req.GetFromSeq())
	}
	if req.GetFromSeq() > 100 {
		return refused(codes.OutOfRange, "SEQ_OUT_OF_RANGE", "the transcript ends at 9")
	}
	living := fakeTask(agentdv1.TaskState_TASK_STATE_RUNNING)
	living.Id = req.GetTaskId()
	_ = stream.Send(&agentdv1.TaskOutputResponse{Item: &agentdv1.TaskOutputResponse_Task{Task: living}})
	if req.GetTimeout() != nil {
		_ = stream.Send(&agentdv1.TaskOutputResponse{Item: &agentdv1.TaskOutputResponse_Task{Task: living}})
		return nil
	}
	entries := fakeEntries()
	if tail := int(req.GetTail()); tail > 0 {
		entries = entries[len(entries)-tail:]
	}
	for _, entry := range entries {
		if req.GetDeltas() && entry.GetAssistant() != nil {
			text, step := entry.GetAssistant().GetText(), entry.GetAssistant().GetStep()
			for _, delta := range []*agentdv1.Delta{
				{Step: step, Attempt: 1, Content: &agentdv1.Delta_Text{Text: "I th"}},
				{Step: step, Attempt: 1, Content: &agentdv1.Delta_Reset_{Reset_: true}},
				{Step: step, Attempt: 2, Content: &agentdv1.Delta_Text{Text: text[:4]}},
				{Step: step, Attempt: 2, Content: &agentdv1.Delta_Text{Text: text[4:]}},
			} {
				_ = stream.Send(&agentdv1.TaskOutputResponse{Item: &agentdv1.TaskOutputResponse_Delta{Delta: delta}})
			}
		}
		if entry.GetSeq() >= req.GetFromSeq() {
			_ = stream.Send(&agentdv1.TaskOutputResponse{Item: &agentdv1.TaskOutputResponse_Entry{Entry: entry}})
		}
	}
	if req.GetWaitFor() == agentdv1.WaitFor_WAIT_FOR_IDLE {
		return stream.Send(&agentdv1.TaskOutputResponse{Item: &agentdv1.TaskOutputResponse_Idle{Idle: &agentdv1.Idle{
			TaskId: req.GetTaskId(), Seq: 9, Text: "Done."}}})
	}
	if req.GetFollow() || req.GetWaitFor() != agentdv1.WaitFor_WAIT_FOR_UNSPECIFIED {
		_ = stream.Send(&agentdv1.TaskOutputResponse{Item: &agentdv1.TaskOutputResponse_Outcome{Outcome: done()}})
	}
	return nil
}

func (d *daemon) TaskStop(req *agentdv1.TaskStopRequest, stream grpc.ServerStreamingServer[agentdv1.TaskStopResponse]) error {
	calls := d.mutation(req.GetRequestId())
	_ = stream.Send(&agentdv1.TaskStopResponse{Item: &agentdv1.TaskStopResponse_Progress{Progress: &agentdv1.StopProgress{
		Level: max(req.GetLevel(), agentdv1.StopLevel_STOP_LEVEL_WRAP_UP), TasksRemaining: 1}}})
	if req.GetReason() == "lost at first" && calls == 1 {
		return status.Error(codes.Unavailable, "going down")
	}
	task := fakeTask(agentdv1.TaskState_TASK_STATE_KILLED)
	task.Id, task.Reason = req.GetTaskId(), agentdv1.TaskReason_TASK_REASON_STOPPED_BY_CLIENT
	_ = stream.Send(&agentdv1.TaskStopResponse{Item: &agentdv1.TaskStopResponse_Task{Task: task}})
	return nil
}

// ListTasks has three tasks on two pages, in the workspace of the last spawn, or on one that is asked for; the last has ended.
func (d *daemon) ListTasks(_ context.Context, req *agentdv1.ListTasksRequest) (*agentdv1.ListTasksResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var tasks []*agentdv1.Task
	if req.GetPageToken() == "" {
		running := fakeTask(agentdv1.TaskState_TASK_STATE_RUNNING)
		running.Activity = "bash: printf '\x1b[2J'"
		running.Usage.Steps, running.Usage.CostUsd = 7, 0.5
		if d.spawned != nil {
			running.Workspace = d.spawned.GetWorkspace()
			running.Id, running.Name = idOf(d.spawned), nameOf(d.spawned)
		}
		if req.GetPageSize() == 0 {
			return &agentdv1.ListTasksResponse{Tasks: []*agentdv1.Task{running}, NextPageToken: "2"}, nil
		}
		tasks = append(tasks, running)
	}
	if d.spawned.GetDescription() == "the team works elsewhere too" {
		elsewhere := fakeTask(agentdv1.TaskState_TASK_STATE_RUNNING)
		elsewhere.Id, elsewhere.Workspace = "sub-9", "/elsewhere"
		tasks = append(tasks, elsewhere)
	}
	queued := fakeTask(agentdv1.TaskState_TASK_STATE_QUEUED)
	queued.Id, queued.Activity, queued.ParentTaskId, queued.QueuePosition = "sub-2", "", idOf(d.spawned), 3
	tasks = append(tasks, queued)
	if d.spawned.GetLead() != nil {
		tasks = append(tasks, lisa().GetTask())
	}
	if !req.GetLiving() {
		ended := fakeTask(agentdv1.TaskState_TASK_STATE_FAILED)
		ended.Id, ended.EndedAt = "sub-3", at(42)
		ended.Error = "too slow" + strings.Repeat(" ", 5<<20) // a page may have more than gRPC's usual 4 MiB
		ended.Reason = agentdv1.TaskReason_TASK_REASON_TIMEOUT
		tasks = append(tasks, ended)
	}
	return &agentdv1.ListTasksResponse{Tasks: tasks}, nil
}

func (d *daemon) GetStatus(context.Context, *agentdv1.GetStatusRequest) (*agentdv1.GetStatusResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &agentdv1.GetStatusResponse{
		Version: "v1", Pid: 7, StartedAt: at(0), StateDir: "/state", Listen: []string{"unix:///s"}, StoreId: "abc",
		Store: &agentdv1.StoreStatus{SizeBytes: 4096, Stalled: d.stalled}, Model: &agentdv1.ModelStatus{Hint: "start agentd with --model"},
		TasksRunning: 2, AutoStarted: true, Providers: []*agentdv1.ProviderStatus{
			{Name: "other", BaseUrl: "https://other/v1", ApiKeyEnv: "OTHER_KEY", Models: []string{"m2", "m3"}},
			{Name: "local", BaseUrl: "http://local/v1"},
		},
	}, nil
}
