package main

import (
	"testing"

	agentdv1 "github.com/agentd-dev/agentd/gen/agentd/v1"
)

// TestSaid: a control message tells what it is, also when it has no text; any other input is its text alone.
func TestSaid(t *testing.T) {
	for want, in := range map[string]*agentdv1.Input{
		"Go on.": {Text: "Go on.", Kind: agentdv1.MessageKind_MESSAGE_KIND_TEXT},
		"plan response (c-3): approved": {
			ControlId: "c-3", Approve: true, Kind: agentdv1.MessageKind_MESSAGE_KIND_PLAN_RESPONSE,
		},
		"plan response (c-3): rejected\nWhat about the docs?": {
			ControlId: "c-3", Text: "What about the docs?", Kind: agentdv1.MessageKind_MESSAGE_KIND_PLAN_RESPONSE,
		},
		"shutdown request (c-4)": {ControlId: "c-4", Kind: agentdv1.MessageKind_MESSAGE_KIND_SHUTDOWN_REQUEST},
	} {
		if got := said(in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
