package server

import (
	"errors"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/agentd-dev/agentd/internal/errdefs"
)

// errorDomain is the domain of every google.rpc.ErrorInfo.
const errorDomain = "agentd.dev"

// maxErrorText bounds each text of a status, in bytes: it travels in a header.
const maxErrorText = 2 << 10

// statusOf makes the status of an error: code, sentence, ErrorInfo with the reason, and BadRequest with the field when
// one is wrong. An error of gRPC's own keeps its status. The cause of an error never gets into it.
func statusOf(err error) *status.Status {
	if _, own := errors.AsType[*errdefs.Error](err); !own {
		if st, ok := status.FromError(err); ok {
			return st
		}
	}
	e := errdefs.As(err)
	text := clip(e.Message)
	details := []protoadapt.MessageV1{protoadapt.MessageV1Of(errorInfo(e))}
	if e.Field != "" {
		details = append(details, protoadapt.MessageV1Of(&errdetails.BadRequest{
			FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: e.Field, Description: text}},
		}))
	}
	st := status.New(codeOf(e.Kind), text)
	full, err := st.WithDetails(details...)
	if err != nil {
		return st // never: the details are plain messages of valid text, and the code is not OK
	}
	return full
}

func errorInfo(e *errdefs.Error) *errdetails.ErrorInfo {
	info := &errdetails.ErrorInfo{Reason: e.Reason.String(), Domain: errorDomain}
	if e.Subject != "" {
		info.Metadata = map[string]string{"subject": clip(e.Subject)}
	}
	return info
}

// clip makes text valid and not too long.
func clip(text string) string {
	if len(text) > maxErrorText {
		cut := maxErrorText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// codeOf maps each Kind to its code.
func codeOf(k errdefs.Kind) codes.Code {
	switch k {
	case errdefs.InvalidArgument:
		return codes.InvalidArgument
	case errdefs.NotFound:
		return codes.NotFound
	case errdefs.AlreadyExists:
		return codes.AlreadyExists
	case errdefs.FailedPrecondition:
		return codes.FailedPrecondition
	case errdefs.ResourceExhausted:
		return codes.ResourceExhausted
	case errdefs.PermissionDenied:
		return codes.PermissionDenied
	case errdefs.Unauthenticated:
		return codes.Unauthenticated
	case errdefs.Unavailable:
		return codes.Unavailable
	case errdefs.Aborted:
		return codes.Aborted
	case errdefs.OutOfRange:
		return codes.OutOfRange
	case errdefs.Canceled:
		return codes.Canceled
	case errdefs.DeadlineExceeded:
		return codes.DeadlineExceeded
	case errdefs.DataLoss:
		return codes.DataLoss
	case errdefs.Internal:
	}
	return codes.Internal
}
