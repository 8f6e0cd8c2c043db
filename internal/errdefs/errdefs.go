// Package errdefs is the vocabulary of agentd's errors: a Kind that decides what a caller can do about it, a stable
// Reason that programs may match, the subject that it is about, and a sentence for people. Every package may
// import it; only server turns it into gRPC status and only agentctl into exit codes.
package errdefs

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Kind is the class of an error.
type Kind uint8

// The kinds. Server maps each to one gRPC code.
const (
	Internal Kind = iota
	InvalidArgument
	NotFound
	AlreadyExists
	FailedPrecondition
	ResourceExhausted
	PermissionDenied
	Unauthenticated
	Unavailable
	Aborted
	OutOfRange
	Canceled
	DeadlineExceeded
	DataLoss
)

// ExitCode is how a command ends that fails with such an error; scripts rely on it.
func (k Kind) ExitCode() int {
	switch k {
	case InvalidArgument:
		return 2
	case NotFound:
		return 3
	case AlreadyExists, FailedPrecondition, Aborted, OutOfRange:
		return 4
	case ResourceExhausted:
		return 6
	case PermissionDenied, Unauthenticated:
		return 7
	case Unavailable:
		return 8
	case Canceled:
		return 130
	default:
		return 1
	}
}

// Reason is the stable name of a cause. Its names are those of the proto enum ErrorReason without the prefix; a root
// test compares them.
type Reason uint8

// The reasons, in the order of the proto enum.
const (
	Unspecified Reason = iota
	BadArgument
	TooLarge
	RequestIDReused
	TaskNotFound
	TeamNotFound
	AgentNotFound
	RecipientNotFound
	NameTaken
	NoWorkspace
	WorkspaceNotAllowed
	ModelNotConfigured
	TaskEnded
	TaskStopping
	DepthExceeded
	SeqOutOfRange
	StoreStalled
	OutcomeUnknown
	Conflict
	Fenced
	RecordNotFound
	RecordCorrupt
	SchemaTooNew
	AlreadyRunning
	BadCredentials
	Denied
	ShuttingDown
	MailboxFull
	CallCanceled
	Fault
	GrantExceeded
	NotOffered
	NotARecipient
	NotRevivable
	TooManyHops
	Superseded
	TeamInUse
)

// names are the wire names of the reasons, by value.
func names() [TeamInUse + 1]string {
	return [...]string{
		Unspecified: "UNSPECIFIED", BadArgument: "INVALID_ARGUMENT", TooLarge: "TOO_LARGE",
		RequestIDReused: "REQUEST_ID_REUSED", TaskNotFound: "TASK_NOT_FOUND", TeamNotFound: "TEAM_NOT_FOUND",
		AgentNotFound: "AGENT_NOT_FOUND", RecipientNotFound: "RECIPIENT_NOT_FOUND", NameTaken: "NAME_TAKEN",
		NoWorkspace: "NO_WORKSPACE", WorkspaceNotAllowed: "WORKSPACE_NOT_ALLOWED",
		ModelNotConfigured: "MODEL_NOT_CONFIGURED", TaskEnded: "TASK_ENDED", TaskStopping: "TASK_STOPPING",
		DepthExceeded: "DEPTH_EXCEEDED", SeqOutOfRange: "SEQ_OUT_OF_RANGE", StoreStalled: "STORE_STALLED",
		OutcomeUnknown: "OUTCOME_UNKNOWN", Conflict: "CONFLICT", Fenced: "FENCED", RecordNotFound: "RECORD_NOT_FOUND",
		RecordCorrupt: "RECORD_CORRUPT", SchemaTooNew: "SCHEMA_TOO_NEW", AlreadyRunning: "ALREADY_RUNNING",
		BadCredentials: "UNAUTHENTICATED", Denied: "PERMISSION_DENIED", ShuttingDown: "SHUTTING_DOWN",
		MailboxFull: "MAILBOX_FULL", CallCanceled: "CANCELED", Fault: "INTERNAL",
		GrantExceeded: "GRANT_EXCEEDED", NotOffered: "NOT_OFFERED", NotARecipient: "NOT_A_RECIPIENT",
		NotRevivable: "NOT_REVIVABLE", TooManyHops: "TOO_MANY_HOPS", Superseded: "SUPERSEDED", TeamInUse: "TEAM_IN_USE",
	}
}

// String is the wire name of the reason, such as TASK_NOT_FOUND.
func (r Reason) String() string {
	if r > TeamInUse {
		return fmt.Sprintf("REASON_%d", uint8(r))
	}
	return names()[r]
}

// Error is an error with a class, a cause and a subject.
type Error struct {
	Kind    Kind
	Reason  Reason
	Subject string // what it is about: an id, a key, a path
	Field   string // request field that is wrong, for InvalidArgument; proto name, dots between levels
	Message string // for people: what is wrong and what to do
	Cause   error  // for the log only; never sent to a client
}

// Error is the sentence for people, with the cause for the log.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// New makes an error about subject, with a sentence for people.
func New(k Kind, r Reason, subject, format string, args ...any) *Error {
	return &Error{Kind: k, Reason: r, Subject: subject, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an error about subject whose cause is for the log only.
func Wrap(cause error, k Kind, r Reason, subject, format string, args ...any) *Error {
	return &Error{Kind: k, Reason: r, Subject: subject, Message: fmt.Sprintf(format, args...), Cause: cause}
}

// BadField makes the InvalidArgument error of one request field.
func BadField(field, format string, args ...any) *Error {
	msg := fmt.Sprintf(format, args...)
	return &Error{Kind: InvalidArgument, Reason: BadArgument, Field: field, Subject: field, Message: field + ": " + msg}
}

// As finds the Error in err's chain. Context errors and foreign errors become one; nil stays nil.
func As(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return Wrap(err, Canceled, CallCanceled, "", "the call was canceled")
	case errors.Is(err, context.DeadlineExceeded):
		return Wrap(err, DeadlineExceeded, CallCanceled, "", "the call's time ran out")
	}
	return Wrap(err, Internal, Fault, "", "internal error; the daemon's log has the details")
}

// Text is the sentence for people, without the cause; all of an internal error, for it has no such sentence. Of errors
// that were joined each has its lines. Err is not nil.
func Text(err error) string {
	// Only the outermost: those that a cause joins are for the log.
	if joined, ok := any(err).(interface{ Unwrap() []error }); ok {
		var lines []string
		for _, one := range joined.Unwrap() {
			lines = append(lines, Text(one))
		}
		return strings.Join(lines, "\n")
	}
	if e := As(err); e.Kind != Internal {
		return e.Message
	}
	return err.Error()
}

// Is tells whether err has the reason.
func Is(err error, r Reason) bool { return err != nil && As(err).Reason == r }

// KindOf is the class of an error, which must not be nil; Internal for a foreign one.
func KindOf(err error) Kind { return As(err).Kind }
