package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// request is the body of a chat completion: the parameters that the real API knows, of which those that do not matter
// here stay raw.
type request struct {
	Model         string          `json:"model"`
	Messages      []message       `json:"messages"`
	Tools         []tool          `json:"tools"`
	Stream        bool            `json:"stream"`
	StreamOptions *streamOptions  `json:"stream_options"`
	MaxTokens     *int64          `json:"max_tokens"`
	MaxCompletion *int64          `json:"max_completion_tokens"`
	Temperature   json.RawMessage `json:"temperature"`
	TopP          json.RawMessage `json:"top_p"`
	Stop          json.RawMessage `json:"stop"`
	Seed          json.RawMessage `json:"seed"`
	N             json.RawMessage `json:"n"`
	User          json.RawMessage `json:"user"`
	CacheKey      json.RawMessage `json:"prompt_cache_key"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Parallel      json.RawMessage `json:"parallel_tool_calls"`
	Format        json.RawMessage `json:"response_format"`
	Effort        json.RawMessage `json:"reasoning_effort"`
	Frequency     json.RawMessage `json:"frequency_penalty"`
	Presence      json.RawMessage `json:"presence_penalty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string     `json:"role"`
	Name       string     `json:"name"`
	Content    *content   `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
}

func (m message) text() string {
	if m.Content == nil {
		return ""
	}
	return string(*m.Content)
}

// content is text, given as a string or as parts.
type content string

// UnmarshalJSON refuses parts that are not text.
func (c *content) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, (*string)(c))
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type != "text" {
			return fmt.Errorf("a part of type %q; only text is understood", p.Type)
		}
		*c += content(p.Text)
	}
	return nil
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	} `json:"function"`
}

// validName tells whether the API accepts name as that of a function.
func validName(name string) bool {
	return len(name) >= 1 && len(name) <= 64 && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// Validate checks the body of a chat completion as strictly as the strictest server: the error says what is wrong, and
// at which message. nil means that every server takes it.
func Validate(body []byte) error {
	_, err := decode(body)
	return err
}

// decode reads and checks a body.
func decode(body []byte) (*request, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	var r request
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the body goes on after its end")
	}
	if err := checkParameters(&r, body); err != nil {
		return nil, err
	}
	if err := checkTools(r.Tools); err != nil {
		return nil, err
	}
	return &r, checkHistory(r.Messages)
}

func checkParameters(r *request, body []byte) error {
	var raw struct {
		Tools *json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(body, &raw) // it has been decoded before
	switch {
	case r.Model == "":
		return errors.New("model: missing")
	case len(r.Messages) == 0:
		return errors.New("messages: empty")
	case raw.Tools != nil && len(r.Tools) == 0:
		return errors.New("tools: an empty array; leave it out")
	case len(r.Tools) == 0 && len(r.ToolChoice)+len(r.Parallel) > 0:
		return errors.New("tool_choice and parallel_tool_calls: only with tools")
	case r.StreamOptions != nil && !r.Stream:
		return errors.New("stream_options: only with stream")
	case r.MaxTokens != nil && r.MaxCompletion != nil:
		return errors.New("max_tokens: not together with max_completion_tokens")
	case r.MaxTokens != nil && *r.MaxTokens < 1, r.MaxCompletion != nil && *r.MaxCompletion < 1:
		return errors.New("max_tokens: less than 1")
	}
	return nil
}

func checkTools(tools []tool) error {
	seen := make(map[string]bool)
	for i, t := range tools {
		var schema struct {
			Type string `json:"type"`
		}
		switch {
		case t.Type != "function":
			return fmt.Errorf("tools[%d]: type %q", i, t.Type)
		case !validName(t.Function.Name):
			return fmt.Errorf("tools[%d]: name %q", i, t.Function.Name)
		case seen[t.Function.Name]:
			return fmt.Errorf("tools[%d]: %s stands twice", i, t.Function.Name)
		case json.Unmarshal(t.Function.Parameters, &schema) != nil || schema.Type != "object":
			return fmt.Errorf("tools[%d]: the parameters of %s are not the schema of an object", i, t.Function.Name)
		}
		seen[t.Function.Name] = true
	}
	return nil
}

// history is where the check of a history stands.
type history struct {
	prev  string          // role before
	open  map[string]bool // calls of the last assistant message that are not answered yet
	known map[string]bool // ids of all calls so far
}

func checkHistory(messages []message) error {
	h := history{open: make(map[string]bool), known: make(map[string]bool)}
	for i, m := range messages {
		if err := h.next(m); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		h.prev = m.Role
	}
	switch {
	case len(h.open) > 0:
		return fmt.Errorf("messages: the history ends with %d unanswered calls", len(h.open))
	case h.prev != "user" && h.prev != "tool":
		return fmt.Errorf("messages: the history ends with a message of the %s", h.prev)
	}
	return nil
}

func (h *history) next(m message) error {
	if (m.Role == "system") != (h.prev == "") {
		return errors.New("the first message, and no other, is the system's")
	}
	if len(h.open) > 0 && m.Role != "tool" {
		return fmt.Errorf("a message of role %q while %d calls are unanswered", m.Role, len(h.open))
	}
	if m.Role != "tool" && m.ToolCallID != "" {
		return errors.New("tool_call_id belongs to role tool")
	}
	if m.Role != "assistant" && m.ToolCalls != nil {
		return errors.New("tool_calls belong to role assistant")
	}
	switch m.Role {
	case "system", "user":
		if m.Role == h.prev {
			return errors.New("two messages of the user in a row")
		}
		if m.text() == "" {
			return fmt.Errorf("the %s's message is empty", m.Role)
		}
		return nil
	case "assistant":
		return h.assistant(m)
	case "tool":
		return h.answer(m)
	}
	return fmt.Errorf("unknown role %q", m.Role)
}

func (h *history) assistant(m message) error {
	switch {
	case h.prev == "assistant":
		return errors.New("two messages of the assistant in a row")
	case h.prev == "system":
		return errors.New("the assistant speaks first")
	case m.ToolCalls != nil && len(m.ToolCalls) == 0:
		return errors.New("tool_calls is an empty array")
	case m.text() == "" && len(m.ToolCalls) == 0:
		return errors.New("the assistant's message has neither content nor tool_calls")
	}
	for _, c := range m.ToolCalls {
		switch {
		case c.ID == "":
			return errors.New("a call without an id")
		case h.known[c.ID]:
			return fmt.Errorf("the id %q stands for two calls", c.ID)
		case c.Type != "function":
			return fmt.Errorf("a call of type %q", c.Type)
		case !validName(c.Function.Name):
			return fmt.Errorf("the name %q of a call", c.Function.Name)
		case !isObject(c.Function.Arguments):
			return fmt.Errorf("the arguments of call %q are not a JSON object", c.ID)
		}
		h.known[c.ID], h.open[c.ID] = true, true
	}
	return nil
}

func (h *history) answer(m message) error {
	switch {
	case m.Content == nil:
		return errors.New("an answer without content")
	case h.open[m.ToolCallID]:
		delete(h.open, m.ToolCallID)
		return nil
	case h.known[m.ToolCallID]:
		return fmt.Errorf("the call %q is answered twice, or not directly after it", m.ToolCallID)
	}
	return fmt.Errorf("an answer to %q, which no call before it has", m.ToolCallID)
}

func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "{") && json.Valid([]byte(text))
}
