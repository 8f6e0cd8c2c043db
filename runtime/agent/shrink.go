package agent

import (
	"slices"

	"github.com/agentd-dev/agentd/runtime/model"
)

// What stands for parts of a history that were left out of a request.
const (
	leftOut     = "[agentd] left out, to fit the context"
	leftOutArgs = `{"left_out":true}`
)

// sizeOf is how large messages are, in bytes.
func sizeOf(messages []model.Message) int {
	size := 0
	for _, m := range messages {
		size += len(m.Text)
		for _, c := range m.Calls {
			size += len(c.Name) + len(c.Arguments)
		}
	}
	return size
}

// shrink gives a history of at most so many bytes, as far as that is possible: it leaves out the oldest answers of tools,
// then the oldest arguments of calls, then the oldest other texts. The system prompt, the assignment and the last message
// stay, and so does the order of roles, calls and answers.
func shrink(messages []model.Message, most int) []model.Message {
	over := sizeOf(messages) - most
	if over <= 0 || len(messages) < 3 {
		return messages
	}
	short := slices.Clone(messages)
	middle := short[2 : len(short)-1]
	cut := func(text *string, instead string) {
		if over > 0 && len(*text) > len(instead) {
			over -= len(*text) - len(instead)
			*text = instead
		}
	}
	for i := range middle {
		if middle[i].Role == model.ToolAnswer {
			cut(&middle[i].Text, leftOut)
		}
	}
	for i := range middle {
		middle[i].Calls = slices.Clone(middle[i].Calls)
		for k := range middle[i].Calls {
			cut(&middle[i].Calls[k].Arguments, leftOutArgs)
		}
	}
	for i := range middle {
		cut(&middle[i].Text, leftOut)
	}
	return short
}
