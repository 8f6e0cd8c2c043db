// Package model is the seam to language models: one call that streams. The OpenAI adapter, the gate that shares rate
// limits among all agents, and the error classes live here; no other package knows openai-go.
package model

import (
	"context"
	"encoding/json"
	"time"
)

// Model answers one request.
type Model interface {
	// Call streams one answer, telling sink of its events, and returns it whole. Errors are *Error, but for the cause of
	// ctx's end. sink must not be nil; it is called from the caller's goroutine, one event at a time.
	Call(ctx context.Context, req Request, sink func(Event)) (Response, error)
}

// Request is one model call.
type Request struct {
	Model     string // name at the provider
	Messages  []Message
	Tools     []Tool // empty: the model may not call tools
	MaxOutput int64  // tokens of the answer at most; 0: the provider's own bound
	CacheKey  string // same for requests that begin alike, so that the provider finds its cache of them again; empty: none
}

// Role is who speaks.
type Role uint8

// The roles.
const (
	System Role = iota + 1
	User
	Assistant
	ToolAnswer
)

// Message is one message of the history.
type Message struct {
	Role   Role
	Text   string
	Calls  []ToolCall // Assistant only
	CallID string     // ToolAnswer only: the call it answers
}

// ToolCall is one call asked for by the model. In a Response the ID is the provider's, which may be empty or repeat.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON text; may be malformed
}

// Tool describes a tool to the model.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema of an object
}

// Usage is what one call consumed, as the provider says. Each number is from 0 to 2^40; input and output are estimated
// from bytes, 4 a token, when it does not say.
type Usage struct {
	InputTokens, OutputTokens, CachedTokens, ReasoningTokens int64
}

// Finish is why the model stopped.
type Finish uint8

// The finishes.
const (
	FinishStop   Finish = iota + 1 // it was done
	FinishCalls                    // it asks for tools
	FinishLength                   // the answer hit its bound
	FinishFilter                   // the provider's filter ended it
)

// Response is one whole answer.
type Response struct {
	Text      string
	Reasoning string
	Calls     []ToolCall
	Usage     Usage
	Finish    Finish
}

// Event tells of a call under way: *TextDelta, *Retrying, *Pausing or *Resuming.
type Event interface{ event() }

// TextDelta is a piece of the answer's text.
type TextDelta struct{ Text string }

// Retrying says that an attempt failed: what it streamed is void. Sent by the gate.
type Retrying struct {
	Attempt int // the one that comes, from 2
	Cause   *Error
}

// Pausing says that the call waits for the provider's limits. One Resuming follows, unless the call ends in an error
// while it waits; Until is when the provider is expected back, the call's turn may come later. Sent by the gate.
type Pausing struct{ Until time.Time }

// Resuming ends a Pausing: the call goes on as soon as the sink returns. The sink may block to get a slot.
type Resuming struct{}

func (*TextDelta) event() {}
func (*Retrying) event()  {}
func (*Pausing) event()   {}
func (*Resuming) event()  {}

// ErrorClass tells what can be done about a failed call.
type ErrorClass uint8

// The classes. Only RateLimited, Overloaded and Broken are worth another attempt.
const (
	RateLimited     ErrorClass = iota + 1 // 429: wait as told
	Overloaded                            // 5xx, 408, 409, connection refused or reset
	Broken                                // stream truncated, stalled or garbled
	ContextOverflow                       // the history does not fit (also 413)
	Auth                                  // 401, 402, 403, no quota left: the account or its key is at fault
	InvalidRequest                        // 400, 404, 422, an answer without end: the same request fails again
	NotConfigured                         // the configuration lacks something to ask it
)

// Retryable tells whether another attempt may succeed.
func (c ErrorClass) Retryable() bool { return c == RateLimited || c == Overloaded || c == Broken }

// Error is a failed call.
type Error struct {
	Class      ErrorClass
	Status     int           // HTTP status; 0 when there was none
	Message    string        // one line for people, never with a key in it
	RetryAfter time.Duration // as the provider asks; 0: it does not
	Cause      error         // for the log
}

// Error is the line for people.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }
