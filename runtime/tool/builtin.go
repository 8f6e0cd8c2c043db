package tool

import (
	"context"
	"encoding/json"
	"errors"
)

// Builtin are the daemon's own tools.
func Builtin() []Tool {
	return []Tool{
		bashTool(), editTool(), globTool(), grepTool(), lsTool(), readTool(), reportTool(), sendMessageTool(), subagentTool(),
		submitPlanTool(), taskOutputTool(), taskStopTool(), teamCreateTool(), writeTool(),
	}
}

// builtin is a tool whose arguments are the struct A; its schema says the same, which a test compares.
type builtin[A any] struct {
	spec Spec
	run  func(ctx context.Context, call Call, args A) (Answer, error)
}

// Spec describes the tool.
func (b builtin[A]) Spec() Spec { return b.spec }

// Run decodes the arguments and does it. What went wrong as an *Error becomes the answer.
func (b builtin[A]) Run(ctx context.Context, call Call) (Answer, error) {
	args, err := decode[A](call.Arguments)
	if err != nil {
		return answered(Answer{}, err)
	}
	return answered(b.run(ctx, call, args))
}

// answered makes an *Error the answer that it is.
func answered(answer Answer, err error) (Answer, error) {
	if fail, ok := errors.AsType[*Error](err); ok {
		return Fail(*fail), nil
	}
	return answer, err
}

// schema makes the schema of an arguments object from the JSON of its properties and the names of those that are
// required.
func schema(properties string, required ...string) json.RawMessage {
	names, err := json.Marshal(required)
	if err != nil || len(required) == 0 { // strings always marshal
		names = []byte("[]")
	}
	return json.RawMessage(`{"type":"object","additionalProperties":false,"required":` + string(names) +
		`,"properties":{` + properties + `}}`)
}
