package model

import "context"

// unconfigured is the model of a daemon that has none (N6).
type unconfigured string

// Unconfigured is a Model whose calls all fail with class NotConfigured and hint, one line that names the flag and the
// variable to set. It serves tasks that a daemon resumes after its configuration was taken away.
func Unconfigured(hint string) Model { return unconfigured(hint) }

// Call fails.
func (u unconfigured) Call(context.Context, Request, func(Event)) (Response, error) {
	return Response{}, &Error{Class: NotConfigured, Message: string(u)}
}
