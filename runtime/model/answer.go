package model

import "strings"

// answer puts the chunks of one answer together.
type answer struct {
	sink      func(Event)
	text      strings.Builder
	reasoning strings.Builder
	calls     []*openCall
	slots     map[int]*openCall // by the server's index, the call that its fragments continue
	usage     Usage
	finish    Finish
}

// openCall is a tool call whose fragments still come.
type openCall struct {
	id, name  string
	arguments strings.Builder
}

func newAnswer(sink func(Event)) *answer {
	return &answer{sink: sink, slots: make(map[int]*openCall)}
}

// finished tells whether the server said why it stopped: the answer is whole.
func (a *answer) finished() bool { return a.finish != 0 }

func (a *answer) add(c chunk) {
	if u := c.Usage; u != nil {
		a.usage = Usage{u.PromptTokens, u.CompletionTokens, u.PromptDetails.CachedTokens, u.CompletionDetails.ReasoningTokens}
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			continue // only one was asked for
		}
		a.addDelta(ch.Delta)
		a.addDelta(ch.Message)
		if ch.FinishReason != "" {
			a.finish = finishOf(ch.FinishReason)
		}
	}
}

func (a *answer) addDelta(d delta) {
	if text := string(d.Content + d.Refusal); text != "" {
		a.text.WriteString(text)
		a.sink(&TextDelta{Text: text})
	}
	// A server that sends both names sends the same text in both.
	if d.ReasoningContent != "" {
		a.reasoning.WriteString(string(d.ReasoningContent))
	} else {
		a.reasoning.WriteString(string(d.Reasoning))
	}
	for _, f := range d.ToolCalls {
		call := a.callOf(f)
		if call.id == "" {
			call.id = f.ID
		}
		if call.name == "" {
			call.name = f.Function.Name
		}
		call.arguments.WriteString(string(f.Function.Arguments))
	}
}

// callOf finds the call that a fragment continues, or opens one.
func (a *answer) callOf(f fragment) *openCall {
	var call *openCall
	if f.Index != nil {
		call = a.slots[*f.Index]
	} else if n := len(a.calls); n > 0 {
		call = a.calls[n-1]
	}
	if call == nil || opens(f, call) {
		call = &openCall{}
		a.calls = append(a.calls, call)
	}
	if f.Index != nil {
		a.slots[*f.Index] = call
	}
	return call
}

// opens tells whether f begins a call of its own although its index, or the lack of one, points at last: servers exist
// that give every call the index 0. Only a fragment with a name can begin one.
func opens(f fragment, last *openCall) bool {
	switch {
	case f.Function.Name == "" || last.name == "":
		return false
	case f.ID != "":
		return f.ID != last.id
	case f.Index == nil:
		return true
	}
	return isObject(last.arguments.String())
}

// response is the whole answer. Without a finish reason it was truncated, however cleanly the stream ended.
func (a *answer) response() (Response, error) {
	if !a.finished() {
		return Response{}, &Error{Class: Broken, Message: "its answer was truncated: the stream ended without a finish reason"}
	}
	r := Response{Text: a.text.String(), Reasoning: a.reasoning.String(), Usage: a.usage, Finish: a.finish}
	for _, c := range a.calls {
		r.Calls = append(r.Calls, ToolCall{ID: c.id, Name: c.name, Arguments: c.arguments.String()})
	}
	switch { // many servers say stop after calls, and some the reverse
	case len(r.Calls) > 0 && r.Finish == FinishStop:
		r.Finish = FinishCalls
	case len(r.Calls) == 0 && r.Finish == FinishCalls:
		r.Finish = FinishStop
	}
	return r, nil
}

func finishOf(reason string) Finish {
	switch reason {
	case "tool_calls", "function_call":
		return FinishCalls
	case "length", "max_tokens":
		return FinishLength
	case "content_filter":
		return FinishFilter
	}
	return FinishStop
}
