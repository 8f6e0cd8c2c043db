package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

func TestEveryKindHasItsCode(t *testing.T) {
	want := map[errdefs.Kind]codes.Code{
		errdefs.Internal:           codes.Internal,
		errdefs.InvalidArgument:    codes.InvalidArgument,
		errdefs.NotFound:           codes.NotFound,
		errdefs.AlreadyExists:      codes.AlreadyExists,
		errdefs.FailedPrecondition: codes.FailedPrecondition,
		errdefs.ResourceExhausted:  codes.ResourceExhausted,
		errdefs.PermissionDenied:   codes.PermissionDenied,
		errdefs.Unauthenticated:    codes.Unauthenticated,
		errdefs.Unavailable:        codes.Unavailable,
		errdefs.Aborted:            codes.Aborted,
		errdefs.OutOfRange:         codes.OutOfRange,
		errdefs.Canceled:           codes.Canceled,
		errdefs.DeadlineExceeded:   codes.DeadlineExceeded,
		errdefs.DataLoss:           codes.DataLoss,
	}
	for kind := errdefs.Internal; kind <= errdefs.DataLoss; kind++ {
		code, ok := want[kind]
		if !ok {
			t.Errorf("kind %d is not in this table", kind)
		}
		st := statusOf(errdefs.New(kind, errdefs.Conflict, "sub-1", "a sentence"))
		if st.Code() != code || st.Message() != "a sentence" {
			t.Errorf("kind %d became %s %q, want %s", kind, st.Code(), st.Message(), code)
		}
		info := detail[*errdetails.ErrorInfo](st)
		if info.GetReason() != "CONFLICT" || info.GetDomain() != "agentd.dev" || info.GetMetadata()["subject"] != "sub-1" {
			t.Errorf("kind %d has the ErrorInfo %v", kind, info)
		}
	}
	if beyond := codeOf(errdefs.DataLoss + 1); beyond != codes.Internal {
		t.Errorf("a kind that does not exist became %s", beyond)
	}
}

func TestStatusNamesTheWrongField(t *testing.T) {
	st := statusOf(fmt.Errorf("call: %w", errdefs.BadField("single.prompt", "must not be empty")))
	violations := detail[*errdetails.BadRequest](st).GetFieldViolations()
	if len(violations) != 1 || violations[0].GetField() != "single.prompt" ||
		violations[0].GetDescription() != "single.prompt: must not be empty" {
		t.Errorf("violations: %v", violations)
	}
	if detail[*errdetails.BadRequest](statusOf(errdefs.New(errdefs.NotFound, errdefs.TaskNotFound, "", "none"))) != nil {
		t.Error("an error without a field has a violation")
	}
}

func TestStatusTellsNothingInternal(t *testing.T) {
	secret := errors.New("/var/secret is broken")
	for _, err := range []error{
		secret,
		errdefs.Wrap(secret, errdefs.DataLoss, errdefs.RecordCorrupt, "task/sub-1", "the record is damaged"),
		fmt.Errorf("reading: %w", secret),
	} {
		if st := statusOf(err); strings.Contains(st.Proto().String(), "secret") {
			t.Errorf("%v became %v", err, st)
		}
	}
}

func TestStatusOfForeignErrors(t *testing.T) {
	for _, c := range []struct {
		err    error
		code   codes.Code
		reason string
	}{
		{errors.New("boom"), codes.Internal, "INTERNAL"},
		{context.Canceled, codes.Canceled, "CANCELED"},
		{context.DeadlineExceeded, codes.DeadlineExceeded, "CANCELED"},
		{status.Error(codes.Unimplemented, "unknown method"), codes.Unimplemented, ""},
	} {
		st := statusOf(c.err)
		if got := detail[*errdetails.ErrorInfo](st).GetReason(); st.Code() != c.code || got != c.reason {
			t.Errorf("%v became %s/%s, want %s/%s", c.err, st.Code(), got, c.code, c.reason)
		}
	}
}

// case OUT-6
func TestStatusTextIsValidAndBounded(t *testing.T) {
	long := strings.Repeat("語", maxErrorText)
	st := statusOf(errdefs.New(errdefs.InvalidArgument, errdefs.BadArgument, "\xff"+long, "%s", long))
	subject := detail[*errdetails.ErrorInfo](st).GetMetadata()["subject"]
	for _, text := range []string{st.Message(), subject} {
		if !utf8.ValidString(text) || strings.Count(text, "\uFFFD") > 1 || len(text) > maxErrorText+4 || len(text) < maxErrorText-4 {
			t.Errorf("%d bytes, valid: %t", len(text), utf8.ValidString(text))
		}
	}
}

// detail finds a detail of a status by its type; nil when it has none.
func detail[M any](st *status.Status) M {
	var none M
	for _, d := range st.Details() {
		if m, ok := d.(M); ok {
			return m
		}
	}
	return none
}
