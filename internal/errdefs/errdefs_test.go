package errdefs_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// TestReasonNames: every reason has a wire name of its own, and what is beyond has one that cannot be mistaken.
func TestReasonNames(t *testing.T) {
	wire := regexp.MustCompile(`^[A-Z][A-Z_]+$`)
	seen := map[string]errdefs.Reason{}
	for r := errdefs.Unspecified; r <= errdefs.TeamInUse; r++ {
		name := r.String()
		if !wire.MatchString(name) {
			t.Errorf("reason %d is named %q", uint8(r), name)
		}
		if other, ok := seen[name]; ok {
			t.Errorf("reasons %d and %d are both named %s", uint8(other), uint8(r), name)
		}
		seen[name] = r
	}
	if got := (errdefs.TeamInUse + 1).String(); got != fmt.Sprintf("REASON_%d", errdefs.TeamInUse+1) {
		t.Errorf("a reason of a newer agentd is named %q", got)
	}
}

func TestAs(t *testing.T) {
	own := errdefs.New(errdefs.NotFound, errdefs.TaskNotFound, "sub-1", "there is no task %s", "sub-1")
	tests := []struct {
		name   string
		err    error
		kind   errdefs.Kind
		reason errdefs.Reason
	}{
		{"own", own, errdefs.NotFound, errdefs.TaskNotFound},
		{"wrapped", fmt.Errorf("spawn: %w", own), errdefs.NotFound, errdefs.TaskNotFound},
		{"joined", errors.Join(errors.New("close"), own), errdefs.NotFound, errdefs.TaskNotFound},
		{"outermost wins", errdefs.Wrap(own, errdefs.Internal, errdefs.Fault, "", "lost"), errdefs.Internal, errdefs.Fault},
		{"canceled", fmt.Errorf("read: %w", context.Canceled), errdefs.Canceled, errdefs.CallCanceled},
		{"late", context.DeadlineExceeded, errdefs.DeadlineExceeded, errdefs.CallCanceled},
		{"own about a canceled call", errdefs.Wrap(context.Canceled, errdefs.Unavailable, errdefs.ShuttingDown, "", "stops"),
			errdefs.Unavailable, errdefs.ShuttingDown},
		{"foreign", errors.New("disk on fire"), errdefs.Internal, errdefs.Fault},
	}
	for _, tt := range tests {
		e := errdefs.As(tt.err)
		if e.Kind != tt.kind || e.Reason != tt.reason || errdefs.KindOf(tt.err) != tt.kind || !errdefs.Is(tt.err, tt.reason) {
			t.Errorf("%s: kind %d, reason %s", tt.name, e.Kind, e.Reason)
		}
	}
	if errdefs.As(nil) != nil || errdefs.Is(nil, errdefs.Unspecified) {
		t.Error("no error is an error")
	}
}

// TestCausesAreForTheLog: what a client is told never holds the cause.
func TestCausesAreForTheLog(t *testing.T) {
	cause := errors.New("open /secret: denied")
	e := errdefs.Wrap(cause, errdefs.Unavailable, errdefs.StoreStalled, "db", "the %s is full", "disk")
	if errdefs.Text(fmt.Errorf("commit: %w", e)) != "the disk is full" {
		t.Errorf("people read %q", errdefs.Text(e))
	}
	if e.Error() != "the disk is full: open /secret: denied" || !errors.Is(e, cause) {
		t.Errorf("the log reads %q", e.Error())
	}
	if got := errdefs.As(cause).Message; got != "internal error; the daemon's log has the details" {
		t.Errorf("a client reads of a foreign error %q", got)
	}
	if errdefs.Text(cause) != cause.Error() {
		t.Errorf("main prints of a foreign error %q", errdefs.Text(cause))
	}
}

// TestTextOfSeveral: of several errors none is left out.
func TestTextOfSeveral(t *testing.T) {
	rest, state := errdefs.BadField("rest", "no"), errdefs.BadField("state_dir", "relative")
	err := errors.Join(rest, errors.Join(state, errors.New("close: EIO")))
	if got := errdefs.Text(err); got != "rest: no\nstate_dir: relative\nclose: EIO" {
		t.Errorf("people read %q", got)
	}
	hidden := errdefs.Wrap(err, errdefs.Unavailable, errdefs.Fault, "", "it is down")
	if got := errdefs.Text(hidden); got != "it is down" {
		t.Errorf("people read the causes: %q", got)
	}
}

func TestBadField(t *testing.T) {
	e := errdefs.BadField("budget.steps", "must not be %s", "negative")
	if e.Kind != errdefs.InvalidArgument || e.Reason != errdefs.BadArgument || e.Field != "budget.steps" ||
		e.Error() != "budget.steps: must not be negative" {
		t.Errorf("%+v", e)
	}
}
