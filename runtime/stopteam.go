package runtime

import (
	"context"
	"sync"
	"time"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/task"
)

// maxOrders is how many tasks of a team are ordered to stop at the same time: enough for the store to write their stops
// together.
const maxOrders = 32

// StopTeamRequest asks for the end of all living tasks of a team.
type StopTeamRequest struct {
	RequestID string // makes a retry return the first outcome; empty: no retry
	Caller    string // scope of RequestID
	Team      string // name
	Level     task.StopLevel
	WrapUp    time.Duration // until Cancel; 0: the default
	Cancel    time.Duration // until Kill; 0: the default
	Reason    string        // why, for people; at most 1 KiB
}

// stop is what is asked for of each task.
func (r StopTeamRequest) stop() StopRequest {
	return StopRequest{RequestID: r.RequestID, Level: r.Level, WrapUp: r.WrapUp, Cancel: r.Cancel, Reason: r.Reason}
}

// StopTeam makes the stops of all living tasks of a team durable and waits until they and all below them are terminal,
// telling progress of each change; the last one, which is always told, has nothing remaining. What clients spawn meanwhile
// is none of them; children of those that are being stopped are. The stops go on when ctx ends or progress fails. A retry
// of the request orders nothing: it waits for those that are being stopped.
func (s *Supervisor) StopTeam(ctx context.Context, req StopTeamRequest, progress func(StopProgress) error) error {
	order := req.stop().order()
	if req.Team == "" {
		return errdefs.BadField("team", "is missing; give the name of a team")
	}
	if err := req.stop().check(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	team, err := s.cfg.Journal.TeamByName(ctx, req.Team)
	if err != nil {
		return err
	}
	body := req
	body.RequestID, body.Caller, body.Team = "", "", team.ID
	r := newRequest(req.Caller, req.RequestID, body)
	_, known, err := s.first(ctx, team.ID, r)
	if err != nil {
		return err
	}
	roots, err := s.rootsOf(ctx, team.ID, known)
	if err != nil {
		return err
	}
	watch := s.watchStop(team.ID, roots, order.Level)
	if err := watch.look(ctx); err != nil {
		return err
	}
	if !known {
		if err := s.orderAll(context.WithoutCancel(ctx), team.ID, roots, order, r); err != nil {
			return err
		}
	}
	return watch.awaitEnd(ctx, progress)
}

// rootsOf lists a team's living tasks that no living task is above of; with stopping only those that are being stopped.
func (s *Supervisor) rootsOf(ctx context.Context, team string, stopping bool) ([]task.ID, error) {
	living := map[task.ID]task.Task{}
	for id, err := range s.cfg.Journal.Living(ctx, team) {
		if err != nil {
			return nil, err
		}
		row, err := s.cfg.Journal.Task(ctx, id)
		if journal.IsLost(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !row.Value.State.Terminal() {
			living[id] = row.Value
		}
	}
	var roots []task.ID
	for id, t := range living {
		below := false
		for _, above := range t.Ancestors {
			_, lives := living[above]
			below = below || lives
		}
		if !below && (!stopping || t.Stop != nil) {
			roots = append(roots, id)
		}
	}
	return roots, nil
}

// orderAll makes the stops of tasks durable, whatever becomes of one of them, and then keeps the request: one that was cut
// off before is to be tried again.
func (s *Supervisor) orderAll(
	ctx context.Context, team string, roots []task.ID, order task.StopOrder, req *requestRow,
) error {
	var mu sync.Mutex
	var failed error
	var orders sync.WaitGroup
	slots := make(chan struct{}, maxOrders)
	for _, id := range roots {
		slots <- struct{}{}
		orders.Go(func() {
			defer func() { <-slots }()
			if err := s.order(ctx, id, order, nil); err != nil && !journal.IsLost(err) {
				mu.Lock()
				defer mu.Unlock()
				failed = err
			}
		})
	}
	orders.Wait()
	if failed != nil {
		return failed
	}
	err := s.record(ctx, team, req)
	if errdefs.Is(err, errdefs.Conflict) {
		_, _, err = s.first(ctx, team, req) // the same request came twice at once
	}
	return err
}
