package main

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
	"github.com/agentd-dev/agentd/internal/errdefs"
)

// The exit codes that scripts may rely on, beside those of errors (errdefs.Kind).
const (
	exitOK          = 0
	exitOther       = 1
	exitUsage       = 2
	exitConflict    = 4
	exitUnavailable = 8
	exitFailed      = 10
	exitKilled      = 11
	exitInterrupted = 130
)

// usageError is a command line that can't be run.
type usageError struct{ error }

// exitError ends agentctl with a code, after everything was said.
type exitError struct{ code int }

// Error is never shown.
func (e exitError) Error() string { return "" }

// finish tells the user what became of a command and gives the exit code.
func (a *app) finish(err error, command string) int {
	var quiet exitError
	var usage usageError
	if a.out.err != nil { // nothing that it tells has arrived
		err = a.out.err
	}
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &quiet):
		return quiet.code
	case errors.As(err, &usage):
		a.note("agentctl: %v\nSee %s --help.", err, command)
		return exitUsage
	}
	kind := errorKind(err)
	if kind == errdefs.Canceled {
		a.note("agentctl: interrupted")
	} else {
		a.note("agentctl: %s", describe(err))
	}
	return kind.ExitCode()
}

// ended is the end of a command that followed a task to its outcome.
func ended(o *agentdv1.Outcome) error {
	switch o.GetState() {
	case agentdv1.TaskState_TASK_STATE_COMPLETED:
		return nil
	case agentdv1.TaskState_TASK_STATE_KILLED:
		return exitError{exitKilled}
	default:
		return exitError{exitFailed}
	}
}

// errorKind is the class of an error of the daemon, of launch, or of this program.
func errorKind(err error) errdefs.Kind {
	var local *errdefs.Error
	if errors.As(err, &local) || errors.Is(err, context.Canceled) {
		return errdefs.KindOf(err)
	}
	switch status.Code(err) {
	case codes.InvalidArgument:
		return errdefs.InvalidArgument
	case codes.NotFound:
		return errdefs.NotFound
	case codes.AlreadyExists:
		return errdefs.AlreadyExists
	case codes.FailedPrecondition:
		return errdefs.FailedPrecondition
	case codes.Aborted:
		return errdefs.Aborted
	case codes.OutOfRange:
		return errdefs.OutOfRange
	case codes.ResourceExhausted:
		return errdefs.ResourceExhausted
	case codes.Unauthenticated:
		return errdefs.Unauthenticated
	case codes.PermissionDenied:
		return errdefs.PermissionDenied
	case codes.Unavailable:
		return errdefs.Unavailable
	case codes.Canceled:
		return errdefs.Canceled
	default:
		return errdefs.Internal
	}
}

// reason is the daemon's stable name for the cause of an error; empty when it did not come from the daemon.
func reason(err error) string { return cause(err).GetReason() }

// cause is what the daemon says of the cause of an error: its stable name, and what it is about. Empty when it did not come
// from the daemon.
func cause(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if d, ok := detail.(*errdetails.ErrorInfo); ok && d.GetDomain() == "agentd.dev" {
			return d
		}
	}
	return nil
}

// advice is what can be done about a cause, where the daemon's sentence can't know it; empty where it does.
func advice(of *errdetails.ErrorInfo) string {
	switch of.GetReason() {
	case "GRANT_EXCEEDED":
		return "A task gets no more than its team has, and with --parent no more than that task: leave out what is too much."
	case "DEPTH_EXCEEDED":
		return "Spawn it below a task that stands higher, or without --parent: agentctl ps --tree shows them."
	case "NOT_A_RECIPIENT":
		if strings.HasPrefix(of.GetMetadata()["subject"], "sh-") {
			return "A shell is a command line without an agent: stop it, and spawn another one."
		}
		return "Send it to one of its children: agentctl ps --tree shows them."
	case "AGENT_NOT_FOUND":
		return "agentctl agents lists the definitions."
	case "NAME_TAKEN":
		if of.GetMetadata()["subject"] == leadName {
			return "A team has one lead. Give it the work with agentctl send team-lead, end it with agentctl stop team-lead, or start\n" +
				"another agent beside it with agentctl spawn."
		}
	case "NOT_REVIVABLE":
		if !strings.HasPrefix(of.GetMetadata()["subject"], "tm-") {
			return "agentctl spawn --teammate NAME starts another one of that name."
		}
	case "TEAM_NOT_FOUND":
		return "agentctl team list shows the teams; a spawn makes the one of its directory."
	case "TEAM_IN_USE":
		return "agentctl roster shows who is in it; agentctl dismiss and agentctl team stop end them."
	case "REQUEST_ID_REUSED":
		return "Choose another --request-id for another request."
	}
	return ""
}

// describe is the sentence for people, with the daemon's reason and what can be done about it.
func describe(err error) string {
	var local *errdefs.Error
	if errors.As(err, &local) {
		return err.Error()
	}
	text := status.Convert(err).Message()
	if r := reason(err); r != "" {
		text += " (" + r + ")"
		if tip := advice(cause(err)); tip != "" {
			text += "\n" + tip
		}
	}
	return text
}
