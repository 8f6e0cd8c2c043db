package script

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

const (
	defaultChunk = 24 // runes of a piece of text
	bytesAToken  = 4  // of the rough count when a rule gives no usage
)

// reply is one answer, filled in.
type reply struct {
	rule            *rule
	id, model       string
	text, reasoning string
	calls           []wireCall
	finish          string
	usage           *wireUsage
	stream          bool
	sendUsage       bool
	faulty          bool
}

// The wire's form of an answer, whole and in chunks.
type (
	wireAnswer struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`
		Created int64        `json:"created"`
		Model   string       `json:"model"`
		Choices []wireChoice `json:"choices"`
		Usage   *wireUsage   `json:"usage,omitempty"`
	}
	wireChoice struct {
		Index        int        `json:"index"`
		Delta        *wireDelta `json:"delta,omitempty"`
		Message      *wireDelta `json:"message,omitempty"`
		FinishReason *string    `json:"finish_reason"`
	}
	wireDelta struct {
		Role      string     `json:"role,omitempty"`
		Content   *string    `json:"content,omitempty"`
		Reasoning string     `json:"reasoning_content,omitempty"`
		ToolCalls []wireCall `json:"tool_calls,omitempty"`
	}
	wireCall struct {
		Index    int      `json:"index"`
		ID       string   `json:"id,omitempty"`
		Type     string   `json:"type,omitempty"`
		Function wireName `json:"function"`
	}
	wireName struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	wireUsage struct {
		Input       int64        `json:"prompt_tokens"`
		Output      int64        `json:"completion_tokens"`
		Total       int64        `json:"total_tokens"`
		InputParts  inputTokens  `json:"prompt_tokens_details"`
		OutputParts outputTokens `json:"completion_tokens_details"`
	}
	inputTokens struct {
		Cached int64 `json:"cached_tokens"`
	}
	outputTokens struct {
		Reasoning int64 `json:"reasoning_tokens"`
	}
)

// reply fills the rule's answer in. size is that of the request, in bytes.
func (r *rule) reply(req *request, s Scene, key string, size int) (*reply, error) {
	p := &reply{
		rule: r, id: "chatcmpl-" + key, model: req.Model, stream: req.Stream,
		sendUsage: req.StreamOptions != nil && req.StreamOptions.IncludeUsage,
	}
	var err error
	if p.text, err = r.text.say(s); err != nil {
		return nil, err
	}
	if p.reasoning, err = r.reasoning.say(s); err != nil {
		return nil, err
	}
	said := len(p.text) + len(p.reasoning)
	if p.calls, err = r.ask(s, key); err != nil {
		return nil, err
	}
	for _, c := range p.calls {
		said += len(c.Function.Name) + len(c.Function.Arguments)
	}
	p.finish = r.finish
	if p.finish == "" {
		p.finish = "stop"
		if len(p.calls) > 0 {
			p.finish = "tool_calls"
		}
	}
	p.usage = r.count(size, said)
	return p, nil
}

// ask fills the rule's calls in, once, or for each match of its pattern.
func (r *rule) ask(s Scene, key string) ([]wireCall, error) {
	matches := [][]string{s.Match}
	if r.each != nil {
		matches = r.each.FindAllStringSubmatch(s.Last, -1)
	}
	var calls []wireCall
	for _, s.Match = range matches {
		for _, c := range r.calls {
			arguments, err := c.arguments.say(s)
			if err != nil {
				return nil, err
			}
			id := fmt.Sprintf("call_%s_%d", key, len(calls))
			if c.id != nil {
				id = *c.id
			}
			calls = append(calls, wireCall{Index: len(calls), ID: id, Type: "function", Function: wireName{c.name, arguments}})
		}
	}
	return calls, nil
}

// count is the usage that the rule gives, or a rough one.
func (r *rule) count(asked, said int) *wireUsage {
	u := usage{Input: int64(asked/bytesAToken + 1), Output: int64(said/bytesAToken + 1)}
	if r.usage != nil {
		u = *r.usage
	}
	return &wireUsage{u.Input, u.Output, u.Input + u.Output, inputTokens{u.Cached}, outputTokens{u.Reasoning}}
}

// send writes the answer, or what the fault makes of it.
func (p *reply) send(w http.ResponseWriter, r *http.Request) {
	switch {
	case p.faulty && p.rule.status != 0:
		p.refuse(w)
	case p.faulty && p.rule.fault == overflow:
		refuse(w, http.StatusBadRequest, "invalid_request_error", "context_length_exceeded",
			p.message("This model's maximum context length is exceeded. Please reduce the length of the messages."))
	case p.stream:
		p.sendStream(w, r)
	default:
		p.sendWhole(w, r)
	}
}

// refuse answers with the rule's status.
func (p *reply) refuse(w http.ResponseWriter) {
	if after := p.rule.retryAfter; after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
		w.Header().Set("Retry-After-Ms", strconv.FormatInt(after.Milliseconds(), 10))
	}
	kind := "server_error"
	switch status := p.rule.status; {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status < 500:
		kind = "invalid_request_error"
	}
	refuse(w, p.rule.status, kind, "", p.message("scripted failure"))
}

// message is the rule's, or else usual.
func (p *reply) message(usual string) string {
	if p.rule.message != "" {
		return p.rule.message
	}
	return usual
}

func (p *reply) sendWhole(w http.ResponseWriter, r *http.Request) {
	whole := p.answer("chat.completion", wireChoice{Message: &wireDelta{
		Role: "assistant", Content: &p.text, Reasoning: p.reasoning, ToolCalls: p.calls,
	}, FinishReason: &p.finish})
	whole.Usage = p.usage
	if !p.faulty {
		writeJSON(w, http.StatusOK, whole)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	data, _ := json.Marshal(whole) // plain structs
	switch p.rule.fault {
	case inStream:
		_ = json.NewEncoder(w).Encode(p.failure()) // with the status of a success
	case truncate:
		_, _ = w.Write(data[:len(data)/2])
	default:
		_, _ = w.Write(data[:len(data)/2])
		p.breakOff(w, r)
	}
}

// breakOff ends a half-written answer: silence until the client leaves, or a closed connection.
func (p *reply) breakOff(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).Flush()
	if p.rule.fault == stall {
		<-r.Context().Done()
	}
	panic(http.ErrAbortHandler) // how net/http is told to cut the connection
}

func (p *reply) answer(object string, choices ...wireChoice) wireAnswer {
	return wireAnswer{ID: p.id, Object: object, Created: time.Now().Unix(), Model: p.model, Choices: choices}
}

func (p *reply) failure() wireError {
	return wireError{wireErrorBody{Message: p.message("scripted failure in the stream"), Type: "server_error"}}
}

// deltas cuts the answer into the pieces of its stream: reasoning, text, then each call with its name first and its
// arguments in halves.
func (p *reply) deltas() []wireDelta {
	out := []wireDelta{{Role: "assistant", Content: new(string)}}
	for _, piece := range pieces(p.reasoning, p.rule.chunkSize) {
		out = append(out, wireDelta{Reasoning: piece})
	}
	for _, piece := range pieces(p.text, p.rule.chunkSize) {
		out = append(out, wireDelta{Content: &piece})
	}
	for i, c := range p.calls {
		a := c.Function.Arguments
		half := len(string([]rune(a)[:len([]rune(a))/2]))
		c.Function.Arguments = ""
		first := wireCall{Index: i, Function: wireName{Arguments: a[:half]}}
		second := wireCall{Index: i, Function: wireName{Arguments: a[half:]}}
		for _, fragment := range []wireCall{c, first, second} {
			out = append(out, wireDelta{ToolCalls: []wireCall{fragment}})
		}
	}
	return out
}

// pieces cuts text every size runes.
func pieces(text string, size int) []string {
	if size == 0 {
		size = defaultChunk
	}
	var out []string
	for runes := []rune(text); len(runes) > 0; {
		n := min(size, len(runes))
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

func (p *reply) sendStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	deltas := p.deltas()
	if p.faulty {
		deltas = deltas[:(len(deltas)+1)/2]
	}
	for i, d := range deltas {
		if i > 0 && !pause(r, p.rule.chunkDelay) {
			return
		}
		event(w, p.answer("chat.completion.chunk", wireChoice{Delta: &d}))
		if p.rule.chunkDelay > 0 {
			_ = http.NewResponseController(w).Flush()
		}
	}
	if p.faulty {
		p.spoil(w, r)
		return
	}
	event(w, p.answer("chat.completion.chunk", wireChoice{Delta: &wireDelta{}, FinishReason: &p.finish}))
	if p.sendUsage {
		last := p.answer("chat.completion.chunk", []wireChoice{}...)
		last.Usage = p.usage
		event(w, last)
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

// spoil ends a stream in its middle.
func (p *reply) spoil(w http.ResponseWriter, r *http.Request) {
	switch p.rule.fault {
	case truncate:
	case inStream:
		event(w, p.failure())
	case cut:
		_, _ = fmt.Fprint(w, `data: {"id":"chatcmpl-cut","choices":[{"index":0,"del`)
		p.breakOff(w, r)
	default:
		p.breakOff(w, r)
	}
}

// event writes one event of the stream.
func event[T any](w http.ResponseWriter, body T) {
	data, _ := json.Marshal(body) // plain structs
	_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
}
