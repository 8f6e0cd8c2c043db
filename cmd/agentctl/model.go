package main

import (
	"context"

	"google.golang.org/grpc/status"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/launch"
)

// noModel is the reason of a daemon that refuses a task because it has no model.
const noModel = "MODEL_NOT_CONFIGURED"

// giveModel restarts a daemon that refused a task with noModel, if an agentctl started it before its user had named a
// model: nil means that it is worth asking again. A daemon that was started by hand is left alone.
func (a *app) giveModel(ctx context.Context, refused error) error {
	if a.addr != "" || a.noStart {
		return refused
	}
	var s *agentdv1.GetStatusResponse
	err := a.attempt(ctx, func(c *client) (err error) {
		s, err = c.daemon.GetStatus(ctx, &agentdv1.GetStatusRequest{})
		return err
	})
	if err != nil || !s.GetAutoStarted() {
		return refused
	}
	if s.GetModel().GetConfigured() {
		return nil // another agentctl was faster
	}
	if err := launch.RestartForModel(ctx, int(s.GetPid()), a.err); err != nil {
		told := status.Convert(refused).Proto()
		told.Message = describe(err)
		return status.FromProto(told).Err()
	}
	return nil
}
