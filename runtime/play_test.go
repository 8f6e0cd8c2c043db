package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/agentd-dev/agentd/runtime/model"
	"github.com/agentd-dev/agentd/runtime/tool"
)

// text makes an answer that ends the turn.
func text(s string) model.Response {
	return model.Response{Text: s, Finish: model.FinishStop, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}}
}

// call makes an answer that asks for tools: name and arguments in turn.
func call(nameArgs ...string) model.Response {
	r := model.Response{Finish: model.FinishCalls, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}}
	for i := 0; i < len(nameArgs); i += 2 {
		r.Calls = append(r.Calls, model.ToolCall{ID: fmt.Sprint("p", i), Name: nameArgs[i], Arguments: nameArgs[i+1]})
	}
	return r
}

// play answers by the number of answers in the history.
func play(answers ...model.Response) modelFunc {
	return func(_ context.Context, req model.Request, _ func(model.Event)) (model.Response, error) {
		if n := stepsOf(req); n < len(answers) {
			return answers[n], nil
		}
		return text("the play is over"), nil
	}
}

// stepsOf is the number of answers in a history.
func stepsOf(req model.Request) (n int) {
	for _, m := range req.Messages {
		if m.Role == model.Assistant {
			n++
		}
	}
	return n
}

// calls makes an answer that asks n times for the same tool, with the arguments that args makes.
func calls(n int, name string, args func(i int) string) model.Response {
	var nameArgs []string
	for i := range n {
		nameArgs = append(nameArgs, name, args(i))
	}
	return call(nameArgs...)
}

// cast plays for each task the role whose name its prompt starts with.
func cast(roles map[string]modelFunc) modelFunc {
	return func(ctx context.Context, req model.Request, sink func(model.Event)) (model.Response, error) {
		name, _, _ := strings.Cut(req.Messages[1].Text, "\n")
		name, _, _ = strings.Cut(name, " ")
		role, ok := roles[name]
		if !ok {
			panic(fmt.Sprintf("there is no role for %q", name))
		}
		return role(ctx, req, sink)
	}
}

// hang is a model call that ends with its ctx.
func hang(ctx context.Context, _ model.Request, _ func(model.Event)) (model.Response, error) {
	<-ctx.Done()
	return model.Response{}, context.Cause(ctx)
}

// prop is a tool that the test plays.
type prop struct {
	name     string
	readOnly bool
	run      func(ctx context.Context, call tool.Call) (tool.Answer, error)
}

func (p prop) Spec() tool.Spec {
	return tool.Spec{
		Name: p.name, Description: "for tests", Parameters: json.RawMessage(`{"type":"object"}`), ReadOnly: p.readOnly,
	}
}

func (p prop) Run(ctx context.Context, call tool.Call) (tool.Answer, error) { return p.run(ctx, call) }

// tally counts by key.
type tally struct {
	mu sync.Mutex
	n  map[string]int
}

func (t *tally) add(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n == nil {
		t.n = map[string]int{}
	}
	t.n[key]++
	return t.n[key]
}

func (t *tally) get(key string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n[key]
}

// idOf is the id of the task that asks.
func idOf(req model.Request) string {
	_, rest, _ := strings.Cut(req.Messages[0].Text, "the task id ")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

// effect is a tool with an effect that must not happen twice: it counts the calls by call id and arguments.
func effect(name string, counts *tally) prop {
	return prop{name: name, run: func(_ context.Context, c tool.Call) (tool.Answer, error) {
		n := counts.add(c.ID + string(c.Arguments))
		return tool.Answer{Text: fmt.Sprintf("%s done, %d", name, n)}, nil
	}}
}

// gate is a tool that tells when it is entered and waits until the test opens it.
type gate struct {
	entered chan string // the call's id
	open    chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan string, 100), open: make(chan struct{})} }

// tool is the gate as a tool; it obeys its ctx.
func (g *gate) tool(name string) prop {
	return prop{name: name, run: func(ctx context.Context, c tool.Call) (tool.Answer, error) {
		g.entered <- c.ID
		select {
		case <-g.open:
			return tool.Answer{Text: "through"}, nil
		case <-ctx.Done():
			return tool.Answer{Text: "half way"}, context.Cause(ctx)
		}
	}}
}

func itoa(n int) string { return strconv.Itoa(n) }
