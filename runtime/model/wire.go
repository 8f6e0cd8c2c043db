package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// What goes over the wire, both ways: the part of OpenAI's chat completions that agentd uses.

type wireRequest struct {
	Model         string        `json:"model"`
	Messages      []wireMessage `json:"messages"`
	Tools         []wireTool    `json:"tools,omitempty"`
	MaxOutput     int64         `json:"max_completion_tokens,omitempty"`
	CacheKey      string        `json:"prompt_cache_key,omitempty"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type wireMessage struct {
	Role       string     `json:"role"`
	Content    *string    `json:"content"`
	ToolCalls  []wireCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type wireCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function calledByName `json:"function"`
}

type calledByName struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type wireTool struct {
	Type     string       `json:"type"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"`
}

// encode writes the request's body.
func encode(req Request) ([]byte, error) {
	w := wireRequest{
		Model: req.Model, Messages: history(req.Messages), MaxOutput: req.MaxOutput, CacheKey: req.CacheKey,
		Stream: true, StreamOptions: streamOptions{true},
	}
	for _, t := range req.Tools {
		if !isObject(string(t.Parameters)) {
			return nil, &Error{Class: InvalidRequest, Message: fmt.Sprintf("the schema of tool %q is not a JSON object", t.Name)}
		}
		w.Tools = append(w.Tools, wireTool{"function", wireFunction(t)})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(w); err != nil {
		return nil, &Error{Class: InvalidRequest, Message: "the request cannot be written as JSON", Cause: err}
	}
	return b.Bytes(), nil
}

// history puts messages into the form that strict servers accept: consecutive messages of the user, and consecutive
// texts of the assistant, become one (chat templates demand alternation), and nothing is empty that must not be.
func history(messages []Message) []wireMessage {
	out := make([]wireMessage, 0, len(messages))
	for _, m := range messages {
		w := wireMessage{Role: roleName(m.Role), ToolCallID: m.CallID, ToolCalls: calls(m.Calls)}
		if m.Text != "" || m.Role == System || m.Role == ToolAnswer {
			w.Content = &m.Text
		}
		if last := len(out) - 1; last >= 0 && merges(out[last], w) {
			out[last].Content = joined(out[last].Content, w.Content)
			out[last].ToolCalls = w.ToolCalls
			continue
		}
		out = append(out, w)
	}
	for i, m := range out {
		if m.Content == nil && len(m.ToolCalls) == 0 {
			placeholder := "(no text)"
			out[i].Content = &placeholder
		}
	}
	return out
}

// merges tells whether next continues last. Calls must be followed by their answers, so only texts are continued.
func merges(last, next wireMessage) bool {
	return last.Role == next.Role && len(last.ToolCalls) == 0 && (next.Role == "user" || next.Role == "assistant")
}

func joined(a, b *string) *string {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	both := *a + "\n\n" + *b
	return &both
}

func roleName(r Role) string {
	switch r {
	case System:
		return "system"
	case User:
		return "user"
	case Assistant:
		return "assistant"
	case ToolAnswer:
		return "tool"
	}
	return fmt.Sprintf("role-%d", r)
}

// calls writes the calls of the history. The model must see what it wrote, but servers refuse arguments that are no
// JSON object.
func calls(in []ToolCall) []wireCall {
	var out []wireCall
	for _, c := range in {
		arguments := c.Arguments
		switch {
		case strings.TrimSpace(arguments) == "":
			arguments = "{}"
		case !isObject(arguments):
			quoted, _ := json.Marshal(struct {
				Malformed string `json:"malformed_arguments"`
			}{arguments})
			arguments = string(quoted)
		}
		out = append(out, wireCall{c.ID, "function", calledByName{c.Name, arguments}})
	}
	return out
}

// isObject tells whether text is one JSON object.
func isObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && json.Valid([]byte(text))
}

// chunk is one event of the stream, or the whole answer of a server that does not stream.
type chunk struct {
	Object  string          `json:"object"` // "error" is how some servers fail
	Error   json.RawMessage `json:"error"`
	Choices []choice        `json:"choices"`
	Usage   *wireUsage      `json:"usage"`
}

// failed tells whether the chunk is an error in the guise of an answer.
func (c chunk) failed() bool {
	return c.Object == "error" || (len(c.Error) > 0 && string(c.Error) != "null")
}

type choice struct {
	Index        int    `json:"index"`
	Delta        delta  `json:"delta"`
	Message      delta  `json:"message"` // instead of Delta, when not streamed
	FinishReason string `json:"finish_reason"`
}

type delta struct {
	Content          loose      `json:"content"`
	Refusal          loose      `json:"refusal"`
	ReasoningContent loose      `json:"reasoning_content"` // DeepSeek, vLLM, llama.cpp
	Reasoning        loose      `json:"reasoning"`         // OpenRouter, Ollama
	ToolCalls        []fragment `json:"tool_calls"`
}

// fragment is a piece of a tool call.
type fragment struct {
	Index    *int   `json:"index"` // some servers leave it out
	ID       string `json:"id"`    // some leave it out, some repeat it, some make a new one for each piece
	Function struct {
		Name      string `json:"name"`
		Arguments loose  `json:"arguments"` // some send an object
	} `json:"function"`
}

// loose is text that some servers send as something else: null is empty, an array is the text of its parts, and
// anything else its JSON.
type loose string

// UnmarshalJSON never fails on valid JSON.
func (l *loose) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n':
		return nil
	case '"':
		return json.Unmarshal(data, (*string)(l))
	case '[':
		var parts []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(data, &parts); err == nil {
			for _, p := range parts {
				*l += loose(p.Text)
			}
			return nil
		}
	}
	*l = loose(data)
	return nil
}

// wireUsage has numbers as they come: they may be negative, huge or broken.
type wireUsage struct {
	PromptTokens     float64 `json:"prompt_tokens"`
	CompletionTokens float64 `json:"completion_tokens"`
	PromptDetails    struct {
		CachedTokens float64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		ReasoningTokens float64 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// UnmarshalJSON never fails on valid JSON: what is no number stays 0, for an answer is worth more than its usage.
func (u *wireUsage) UnmarshalJSON(data []byte) error {
	type plain wireUsage
	_ = json.Unmarshal(data, (*plain)(u)) // it skips what does not fit and goes on
	return nil
}
