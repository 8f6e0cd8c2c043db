package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/agentd-dev/agentd/mailbox"
	"github.com/agentd-dev/agentd/runtime/task"
)

// mates answer every call about the team alike and keep what they were asked.
type mates struct {
	posted  Posted
	refusal error
	got     Letter
	plan    string
	callID  string
}

func (m *mates) Send(_ context.Context, call Call, l Letter) (Posted, error) {
	m.got, m.callID = l, call.ID
	return m.posted, m.refusal
}

func (m *mates) SubmitPlan(_ context.Context, call Call, plan string) (string, error) {
	m.plan, m.callID = plan, call.ID
	return m.posted.ControlID, m.refusal
}

func (m *mates) NameTeam(context.Context, Call, string, string) error { return m.refusal }

func newMate(t *testing.T, m *mates) *agent {
	t.Helper()
	a := newAgent(t)
	a.scope.Crew = m
	return a
}

// TestSendMessage gives the letter that the arguments say, and tells what became of it.
func TestSendMessage(t *testing.T) {
	for arguments, want := range map[string]Letter{
		`{"to":"ann","text":"hi"}`: {To: "ann", Text: "hi", Kind: task.Text, Delivery: mailbox.AtStep},
		`{"to":"*","text":"hi","summary":"greeting","delivery":"turn","kind":"text"}`: {
			To: "*", Text: "hi", Summary: "greeting", Kind: task.Text, Delivery: mailbox.AtTurn},
		`{"to":"ann","text":"now","delivery":"interrupt"}`: {To: "ann", Text: "now", Kind: task.Text, Delivery: mailbox.Interrupt},
		`{"to":"ann","kind":"shutdown_request","reason":"done"}`: {
			To: "ann", Text: "done", Kind: task.ShutdownRequest, Delivery: mailbox.AtStep},
		`{"to":"ann","kind":"shutdown_request"}`: {To: "ann", Kind: task.ShutdownRequest, Delivery: mailbox.AtStep},
		`{"kind":"shutdown_response","control_id":"c-2","approve":true}`: {
			Kind: task.ShutdownResponse, ControlID: "c-2", Approve: true, Delivery: mailbox.AtStep},
		`{"to":"team-lead","kind":"shutdown_response","control_id":"c-2","approve":false,"reason":"not yet"}`: {
			To: "team-lead", Text: "not yet", Kind: task.ShutdownResponse, ControlID: "c-2", Delivery: mailbox.AtStep},
		`{"to":"ann","kind":"plan_response","control_id":"c-2","approve":false,"text":"smaller steps"}`: {
			To: "ann", Text: "smaller steps", Kind: task.PlanResponse, ControlID: "c-2", Delivery: mailbox.AtStep},
	} {
		m := &mates{posted: Posted{MessageID: "m-1", Woken: true}}
		a := newMate(t, m)
		a.text("send_message", arguments)
		if m.got != want || m.callID != "call00001" {
			t.Errorf("%s: %+v in call %s", arguments, m.got, m.callID)
		}
	}
	a := newMate(t, &mates{posted: Posted{MessageID: "m-1", ControlID: "c-2", Woken: true}})
	if got := a.text("send_message", `{"to":"ann","kind":"shutdown_request"}`); got != `{"message_id":"m-1","to":"ann","control_id":"c-2","woken":true}` {
		t.Errorf("told %s", got)
	}
	a = newMate(t, &mates{posted: Posted{MessageID: "m-1"}})
	if got := a.text("send_message", `{"to":"a<b","text":"x"}`); got != `{"message_id":"m-1","to":"a<b"}` {
		t.Errorf("told %s", got)
	}
}

// TestSendMessageRefuses what can't be meant, naming the argument, and passes on what the team refuses.
func TestSendMessageRefuses(t *testing.T) {
	for arguments, field := range map[string]string{
		`{"text":"hi"}`:                                                                             "to",
		`{"to":"ann"}`:                                                                              "text",
		`{"to":"ann","text":""}`:                                                                    "text",
		`{"to":"ann","text":"x","delivery":"x"}`:                                                    "delivery",
		`{"to":"ann","text":"x","kind":"x"}`:                                                        "kind",
		`{"to":"ann","text":"x","approve":true}`:                                                    "kind",
		`{"to":"ann","text":"x","reason":"y"}`:                                                      "kind",
		`{"to":"ann","kind":"shutdown_request","delivery":"interrupt"}`:                             "delivery",
		`{"to":"ann","kind":"shutdown_request","text":"a","reason":"b"}`:                            "reason",
		`{"kind":"shutdown_response","approve":true}`:                                               "control_id",
		`{"kind":"shutdown_response","control_id":"c-1"}`:                                           "approve",
		`{"kind":"shutdown_response","control_id":"c-1","approve":false,"reason":" "}`:              "reason",
		`{"kind":"plan_response","control_id":"c-1","approve":true}`:                                "to",
		`{"to":"ann","kind":"plan_response","control_id":"c-1","approve":false}`:                    "reason",
		`{"to":"ann","kind":"shutdown_response","control_id":"c-1","approve":"yes","reason":"why"}`: "approve",
	} {
		a := newMate(t, &mates{})
		if e := a.fail(InvalidArguments, "send_message", arguments); e.Subject != field {
			t.Errorf("%s: %+v", arguments, e)
		}
	}
	a := newMate(t, &mates{refusal: &Error{Reason: NotFound, Message: "nobody", Allowed: []string{"ann"}}})
	if e := a.fail(NotFound, "send_message", `{"to":"bob","text":"x"}`); fmt.Sprint(e.Allowed) != "[ann]" {
		t.Errorf("%+v", e)
	}
}

func TestSubmitPlan(t *testing.T) {
	m := &mates{posted: Posted{ControlID: "c-4"}}
	a := newMate(t, m)
	has(t, a.text("submit_plan", `{"plan":"first this"}`), `"control_id":"c-4"`, "end your turn")
	if m.plan != "first this" || m.callID != "call00001" {
		t.Errorf("%q in call %s", m.plan, m.callID)
	}
	a.fail(InvalidArguments, "submit_plan", `{"plan":""}`)
	m.refusal = &Error{Reason: "SUPERSEDED", Message: "it is approved"}
	a.fail("SUPERSEDED", "submit_plan", `{"plan":"x"}`)
}

// TestNoCrew: who has no team about it, such as a subagent, is refused. proves P2
func TestNoCrew(t *testing.T) {
	a := newAgent(t)
	a.fail(NotGranted, "send_message", `{"to":"ann","text":"x"}`)
	a.fail(NotGranted, "submit_plan", `{"plan":"x"}`)
}

// proves D5: the tools of the team run again after a crash, and give the first outcome.
func TestCrewToolsRunAgain(t *testing.T) {
	for _, tool := range []Tool{sendMessageTool(), submitPlanTool()} {
		if s := tool.Spec(); !s.RunsAgain(json.RawMessage(`{}`)) || s.ReadOnly {
			t.Errorf("%s: %+v", s.Name, s)
		}
	}
}
