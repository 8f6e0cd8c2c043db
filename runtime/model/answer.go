package model

import (
	"cmp"
	"fmt"
	"strings"
)

const (
	mostOfAnswer = 8 << 20 // bytes of text, reasoning and calls, which are held in memory
	callSize     = 256     // bytes that a call counts beside its text
	mostOfTokens = 1 << 40 // tokens that one answer can be said to have cost: sums of them never overflow
	bytesAToken  = 4       // of the estimate when the provider does not count
)

// answer puts the chunks of one answer together.
type answer struct {
	sink      func(Event)
	text      strings.Builder
	reasoning strings.Builder
	calls     []*openCall
	slots     map[int]*openCall // by the server's index, the call that its fragments continue
	size      int               // bytes, of mostOfAnswer
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

// add fails when the answer grows over its bound. That is no Broken: another answer without end would be paid for.
func (a *answer) add(c chunk) error {
	if u := c.Usage; u != nil {
		a.usage = Usage{
			InputTokens: tokens(u.PromptTokens), OutputTokens: tokens(u.CompletionTokens),
			CachedTokens: tokens(u.PromptDetails.CachedTokens), ReasoningTokens: tokens(u.CompletionDetails.ReasoningTokens),
		}
	}
	for _, ch := range c.Choices {
		if ch.Index != 0 {
			continue // only one was asked for
		}
		a.addDelta(ch.Delta)
		a.addDelta(ch.Message)
		if a.size > mostOfAnswer {
			return &Error{Class: InvalidRequest, Message: fmt.Sprintf("its answer is larger than %d MiB", mostOfAnswer>>20)}
		}
		if ch.FinishReason != "" {
			a.finish = finishOf(ch.FinishReason)
		}
	}
	return nil
}

func (a *answer) addDelta(d delta) {
	if text := string(d.Content + d.Refusal); text != "" {
		a.size += len(text)
		a.text.WriteString(text)
		a.sink(&TextDelta{Text: text})
	}
	// A server that sends both names sends the same text in both.
	reasoning := string(cmp.Or(d.ReasoningContent, d.Reasoning))
	a.size += len(reasoning)
	a.reasoning.WriteString(reasoning)
	for _, f := range d.ToolCalls {
		call := a.callOf(f)
		if call.id == "" {
			call.id = f.ID
		}
		if call.name == "" {
			call.name = f.Function.Name
		}
		a.size += len(f.Function.Arguments)
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
		a.size += callSize
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

// tokens is a number of the provider's within bounds: budgets are counted with it.
func tokens(said float64) int64 { return int64(min(max(said, 0), mostOfTokens)) }

// EstimateTokens is how many tokens so many bytes are taken for when no provider counts them.
func EstimateTokens(bytes int) int64 { return int64(bytes+bytesAToken-1) / bytesAToken }

// estimate fills in what the provider did not count, so that a budget of tokens ends with every provider.
func (u Usage) estimate(sent, received int) Usage {
	u.InputTokens = cmp.Or(u.InputTokens, EstimateTokens(sent))
	u.OutputTokens = cmp.Or(u.OutputTokens, EstimateTokens(received))
	return u
}

// response is the whole answer to a request of so many bytes. Without a finish reason it was truncated, however cleanly
// the stream ended.
func (a *answer) response(sent int) (Response, error) {
	if !a.finished() {
		return Response{}, &Error{Class: Broken, Message: "its answer was truncated: the stream ended without a finish reason"}
	}
	r := Response{Text: a.text.String(), Reasoning: a.reasoning.String(), Usage: a.usage.estimate(sent, a.size), Finish: a.finish}
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
