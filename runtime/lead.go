package runtime

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// What a lead may do to its team beyond what every agent may do to the tasks that it started.

// mayRecruit refuses a teammate that the agent may not have: only a lead has teammates, in its own team.
func (f *family) mayRecruit(ctx context.Context, a task.Assignment) error {
	if !f.task.IsLead() {
		return &tool.Error{
			Reason: tool.NotGranted, Subject: "name",
			Message: "only the lead of a team starts teammates; leave out the name for an agent that does one task",
		}
	}
	if err := roster.CheckName("name", a.Teammate.Name); err != nil {
		return f.refused(err)
	}
	in, err := f.s.cfg.Journal.Team(ctx, f.task.Team)
	if err == nil && a.Team != "" && !strings.EqualFold(a.Team, in.Name) {
		err = &tool.Error{
			Reason: tool.NotGranted, Subject: "team_name", Allowed: []string{in.Name},
			Message: fmt.Sprintf("your team is %s; a lead has teammates in its own team alone", in.Name),
		}
	}
	return err
}

// named is the id of what a lead names: a task by its id, or a teammate by its name. What is neither stays as it is.
func (f *family) named(ctx context.Context, id task.ID) (task.ID, error) {
	if !f.task.IsLead() || id.Kind() != 0 {
		return id, nil
	}
	member, err := f.s.cfg.Journal.Member(ctx, f.task.Team, string(id))
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return id, nil
	}
	return member.Value.TaskID, err
}

// looksAfter tells whether a task is the agent's to look at, to wait for and to stop.
func (f *family) looksAfter(t task.Task) bool {
	if f.task.IsLead() {
		return t.Team == f.task.Team && t.ID != f.task.ID
	}
	return f.started(t)
}

// stopReason says who stops a task.
func (f *family) stopReason() string {
	if f.task.IsLead() {
		return fmt.Sprintf("stopped by the lead, %s", f.task.ID)
	}
	return fmt.Sprintf("stopped by %s, which started it", f.task.ID)
}

// agentID is what a teammate is called outside its team; empty for other tasks.
func (f *family) agentID(ctx context.Context, t task.Task) (string, error) {
	if t.Kind != task.Teammate {
		return "", nil
	}
	in, err := f.s.cfg.Journal.Team(ctx, t.Team)
	return roster.AgentID(t.Name, in.Name), err
}

// rests tells whether a teammate is idle and has nothing to wake for: one that has just been sent a message is about to go on.
func (s *Supervisor) rests(ctx context.Context, t task.Task) (bool, error) {
	if t.State != task.Idle {
		return false, nil
	}
	_, err := s.cfg.Journal.Live(ctx, t.Team, t.ID)
	if errdefs.Is(err, errdefs.RecordNotFound) {
		return true, nil
	}
	return false, err
}
