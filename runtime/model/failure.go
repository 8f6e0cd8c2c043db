package model

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	mostOfBody    = 64 << 10 // bytes of a refusal that are read
	mostOfMessage = 500      // bytes of a provider's words that are passed on
	shortestKey   = 6        // shorter "keys" are dummies such as "none", and cutting them out would garble the message
)

// explain makes the *Error of a failed call, whose message names the server and holds no key. cause is why the call's
// own context ended, if it did.
func (m *openAI) explain(err, cause error) *Error {
	var e *Error
	var stalled stall
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(cause, &stalled):
		e = &Error{Class: Broken, Message: stalled.Error(), Cause: err}
	case errors.As(err, &e):
		known := *e
		e = &known
	case errors.As(err, &certificate):
		e = &Error{Class: InvalidRequest, Message: "its certificate is not trusted: " + certificate.Err.Error(), Cause: err}
	default:
		var at *url.Error // whose text holds the whole URL
		if errors.As(err, &at) {
			err = at.Err
		}
		e = &Error{Class: Overloaded, Message: "it cannot be reached: " + err.Error(), Cause: err}
	}
	e.Message = m.redact(oneLine(fmt.Sprintf("model server %s: %s", m.host, e.Message)))
	if e.Cause != nil {
		if text := e.Cause.Error(); text != m.redact(text) {
			e.Cause = errors.New(m.redact(text))
		}
	}
	return e
}

// redact cuts the key out of text.
func (m *openAI) redact(text string) string {
	if len(m.cfg.APIKey) < shortestKey {
		return text
	}
	return strings.ReplaceAll(text, m.cfg.APIKey, "[key]")
}

// oneLine makes foreign words fit for one line.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(text) <= mostOfMessage {
		return text
	}
	cut := mostOfMessage
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// refusal reads a response that is not a success.
func refusal(res *http.Response) *Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, mostOfBody)) // what came is enough
	said := parseComplaint(body)
	if to, err := res.Location(); err == nil && res.StatusCode/100 == 3 {
		said.Message = fmt.Sprintf("it redirects to %s://%s%s; is the base URL right?", to.Scheme, to.Host, to.Path)
	}
	return &Error{
		Class:      said.class(res.StatusCode),
		Status:     res.StatusCode,
		Message:    strings.TrimSuffix(fmt.Sprintf("%d %s: %s", res.StatusCode, http.StatusText(res.StatusCode), said.Message), ": "),
		RetryAfter: retryAfter(res.Header),
	}
}

// inStream reads an error that came where an answer should be, after the headers of a success.
func inStream(data []byte) *Error {
	said := parseComplaint(data)
	status := 0
	if n, err := strconv.Atoi(said.code()); err == nil && n >= 400 && n < 600 {
		status = n
	}
	return &Error{Class: said.class(status), Status: status, Message: "its answer failed: " + said.Message}
}

// complaint is what a provider says about a failure.
type complaint struct {
	Message string          `json:"message"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code"` // text or number
}

// code is the code as text.
func (c complaint) code() string { return strings.Trim(string(c.Code), `"`) }

// parseComplaint reads {"error": {...}}, {"error": "..."}, the flat body of vLLM, FastAPI's {"detail": ...}, an array
// around one of these, and plain text.
func parseComplaint(body []byte) complaint {
	var wrapped struct {
		complaint
		Error  json.RawMessage `json:"error"`
		Detail json.RawMessage `json:"detail"`
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	if err := json.Unmarshal(body, &wrapped); err != nil {
		if text := strings.TrimSpace(string(body)); !strings.HasPrefix(text, "<") {
			return complaint{Message: text}
		}
		return complaint{} // a proxy's web page tells nothing that the status does not
	}
	said := wrapped.complaint
	for _, raw := range []json.RawMessage{wrapped.Error, wrapped.Detail} {
		var inner complaint
		var text string
		switch {
		case len(raw) == 0 || string(raw) == "null":
		case json.Unmarshal(raw, &inner) == nil:
			said = inner
		case json.Unmarshal(raw, &text) == nil:
			said.Message = text
		default:
			said.Message = string(raw)
		}
	}
	if said.Message == "" {
		said.Message = string(body)
	}
	return said
}

// class decides by the words first, for providers disagree about the status, then by the status; 0 means that there
// is none, in the middle of a stream.
func (c complaint) class(status int) ErrorClass {
	words := strings.ToLower(c.code() + " " + c.Type + " " + c.Message)
	switch {
	case status != http.StatusUnauthorized && containsAny(words, overflowWords()):
		return ContextOverflow
	case containsAny(words, []string{"insufficient_quota", "billing_hard_limit", "billing_not_active"}):
		return Auth // a 429 that no waiting ends
	case status != 0:
		return classOfStatus(status)
	case containsAny(words, []string{"rate_limit", "rate limit", "too many requests"}):
		return RateLimited
	case containsAny(words, []string{"overload", "server_error", "unavailable", "capacity", "timeout", "timed out"}):
		return Overloaded
	case containsAny(words, []string{"authentication", "permission", "invalid_api_key"}):
		return Auth
	case containsAny(words, []string{"invalid_request", "badrequest", "not_found"}):
		return InvalidRequest
	}
	return Broken
}

func classOfStatus(status int) ErrorClass {
	switch status {
	case http.StatusTooManyRequests:
		return RateLimited
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return Auth
	case http.StatusRequestEntityTooLarge:
		return ContextOverflow
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return Overloaded
	}
	if status >= 500 {
		return Overloaded
	}
	return InvalidRequest
}

// overflowWords are how providers say that the history is too long.
func overflowWords() []string {
	return []string{
		"context_length_exceeded",                 // OpenAI's code
		"maximum context length",                  // OpenAI, vLLM, OpenRouter
		"exceed_context_size",                     // llama.cpp's type
		"available context size",                  // llama.cpp
		"context window",                          // "exceeds the context window of this model"
		"exceeds the context length",              // LM Studio, SGLang
		"prompt is too long", "input is too long", // Anthropic, Bedrock behind proxies
		"request too large for", // a single request beyond the limit of tokens per minute
	}
}

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// retryAfter reads how long the provider asks to wait: retry-after-ms, or Retry-After in seconds or as a date.
func retryAfter(h http.Header) time.Duration {
	if ms, ok := amount(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return ms
	}
	value := h.Get("Retry-After")
	if s, ok := amount(value, time.Second); ok {
		return s
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// amount reads a decimal number of units, bounded to a day, for a Duration overflows.
func amount(text string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(24*time.Hour))), true
}
