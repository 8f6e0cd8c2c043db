package server

import (
	"context"

	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/view"
	"github.com/agentd-dev/agentd/server/auth"
)

// ReadInbox shows the leader inbox of a team.
func (s teams) ReadInbox(
	req *agentdv1.ReadInboxRequest, stream grpc.ServerStreamingServer[agentdv1.ReadInboxResponse],
) error {
	ctx := stream.Context()
	team, err := s.supervisor.FindTeam(ctx, req.GetTeam(), req.GetWorkspace())
	if err != nil {
		return err
	}
	return s.view.Inbox(ctx, view.InboxRequest{
		Team: team.ID, After: req.GetAfter(), Unread: req.GetUnread(), Follow: req.GetFollow(), Tail: int(req.GetTail()),
	}, func(i view.InboxItem) error { return sent(stream.Send(inboxItem(i))) })
}

// AckInbox moves the cursors of the leader inbox that are a client's to move.
func (s teams) AckInbox(ctx context.Context, req *agentdv1.AckInboxRequest) (*agentdv1.AckInboxResponse, error) {
	unread, err := s.supervisor.AckInbox(ctx, runtime.AckRequest{
		RequestID: req.GetRequestId(), Caller: auth.CallerOf(ctx).String(), Team: req.GetTeam(),
		Workspace: req.GetWorkspace(), UpTo: req.GetUpTo(),
	})
	if err != nil {
		return nil, err
	}
	return &agentdv1.AckInboxResponse{Unread: int32(unread)}, nil
}

// ExportTranscript gives a whole transcript as it is now.
func (s teams) ExportTranscript(
	req *agentdv1.ExportTranscriptRequest, stream grpc.ServerStreamingServer[agentdv1.ExportTranscriptResponse],
) error {
	ctx := stream.Context()
	id, err := s.taskNamed(ctx, req)
	if err != nil {
		return err
	}
	return s.view.Transcript(ctx, id, func(i view.Item) error {
		if w := exportItem(i); w != nil {
			return sent(stream.Send(w))
		}
		return nil
	})
}

// taskNamed is the task with the id in task_id, or of the teammate with that name.
func (s teams) taskNamed(ctx context.Context, req *agentdv1.ExportTranscriptRequest) (task.ID, error) {
	id, err := taskID(req.GetTaskId())
	if err != nil {
		return "", err
	}
	if _, _, isID := task.ParseID(id); isID {
		return id, nil
	}
	mate, err := s.teammate(ctx, req.GetTeam(), req.GetWorkspace(), req.GetTaskId())
	return mate.Task.ID, err
}

// inboxItem packs an item of an inbox.
func inboxItem(i view.InboxItem) *agentdv1.ReadInboxResponse {
	if i.Message == nil {
		return &agentdv1.ReadInboxResponse{Item: &agentdv1.ReadInboxResponse_Heartbeat{
			Heartbeat: &agentdv1.Heartbeat{Time: timeToWire(i.Heartbeat)},
		}}
	}
	return &agentdv1.ReadInboxResponse{Item: &agentdv1.ReadInboxResponse_Message{Message: inboxMessageToWire(*i.Message)}}
}

func inboxMessageToWire(m view.InboxMessage) *agentdv1.InboxMessage {
	return &agentdv1.InboxMessage{
		Pos: m.Pos, MessageId: m.ID, From: m.From, To: m.To, Kind: messageKindToWire(m.Kind), Summary: m.Summary,
		Text: m.Text, Time: timeToWire(m.Sent), Taken: m.Taken, Acked: m.Acked, TaskId: string(m.TaskID), Seq: uint64(m.Seq),
		ControlId: m.ControlID, Approve: m.Approve, InReplyTo: m.ReplyTo,
	}
}

// exportItem packs an item of a transcript; nil for what passes by only while it is followed.
func exportItem(i view.Item) *agentdv1.ExportTranscriptResponse {
	switch {
	case i.Task != nil:
		return &agentdv1.ExportTranscriptResponse{Item: &agentdv1.ExportTranscriptResponse_Task{Task: taskToWire(*i.Task)}}
	case i.Entry != nil:
		return &agentdv1.ExportTranscriptResponse{Item: &agentdv1.ExportTranscriptResponse_Entry{Entry: entryToWire(*i.Entry)}}
	case i.Outcome != nil:
		return &agentdv1.ExportTranscriptResponse{
			Item: &agentdv1.ExportTranscriptResponse_Outcome{Outcome: outcomeToWire(*i.Outcome)},
		}
	}
	return nil
}
