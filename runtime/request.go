package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"path/filepath"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
	"github.com/agentd-dev/agentd/runtime/roster"
	"github.com/agentd-dev/agentd/runtime/task"
)

// maxRequestID is the longest request id, in bytes.
const maxRequestID = 256

func checkRequestID(id string) error {
	if len(id) > maxRequestID {
		return tooLarge("request_id", len(id), maxRequestID)
	}
	return nil
}

// requestRow is a request id with the outcome that belongs to it (N7). A nil one is a call without a request id.
type requestRow struct {
	id      string
	key     string
	outcome journal.Request
}

// newRequest makes the row of a caller's request; body is what a retry must repeat.
func newRequest(caller, id string, body any) *requestRow {
	if id == "" {
		return nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // our own plain structs always marshal
	}
	sum := sha256.Sum256(text)
	return &requestRow{id: id, key: journal.RequestKey(caller, id), outcome: journal.Request{Body: sum[:]}}
}

// put adds the first outcome to the batch that it belongs to.
func (r *requestRow) put(b *journal.Batch) {
	if r != nil {
		b.PutRequest(r.key, r.outcome)
	}
}

// rider lets it ride on another batch; nil for a call without a request id.
func (r *requestRow) rider() rider {
	if r == nil {
		return nil
	}
	return r.put
}

// record keeps a request id whose call had nothing to change. Conflict when it was used meanwhile.
func (s *Supervisor) record(ctx context.Context, team string, r *requestRow) error {
	if r == nil {
		return nil
	}
	b := s.cfg.Journal.Batch(team)
	r.put(b)
	return s.commit(ctx, b)
}

// first gives the first outcome of a request id, if there is one; RequestIDReused when it was for another body.
func (s *Supervisor) first(ctx context.Context, team string, r *requestRow) (journal.Request, bool, error) {
	if r == nil {
		return journal.Request{}, false, nil
	}
	found, err := s.cfg.Journal.Request(ctx, team, r.key)
	switch {
	case errdefs.Is(err, errdefs.RecordNotFound):
		return found, false, nil
	case err != nil:
		return found, false, err
	case !bytes.Equal(found.Body, r.outcome.Body):
		return found, false, &errdefs.Error{
			Kind: errdefs.InvalidArgument, Reason: errdefs.RequestIDReused, Subject: r.id, Field: "request_id",
			Message: "request_id: it was used before with another body; choose a new one",
		}
	}
	return found, true, nil
}

// retried finds the task of a spawn that was registered before, although the same spawn would be refused today: its
// workspace is gone, or the daemon has other roots or no model now. The team is looked for without making one; where
// that fails, the retry gets today's refusal.
func (s *Supervisor) retried(ctx context.Context, a task.Assignment, r *requestRow) (task.ID, bool) {
	if r == nil {
		return "", false
	}
	for _, team := range s.teamsThen(ctx, a) {
		if found, known, err := s.first(ctx, team, r); err == nil && known {
			return found.TaskID, true
		}
	}
	return "", false
}

// teamsThen are the teams that an assignment may have gone to.
func (s *Supervisor) teamsThen(ctx context.Context, a task.Assignment) []string {
	j := s.cfg.Journal
	var teams []string
	add := func(team roster.Team, err error) {
		if err == nil {
			teams = append(teams, team.ID)
		}
	}
	switch {
	case a.Team == "" && a.Parent != "":
		parent, err := j.Task(ctx, a.Parent)
		if err == nil {
			teams = append(teams, parent.Value.Team)
		}
		return teams
	case a.Team != "":
		add(j.TeamByName(ctx, a.Team))
		return teams
	}
	if a.Workspace != "" {
		root := filepath.Clean(a.Workspace)
		if resolved, err := filepath.EvalSymlinks(root); err == nil {
			root = resolved
		}
		add(j.TeamByRoot(ctx, root))
	}
	add(j.TeamByName(ctx, roster.DefaultTeam))
	return teams
}
