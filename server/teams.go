package server

import (
	"google.golang.org/grpc"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/runtime"
	"github.com/agentd-dev/agentd/server/auth"
)

// teams is the TeamService.
type teams struct {
	agentdv1.UnimplementedTeamServiceServer
	supervisor *runtime.Supervisor
}

// StopTeam ends the tasks of a team and tells how it comes along.
func (s teams) StopTeam(req *agentdv1.StopTeamRequest, stream grpc.ServerStreamingServer[agentdv1.StopTeamResponse]) error {
	ctx := stream.Context()
	stop, err := stopTeamOf(req)
	if err != nil {
		return err
	}
	stop.Caller = auth.CallerOf(ctx).String()
	return s.supervisor.StopTeam(ctx, stop, func(p runtime.StopProgress) error {
		return sent(stream.Send(&agentdv1.StopTeamResponse{Progress: progressToWire(p)}))
	})
}
