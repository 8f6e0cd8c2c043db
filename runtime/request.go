package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/agentd-dev/agentd/internal/errdefs"
	"github.com/agentd-dev/agentd/runtime/journal"
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
