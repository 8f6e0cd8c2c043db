package server

import (
	"context"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/view"
)

// tasks is the TaskService.
type tasks struct {
	agentdv1.UnimplementedTaskServiceServer
	view *view.View
}

// GetTask shows one task.
func (s tasks) GetTask(ctx context.Context, req *agentdv1.GetTaskRequest) (*agentdv1.GetTaskResponse, error) {
	id, err := taskID(req.GetTaskId())
	if err != nil {
		return nil, err
	}
	t, err := s.view.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	return &agentdv1.GetTaskResponse{Task: taskToWire(t)}, nil
}

// GetMessageReceipts tells how far a message has come.
func (s tasks) GetMessageReceipts(
	ctx context.Context, req *agentdv1.GetMessageReceiptsRequest,
) (*agentdv1.GetMessageReceiptsResponse, error) {
	if req.GetMessageId() == "" {
		return nil, errdefs.BadField("message_id", "is missing; give the id of a message")
	}
	receipts, err := s.view.MessageReceipts(ctx, req.GetMessageId())
	if err != nil {
		return nil, err
	}
	resp := &agentdv1.GetMessageReceiptsResponse{}
	for _, r := range receipts {
		resp.Receipts = append(resp.Receipts, receiptToWire(r))
	}
	return resp, nil
}

// ListTasks gives one page of tasks.
func (s tasks) ListTasks(ctx context.Context, req *agentdv1.ListTasksRequest) (*agentdv1.ListTasksResponse, error) {
	filter, err := filterOf(req)
	if err != nil {
		return nil, err
	}
	page, next, err := s.view.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	resp := &agentdv1.ListTasksResponse{NextPageToken: next}
	for _, t := range page {
		resp.Tasks = append(resp.Tasks, taskToWire(t))
	}
	return resp, nil
}
