package server

import (
	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime/view"
)

// events is the EventService.
type events struct {
	agentdv1.UnimplementedEventServiceServer
	view *view.View
}

// Watch tells what happens, from a cursor on.
func (s events) Watch(req *agentdv1.WatchRequest, stream grpc.ServerStreamingServer[agentdv1.WatchResponse]) error {
	return s.view.Watch(stream.Context(), req.GetTeam(), req.GetCursor(), func(n view.News) error {
		return sent(stream.Send(newsToWire(n)))
	})
}
