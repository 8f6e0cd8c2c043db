package tool

import (
	"cmp"
	"context"
	"strings"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

type sendMessageArgs struct {
	To        string `json:"to,omitempty"`
	Text      string `json:"text,omitempty"`
	Summary   string `json:"summary,omitempty"`
	Delivery  string `json:"delivery,omitempty"`
	Kind      string `json:"kind,omitempty"`
	ControlID string `json:"control_id,omitempty"`
	Approve   *bool  `json:"approve,omitempty"`
	Reason    string `json:"reason,omitempty"`
}

const sendMessageDescription = `Tell another agent of your team something in the middle of your work: what it must know, or do,
before you are done. The last words of your turn reach the leader anyway, so do not send them as well; and do not answer a
message that needs no answer. A teammate that rests or has ended is woken by it; it knows nothing but what you write.

To: a teammate's name, team-lead, user (the people), * (all living teammates but you), or the id of an agent that you
started, which is steered by it.

Without kind it is text. The lead ends a teammate with shutdown_request (to, reason), and answers its plan with
plan_response (to, control_id, approve, reason: what to change). Who is asked to shut down answers with shutdown_response
(control_id, approve; reason when it does not agree): approve true ends it.`

func sendMessageTool() Tool {
	return builtin[sendMessageArgs]{
		spec: Spec{
			Name: SendMessageName, Description: sendMessageDescription,
			Parameters: schema(`
				"to":{"type":"string","description":"who gets it"},
				"text":{"type":"string","description":"the message, at most 64 KiB"},
				"summary":{"type":"string","description":"what it is about, in one line"},
				"delivery":{"type":"string","enum":["step","turn","interrupt"],"description":"step (default): before its next step; ` +
				`turn: after its turn; interrupt: now, ending what it does (the lead alone)"},
				"kind":{"type":"string","enum":["text","shutdown_request","shutdown_response","plan_response"],"description":"text by default"},
				"control_id":{"type":"string","description":"of an answer: the request's, such as c-12"},
				"approve":{"type":"boolean","description":"of an answer"},
				"reason":{"type":"string","description":"why; of a plan_response what to change or to heed"}`),
			Idempotent: true,
		},
		run: sendMessage,
	}
}

func sendMessage(ctx context.Context, call Call, args sendMessageArgs) (Answer, error) {
	letter, err := args.letter()
	if err != nil {
		return Answer{}, err
	}
	if call.Scope.Crew == nil {
		return Answer{}, noCrew(SendMessageName)
	}
	posted, err := call.Scope.Crew.Send(ctx, call, letter)
	if err != nil {
		return Answer{}, err
	}
	answer := sentAnswer{MessageID: posted.MessageID, To: letter.To, ControlID: posted.ControlID, Woken: posted.Woken}
	if letter.Kind == task.ShutdownResponse && letter.Approve {
		answer.Note = "you end with this step"
	}
	return Answer{Text: compact(answer)}, nil
}

// sentAnswer is what the model learns of a letter.
type sentAnswer struct {
	MessageID string `json:"message_id,omitempty"`
	To        string `json:"to,omitempty"`
	ControlID string `json:"control_id,omitempty"`
	Woken     bool   `json:"woken,omitempty"` // it was idle or had ended
	Note      string `json:"note,omitempty"`
}

// letter is the arguments as one letter, each kind with what belongs to it.
func (a sendMessageArgs) letter() (Letter, error) {
	l := Letter{To: a.To, Text: cmp.Or(a.Text, a.Reason), Summary: a.Summary, ControlID: a.ControlID}
	var ok bool
	l.Delivery, ok = map[string]mailbox.Delivery{
		"": mailbox.AtStep, "step": mailbox.AtStep, "turn": mailbox.AtTurn, "interrupt": mailbox.Interrupt,
	}[a.Delivery]
	if !ok {
		return l, invalid("delivery", "must be step, turn or interrupt, got %q", a.Delivery)
	}
	l.Kind, ok = map[string]task.MessageKind{
		"": task.Text, "text": task.Text, "shutdown_request": task.ShutdownRequest,
		"shutdown_response": task.ShutdownResponse, "plan_response": task.PlanResponse,
	}[a.Kind]
	if !ok {
		return l, invalid("kind", "must be text, shutdown_request, shutdown_response or plan_response, got %q", a.Kind)
	}
	answers := l.Kind == task.ShutdownResponse || l.Kind == task.PlanResponse
	switch {
	case a.To == "" && l.Kind != task.ShutdownResponse:
		return l, invalid("to", "is required: a teammate's name, team-lead, user, * or the id of an agent that you started")
	case l.Kind == task.Text && a.Text == "":
		return l, invalid("text", "must not be empty")
	case l.Kind == task.Text && (a.ControlID != "" || a.Approve != nil || a.Reason != ""):
		return l, invalid("kind", "is missing: control_id, approve and reason belong to a request or an answer, not to text")
	case l.Kind != task.Text && a.Delivery != "":
		return l, invalid("delivery", "is for text alone")
	case l.Kind != task.Text && a.Text != "" && a.Reason != "":
		return l, invalid("reason", "or text, not both")
	case answers && a.ControlID == "":
		return l, invalid("control_id", "is required: that of the request that you answer")
	case answers && a.Approve == nil:
		return l, invalid("approve", "is required: true or false")
	case answers && !*a.Approve && strings.TrimSpace(l.Text) == "":
		return l, invalid("reason", "is required when you do not approve: say what is open, or what to change")
	}
	l.Approve = answers && *a.Approve
	return l, nil
}
